"""What callers pass, checked and turned into what the engine works with. Everything here happens before the lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from journal.core.arguments import check_priority, owner_bytes
from journal.core.buckets import Range
from journal.core.entry.keys import UserKey, key_bytes, primary_key
from journal.core.entry.rows import Row
from journal.core.lifecycle import Found
from journal.core.limits import DATE_MAX, KEY_BYTES_MAX, PRIORITY_MAX
from journal.core.requests.produce import check_dates
from journal.core.schema.schema import Schema
from journal.core.settings import Settings
from journal.core.times import date_ms, duration_ms
from journal.errors import Invalid

Pack = Callable[[Any], bytes]
"""The bytes that are stored of data: `rows.pack_data`, or the check of data that comes packed."""
Checked = Callable[[Schema | None, UserKey | None, Any], tuple[UserKey, Any]]
"""`checked`, or the same for data that comes packed."""
_ENTRY_HEAD = 44
ENTRY_OVERHEAD_MAX = _ENTRY_HEAD + KEY_BYTES_MAX
_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function


class Oversize(Invalid):
    """Data of a size that the caller's `pack` refuses; the entry is named where its key is known."""


class Wanted(NamedTuple):
    """A put whose arguments are good; dates that are None depend on the engine's now."""

    key: UserKey
    raw: bytes
    data: bytes
    priority: int
    process_date: int | None
    delay: int
    expiration: int
    insertion: int | None
    owner: bytes


def wanted(key: UserKey, data: Any, priority: int, given: Any, entry_bytes_max: int, pack: Pack) -> Wanted:
    """Check the arguments of a put; `given` has the others by their names: a request, or PutOptions. None: there are no others."""
    raw = key.encode() if type(key) is str and key.isascii() and 0 < len(key) <= KEY_BYTES_MAX else key_bytes(key)
    try:
        packed = pack(data)
    except Oversize as e:
        raise Invalid(f"the data of the entry {key!r} has {e}") from None
    owner = b"" if given is None else owner_bytes(given.owner)
    size = _ENTRY_HEAD + len(owner) + len(raw) + len(packed)
    if size > entry_bytes_max:
        raise Invalid(
            f"the entry {key!r} has {size} bytes, more than entry_bytes_max ({entry_bytes_max}): put a reference to the data, or "
            "raise the setting"
        )
    if type(priority) is not int or not 0 <= priority <= PRIORITY_MAX:
        check_priority(priority)
    if given is None:
        return _new(Wanted, (key, raw, packed, priority, None, 0, 0, None, owner))
    check_dates(given)
    return Wanted(
        key,
        raw,
        packed,
        priority,
        None if given.process_date is None else date_ms(given.process_date, "process_date"),
        0 if given.delay is None else duration_ms(given.delay, "delay"),
        0 if given.expiration is None else date_ms(given.expiration, "expiration"),
        None if given.insertion_date is None else date_ms(given.insertion_date, "insertion_date"),
        owner,
    )


class SchemaChanged(Exception):
    """A generation with another schema began between the check of a put and the put: it must be checked again."""


def checked(schema: Schema | None, key: UserKey | None, data: Any) -> tuple[UserKey, Any]:
    """The key and the data of a put as the schema has them."""
    if schema is None:
        raise Invalid("the key is None: only a journal whose schema says what forms the key can do without one")
    stored = schema.check(data)
    if schema.key is None:
        if key is None:
            raise Invalid("the key is None, and the journal's schema does not say what forms it: give the key")
        return key, stored
    formed = schema.key_of(stored)
    if key is not None and key != formed:
        raise Invalid(f"the key is {key!r}, but {', '.join(schema.key)} of the data form the key {formed!r}: give None")
    return formed, stored


def dates_of(want: Wanted, now: int) -> tuple[int, int, int]:
    """
    The insertion date, the accepted date and the process date that a put asks for.

    A process date that has passed already, without an insertion date of the caller's own, is the insertion date too: two
    clocks that are a millisecond apart must not make a refusal of "now", and old work keeps its place in the order.
    """
    insertion, date = want.insertion, want.process_date
    if insertion is None:
        if date is None:
            date = now + want.delay
        if date > DATE_MAX:
            raise Invalid(f"the process date {date} is beyond {DATE_MAX}")
        return min(now, date), now, date
    if date is None:
        date = max(now + want.delay, insertion)
    if date < insertion:
        raise Invalid(f"the process date {date} is earlier than the insertion date {insertion}")
    return insertion, insertion, date


def row_of(want: Wanted, found: Found, now: int, offset: int) -> Row:
    """The row that a put asks for, onto what its key has. One that has its date from the engine is never too old (lifecycle L5)."""
    insertion, accepted, date = dates_of(want, now)
    last = found.successor or found.row
    if want.insertion is None and last is not None and last.accepted > accepted:
        accepted = last.accepted  # the clock was set back since
    return Row(
        primary_key(want.priority, date, offset, found.slot), insertion, want.expiration, accepted, offset, 1, 0, want.owner, want.key,
        want.data,
    )  # fmt: skip


def part_of(buckets: Range | None, settings: Settings) -> Range | None:
    """The range of buckets that a consumer claims by; None: over all, also when it has all of them."""
    return None if buckets is None or len(buckets.within(settings.buckets)) == settings.buckets else buckets


def bucket_bounds(buckets: Range | None, settings: Settings) -> tuple[bytes, bytes] | None:
    """Between which slots the entries of a range of buckets are; None for all."""
    return None if buckets is None else buckets.murmurs(settings.buckets)
