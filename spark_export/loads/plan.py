"""
A load, from the rows of many tasks to one change of the journal: what the batch writer, the stream's sink and `spark_export.load` share.

    driver   `planned`: options, columns and schema are looked at, and everything that can be refused is refused
    tasks    `stage`: batches become a part each, of load blocks
    driver   `commit`: one change with the parts of those attempts that count; or `LoadStaging.remove`

L1  Whatever fails, and wherever, the journal is as it was and no part is left.
L2  A row that is not loaded fails the load, or is listed with its partition, its place in it, its key and the reason: every one of them.
L3  Blocks have BLOCK_ROWS rows at most, whatever the size of Spark's batches.
L4  Where parts are files, and no schema looks at the data, tasks make the rows ready for the journal (sealed_rows) and seal their
    part, so that the commit, which works alone, has little left to do.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from journal.api.journal import Journal
from journal.core.limits import LOAD_REJECTS_MAX
from journal.core.loads.blocks import columns_in
from journal.errors import Invalid, JournalError, KeyExists, StorageError
from spark_export.columns.mapping import ColumnMapping, columns_of
from spark_export.errors import KEY_EXISTS, LOAD_REFUSED, ROWS_REJECTED, STORAGE, coded, invalid, told
from spark_export.loads.rejects import check_path, listing, of_batch
from spark_export.loads.result import LoadResult, RejectedRow
from spark_export.loads.rows import LoadRows, RefusedRow, rows_of
from spark_export.loads.sealed_rows import SealedRows, ready_of
from spark_export.loads.staging import LoadStaging, begin
from spark_export.options.load import WriteOptions
from spark_export.stores.open_store import looked_at, opened_to_write
from spark_export.stores.process_owner import driver

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

BLOCK_ROWS = 16_384
SHOWN = 5
"""Rejected rows in an error's text."""


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What a task needs to know."""

    options: WriteOptions
    columns: ColumnMapping
    due: int | None
    staging: LoadStaging
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class TaskPart:
    """What a task has done: the name of its part, and what it could not take."""

    partition: int
    name: str | None
    """None: there was no row for a part."""
    rows: int = 0
    rejected: tuple[RefusedRow, ...] = ()
    """Those that are in no part; their rows are counted over all that the task was given."""


def planned(options: WriteOptions, table: pa.Schema, *, is_stream: bool = False) -> LoadPlan:
    """In a worker of Spark's driver: look at everything that can be wrong before a row is read."""
    columns, due, is_plain = check(options, table)
    staging = begin(options, is_made_by_tasks=is_stream, is_sealed=is_plain, holder=driver())
    return LoadPlan(options, columns, due, staging, is_stream)


def check(
    options: WriteOptions, table: pa.Schema, pages: Journal | None = None
) -> tuple[ColumnMapping, int | None, bool]:
    """
    The use of each column, when rows without a date are due, and whether no schema looks at the rows.

    Through `pages` if the caller has the journal open.
    """
    if pages is None:
        with told(), looked_at(options.place) as look:
            return check(options, table, look)
    if options.handover is None:  # else the process that commits has checked it, from its own working directory
        check_path(options.rejects)
    columns = columns_of(table, options.named, pages.schema, options.data_format)
    return columns, None if options.delay is None else pages.now() + options.delay, pages.schema is None


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema of the batches that Spark makes of rows of this schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def stage(batches: Iterable[pa.RecordBatch], plan: LoadPlan, partition: int) -> TaskPart:
    """Write the rows of a task into a part."""
    pieces = (piece for batch in batches for piece in _pieces(batch))
    return stage_made((made_of(piece, plan) for piece in pieces), plan, partition)


def made_of(batch: pa.RecordBatch, plan: LoadPlan) -> LoadRows | SealedRows:
    """The rows of a batch, ready for the journal if they can be (L4)."""
    ready = ready_of(batch, plan.columns, plan.due) if plan.staging.key is not None else None
    return rows_of(batch, plan.columns, plan.due) if ready is None else ready


def stage_made(source: Iterator[LoadRows | SealedRows], plan: LoadPlan, partition: int) -> TaskPart:
    """The same with rows that are made already."""
    made = next(source, None)
    if made is None:
        return TaskPart(partition, None)
    name = f"{partition:06d}-{secrets.token_hex(8)}"
    rejected: list[RefusedRow] = []
    seen = rows = 0
    with plan.staging.part(name) as part:
        while made is not None:
            if made.rejected:
                rejected += [one._replace(row=one.row + seen) for one in made.rejected]
                _check_rejected(rejected, plan.options, partition)
            if made.size:
                part.write(made.block())
                rows += made.size
            seen += made.size + len(made.rejected)
            made = next(source, None)
    return TaskPart(partition, name, rows, tuple(rejected))


