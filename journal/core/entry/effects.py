"""
Effects: what was decided, as it stands in the log. Replay applies them and never decides again.

Each effect is a tuple; a record's payload is the msgpack array `[verb, behind, count, *effect]`:

    verb     which effect (the numbers below; never reused)
    behind   this record's offset minus the last offset known durable when it was appended. A damaged record that a
             later one calls durable is damage; any other one at the end is a torn tail.
    count    how many changes (offsets) the record holds: a group takes a run of them, so each change has its cursor

E1  A record is whole or absent: a group is one record with one checksum.
E2  An effect holds the bytes of the rows that it writes, and the keys of those that it removes.
E3  A skip is not an effect of anything: compaction leaves it in the place of records that it took out, so that offsets
    have no gap. It is never decided and never applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from journal.core.entry.keys import UserKey
from journal.errors import LogDamaged

INSERT, UPDATE, DELETE, COMMAND, NOOP, SKIP = range(6)
"""The op bits of a record's attribute."""


class PutEffect(NamedTuple):
    """A new entry."""

    primary: bytes
    value: bytes


class PutsEffect(NamedTuple):
    """New entries: primary, value, primary, value …"""

    items: list[bytes]


class Replace(NamedTuple):
    """A waiting entry was merged with a put, or moved. Its lease row, if any, goes."""

    old: bytes
    primary: bytes
    value: bytes


class Queue(NamedTuple):
    """A put for a key that is processing: its successor, new or merged."""

    slot: bytes
    value: bytes


class Claim(NamedTuple):
    """Leases of one consumer: primary, key, version, timeouts, …; the i-th has the token `token + i`."""

    consumer: str
    start: int
    deadline: int
    token: int
    items: list[Any]


class Done(NamedTuple):
    """Finished leases: primary, key, token, then the successor's primary and value that take its place, or None."""

    items: list[Any]


class Extend(NamedTuple):
    """A lease got a later deadline."""

    primary: bytes
    key: UserKey
    token: int
    deadline: int
    version: int


class Release(NamedTuple):
    """A lease ended without being done; the entry waits at `primary` with this value. A successor was merged in."""

    old: bytes
    token: int
    primary: bytes
    value: bytes


class Timeout(NamedTuple):
    """A deadline passed: the entry waits again in its old place, with its counter raised."""

    primary: bytes
    key: UserKey
    token: int
    version: int
    timeouts: int


class Bury(NamedTuple):
    """A lease ended and the entry was given up on; `flag` when no caller asked for it. The successor takes its place."""

    old: bytes
    token: int
    name: bytes
    value: bytes
    key: UserKey
    date: int
    flag: str | None
    primary: bytes | None
    successor: bytes | None


class RetryEffect(NamedTuple):
    """A buried entry waits again."""

    name: bytes
    primary: bytes
    value: bytes


class DeleteEffect(NamedTuple):
    """A waiting entry was deleted by its owner."""

    primary: bytes
    key: UserKey


class Expire(NamedTuple):
    """Entries whose expiration date passed: primary, key, …; they wait, or their lease has just ended."""

    items: list[Any]


class Lower(NamedTuple):
    """An operator lowered a flag."""

    name: str


class Unbury(NamedTuple):
    """A buried entry was deleted by an operator."""

    name: bytes
    key: UserKey


class Group(NamedTuple):
    """Several effects that stand or fall together: [verb, *effect] each."""

    effects: list[Any]


class Carry(NamedTuple):
    """Rows of an older generation move to the active one, as they are: primary, value, … of entries, primary,
    value, … of the lease rows of those that have one, name, value, … of buried ones, slot, value, … of successors."""

    entries: list[bytes]
    expired_rows: list[bytes]
    buried: list[bytes]
    successors: list[bytes]


class Raise(NamedTuple):
    """Something that an operator must look at: a flag is raised, or raised once more."""

    name: str
    message: str
    date: int


