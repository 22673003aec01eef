"""
Events: what a follower of the log gets, one for each change (offset) of a record.

The log holds the bytes of the rows that a change writes, and only the keys of those that it removes (effects E2). So an
event has `data` where its change wrote an entry, and `old` where the change kept the old one (a buried entry, or any in
a journal with `log_old`); in all other cases they are None, and `has_data` and `has_old` tell that apart from data that is None.

N1  A record gives exactly as many events as it has changes, in the order of their offsets; a skip, which stands for
    changes that compaction took out, gives none.
N2  `op` tells what became of the key's entry: a follower that stores the data of each "insert" and "update" that has data, and
    removes the key at each "delete", holds the last accepted data of every key that has an entry. A finished entry
    whose successor takes its place is therefore an "update"; what an operator does to a flag or to a buried entry is a
    "command".
N3  An event of a version that is not known is an error, never a skipped change.
N4  An event holds the bytes of its record and decodes what it is asked for, each time: most followers look at a few
    fields of many events.
N5  `key` and `data` read the bytes of the usual entry, whose key is a text below 256 bytes, themselves: by a call of
    rows, which know every entry, they take 260 + 40 to 80 ns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, repeat
from operator import itemgetter
from typing import Any, NamedTuple

from journal.core.entry import effects as fx
from journal.core.entry.keys import PLACE_BYTES, UserKey, unpack_place
from journal.core.entry.rows import (
    BIN8,
    ENTRY_HEAD,
    KEY_HIGH_AT,
    KEY_LOW_AT,
    OWNER_AT,
    Row,
    decode_buried,
    decode_entry,
    encode_row,
    entry_columns,
    entry_data,
    entry_key,
    unpack_data,
)
from journal.core.log.cursor import Cursor
from journal.core.log.record import Payload, Record
from journal.errors import LogDamaged

OPS = ("insert", "update", "delete", "command", "noop", "skip")
"""The words of the op bits of a record's attribute."""
MODES = ("copy", "sync", "complete")
"""The words of its mode bits."""
_INSERT, _UPDATE, _DELETE, _COMMAND, _NOOP, _SKIP = OPS
_USUAL_KEYS = [slice(ENTRY_HEAD, ENTRY_HEAD + size) for size in range(256)]
_new = tuple.__new__


class Where(NamedTuple):
    """What the events of one record share."""

    order: int
    timestamp: int
    mode: str
    namespace: str
    blank: dict[str, Any] | None = None
    """None for each field of the schemas that the journal's generations have: readers get the union."""


class More(NamedTuple):
    """What a change has besides the entry that it wrote."""

    key: UserKey | None = None
    version: int | None = None
    timeouts: int | None = None
    consumer: str | None = None
    token: int | None = None
    deadline: int | None = None
    reason: str | None = None
    flag: str | None = None
    old: bytes | None = None


_NO_MORE = More()


def _item(index: int, doc: str) -> Any:
    """A property that is an item of the tuple, without Python code of ours."""
    return property(itemgetter(index), doc=doc)


