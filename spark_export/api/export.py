"""
Exports: the entries of a journal as files, in any format that Spark writes, with a manifest that says what they are.

E1  An export shows one moment of the journal: all changes up to the manifest's cursor, and no others.
E2  The target is whole or not there (spark_export.exports.target). What a run that was cut short has written gets its name from the next
    one only if that asks for the same, and the journal is as it was; else it is begun again.
E3  With `since`, it has the last state of every key that has changed after that cursor, and a row with `is_deleted` for every one that is
    gone. The full export and all that follow it, each since the last, give the journal as it is.
E4  The store is in use only while the snapshot is taken, however long Spark writes.
"""

from __future__ import annotations

import contextlib
import os
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from journal.api.journal import Journal
from journal.api.store import Store
from journal.core.entry.keys import UserKey
from journal.core.log.cursor import Cursor
from journal.errors import CursorUnavailable, Invalid, KeyExists, NotFound
from spark_export.api.session import check_spark, is_remote, register, session, texts
from spark_export.errors import (
    CURSOR_UNAVAILABLE,
    LEFT_OUT,
    OPTION_INVALID,
    TARGET_EXISTS,
    TARGET_INVALID,
    invalid,
    problem,
    spark_at,
    told,
)
from spark_export.exports.log_hold import LogHold
from spark_export.exports.manifest import ExportManifest
from spark_export.exports.request import ExportRequest, wanted_of
from spark_export.options.common import JournalPlace
from spark_export.snapshots.shared import SharedSnapshot, kept_for
from spark_export.stores.open_store import opened_place, place_in

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from spark_export.exports.target import ExportTarget

PART_ROWS = 250_000
"""Smaller parts than for reading: progress is counted in them. A file of this many rows is some tens of MB."""
IS_DELETED = "is_deleted"
NO_BINARY = frozenset({"csv", "text", "xml"})
"""Formats that have no bytes: columns of bytes are written as base64."""


def export(
    store: Store | str | os.PathLike[str],
    journal: str,
    target: str | os.PathLike[str],
    *,
    format: str = "parquet",  # noqa: A002 - Spark's own word
    partition_by: str | Sequence[str] = (),
    since: Cursor | ExportManifest | str | os.PathLike[str] | None = None,
    replace: bool = False,
    hold: str | None = None,
    read: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    partitions: int | None = None,
    spark: SparkSession | None = None,
    progress: bool | None = None,
    token: str | None = None,
    tls_ca: str | None = None,
) -> ExportManifest:
    """
    Write the entries of a journal to a directory, as of now; what was written.

    store         a path, a daemon's address, or a store that is open
    target        the directory: a path, or an address that Spark can write to (hdfs://…, s3a://…)
    format        any that Spark writes to files: parquet, orc, json, csv, avro, …
    partition_by  columns that become directories
    since         only what has changed after this: a cursor, or an earlier export (its manifest, or its directory)
    replace       whether a target that is there is replaced
    hold          the name of a feed consumer that holds the log from this export on, so that the next one can be `since` this
    read          options as of spark.read.format("journal"): status, priority, from, to, key_prefix, columns, decode
    options       options for the format's writer: compression, header, …
    partitions    in how many files it is written; None: by the number of entries
    progress      a bar on standard error; None: when that is a terminal
    """
    check_spark()
    place = place_in(store, journal, token=token, tls_ca=tls_ca)
    wanted = wanted_of(place, read or {}, is_incremental=since is not None)
    running = session() if spark is None else register(spark)
    from spark_export.exports.target import target_of

    to = target_of(target, lambda: running)
    request = ExportRequest(
        place=place,
        wanted=wanted,
        after=_cursor_of(since, place, running),
        format=format,
        by=(partition_by,) if isinstance(partition_by, str) else tuple(partition_by),
        options=_writer_options(format, texts(options or {})),
        partitions=partitions,
    )
    held = LogHold(store, place, hold)
    with told(), spark_at(to.shown), to.locked():
        try:
            manifest = _left_behind(to, request, store, held, replace=replace)
            if manifest is None:
                manifest = _written(to, _Job(running, request, to, held, progress=progress), store, replace=replace)
            to.finish()
        except BaseException:
            held.undo()
            raise
        held.move(manifest.cursor)
    if manifest.left_out is not None:
        warnings.warn(f"[{LEFT_OUT}] {manifest.left_out}", stacklevel=2)
    return manifest


def _writer_options(kind: str, given: dict[str, str]) -> dict[str, str]:
    """Those that were given; of CSV, which Spark changes on its way, those beneath them that keep values as they are."""
    from spark_export.files.csv import LOSSLESS

    return {**LOSSLESS, **given} if kind.lower() == "csv" else given


