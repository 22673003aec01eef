"""
`spark_export.load`: the rows of a DataFrame into a journal, and what became of them.

It does what `df.write.format("journal")` does, but returns the result, and takes a store that this program has open: the tasks only
write parts, the change is made here.
"""

from __future__ import annotations

import glob
import os
import pickle
import re
import shutil
import tempfile
from typing import TYPE_CHECKING

import journal
from journal.core.times import DurationLike, duration_ms
from journal.errors import Invalid
from spark_export.api.session import check_spark, register
from spark_export.errors import OPTION_INVALID, coded_in, invalid
from spark_export.loads.result import LoadResult
from spark_export.stores.process_owner import HOLDER, is_gone, own

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_export.loads.plan import LoadPlan, TaskPart

_PREFIX = "journal-load-"
_LEFT = re.compile(rf"{_PREFIX}({HOLDER})-[^-]+")


def load(
    df: DataFrame,
    store: str | os.PathLike[str] | journal.Store,
    name: str,
    *,
    on_conflict: str = "merge",
    on_reject: str = "fail",
    rejects: str | os.PathLike[str] | None = None,
    once: tuple[str, int] | None = None,
    delay: DurationLike | None = None,
    columns: dict[str, str] | None = None,
    data_format: str = "auto",
    durability: str | None = None,
    staging: str | os.PathLike[str] | None = None,
    token: str | None = None,
    tls_ca: str | os.PathLike[str] | None = None,
) -> LoadResult:
    """
    Load all rows of a DataFrame into a journal, as one change.

    store         a store's path, its daemon's address, or a store that is open here
    name          the journal, which must exist
    on_conflict   of a key that is there: "merge" by the journal's rules, "replace" it, "skip" the row, or "error"
    on_reject     of a row that cannot be loaded: "fail", or "list" them in the result, and in the file `rejects`
    once          (name, number): a load whose number is not above the last one under its name changes nothing
    delay         when rows without a process date are due
    columns       the columns of other names, by what they are: {"key": "id", "process_date": "due"}
    data_format   how the data is written in its column, when that is not as a reader writes it: "value", "json", "msgpack"
    durability    as for every change
    staging       a directory that all tasks see, for their parts; by default beside the store
    token         the identity for a daemon, "identity:secret"; by default JOURNAL_TOKEN
    """
    check_spark()
    from spark_export.loads.plan import arrow_schema, check, commit
    from spark_export.options.load import WriteOptions, once_of
    from spark_export.stores.open_store import existing

    once = once_of(once)
    register(df.sparkSession)
    opened = store if isinstance(store, journal.Store) else None
    given = {
        "path": os.fspath(store.path if isinstance(store, journal.Store) else store), "journal": name, "on_conflict": on_conflict,
        "on_reject": on_reject, "data_format": data_format,
    }  # fmt: skip
    optional = {"rejects": rejects, "staging": staging, "durability": durability, "token": token, "tls_ca": tls_ca}
    given |= {option: os.fspath(value) for option, value in optional.items() if value is not None}
    if delay is not None:
        given["delay"] = f"{duration_ms(delay, 'delay')}ms"
    given |= _columns(columns or {})
    options = WriteOptions.parse(given)
    pages = None if opened is None else existing(opened, options.place)
    check(options, arrow_schema(df.schema), pages)
    plan, parts = _staged(df, given)
    return commit(plan, parts, once, pages)


def _columns(columns: dict[str, str]) -> dict[str, str]:
    from spark_export.columns.mapping import ROLES

    for role in columns:
        if role not in ROLES:
            raise invalid(OPTION_INVALID, f"columns has {role!r}: it may name those of {', '.join(ROLES)}")
    return columns


def _staged(df: DataFrame, given: dict[str, str]) -> tuple[LoadPlan, list[TaskPart]]:
    """Have the tasks write their parts, and take over what those that count have done."""
    _sweep(tempfile.gettempdir())
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{own()}-") as directory:
        handover = os.path.join(directory, "staged")
        writer = df.write.format("journal").mode("append").options(**given, handover=handover)
        try:
            writer.save()
        except Exception as e:  # whatever Spark wraps our error into
            told = coded_in(e)
            if told is None:
                raise
            raise Invalid(told) from e
        with open(handover, "rb") as file:
            plan, parts = pickle.load(file)
    return plan, parts


def _sweep(directory: str) -> None:
    """Remove what killed programs have left here."""
    for path in glob.iglob(os.path.join(glob.escape(directory), f"{_PREFIX}*")):
        found = _LEFT.fullmatch(os.path.basename(path))
        if found is not None and is_gone(found[1]):
            shutil.rmtree(path, ignore_errors=True)