class Event(tuple[Where, int, str, str, bytes | None, bytes | None, More]):
    """
    One change; made by the log, never changed. Fields that a change does not have are None.

    As bytes it is (where, offset, op, verb, primary key, value of the entry that was written, more) (N4).
    """

    __slots__ = ()

    @property
    def cursor(self) -> Cursor:
        """Its place in the log; of a copied entry: (0, n)."""
        return _new(Cursor, (self[0][0], self[1]))

    op: str = _item(2, """What became of the entry: "insert", "update", "delete", "command", "noop" or "skip".""")

    @property
    def mode(self) -> str:
        """ "sync": a change as it happened; "copy": an entry that was there before; "complete": the copy is over."""
        return self[0][2]

    verb: str = _item(
        3, """What was done: "put", "replace" (merged or moved), "queue" (behind a processing one), "claim", "done" …"""
    )

    @property
    def timestamp(self) -> int:
        """When, in ms."""
        return self[0][1]

    @property
    def namespace(self) -> str:
        """The journal's name."""
        return self[0][3]

    @property
    def key(self) -> UserKey | None:
        """The entry's key."""
        value = self[5]
        if value is None:
            key: UserKey | None = self[6].key
            return key
        if value[OWNER_AT] or value[KEY_HIGH_AT]:
            return entry_key(value)
        text: str = value[_USUAL_KEYS[value[KEY_LOW_AT]]].decode()  # N5
        return text

    @property
    def data(self) -> Any:
        """The entry's data after the change, where the change wrote it."""
        value = self[5]
        if value is None:
            return None
        if value[KEY_HIGH_AT]:
            data = entry_data(value)
        else:
            at = ENTRY_HEAD + value[OWNER_AT] + value[KEY_LOW_AT]  # N5
            if value[at] == BIN8:
                return value[at + 2 :]
            data = unpack_data(value[at:])
        if type(data) is not dict:
            return data
        blank = self[0].blank
        return data if blank is None else blank | data

    @property
    def old(self) -> Any:
        """The entry's data before the change, where the change kept it."""
        old = self[6].old
        if old is None:
            return None
        blank, data = self[0].blank, unpack_data(old)
        return data if blank is None or type(data) is not dict else blank | data

    @property
    def has_data(self) -> bool:
        """Whether the change wrote an entry."""
        return self[5] is not None

    @property
    def has_old(self) -> bool:
        """Whether the change kept the old data."""
        return self[6].old is not None

    @property
    def priority(self) -> int | None:
        """The entry's priority."""
        return None if self[4] is None else unpack_place(self[4])[0]

    @property
    def process_date(self) -> int | None:
        """When the entry is due."""
        return None if self[4] is None else unpack_place(self[4])[1]

    @property
    def insertion_date(self) -> int | None:
        """When the key was first put."""
        return None if self[5] is None else entry_columns(self[5])[0]

    @property
    def expiration(self) -> int | None:
        """When the entry goes by itself; 0: never."""
        return None if self[5] is None else entry_columns(self[5])[1]

    @property
    def version(self) -> int | None:
        """The entry's version after the change."""
        version = self[6].version
        return version if version is not None or self[5] is None else entry_columns(self[5])[2]

    @property
    def timeouts(self) -> int | None:
        """How often the entry has timed out."""
        timeouts = self[6].timeouts
        return timeouts if timeouts is not None or self[5] is None else entry_columns(self[5])[3]

    @property
    def owner(self) -> str | None:
        """The producer group that the entry belongs to."""
        return None if self[5] is None else entry_columns(self[5])[4].decode() or None

    @property
    def consumer(self) -> str | None:
        """The name of the consumer that claimed."""
        return self[6].consumer

    @property
    def token(self) -> int | None:
        """The lease that began or ended."""
        return self[6].token

    @property
    def deadline(self) -> int | None:
        """Until when a lease is active."""
        return self[6].deadline

    @property
    def reason(self) -> str | None:
        """Why an entry was buried."""
        return self[6].reason

    @property
    def flag(self) -> str | None:
        """The flag that was raised or lowered."""
        return self[6].flag

    def _asdict(self) -> dict[str, Any]:
        """All fields by name."""
        return {name: getattr(self, name) for name in FIELDS}

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items() if value is not None)
        return f"Event({fields})"


FIELDS = tuple(name for name, member in vars(Event).items() if isinstance(member, property))
"""The names of an event's fields."""


