"""
What callers pass, checked: the arguments of verbs, wherever they are carried out.

A program that switches between an embedded store and a daemon gets the same errors with the same texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import TypeVar

from journal.core.entry.keys import PRIMARY_BYTES, UserKey
from journal.core.limits import CONSUMER_BYTES_MAX, GROUP_MAX, NEVER, OWNER_BYTES_MAX, REASON_BYTES_MAX, VERSION_MAX
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.times import DateLike, DurationLike, date_ms, duration_ms
from journal.errors import Invalid

T = TypeVar("T")
_WHERE, _OFFSET = itemgetter(0), itemgetter(1)
_ORDER = itemgetter(0)
AVAILABLE = "A"
"""The status of what waits and is due now; no entry carries it, since it changes with the time."""
BURIED = "B"
_STATUS = {
    "W": "W", "P": "P", "waiting": "W", "processing": "P", "available": AVAILABLE, "B": BURIED, "buried": BURIED,
}  # fmt: skip
LEVELS = "full", "interval", "none"
"""How durable a change is when its call returns."""
BURIED_BYTES = 24
"""The place of a buried entry: an offset and a murmur."""


def check_priority(priority: int) -> int:
    """A priority is one byte."""
    if type(priority) is not int or not 0 <= priority <= 255:
        raise Invalid(f"priority is {priority!r}: it must be an int from 0 (first) to 255 (last)")
    return priority


def check_level(durability: str | None) -> None:
    """How durable a change shall be; None: as the store says."""
    if durability is not None and durability not in LEVELS:
        raise Invalid(f"durability is {durability!r}: it must be one of {', '.join(LEVELS)}")


def version_number(version: int | None) -> int | None:
    """A version that a caller expects."""
    if version is not None and (type(version) is not int or not 0 <= version <= VERSION_MAX):
        raise Invalid(f"version is {version!r}: it must be an int from 0 to {VERSION_MAX}")
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


def status_of(status: str | None) -> str | None:
    """W, P, A or None from what callers write."""
    if status is None:
        return None
    if type(status) is not str or status not in _STATUS:
        raise Invalid(
            f"status is {status!r}: it must be 'waiting' (W), 'processing' (P), 'available' (waiting, and due now), 'buried' (B) "
            "or None for all that are not buried"
        )
    return _STATUS[status]


def selectable(status: str | None) -> str | None:
    """A status that entries in the order of work can have."""
    if status == BURIED:
        raise Invalid(
            "buried entries are not in the order of work: use buried(limit=…, after=…), or scan(status='buried')"
        )
    return status


def check_prefix(prefix: UserKey | None) -> UserKey | None:
    """What keys begin with, of the same type as those keys."""
    if prefix is not None and type(prefix) not in (str, bytes):
        raise Invalid(f"prefix is {prefix!r}: it must be a text or bytes, as keys are")
    return prefix


def buried_start(after: str | None) -> bytes:
    """Where a page of buried entries begins, from what the one before it said."""
    try:
        place = b"" if after is None else bytes.fromhex(after)
    except (TypeError, ValueError):
        place = b"?"
    if place and len(place) != BURIED_BYTES:
        raise Invalid(f"after is {after!r}: it must be what the page before this one has as `after`, or None")
    return place


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


def run_of(which: object) -> tuple[int, int, int] | None:
    """
    The generation, the first and the last offset of events in a list, one after the other as a feed gave them; None of anything else.

    Most of what is acknowledged at a time is that, and it takes a fifth of the time that a look at each of them would.
    """
    if type(which) is not list or not which or set(map(type, which)) != {Event}:
        return None
    offsets = list(map(_OFFSET, which))
    first, last = offsets[0], offsets[-1]
    if offsets != list(range(first, first + len(offsets))) or len(orders := set(map(_ORDER, map(_WHERE, which)))) != 1:
        return None
    return orders.pop(), first, last


def cursors_of(which: object) -> list[Cursor]:
    """The cursors of changes that a follower means: cursors or events, one or many."""
    if isinstance(which, (Cursor, Event)):
        which = (which,)
    elif isinstance(which, (str, bytes)) or not isinstance(which, Iterable):
        raise Invalid(f"{which!r} is neither a journal.Cursor nor an event of the feed, nor a list of them")
    found = []
    for each in which:
        if isinstance(each, Event):
            found.append(each.cursor)
        elif isinstance(each, Cursor):
            found.append(each)
        else:
            raise Invalid(f"{each!r} is neither a journal.Cursor nor an event of the feed")
    return found


def token_of(lease: object) -> int:
    """The token of a lease, or a token."""
    if type(lease) is int:
        return lease
    token = getattr(lease, "token", None)
    if type(token) is not int:
        raise Invalid(f"expected a Lease or its token (an int), not {lease!r}")
    return token
