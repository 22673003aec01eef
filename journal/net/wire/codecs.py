"""
Replies on the wire, by what a command declares as its reply (journal.core.requests). journal.net.wire.values has what they consist of.

K1  What a codec sends it can read. Reading is strict: a reply of another form is a FrameError.
K2  `[x]` is a list of x, and `x or null` an x or none: they need no codec of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from journal.api.backend import Lent
from journal.core.loads.session import LOAD_ID
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.quoting import shown
from journal.core.schema.schema import Schema
from journal.core.snapshot_blocks import KeyRange, checked_ranges
from journal.core.values import Backup, PutResult
from journal.errors import FrameError, Invalid, JournalError
from journal.net.wire.values import (
    COLUMNS,
    LentRow,
    block_from,
    block_to,
    buried_from,
    buried_to,
    compacted_from,
    cursor_from,
    cursor_to,
    deleted_from,
    entry_from,
    event_from,
    feed_from,
    feed_to,
    flag_from,
    flag_to,
    forecast_from,
    forecast_to,
    generation_from,
    generation_to,
    group_to,
    lease_from,
    lease_to,
    loaded_from,
    loaded_to,
    result_from,
    result_to,
)

_RESULT = len(COLUMNS["result"])
_LEASE = len(LentRow._fields)
_DATA, _INSERTED = LentRow._fields.index("data"), LentRow._fields.index("insertion_date")
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


def lent(value: Any) -> Lent:
    """A lease that was taken."""
    if type(value) is not list or len(value) != _LEASE:
        lease_from(value)  # tells what is wrong with it
    return _new(LentRow, value), value[_DATA], value[_INSERTED]


def claimed(value: Any) -> tuple[Lent | None, int | None]:
    """The lease of a claim, if there is one, and when to ask again."""
    if type(value) is dict and len(value) == 2 and "lease" in value and type(value.get("next_due", "")) in _DUES:
        lease = value["lease"]
        return None if lease is None else lent(lease), value["next_due"]
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


def pong_from(value: Any) -> tuple[int, int]:
    """When the daemon received a PING and answered it, by its own clock."""
    received, answered = fields(value, "PING", received=int, answered=int)
    return received, answered


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


class Codec(NamedTuple):
    """A reply: its way to the wire and back (K1). Entries come from the engine as columns (journal.engine.caller)."""

    to: Callable[[Any], Any]
    read: Callable[[Any], Any]


_SAME = Codec(as_it_is, as_it_is)
CODECS: dict[str, Codec] = {
    "null": Codec(as_it_is, nothing),
    "int": _SAME,
    "bool": _SAME,
    "map": _SAME,
    "text": _SAME,
    "[text, int]": _SAME,
    "cursor": Codec(cursor_to, cursor_from),
    "result": Codec(result_to, result),
    "null, or result with `next`": Codec(result_to, lambda value: None if value is None else result(value)),
    "result or error": Codec(result_to, result_from),
    "[result or error]": Codec(group_to, lambda value: list(map(result_from, value))),
    "bool or error": Codec(as_it_is, deleted_from),
    "[bool or error]": Codec(group_to, lambda value: list(map(deleted_from, value))),
    "result, error or null": Codec(as_it_is, result_or_null),
    "[result, error or null]": Codec(group_to, lambda value: list(map(result_or_null, value))),
    "entry": Codec(as_it_is, entry_from),
    "lease": Codec(lambda taken: lease_to(*taken), lent),
    "{lease: lease or null, next_due}": Codec(as_it_is, claimed),
    "{leases: [lease], next_due}": Codec(as_it_is, _claimed_many),
    "{deadline, version}": Codec(lambda extended: {"deadline": extended[0], "version": extended[1]}, _extended),
    "{subscription}": Codec(as_it_is, subscribed),
    "{load}": Codec(lambda load: {"load": load}, _load),
    "loaded": Codec(loaded_to, loaded_from),
    "forecast": Codec(forecast_to, forecast_from),
    "generation": Codec(generation_to, generation_from),
    "compacted": Codec(list, compacted_from),
    "flag": Codec(flag_to, flag_from),
    "feed": Codec(feed_to, feed_from),
    "buried": Codec(buried_to, buried_from),
    "block": Codec(block_to, block_from),
    "{snapshot, cursor, taken, size, schema: map or null}": Codec(as_it_is, taken_snapshot),
    "{ranges, at: [bytes]}": Codec(as_it_is, _split),
    "{events: [event], after: cursor or null, blank: map or null}": Codec(as_it_is, _changes),
    "{done, total, backup: backup or null}": Codec(as_it_is, _backup_state),
    "{received, answered}": Codec(as_it_is, pong_from),
    "{service, commands: [text]}": Codec(as_it_is, nothing),
    "{listener, cookie, lease_ms, sequence}": _SAME,
}
"""By what a request declares as its reply. Where the daemon makes a reply by itself, its way to the wire is as it is."""
_PART = re.compile(r"\{(\w+): \[(.+)\], after: bytes or null\}")


@cache
def codec_of(reply: str) -> Codec:
    """The codec of a reply (K2)."""
    found = CODECS.get(reply)
    if found is not None:
        return found
    if reply.startswith("[") and reply.endswith("]"):
        to, read = codec_of(reply[1:-1])
        return Codec(lambda value: list(map(to, value)), lambda value: list(map(read, _listed(value, reply))))
    if reply.endswith(" or null"):
        to, read = codec_of(reply.removesuffix(" or null"))
        return Codec(
            lambda value: None if value is None else to(value), lambda value: None if value is None else read(value)
        )
    raise KeyError(f"there is no codec for the reply {reply}")


def _listed(value: Any, reply: str) -> list[Any]:
    if type(value) is not list:
        raise FrameError(f"{shown(value)} is no {reply}")
    return value


@cache
def part_codec(reply: str) -> tuple[str, Codec] | None:
    """Of a reply that is a part of a list: the list's name in it, and the codec of its items."""
    match = _PART.fullmatch(reply)
    return None if match is None else (match[1], codec_of(match[2]))
