"""The verbs of readers as calls. What they do says journal.Journal; see journal.net.client.calls.call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from journal.core.arguments import (
    AVAILABLE,
    BURIED,
    buried_start,
    check_prefix,
    consumer_name,
    limit_number,
    listed,
    owner_bytes,
    page_start,
    reason_text,
    selectable,
    status_of,
)
from journal.core.buckets import Range
from journal.core.entry.keys import UserKey, key_bytes
from journal.core.forecast.forecast import Forecast
from journal.core.limits import LIST_MAX
from journal.core.quoting import shown
from journal.core.times import DateLike, DurationLike, date_ms, duration_ms
from journal.core.values import Buried, BuriedPage, Entry, Page
from journal.errors import FrameError, Invalid
from journal.net.client.calls.call import Call, Steps, as_it_is, call, part_of_list
from journal.net.client.calls.claims import buckets_text
from journal.net.wire.values import buried_from, entry_from, forecast_from, page_from

SCANNED = 500
"""Entries of one page of a scan."""
LOOK_UPS = 1000
_WORDS = {"W": "waiting", "P": "processing", AVAILABLE: "available", BURIED: "buried"}


def get(journal: str, key: UserKey) -> Call[Entry | None]:
    """The entry with this key, or None."""
    key_bytes(key)
    return call("GET", journal, _entry_or_none, key=key)


def get_many(journal: str, keys: Iterable[UserKey]) -> Steps[list[Entry | None]]:
    """The entries with these keys, None for each that there is not, in order."""
    wanted = listed(keys, "get_many")
    for key in wanted:
        key_bytes(key)
    return _get_many(journal, wanted)


def _get_many(journal: str, keys: list[UserKey]) -> Steps[list[Entry | None]]:
    found: list[Entry | None] = []
    while len(found) < len(keys):
        rows = yield call("GET_MANY", journal, as_it_is, keys=keys[len(found) : len(found) + LOOK_UPS])
        if not rows:
            raise FrameError(f"GET_MANY was answered with {shown(rows)}, which gets nowhere")
        found += map(_entry_or_none, rows)
    return found


def select(
    journal: str,
    *,
    buckets: Range | None = None,
    since: DateLike | None = None,
    until: DateLike | None = None,
    status: str | None = None,
    owner: str | None = None,
    consumer: str | None = None,
    limit: int = 100,
    after: str | None = None,
) -> Steps[Page]:
    """
    Entries in the order of work: of a range of buckets, with `since <= process date < until`, of a status, of an owner,
    under the leases of a consumer; all that is given must hold.

    A status is "waiting", "processing", or "available": waiting, and due now. A page that `has_more` says where to go on.
    """
    wanted = _filter(status, since, until, owner, consumer, buckets)
    selectable(status_of(status))
    return _pages("SELECT", journal, wanted, limit_number(limit), _after(after))


def entries_of(journal: str, owner: str, *, limit: int = 100, after: str | None = None) -> Steps[Page]:
    """The entries of a producer group in the order of work, processing ones too."""
    limit_number(limit)
    return _pages("ENTRIES_OF", journal, {"owner": _group(owner)}, limit, _after(after))


def _pages(command: str, journal: str, wanted: dict[str, Any], limit: int, after: bytes | None) -> Steps[Page]:
    """One page, however many frames it takes."""
    entries: list[Entry] = []
    while True:
        rest = min(limit - len(entries), LIST_MAX)
        page: Page = yield call(command, journal, page_from, **wanted, limit=rest, after=after)
        entries += page.entries
        if not page.has_more or len(entries) >= limit:
            return Page(entries, page.has_more, page.after)
        after = _after(page.after)


def scan(*, status: str | None = None, since: DateLike | None = None, until: DateLike | None = None) -> dict[str, Any]:
    """What a scan is of, checked; `scanned` asks for its pages."""
    return _filter(status, since, until, None, None, None)


def scanned(journal: str, wanted: dict[str, Any], after: str | None) -> Call[Page]:
    """A page of a scan."""
    start = None if after is None else bytes.fromhex(after)
    return call("SCAN", journal, page_from, **wanted, limit=SCANNED, after=start)


def count(
    journal: str,
    *,
    status: str | None = None,
    since: DateLike | None = None,
    until: DateLike | None = None,
    owner: str | None = None,
    consumer: str | None = None,
    buckets: Range | None = None,
) -> Call[int]:
    """How many entries there are, with `since <= process date < until`, or "buried" ones; see `select` for what else can be asked."""
    return call("COUNT", journal, as_it_is, **_filter(status, since, until, owner, consumer, buckets))


def count_of(journal: str, owner: str) -> Call[int]:
    """How many entries a producer group has."""
    return call("COUNT_OF", journal, as_it_is, owner=_group(owner))


def owners(journal: str) -> Steps[dict[str, int]]:
    """The producer groups that have entries, and how many."""
    found: dict[str, int] = {}
    after: bytes | None = None
    while True:
        answer = yield call("OWNERS", journal, as_it_is, after=after)
        rows, after = part_of_list(answer, "owners")
        for owner, number in rows:
            found[owner] = found.get(owner, 0) + number
        if after is None:
            return dict(sorted(found.items()))


def buried(
    journal: str,
    *,
    prefix: UserKey | None = None,
    reason: str | None = None,
    limit: int | None = None,
    after: str | None = None,
) -> Steps[BuriedPage]:
    """
    The entries that were given up on, in the order of burial; those whose key begins with `prefix`, and whose reason has this text.

    With `limit` a page of so many, which says where to go on (`after`).
    """
    check_prefix(prefix)
    if reason is not None:
        reason_text(reason)
    if limit is not None:
        limit_number(limit)
    return _buried(journal, {"prefix": prefix, "reason": reason}, limit, buried_start(after) or None)


def _buried(journal: str, which: dict[str, Any], limit: int | None, after: bytes | None) -> Steps[BuriedPage]:
    found: list[Buried] = []
    while True:
        rest = LIST_MAX if limit is None else min(limit - len(found), LIST_MAX)
        answer = yield call("BURIED", journal, as_it_is, **which, limit=rest, after=after)
        rows, after = part_of_list(answer, "buried")
        found += map(buried_from, rows)
        if after is None or len(found) == limit:
            return BuriedPage(found, None if after is None else after.hex())


def forecast(
    journal: str, *, step: DurationLike = "1m", horizon: DurationLike = "1h", since: DateLike | None = None
) -> Call[Forecast]:
    """
    How many entries fall due in each of the coming steps, by priority and status; from now on, or from a date.

    Read from the keys alone, no payload is touched. See `journal.core.forecast.forecast` for what it tells.
    """
    return call(
        "FORECAST", journal, forecast_from, step=_span(step, "step"), horizon=_span(horizon, "horizon"),
        since=None if since is None else date_ms(since, "since"),
    )  # fmt: skip


def statistics(journal: str) -> Call[dict[str, Any]]:
    """Counters and sizes, cheap to read."""
    return call("STATISTICS", journal, as_it_is)


def _filter(
    status: str | None,
    since: DateLike | None,
    until: DateLike | None,
    owner: str | None,
    consumer: str | None,
    buckets: Range | None,
) -> dict[str, Any]:
    word = status_of(status)
    if owner is not None:
        owner_bytes(owner)
    if consumer is not None:
        consumer_name(consumer)
    return {
        "status": None if word is None else _WORDS[word],
        "since": None if since is None else date_ms(since, "since"),
        "until": None if until is None else date_ms(until, "until"),
        "owner": owner,
        "consumer": consumer,
        "buckets": buckets_text(buckets),
    }


def _span(span: DurationLike, name: str) -> int:
    ms = duration_ms(span, name)
    if ms < 1:
        raise Invalid(f"{name} must be at least 1 ms")
    return ms


def _group(owner: str) -> str:
    if owner is None:
        raise Invalid("owner is None: entries that nobody owns are in no index; give the name of a producer group")
    owner_bytes(owner)
    return owner


def _after(after: str | None) -> bytes | None:
    """Where a page begins; checked as the library does."""
    page_start(after)
    return None if after is None else bytes.fromhex(after)


def _entry_or_none(value: Any) -> Entry | None:
    return None if value is None else entry_from(value)
