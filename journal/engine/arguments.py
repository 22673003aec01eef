"""What callers pass, checked and turned into what the engine works with. Everything here happens before the lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from journal.core.buckets import Range
from journal.core.keys import PRIMARY_BYTES, UserKey, key_bytes, primary_key
from journal.core.limits import (
    CONSUMER_BYTES_MAX,
    DATE_MAX,
    GROUP_MAX,
    KEY_BYTES_MAX,
    NEVER,
    OWNER_BYTES_MAX,
    REASON_BYTES_MAX,
)
from journal.core.rows import Row
from journal.core.schema import Schema
from journal.core.settings import Settings
from journal.core.times import DateLike, DurationLike, date_ms, duration_ms
from journal.errors import Invalid

T = TypeVar("T")
Pack = Callable[[Any], bytes]
"""The bytes that are stored of data: `rows.pack_data`, or the check of data that comes packed."""
Checked = Callable[[Schema | None, UserKey | None, Any], tuple[UserKey, Any]]
"""`checked`, or the same for data that comes packed."""
AVAILABLE = "A"
"""The status of what waits and is due now; no entry carries it, since it changes with the time."""
_ENTRY_HEAD = 44
ENTRY_OVERHEAD_MAX = _ENTRY_HEAD + KEY_BYTES_MAX
_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function


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


def wanted(
    key: UserKey,
    data: Any,
    priority: int,
    process_date: DateLike | None,
    delay: DurationLike | None,
    expiration: DateLike | None,
    insertion_date: DateLike | None,
    owner: str | None,
    entry_bytes_max: int,
    pack: Pack,
) -> Wanted:
    """Check the arguments of a put."""
    raw = key.encode() if type(key) is str and key.isascii() and 0 < len(key) <= 1024 else key_bytes(key)
    packed = pack(data)
    owner_raw = b"" if owner is None else owner_bytes(owner)
    if _ENTRY_HEAD + len(owner_raw) + len(raw) + len(packed) > entry_bytes_max:
        raise Invalid(
            f"the entry {key!r} has {_ENTRY_HEAD + len(owner_raw) + len(raw) + len(packed)} bytes, more than "
            f"entry_bytes_max ({entry_bytes_max}): put a reference to the data, or raise the setting"
        )
    if type(priority) is not int or not 0 <= priority <= 255:
        check_priority(priority)
    if process_date is not None and delay is not None:
        raise Invalid("give process_date or delay, not both")
    if process_date is None and insertion_date is None and expiration is None:
        later = 0 if delay is None else duration_ms(delay, "delay")
        return _new(Wanted, (key, raw, packed, priority, None, later, 0, None, owner_raw))
    return Wanted(
        key,
        raw,
        packed,
        priority,
        None if process_date is None else date_ms(process_date, "process_date"),
        0 if delay is None else duration_ms(delay, "delay"),
        0 if expiration is None else date_ms(expiration, "expiration"),
        None if insertion_date is None else date_ms(insertion_date, "insertion_date"),
        owner_raw,
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


def row_of(want: Wanted, slot: bytes, now: int, offset: int) -> Row:
    """The row that a put asks for."""
    insertion, accepted, date = dates_of(want, now)
    return Row(
        primary_key(want.priority, date, slot), insertion, want.expiration, accepted, offset, 1, 0, want.owner, want.key,
        want.data,
    )  # fmt: skip


def check_priority(priority: int) -> int:
    """A priority is one byte."""
    if type(priority) is not int or not 0 <= priority <= 255:
        raise Invalid(f"priority is {priority!r}: it must be an int from 0 (first) to 255 (last)")
    return priority


def version_number(version: int | None) -> int | None:
    """A version that a caller expects."""
    if version is not None and type(version) is not int:
        raise Invalid(f"version is {version!r}: it must be an int")
    return version


def listed(items: Iterable[T], name: str) -> list[T]:
    """What a caller gave as a list."""
    try:
        return list(items)
    except TypeError as e:
        raise Invalid(f"{name} takes a list, not {items!r}") from e


def owner_bytes(owner: str | None) -> bytes:
    """The producer group as it is stored."""
    return b"" if owner is None else _text(owner, "owner", OWNER_BYTES_MAX, 1)


def consumer_name(consumer: str) -> str:
    """A consumer's name."""
    _text(consumer, "consumer", CONSUMER_BYTES_MAX, 0)
    return consumer


def reason_text(reason: str) -> str:
    """Why an entry was given up."""
    _text(reason, "reason", REASON_BYTES_MAX, 0)
    return reason


def name_text(name: str, what: str, bytes_max: int) -> str:
    """A name: of a flag, of a peer."""
    _text(name, what, bytes_max, 1)
    return name


def _text(value: str, name: str, bytes_max: int, bytes_min: int) -> bytes:
    if not isinstance(value, str):
        raise Invalid(f"{name} must be a text, not {value!r}")
    try:
        raw = value.encode()
    except UnicodeEncodeError as e:
        raise Invalid(f"{name} {value!r} has lone surrogates") from e
    if not bytes_min <= len(raw) <= bytes_max:
        raise Invalid(f"{name} has {bytes_min} to {bytes_max} bytes, this one has {len(raw)}")
    return raw


def lease_ms(lease: DurationLike) -> int:
    """How long a lease lasts."""
    ms = duration_ms(lease, "lease")
    if ms < 1:
        raise Invalid("a lease lasts at least 1 ms")
    return ms


def part_of(buckets: Range | None, settings: Settings) -> Range | None:
    """The range of buckets that a consumer claims by; None: over all, also when it has all of them."""
    if buckets is None:
        return None
    if not isinstance(buckets, Range):
        raise Invalid(f"buckets is {buckets!r}: it must be a journal.Range, e.g. journal.Range.parse('0-3'), or None")
    return None if len(buckets.within(settings.buckets)) == settings.buckets else buckets


def status_of(status: str | None) -> str | None:
    """W, P, A or None from what callers write."""
    if status is None:
        return None
    known = {"W": "W", "P": "P", "waiting": "W", "processing": "P", "available": AVAILABLE}
    if type(status) is not str or status not in known:
        raise Invalid(
            f"status is {status!r}: it must be 'waiting' (W), 'processing' (P), 'available' (waiting, and due now) or None "
            "for all"
        )
    return known[status]


def date_range(since: DateLike | None, until: DateLike | None) -> tuple[int, int]:
    """The process dates from the first up to, and without, the second."""
    return 0 if since is None else date_ms(since, "since"), NEVER if until is None else date_ms(until, "until")


def limit_number(limit: int) -> int:
    """How many entries a page may have."""
    if type(limit) is not int or not 1 <= limit <= GROUP_MAX:
        raise Invalid(f"limit is {limit!r}: it must be an int from 1 to {GROUP_MAX}")
    return limit


def page_start(after: str | None) -> bytes:
    """Where a page begins, from what the one before it said."""
    if after is None:
        return b""
    try:
        primary = bytes.fromhex(after)
    except (TypeError, ValueError):
        primary = b""
    if len(primary) != PRIMARY_BYTES:
        raise Invalid(f"after is {after!r}: it must be what the page before this one has as `after`, or None")
    return primary + b"\0"


def bucket_bounds(buckets: Range | None, settings: Settings) -> tuple[bytes, bytes] | None:
    """Between which slots the entries of a range of buckets are; None for all."""
    if buckets is None:
        return None
    if not isinstance(buckets, Range):
        raise Invalid(f"buckets is {buckets!r}: it must be a journal.Range, or None for all of them")
    return buckets.murmurs(settings.buckets)