def _written(to: ExportTarget, job: _Job, store: Store | str | os.PathLike[str], *, replace: bool) -> ExportManifest:
    """A whole export that lacks its name only; nothing when it fails."""
    to.clean()
    if to.is_there() and not replace:
        raise problem(
            KeyExists, TARGET_EXISTS, f"{to.shown} is there already: choose another target, or say replace=True"
        )
    try:
        manifest = job.run(store)
        to.write_manifest(manifest.to_json())
    except BaseException:
        to.clean()
        raise
    return manifest


def _cursor_of(
    since: Cursor | ExportManifest | str | os.PathLike[str] | None, place: JournalPlace, spark: SparkSession
) -> Cursor | None:
    if since is None or isinstance(since, Cursor):
        return since
    if isinstance(since, ExportManifest):
        manifest = since
    elif isinstance(since, str) and since.startswith("001-"):
        return Cursor.parse(since)
    else:
        manifest = manifest_of(since, spark)
    if manifest.journal != place.journal:
        raise invalid(
            OPTION_INVALID,
            f"since is an export of the journal {manifest.journal!r}, not of {place.journal!r}: name one of the same journal",
        )
    if manifest.filters:
        raise invalid(
            OPTION_INVALID, f"since is an export that left rows out ({manifest.filters}): begin with one of all"
        )
    return manifest.cursor


def manifest_of(target: str | os.PathLike[str], spark: SparkSession | None = None) -> ExportManifest:
    """The manifest of an export."""
    from spark_export.exports.target import target_of

    found = target_of(target, session if spark is None else lambda: spark)
    with spark_at(found.shown):
        text = found.manifest()
    if text is None:
        raise problem(NotFound, TARGET_INVALID, f"{found.shown} has no manifest: it is no export, or not a whole one")
    return ExportManifest.from_json(text, found.shown)


def _left_behind(
    to: ExportTarget, request: ExportRequest, store: Store | str | os.PathLike[str], held: LogHold, *, replace: bool
) -> ExportManifest | None:
    """A whole export that was cut short before it got its name, if it is what is asked for now, and would be written again (E2)."""
    text = to.manifest(is_new=True)
    if text is None or (to.is_there() and not replace):
        return None
    try:
        found = ExportManifest.from_json(text, to.shown)
    except Invalid:
        return None  # the crash came while it was written
    if found.request != request.digest() or request.is_of_the_moment:
        return None
    try:
        with opened_place(store, request.place, is_written=held.name is not None) as pages:
            if pages.durable_cursor != found.cursor:
                return None
            held.take(pages, found.cursor)
    except CursorUnavailable:
        return None  # the journal has changed in this moment
    return found