class Skip(NamedTuple):
    """So many changes stood here and were taken out by compaction; it has their offsets and no event (E3)."""

    changes: int


class Clear(NamedTuple):
    """A journal is being dropped: primary, key, … of entries that go, whatever state they are in; the names of buried
    ones and of flags."""

    entries: list[Any]
    buried: list[bytes]
    flags: list[str]


class LoadEffect(NamedTuple):
    """New entries of a load that is made once, as `Puts` has them, and its number under its name."""

    name: str
    number: int
    items: list[bytes]


class StepEffect(NamedTuple):
    """The wall clock was set: dates that stand for the end or the beginning of a duration move by so many ms (engine wallclock)."""

    by: int
    date: int
    """What it showed then."""
    stamp: int
    """The timestamp of the record: the same, or later when the clock was set back."""


class LoadGroup(NamedTuple):
    """The same for a load that met entries: [verb, *effect] each, as `Group` has them; none: it changed nothing else."""

    name: str
    number: int
    effects: list[Any]


class Packed(NamedTuple):
    """
    An effect on its way into a record, whose last part, an empty list, stands for so many values that are packed already.

    They come in pieces, this many bytes in all. A piece is written before the next one is asked for.
    """

    effect: PutsEffect | LoadEffect
    values: int
    size: int
    pieces: Iterator[bytes | memoryview]


Effect = (
    PutEffect | PutsEffect | Replace | Queue | Claim | Done | Extend | Release | Timeout | Bury | RetryEffect | DeleteEffect | Expire
    | Lower | Unbury | Group | Carry | Raise | Skip | Clear | LoadEffect | LoadGroup | StepEffect
)  # fmt: skip

VERBS: dict[type[Effect], tuple[int, int]] = {
    PutEffect: (1, INSERT),
    PutsEffect: (2, INSERT),
    Replace: (3, UPDATE),
    Queue: (4, UPDATE),
    Claim: (5, UPDATE),
    Done: (6, DELETE),
    Extend: (7, UPDATE),
    Release: (8, UPDATE),
    Timeout: (9, UPDATE),
    Bury: (10, DELETE),
    RetryEffect: (11, INSERT),
    DeleteEffect: (12, DELETE),
    Expire: (13, DELETE),
    Lower: (14, COMMAND),
    Unbury: (15, DELETE),
    Group: (16, COMMAND),
    Carry: (17, NOOP),
    Raise: (18, COMMAND),
    Skip: (19, SKIP),
    Clear: (20, DELETE),
    LoadEffect: (22, INSERT),
    LoadGroup: (23, COMMAND),
    StepEffect: (24, NOOP),
}
"""The number and the op of each effect; 21 is that of a record which has the data before it too (record.WITH_OLD)."""

_KINDS: dict[int, type[Effect]] = {number: kind for kind, (number, _) in VERBS.items()}


def to_list(effect: Effect) -> list[Any]:
    """The effect as a part of a group."""
    return [VERBS[type(effect)][0], *effect]


def from_list(verb: Any, args: list[Any]) -> Effect:
    """The effect of a decoded payload."""
    kind = _KINDS.get(verb) if type(verb) is int else None
    if kind is None or len(args) != len(kind._fields):
        raise LogDamaged(
            f"a record has the unknown effect {verb!r} with {len(args)} parts: is it from a newer version?"
        )
    return kind(*args)


def changes(effect: Effect) -> int:
    """How many offsets an effect takes."""
    match effect:
        case PutsEffect(items) | LoadEffect(items=items):
            return len(items) // 2
        case Claim(items=items):
            return len(items) // 4
        case Done(items):
            return len(items) // 5
        case Expire(items):
            return len(items) // 2
        case Clear(entries, buried, flags):
            return len(entries) // 2 + len(buried) + len(flags)
        case Group(effects):
            return len(effects)
        case LoadGroup(effects=effects):
            return max(len(effects), 1)
        case Skip(number):
            return number
        case _:
            return 1