def events_of(record: Record, payload: Payload, order: int, blank: dict[str, Any] | None = None) -> list[Event]:
    """The events of a record of ours in the log of generation `order` (N1); its rows match their own checksums too."""
    mode = record.attribute & 3
    if mode >= len(MODES):
        raise LogDamaged(
            f"the record at offset {record.offset} has the unknown mode {mode}: is it from a newer version?"
        )
    if type(payload.effect) is fx.Skip:
        if payload.effect.changes != payload.changes:
            raise LogDamaged(
                f"the record at offset {record.offset} skips {payload.effect.changes!r} changes and takes "
                f"{payload.changes} offsets"
            )
        return []
    where = Where(order, record.timestamp, MODES[mode], record.namespace.decode(errors="replace"), blank)
    try:
        events = effect_events(payload.effect, where, record.offset)
        for event in events:
            primary: Any = event[4]
            if event[5] is not None:
                decode_entry(primary, event[5])
    except (TypeError, ValueError, IndexError) as e:
        raise LogDamaged(f"the record at offset {record.offset} holds an effect that cannot be read: {e!r}") from e
    if len(events) != payload.changes:
        raise LogDamaged(
            f"the record at offset {record.offset} has {len(events)} changes and takes {payload.changes} offsets"
        )
    if payload.olds is not None:
        return [
            event if old is None else Event((*event[:6], event[6]._replace(old=old)))
            for event, old in zip(events, payload.olds, strict=True)
        ]
    return events


def put_events(
    wheres: Iterable[Where], offset: int, primaries: Iterable[bytes], values: Iterable[bytes]
) -> Iterator[Event]:
    """The events of new entries, by far the most frequent ones: each made when it is asked for, without Python code."""
    return map(Event, zip(wheres, count(offset), repeat(_INSERT), repeat("put"), primaries, values, repeat(_NO_MORE)))


def effect_events(effect: fx.Effect, where: Where, offset: int) -> list[Event]:
    """The events of an effect whose first change has this offset."""
    match effect:
        case fx.PutEffect(primary, value):
            return [_written(where, offset, _INSERT, "put", primary, value)]
        case fx.PutsEffect(items) | fx.LoadEffect(items=items):
            return list(put_events(repeat(where), offset, items[::2], items[1::2]))
        case fx.Done(items):
            return _done(where, offset, items)
        case fx.Claim():
            return _claim(where, offset, effect)
        case fx.Expire(items):
            pairs = zip(items[::2], items[1::2], strict=True)
            return [
                _other(where, offset + i, _DELETE, "expire", primary, More(key))
                for i, (primary, key) in enumerate(pairs)
            ]
        case fx.Clear(entries, buried, flags):
            return _clear(where, offset, entries, buried, flags)
        case fx.LoadGroup(effects=[]):
            return [_other(where, offset, _NOOP, "load", None, _NO_MORE)]
        case fx.Group(effects) | fx.LoadGroup(effects=effects):
            return [_part(where, offset + i, verb, args) for i, (verb, *args) in enumerate(effects)]
    return [_single(where, offset, effect)]


def copied(row: Row, cursor: Cursor, where: Where, *, is_successor: bool) -> Event:
    """The event of an entry that was there when a consumer began to follow, or of the successor that waits behind it."""
    op, verb = (_UPDATE, "queue") if is_successor else (_INSERT, "copy")
    return _written(where, cursor.offset, op, verb, row.primary, encode_row(row))


def completed(cursor: Cursor, timestamp: int, namespace: str) -> Event:
    """The event that ends a copy."""
    where = Where(cursor.order, timestamp, "complete", namespace)
    return _other(where, cursor.offset, _NOOP, "complete", None, _NO_MORE)


def _written(
    where: Where, offset: int, op: str, verb: str, primary: bytes, value: bytes, more: More = _NO_MORE
) -> Event:
    """A change that wrote an entry."""
    return Event((where, offset, op, verb, primary, value, more))


def _other(where: Where, offset: int, op: str, verb: str, primary: bytes | None, more: More) -> Event:
    """A change that wrote no entry."""
    return Event((where, offset, op, verb, primary, None, more))


def _done(where: Where, offset: int, items: list[Any]) -> list[Event]:
    events = []
    for at in range(0, len(items), 5):
        primary, key, token, heir, value = items[at : at + 5]
        if heir is None:
            events.append(_other(where, offset, _DELETE, "done", primary, More(key, token=token)))
        else:
            events.append(_written(where, offset, _UPDATE, "done", heir, value, More(token=token)))
        offset += 1
    return events