class _Job:
    """One export: from the snapshot to the files."""

    def __init__(
        self, spark: SparkSession, request: ExportRequest, to: ExportTarget, held: LogHold, *, progress: bool | None
    ) -> None:
        self._spark, self._request, self._to, self._held, self._progress = spark, request, to, held, progress
        self._place, self._after = request.place, request.after
        self._changed: list[UserKey] = []
        self._numbers: dict[str, Any] = {}

    def run(self, store: Store | str | os.PathLike[str]) -> ExportManifest:
        """Write the files; what to say of them."""
        asked = self._request
        with contextlib.ExitStack() as kept:
            shot = kept_for(
                kept,
                store,
                self._place,
                partitions=asked.partitions,
                part_rows=PART_ROWS,
                top=_session_directory(),
                before=None if self._held.name is None else self._held.take,
                then=self._then,
            )
            rows = self._rows(shot)
            self._check_columns(rows)
            plain, encoded = _without_bytes(rows) if asked.format in NO_BINARY else (rows, ())
            rows_found, deleted = self._write(plain, shot)
            files = self._to.files()
            if rows_found and not files:
                raise invalid(
                    TARGET_INVALID, f"the format {asked.format!r} wrote no files: an export needs one that does"
                )
            return ExportManifest(
                store=self._place.path,
                journal=self._place.journal,
                cursor=shot.cursor,
                since=self._after,
                taken=shot.taken,
                rows=rows_found,
                deleted=deleted,
                buried=self._numbers["buried"],
                successors=self._numbers["successors"],
                timeline=shot.timeline,
                schema=shot.schema,
                decode=asked.wanted.get("decode", "auto"),
                filters=asked.filters,
                format=asked.format,
                columns=rows.schema.jsonValue(),
                partition_by=asked.by,
                request=asked.digest(),
                base64=encoded,
                files=files,
            )

    def _then(self, pages: Journal, cursor: Cursor) -> None:
        self._numbers = pages.statistics()
        if self._after is not None:
            try:
                keys = {event.key for event in pages.changes(self._after, cursor)}
            except CursorUnavailable as e:
                raise problem(
                    CursorUnavailable,
                    CURSOR_UNAVAILABLE,
                    f"what has changed since {self._after} cannot be told any more: {e}. Make a full export, with hold=NAME, so that "
                    "the log stays for the next one",
                ) from e
            self._changed = [key for key in keys if key is not None]

    def _rows(self, shot: SharedSnapshot) -> DataFrame:
        reader = self._spark.read.format("journal").option("journal", self._place.journal).option("snapshot", shot.name)
        entries = reader.options(**self._request.wanted).load(self._place.path)
        return entries if self._after is None else self._with_deleted(entries)

    def _with_deleted(self, entries: DataFrame) -> DataFrame:
        """The entries whose keys have changed, and a row for each key that is gone (E3)."""
        from pyspark.sql import functions as f

        if missing := {"key", "key_bytes"} - set(entries.columns):
            raise invalid(
                OPTION_INVALID,
                f"columns leaves out {', '.join(sorted(missing))}, which since needs to say what has changed: add it",
            )
        changed = self._spark.createDataFrame(
            [(key, None) if isinstance(key, str) else (None, key) for key in self._changed],
            "changed_key string, changed_bytes binary",
        )
        found = changed.join(
            entries.withColumn(IS_DELETED, f.lit(False)),
            f.col("changed_key").eqNullSafe(f.col("key")) & f.col("changed_bytes").eqNullSafe(f.col("key_bytes")),
            "left",
        )
        keys = {"key": "changed_key", "key_bytes": "changed_bytes"}
        columns: list[Column] = [
            f.col(keys[name]).alias(name) if name in keys else f.col(f"`{name}`") for name in entries.columns
        ]
        return found.select(*columns, f.coalesce(f.col(IS_DELETED), f.lit(True)).alias(IS_DELETED))

    def _check_columns(self, rows: DataFrame) -> None:
        known = {name.lower() for name in rows.columns}
        if odd := [name for name in self._request.by if name.lower() not in known]:
            raise invalid(
                OPTION_INVALID, f"partition_by names {', '.join(odd)}: the columns are {', '.join(rows.columns)}"
            )

    def _write(self, rows: DataFrame, shot: SharedSnapshot) -> tuple[int, int]:
        """Run the job; how many rows were written, and how many of them are deletions."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        from spark_export.exports.progress import Progress

        is_deleted = f.col(IS_DELETED) if self._after is not None else f.lit(False)
        seen = Observation()
        observed = rows.observe(
            seen, f.count(f.lit(1)).alias("rows"), f.count(f.when(is_deleted, f.lit(1))).alias("deleted")
        )
        what = f"export {self._place.journal}"
        with (
            _group(self._spark, what) as group,
            Progress(self._spark, group, shot.size, what, counted=shot.rows_read, is_shown=self._progress),
        ):
            writer = observed.write.format(self._request.format).options(**self._request.options)
            writer.partitionBy(*self._request.by).mode("error").save(self._to.new)
        counts = seen.get
        return int(counts["rows"]), int(counts["deleted"])


def _without_bytes(rows: DataFrame) -> tuple[DataFrame, tuple[str, ...]]:
    """The same with base64 in the place of bytes, and in which columns."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import BinaryType

    names = tuple(field.name for field in rows.schema if isinstance(field.dataType, BinaryType))
    return rows.withColumns({name: f.base64(f.col(f"`{name}`")) for name in names}) if names else rows, names


def _session_directory() -> str | None:
    """Where the session keeps its files; over Spark Connect that may be on another machine."""
    from pyspark import SparkFiles

    return None if is_remote() else SparkFiles.getRootDirectory()


@contextlib.contextmanager
def _group(spark: SparkSession, what: str) -> Iterator[str]:
    """The jobs of the block form a group, which ends when the block is left by an error."""
    if is_remote():
        with _tag(spark) as tag:
            yield tag
        return
    context: Any = spark.sparkContext  # its stub does not say that None removes a property
    names = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
    before = [context.getLocalProperty(name) for name in names]
    group = f"journal-{uuid.uuid4()}"
    context.setJobGroup(group, what, interruptOnCancel=True)
    try:
        yield group
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        for name, value in zip(names, before, strict=True):
            context.setLocalProperty(name, value)


@contextlib.contextmanager
def _tag(spark: SparkSession) -> Iterator[str]:
    """What a group is to Spark Connect."""
    tag = f"journal-{uuid.uuid4()}"
    spark.addTag(tag)
    try:
        yield tag
    except BaseException:
        spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)
