"""
The options for loads: `df.write.format("journal")`, `writeStream.format("journal")`, `spark_export.load` and `journal load`.

    key, key_bytes, priority, process_date,        the column that is it, where it has another name
    insertion_date, expiration, owner, data
    data_format     auto, value, json, msgpack     how the data is written in its column (spark_export.columns.mapping)
    on_conflict     merge, replace, skip, error    what becomes of a key that is there
    on_reject       fail, list                     what becomes of rows that cannot be loaded
    rejects         a path                         where they are listed, as JSON lines
    delay           a duration                     when rows without a process date are due
    txn_app_id,     a name and a number            a load whose number is not above the last one under its name changes nothing
    txn_version
    durability      full, interval, none           as for every change
    staging         a directory                    where parts wait for the commit; it must be one that all tasks see
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from journal.core.limits import DATE_MAX, LOAD_NAME_BYTES_MAX
from journal.core.times import duration_ms
from journal.errors import Invalid
from spark_export.columns.mapping import DATA_FORMATS, ROLES
from spark_export.errors import OPTION_INVALID, OPTION_MISSING, invalid
from spark_export.options.common import PLACE, JournalPlace, Parse, number, one_of, place_of, taken

CONFLICTS = ("merge", "replace", "skip", "error")
REJECTS = ("fail", "list")
LEVELS = ("full", "interval", "none")
OF_SPARK = frozenset({"checkpointlocation", "queryname", "outputmode"})
"""Options of a stream that Spark passes on to its sink, and that are Spark's own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteOptions:
    """The options of a load."""

    place: JournalPlace
    named: Mapping[str, str] = field(default_factory=dict)
    """The columns that were named, by what they are."""
    data_format: str = "auto"
    on_conflict: str = "merge"
    on_reject: str = "fail"
    rejects: str | None = None
    delay: int | None = None
    once: tuple[str, int] | None = None
    durability: str | None = None
    staging: str | None = None
    handover: str | None = None
    """A file: the load is not committed but handed over there, to `spark_export.load`, which does it."""

    @classmethod
    def parse(cls, given: Mapping[str, str], *, is_stream: bool = False) -> WriteOptions:
        """The options of a writer, as Spark passes them on."""
        known = {name: parse for name, parse in WRITE.items() if not (is_stream and name in ONCE)}
        own = {word: text for word, text in given.items() if not (is_stream and word.lower() in OF_SPARK)}
        found = taken(own, known, "writing to")
        place = place_of(found)
        named = {role: found.pop(role) for role in ROLES if role in found}
        if found.get("rejects") is not None and found.get("on_reject", "fail") != "list":
            raise invalid(OPTION_INVALID, "rejects is given, but rows are listed with on_reject=list only: add it")
        return cls(place=place, named=named, once=_once(found), **found)


def _once(found: dict[str, Any]) -> tuple[str, int] | None:
    name, version = found.pop("txn_app_id", None), found.pop("txn_version", None)
    if (name is None) != (version is None):
        missing = "txn_version" if version is None else "txn_app_id"
        raise invalid(OPTION_MISSING, f"the option {missing!r} is missing: txn_app_id and txn_version go together")
    return None if name is None else (name, version)


def once_of(once: Any) -> tuple[str, int] | None:
    """The name and the number of a load that a program gives, checked."""
    if once is None:
        return None
    is_pair = isinstance(once, (tuple, list)) and len(once) == 2
    if not is_pair or type(once[0]) is not str or type(once[1]) is not int or not 0 <= once[1] <= DATE_MAX:
        raise invalid(
            OPTION_INVALID,
            f'once is {once!r}: it must be a name and a number from 0 to {DATE_MAX}, e.g. ("nightly", 7)',
        )
    try:
        return _app(once[0]), once[1]
    except (Invalid, UnicodeEncodeError) as e:
        raise invalid(OPTION_INVALID, f"once is {once!r}: {e}") from e


def _named(text: str) -> str:
    if not text:
        raise Invalid("it is empty: give the name of a column")
    return text


def _app(text: str) -> str:
    if not 0 < len(text.encode()) <= LOAD_NAME_BYTES_MAX:
        raise Invalid(f"it has {len(text.encode())} bytes: it must have 1 to {LOAD_NAME_BYTES_MAX}")
    return text


ONCE: dict[str, Parse] = {"txn_app_id": _app, "txn_version": number(0, DATE_MAX)}
WRITE: dict[str, Parse] = {
    **PLACE,
    **dict.fromkeys(ROLES, _named),
    **ONCE,
    "data_format": one_of(*DATA_FORMATS),
    "on_conflict": one_of(*CONFLICTS),
    "on_reject": one_of(*REJECTS),
    "rejects": str,
    "delay": lambda text: duration_ms(text, "delay"),
    "durability": one_of(*LEVELS),
    "staging": str,
    "handover": str,
}
