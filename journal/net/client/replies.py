"""
How replies are read, by what a command declares as its reply (journal.core.requests). Reading is strict: a reply of another form is a
FrameError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from journal.api.backend import Lent
from journal.core.loads.session import LOAD_ID
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.quoting import shown
from journal.core.schema.schema import Schema
from journal.core.snapshot_blocks import KeyRange, checked_ranges
from journal.core.values import Backup, Entry, PutResult
from journal.errors import FrameError, Invalid, JournalError
from journal.net.client.connection.clocks import pong_from
from journal.net.wire.values import (
    COLUMNS,
    LeaseRow,
    block_from,
    buried_from,
    compacted_from,
    cursor_from,
    deleted_from,
    entry_from,
    event_from,
    feed_from,
    flag_from,
    forecast_from,
    generation_from,
    lease_from,
    loaded_from,
    result_from,
)

_RESULT = len(COLUMNS["result"])
_LEASE = len(COLUMNS["lease"])
_DUES = int, type(None)
_MISSING = object()
_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function


class TakenSnapshot(NamedTuple):
    """A snapshot that a daemon keeps."""

    number: str
    """By which it is asked for."""
    cursor: Cursor
    taken: int
    size: int
    schema: Schema | None


def fields(value: Any, command: str, /, **kinds: Any) -> list[Any]:
    """The fields of a map that answers a command, each of its kind, in the order in which they are named here."""
    if type(value) is dict and all(isinstance(value.get(name, _MISSING), kind) for name, kind in kinds.items()):
        return [value[name] for name in kinds]
    raise FrameError(f"{shown(value)} is no answer to {command}: it has {', '.join(kinds)}")


def as_it_is(value: Any) -> Any:
    """A reply that needs no reading."""
    return value


def nothing(value: Any) -> None:
    """A reply that says only that it is done."""


def result(value: Any) -> PutResult:
    """What a put came to; an error in its place is raised."""
    if type(value) is list and len(value) == _RESULT:
        outcome, cursor, version, date, priority = value
        if type(cursor) is list and len(cursor) == 2 and type(cursor[0]) is int and type(cursor[1]) is int:
            return _new(PutResult, (outcome, _new(Cursor, cursor), version, date, priority))
    found = result_from(value)
    if isinstance(found, JournalError):
        raise found
    return found


def result_or_null(value: Any) -> PutResult | JournalError | None:
    """What became of one of a group."""
    return None if value is None else result_from(value)


def entry_or_null(value: Any) -> Entry | None:
    """An entry, if there is one."""
    return None if value is None else entry_from(value)


def lent(value: Any) -> Lent:
    """A lease that was taken."""
    row = lease_from(value)
    return row, row.data, row.insertion_date


def claimed(value: Any) -> tuple[Lent | None, int | None]:
    """The lease of a claim, if there is one, and when to ask again."""
    if type(value) is dict and len(value) == 2 and "lease" in value and type(value.get("next_due", "")) in _DUES:
        lease = value["lease"]
        if lease is None:
            return None, value["next_due"]
        if type(lease) is list and len(lease) == _LEASE:
            row = _new(LeaseRow, lease)
            return (row, row.data, row.insertion_date), None
        return lent(lease), None  # tells what is wrong with it
    raise FrameError(f"{shown(value)} is no answer to CLAIM: it has lease and next_due")


def _claimed_many(value: Any) -> list[Lent]:
    leases, _ = fields(value, "CLAIM_MANY", leases=list, next_due=int | None)
    return [lent(lease) for lease in leases]


def _extended(value: Any) -> tuple[int, int]:
    deadline, version = fields(value, "EXTEND", deadline=int, version=int)
    return deadline, version


def subscribed(value: Any) -> int:
    """The number of a subscription."""
    (number,) = fields(value, "SUBSCRIBE", subscription=int)
    return int(number)


def _load(value: Any) -> str:
    (load,) = fields(value, "LOAD_BEGIN", load=str)
    if LOAD_ID.fullmatch(load) is None:
        raise FrameError(f"{shown(load)} is no id of a load")
    return str(load)


def _changes(value: Any) -> tuple[list[Event], Cursor | None]:
    """Some of the changes between two cursors, and where to go on; None: that was all."""
    events, after, blank = fields(value, "CHANGES", events=list, after=list | None, blank=dict | None)
    if after is not None and not events:
        raise FrameError("CHANGES was answered with nothing, and not as the end")
    return [event_from(event, blank) for event in events], None if after is None else cursor_from(after)


def taken_snapshot(value: Any) -> TakenSnapshot:
    """A snapshot that was taken."""
    number, cursor, taken, size, schema = fields(
        value, "SNAPSHOT_OPEN", snapshot=str, cursor=list, taken=int, size=int, schema=dict | None
    )
    return TakenSnapshot(number, cursor_from(cursor), taken, size, None if schema is None else Schema.from_dict(schema))


def _split(value: Any) -> tuple[list[KeyRange], list[bytes]]:
    ranges, at = fields(value, "SNAPSHOT_SPLIT", ranges=list, at=list)
    if not {bytes}.issuperset(map(type, at)) or at != sorted(set(at)):
        raise FrameError(f"SNAPSHOT_SPLIT was answered with places that are none: {shown(at)}")
    try:
        return checked_ranges(ranges), at
    except Invalid as e:
        raise FrameError(f"SNAPSHOT_SPLIT was answered with ranges that are none: {e}") from e


def _backup_state(value: Any) -> tuple[int, int, Backup | None]:
    """How many bytes of how many are done, and what the backup came to when it is made."""
    done, total, made = fields(value, "BACKUP_STATE", done=int, total=int, backup=list | None)
    if made is not None and len(made) != len(Backup._fields):
        raise FrameError(f"{shown(made)} is no backup")
    return done, total, None if made is None else Backup(*made)


READERS: dict[str, Callable[[Any], Any]] = {
    "null": nothing,
    "int": as_it_is,
    "bool": as_it_is,
    "map": as_it_is,
    "[text]": as_it_is,
    "cursor": cursor_from,
    "result": result,
    "null, or result with `next`": lambda value: None if value is None else result(value),
    "entry or null": entry_or_null,
    "lease": lent,
    "{leases: [lease], next_due}": _claimed_many,
    "{deadline, version}": _extended,
    "{subscription}": subscribed,
    "{load}": _load,
    "loaded": loaded_from,
    "forecast": forecast_from,
    "generation": generation_from,
    "[generation]": lambda rows: [generation_from(row) for row in rows],
    "compacted": compacted_from,
    "[flag]": lambda rows: [flag_from(row) for row in rows],
    "block": block_from,
    "{snapshot, cursor, taken, size, schema: map or null}": taken_snapshot,
    "{ranges, at: [bytes]}": _split,
    "{events: [event], after: cursor or null, blank: map or null}": _changes,
    "{done, total, backup: backup or null}": _backup_state,
    "{received, answered}": pong_from,
    "{service, commands: [text]}": nothing,
    "{listener, cookie, lease_ms, sequence}": as_it_is,
}
"""What a reply means."""
LISTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "{entries: [entry], after: bytes or null}": ("entries", entry_from),
    "{buried: [buried], after: bytes or null}": ("buried", buried_from),
    "{leases: [lease], after: bytes or null}": ("leases", lent),
    "{feeds: [feed], after: bytes or null}": ("feeds", feed_from),
    "{owners: [[text, int]], after: bytes or null}": ("owners", as_it_is),
    "{journals: [text], after: bytes or null}": ("journals", as_it_is),
}
"""Replies that are a part of a list: the name of the part, and what each of its rows means."""
GROUPS: dict[str, Callable[[Any], Any]] = {
    "[result or error]": result_from,
    "[bool or error]": deleted_from,
    "[result, error or null]": result_or_null,
}
"""Replies that are what each of a group came to."""
