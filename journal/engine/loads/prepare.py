"""
The rows of a load, made ready before the lock is taken: decoded, checked, hashed and sorted.

    item    bound 9 | murmur 16 | 0 | insertion u64 | expiration u64 | accepted u64 | owner length u8 | key length u16 | owner
            | key | data

An item has all bytes of the entry and its primary key but those that are known only under the lock: the turn, between bound and murmur
(keys), and `at`, version and timeouts between `accepted` and the owner's length. It is one object for each row: with its
parts in several, a million rows took four times as long to sort, to encode and to insert, for the misses of the processor's
cache.

I1  A row that is wrong is reported with its part, its number and the reason; a part that is damaged is an error.
I2  Rows of one priority and process date are in the order in which they were given.
I3  The load's time is when it began: rows without dates have it, however long the rest takes.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import msgpack

from journal.core.arguments import owner_bytes
from journal.core.entry.keys import SLOT_BYTES, UserKey, murmur, pack_bound, primary_of
from journal.core.entry.rows import Row, key_size
from journal.core.limits import DATE_MAX, KEY_BYTES_MAX, LOAD_BYTES_MAX, LOAD_REJECTS_MAX, OWNER_BYTES_MAX, PRIORITY_MAX
from journal.core.loads.blocks import Columns, LoadRow, columns_in, columns_of
from journal.core.schema.schema import Schema
from journal.core.values import PutOptions, Rejected
from journal.engine.arguments import Wanted, dates_of, wanted
from journal.engine.caller import Bounds, check_packed, checked_packed
from journal.engine.files.posix import storage_error
from journal.engine.state.sorting import sorted_by_hash
from journal.errors import Invalid, JournalError, NotFound

Part = bytes | str | os.PathLike[str]
"""A load block, or the path of a part file."""
BOUND, SLOT = slice(9), slice(9, 9 + SLOT_BYTES)
"""What of an item is its priority and process date, and its slot."""
AT = 50
"""Where `at`, version and timeouts go in an item."""
KEY_SIZE_AT = 51
"""Where the length of its key is."""
_READ_BYTES = 1 << 20
_ROW_BYTES = 120
"""What a row takes in a record besides its key, data and owner; a little more than it may."""
_ENTRY_HEAD = 44
_REASON_BYTES = 200
_DATES = struct.Struct(">BQQQBH")
_SIZES = struct.Struct(">BH")
_U32 = struct.Struct("=I")
_ITEM = struct.Struct(">BQ16sBQQQBH")
_DATE_RANGE = frozenset({int, type(None)}), DATE_MAX
_RANGES: list[tuple[frozenset[type], int]] = [
    (frozenset({int}), PRIORITY_MAX), _DATE_RANGE, _DATE_RANGE, (frozenset({int}), DATE_MAX), (frozenset({str}), 0),
]  # fmt: skip
"""The types of a column behind key and data, and its largest number."""
_bound = itemgetter(BOUND)
_is_packed = partial(msgpack.unpackb, strict_map_key=False)


class Prepared(NamedTuple):
    """The rows of a load."""

    items: list[bytes]
    """In the order in which they were given."""
    ordered: list[bytes]
    """In the order of work (I2)."""
    slots: list[bytes]
    """Of all of them, in order."""
    by_slot: array[int]
    """Which of the ordered ones have these."""
    has_more: bool
    """Whether some may expire or have an owner."""
    parts: array[int]
    rows: array[int]
    """Of each item: the number of its part, and its own in that part."""
    rejected: list[Rejected]
    bytes: int
    """What they take in a record."""
    began: int
    """The accepted date of those that have none of their own."""
    began_by_caller: frozenset[int]
    """The numbers of items whose caller gave this very date as their insertion date."""


class Preparation:
    """Makes the rows of one load ready."""

    def __init__(
        self, schema: Schema | None, entry_bytes_max: int, bounds: Bounds, now: int, *, is_listing: bool
    ) -> None:
        self._schema = schema
        self._bounds = bounds
        self._limit = entry_bytes_max
        self._now = now
        self._is_listing = is_listing
        self._items: list[bytes] = []
        self._bounds_seen: set[bytes] = set()
        """Of blocks whose rows have one priority and date; empty bytes for others."""
        self._parts, self._rows = array("L"), array("L")
        self._rejected: list[Rejected] = []
        self._began_by_caller: set[int] = set()
        self._bytes = 0

    def read(self, parts: Iterable[Part]) -> Prepared:
        """Take all rows of all parts."""
        for number, part in enumerate(parts):
            row = 0
            for columns in _columns(part, number):
                self._take(columns, number, row)
                row += len(columns.data)
        has_more = b"" in self._bounds_seen
        ordered = self._items if len(self._bounds_seen) == 1 and not has_more else sorted(self._items, key=_bound)
        keyed = sorted_by_hash([item[SLOT] + _U32.pack(n) for n, item in enumerate(ordered)], 0)
        slots, by_slot = [each[:SLOT_BYTES] for each in keyed], array("I")
        by_slot.frombytes(b"".join([each[SLOT_BYTES:] for each in keyed]))
        return Prepared(
            self._items,
            ordered,
            slots,
            by_slot,
            has_more,
            self._parts,
            self._rows,
            self._rejected,
            self._bytes,
            self._now,
            frozenset(self._began_by_caller),
        )

    def _take(self, columns: Columns, part: int, first: int) -> None:
        items = None if self._schema is not None else self._at_once(columns)
        size = len(columns.data)
        if items is not None:
            self._rows.extend(range(first, first + size))
            self._parts.extend([part] * size)
        else:
            items = self._each(columns, part, first)
        self._items += items
        self._bytes += sum(map(len, items)) + (_ROW_BYTES - AT) * len(items)
        if self._bytes > LOAD_BYTES_MAX:
            raise Invalid(
                f"the load takes more than {LOAD_BYTES_MAX} bytes by row {first} of part {part}: nothing was changed; make "
                "several loads of it"
            )

    def _at_once(self, columns: Columns) -> list[bytes] | None:
        """The items of a block, its columns checked as a whole; None when a row may be wrong, or is not quite usual."""
        keys, data, *rest = columns
        if type(keys) is not list or not data or not all(map(_is_in_range, rest, _RANGES)):
            return None
        try:
            raws, sizes = _raws(keys)
            longest, largest = max(map(len, raws)), max(map(len, data))
            if min(map(len, raws)) == 0 or longest > KEY_BYTES_MAX or largest > self._bounds.data_bytes_max:
                return None
            owners = self._owners(columns.owner)
            if owners is None or _ENTRY_HEAD + max(map(len, owners)) + longest + largest > self._limit:
                return None
            for _ in map(_is_packed, data):
                pass
        except (TypeError, ValueError, OverflowError, RecursionError):
            return None
        if sizes is None and type(columns.priority) is int and columns[3:] == (None, None, 0, ""):
            return self._usual(raws, data, columns.priority)
        return self._dated(raws, sizes or list(map(len, raws)), columns, owners)

    def _owners(self, column: Any) -> list[bytes] | None:
        """The owners of a block, one or one for each row; None when one of them may not be."""
        owners = column if type(column) is list else [column]
        may_own = self._bounds.may_own
        if may_own is not None and not all(not owner or may_own(owner) for owner in set(owners)):
            return None
        raws = list(map(str.encode, owners))
        return raws if max(map(len, raws)) <= OWNER_BYTES_MAX else None

    def _usual(self, raws: list[bytes], data: list[bytes], priority: int) -> list[bytes]:
        """The items of rows that differ in a text key and data only."""
        now = self._now
        bound = pack_bound(priority, now)
        self._bounds_seen.add(bound)
        middles = {size: _DATES.pack(0, now, 0, now, 0, size) for size in set(map(len, raws))}
        join = b"".join
        return [
            join((bound, murmur(raw), middles[len(raw)], raw, value)) for raw, value in zip(raws, data, strict=True)
        ]

    def _dated(self, raws: list[bytes], sizes: list[int], columns: Columns, owners: list[bytes]) -> list[bytes] | None:
        """The items of rows with dates, priorities, owners and keys of their own; None when a date is wrong."""
        self._bounds_seen.add(b"")
        count, now, join, pack = len(raws), self._now, b"".join, _ITEM.pack
        given = [each if type(each) is list else [each] * count for each in columns[2:6]]
        whose = owners if len(owners) == count else owners * count
        items: list[bytes] = []
        given_now = []
        for raw, size, value, owner, priority, date, insertion, expiration in zip(
            raws, sizes, columns.data, whose, *given, strict=True
        ):
            if insertion is None:  # as arguments.dates_of
                accepted = now
                if date is None:
                    date = now
                insertion = min(now, date)
            else:
                accepted = insertion
                if date is None:
                    date = max(now, insertion)
                elif date < insertion:
                    return None
                if insertion == now:
                    given_now.append(len(self._items) + len(items))
            head = pack(priority, date, murmur(raw), 0, insertion, expiration, accepted, len(owner), size)
            items.append(join((head, owner, raw, value)))
        self._began_by_caller.update(given_now)
        return items

    def _each(self, columns: Columns, part: int, first: int) -> list[bytes]:
        """The items of a block, row by row (I1)."""
        self._bounds_seen.add(b"")
        items: list[bytes] = []
        for number, row in enumerate(columns.each(), first):
            try:
                item = self._item(row)
            except Invalid as e:
                self._rejected.append(rejected(part, number, e))
                refuse_if_too_many(self._rejected, is_listing=self._is_listing)
                continue
            if row.insertion_date == self._now:
                self._began_by_caller.add(len(self._items) + len(items))
            items.append(item)
            self._parts.append(part)
            self._rows.append(number)
        return items

    def _item(self, row: LoadRow) -> bytes:
        key, data, priority, date, insertion, expiration, owner = row
        if type(data) is not bytes or not data:
            raise Invalid(f"the data is {data!r:.60}: it must be packed msgpack, as bytes")
        for value, name in ((date, "process_date"), (insertion, "insertion_date"), (expiration, "expiration")):
            is_date = type(value) is int and 0 <= value <= DATE_MAX
            if not is_date and (value is not None or name == "expiration"):
                raise Invalid(f"{name} is {value!r:.60}: it must be from 0 to {DATE_MAX} milliseconds since the epoch")
        if type(owner) is not str or len(owner) > OWNER_BYTES_MAX:
            owner_bytes(owner)  # says why not
        if owner and self._bounds.may_own is not None and not self._bounds.may_own(owner):
            raise Invalid(f"the identity that loads may not act under the name {owner!r}")
        if len(data) > self._bounds.data_bytes_max:
            raise Invalid(
                f"the data has {len(data)} bytes, and {self._bounds.data_bytes_max} can be handed out in a frame: put a "
                "reference to it"
            )
        if self._schema is not None or key is None:
            key, data = checked_packed(self._schema, key, data)
        options = PutOptions(date, None, expiration, insertion, owner or None)
        want = wanted(key, data, priority, options, self._limit, check_packed)
        return _item_of(want, self._now)


def _is_in_range(column: Any, allowed: tuple[frozenset[type], int]) -> bool:
    """Whether all values of a column are of these types, and its numbers from 0 to the largest."""
    values = column if type(column) is list else [column]
    types, largest = allowed
    found = set(map(type, values))
    if not found <= types:
        return False
    if int not in found:
        return True
    numbers = values if len(found) == 1 else [value for value in values if value is not None]
    return bool(min(numbers) >= 0 and max(numbers) <= largest)


def _raws(keys: list[Any]) -> tuple[list[bytes], list[int] | None]:
    """The bytes of keys, and their length fields; None when all are texts. TypeError when one is neither."""
    types = set(map(type, keys))
    if types == {str}:
        return list(map(str.encode, keys)), None
    if not types <= {str, bytes}:
        raise TypeError
    raws = [key.encode() if type(key) is str else key for key in keys]
    return raws, [key_size(key, raw) for key, raw in zip(keys, raws, strict=True)]


def rejected(part: int, row: int, error: JournalError) -> Rejected:
    """A row that is wrong, and why, in few words."""
    reason = str(error).encode("utf-8", "replace")
    if len(reason) > _REASON_BYTES:
        reason = reason[: _REASON_BYTES - 3] + b"..."
    return Rejected(part, row, reason.decode("utf-8", "ignore"))


def refuse_if_too_many(found: list[Rejected], *, is_listing: bool) -> None:
    """Wrong rows end the load, or too many of them do."""
    if not found or (is_listing and len(found) <= LOAD_REJECTS_MAX):
        return
    part, row, reason = found[0]
    what = f"more than {LOAD_REJECTS_MAX} rows are wrong, the first is" if is_listing else "a row is wrong:"
    raise Invalid(f"{what} row {row} of part {part}: {reason}. Nothing was changed")


def _item_of(want: Wanted, now: int) -> bytes:
    insertion, accepted, date = dates_of(want, now)
    size = key_size(want.key, want.raw)
    dates = _DATES.pack(0, insertion, want.expiration, accepted, len(want.owner), size)
    return b"".join((pack_bound(want.priority, date), murmur(want.raw), dates, want.owner, want.raw, want.data))


def row_of_item(item: bytes, at: int) -> Row:
    """The row that an item asks for."""
    _, insertion, expiration, accepted, owner_size, size = _DATES.unpack_from(item, 25)
    start = AT + _SIZES.size + owner_size
    end = start + (size & 0x7FFF)
    owner = item[AT + _SIZES.size : start]
    primary = primary_of(item[BOUND], at, item[SLOT])
    return Row(primary, insertion, expiration, accepted, at, 1, 0, owner, key_of_item(item), item[end:])


def key_of_item(item: bytes) -> UserKey:
    """An item's key."""
    raw = raw_of_item(item)
    return raw if item[KEY_SIZE_AT] & 0x80 else raw.decode()


def raw_of_item(item: bytes) -> bytes:
    """The bytes of an item's key."""
    owner_size, size = _SIZES.unpack_from(item, AT)
    start = AT + _SIZES.size + owner_size
    return item[start : start + (size & 0x7FFF)]


def _columns(part: Part, number: int) -> Iterator[Columns]:
    """The blocks of one part."""
    if isinstance(part, bytes):
        try:
            yield columns_of(part)
        except Invalid as e:
            raise Invalid(f"part {number} is damaged: {e}. Nothing was changed") from e
    elif isinstance(part, (str, os.PathLike)):
        yield from columns_in(_pieces(part), str(part))
    else:
        raise Invalid(f"part {number} is {part!r:.60}: it must be a load block (bytes) or the path of a part file")


def _pieces(path: str | os.PathLike[str]) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            while piece := file.read(_READ_BYTES):
                yield piece
    except FileNotFoundError as e:
        raise NotFound(f"there is no part file {os.fspath(path)}: nothing was changed") from e
    except OSError as e:
        raise storage_error(e, f"cannot read the part file {os.fspath(path)}") from e