def _pieces(batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
    return (batch.slice(at, BLOCK_ROWS) for at in range(0, batch.num_rows, BLOCK_ROWS))  # L3


def _check_rejected(rejected: Sequence[RefusedRow], options: WriteOptions, partition: int) -> None:
    if options.on_reject == "fail":
        raise rows_rejected([(partition, *one) for one in rejected])
    if len(rejected) > LOAD_REJECTS_MAX:
        raise invalid(
            ROWS_REJECTED,
            f"more than {LOAD_REJECTS_MAX} rows cannot be loaded, the first of them: {_shown([(partition, *one) for one in rejected])}. "
            "Nothing was changed",
        )


def rows_rejected(rejected: Sequence[tuple[int, int, Any, str]]) -> JournalError:
    """The error of a load that has rows which cannot be loaded."""
    return invalid(
        ROWS_REJECTED,
        f"{_shown(rejected)}. Nothing was changed: mend the rows, or say on_reject=list to load the others",
    )


def _shown(rejected: Sequence[tuple[int, int, Any, str]]) -> str:
    shown = [
        f"row {row} of partition {partition} (key {key!r}): {reason}"
        for partition, row, key, reason in rejected[:SHOWN]
    ]
    return "; ".join(shown) + ("" if len(rejected) <= SHOWN else f"; and {len(rejected) - SHOWN} more")


def commit(
    plan: LoadPlan, parts: Sequence[TaskPart], once: tuple[str, int] | None, pages: Journal | None = None
) -> LoadResult:
    """Make the parts one change; through `pages` if the caller has the journal open."""
    path = plan.options.rejects
    if path is not None and plan.is_stream and once is not None:
        path = of_batch(path, *once)
    try:
        with listing(path) as rejects, contextlib.ExitStack() as held:
            if pages is None:
                pages = held.enter_context(opened_to_write(plan.options.place))
            result = _committed(plan, parts, once, pages)
            if rejects is not None and not result.is_repeated and (result.rejected or not plan.is_stream):
                rejects.keep(result.rejected)
            return result
    except KeyExists as e:
        raise coded(e, KEY_EXISTS) from e
    except Invalid as e:
        raise coded(e, ROWS_REJECTED) from e
    except StorageError as e:
        raise coded(e, STORAGE) from e
    except JournalError as e:
        raise coded(e, LOAD_REFUSED) from e
    finally:
        plan.staging.remove()


def _committed(plan: LoadPlan, parts: Sequence[TaskPart], once: tuple[str, int] | None, pages: Journal) -> LoadResult:
    full = [part for part in parts if part.name is not None and part.rows]
    rejected = [RejectedRow(part.partition, *one) for part in parts for one in part.rejected]
    if len(rejected) > LOAD_REJECTS_MAX:
        raise invalid(
            ROWS_REJECTED,
            f"{len(rejected)} rows cannot be loaded, the first of them: {_shown(rejected)}. Nothing was changed",
        )
    loaded = plan.staging.commit(pages, [part.name for part in full if part.name], plan.options, once)
    for index, part in enumerate(full):
        reasons = {row: reason for of, row, reason in loaded.rejected if of == index}
        keys = _keys(plan.staging, part, set(reasons)) if reasons else {}
        rejected += [
            RejectedRow(part.partition, _place(part, row), keys.get(row), reason) for row, reason in reasons.items()
        ]
    rejected.sort(key=lambda one: one[:2])
    return LoadResult(
        loaded.inserted, loaded.merged, loaded.replaced, loaded.queued, loaded.ignored, loaded.skipped, loaded.cursor,
        loaded.is_repeated, rejected,
    )  # fmt: skip


def _place(part: TaskPart, row: int) -> int:
    """The place of a part's row in what the task was given: those that are in no part stood between."""
    for one in part.rejected:
        if one.row > row:
            break
        row += 1
    return row


def _keys(staging: LoadStaging, part: TaskPart, rows: set[int]) -> dict[int, Any]:
    """The keys of some rows of a part, as far as it can still be read."""
    if staging.directory is None or part.name is None:
        return {}
    found: dict[int, Any] = {}
    first = 0
    with open(os.path.join(staging.directory, part.name), "rb") as file:
        for columns in columns_in(iter(lambda: file.read(1 << 20), b""), part.name):
            size = len(columns.data)
            if type(columns.keys) is list:
                found |= {row: columns.keys[row - first] for row in rows if first <= row < first + size}
            first += size
    return found