def _claim(where: Where, offset: int, claim: fx.Claim) -> list[Event]:
    events = []
    for i in range(len(claim.items) // 4):
        primary, key, version, timeouts = claim.items[4 * i : 4 * i + 4]
        more = More(key, version, timeouts, claim.consumer, claim.token + i, claim.deadline)
        events.append(_other(where, offset + i, _UPDATE, "claim", primary, more))
    return events


def _clear(where: Where, offset: int, entries: list[Any], buried: list[bytes], flags: list[str]) -> list[Event]:
    """What goes with a journal that is dropped."""
    pairs = zip(entries[::2], entries[1::2], strict=True)
    changes = [(_DELETE, "drop", primary, More(key)) for primary, key in pairs]
    changes += [(_COMMAND, "drop", None, _NO_MORE) for _ in buried]
    changes += [(_COMMAND, "lower", None, More(flag=name)) for name in flags]
    return [_other(where, offset + i, *change) for i, change in enumerate(changes)]


def _part(where: Where, offset: int, verb: Any, args: list[Any]) -> Event:
    """One part of a group: a change of its own."""
    effect = fx.from_list(verb, args)
    if type(effect) in (fx.Group, fx.LoadEffect, fx.LoadGroup) or fx.changes(effect) != 1:
        raise LogDamaged(f"a group of changes at offset {offset} holds {type(effect).__name__} with more than one")
    return effect_events(effect, where, offset)[0]


def _single(where: Where, offset: int, effect: fx.Effect) -> Event:
    """The changes that come one by one."""
    match effect:
        case fx.Replace(_, primary, value):
            return _written(where, offset, _UPDATE, "replace", primary, value)
        case fx.Queue(slot, value):
            return _written(where, offset, _UPDATE, "queue", value[:PLACE_BYTES] + slot, value[PLACE_BYTES:])
        case fx.Extend(primary, key, token, deadline, version):
            more = More(key, version, token=token, deadline=deadline)
            return _other(where, offset, _UPDATE, "extend", primary, more)
        case fx.Release(_, token, primary, value):
            return _written(where, offset, _UPDATE, "release", primary, value, More(token=token))
        case fx.Timeout(primary, key, token, version, timeouts):
            return _other(where, offset, _UPDATE, "timeout", primary, More(key, version, timeouts, token=token))
        case fx.Bury():
            return _buried(where, offset, effect)
        case fx.RetryEffect(_, primary, value):
            return _written(where, offset, _INSERT, "retry", primary, value)
        case fx.DeleteEffect(primary, key):
            return _other(where, offset, _DELETE, "delete", primary, More(key))
        case fx.Lower(name):
            return _other(where, offset, _COMMAND, "lower", None, More(flag=name))
        case fx.Raise(name, message, _):
            return _other(where, offset, _COMMAND, "raise", None, More(flag=name, reason=message))
        case fx.Carry():
            return _other(where, offset, _NOOP, "carry", None, More())
        case fx.StepEffect():
            return _other(where, offset, _NOOP, "step", None, More())
        case fx.Unbury(_, key):
            return _other(where, offset, _COMMAND, "unbury", None, More(key))
    raise LogDamaged(f"the change at offset {offset} is {type(effect).__name__}, which has no event")  # N3


def _buried(where: Where, offset: int, effect: fx.Bury) -> Event:
    """An entry that was given up: the log keeps it whole; its successor may take its place."""
    buried = decode_buried(effect.name, effect.value)
    more = More(token=effect.token, reason=buried.reason, flag=effect.flag, old=buried.row.data)
    if effect.primary is not None and effect.successor is not None:
        return _written(where, offset, _UPDATE, "bury", effect.primary, effect.successor, more)
    more = more._replace(key=effect.key, version=buried.row.version, timeouts=buried.row.timeouts)
    return _other(where, offset, _DELETE, "bury", effect.old, more)
