"""Reading: the order of work, filters, ranges, pages; count says what scan shows."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product

import pytest

import journal
from journal import Put
from journal.testing import ManualClock


def filled(pages: journal.Journal, now: int) -> None:
    """Three priorities, five dates each; every second one that is due and fast is processing."""
    pages.put_many(
        [Put(f"{p}-{d}", priority=p, process_date=now + d) for p, d in product((0, 100, 255), (0, 1, 2, 500, 900))]
    )


def test_a_scan_is_in_the_order_of_work(pages: journal.Journal, clock: ManualClock) -> None:
    """Priority, then process date."""
    filled(pages, clock.now())
    assert [e.key for e in pages.scan()] == [f"{p}-{d}" for p, d in product((0, 100, 255), (0, 1, 2, 500, 900))]


@pytest.mark.parametrize("since", [None, 0, 1, 2, 500, 901])
@pytest.mark.parametrize("until", [None, 0, 1, 3, 500, 900, 2000])
@pytest.mark.parametrize(
    "status", [None, "W", "P", *(pytest.param(name, marks=pytest.mark.slow) for name in ("waiting", "processing"))]
)
def test_filters(
    pages: journal.Journal, clock: ManualClock, since: int | None, until: int | None, status: str | None
) -> None:
    """since <= process date < until, of one status; count agrees."""
    now = clock.now()
    filled(pages, now)
    clock.advance(2)
    taken = {lease.key for lease in pages.claim_many(4)}
    everything = list(pages.scan())
    expected = [
        e.key
        for e in everything
        if (since is None or e.process_date >= now + since)
        and (until is None or e.process_date < now + until)
        and (status is None or (e.key in taken) == (status[0] in "Pp"))
    ]
    options = {
        "status": status,
        "since": None if since is None else now + since,
        "until": None if until is None else now + until,
    }
    assert [e.key for e in pages.scan(**options)] == expected
    assert pages.count(**options) == len(expected)
    assert {e.key for e in everything if e.status == "P"} == taken


def test_ranges_take_datetimes(pages: journal.Journal, clock: ManualClock) -> None:
    """Aware ones, like every date."""
    pages.put("a")
    moment = datetime.fromtimestamp(clock.now() / 1000, UTC)
    assert pages.count(since=moment) == 1
    assert pages.count(until=moment) == 0


def test_wrong_filters_are_invalid(pages: journal.Journal) -> None:
    """At once, not at the first entry."""
    for options in ({"status": "X"}, {"status": 1}, {"since": "now"}, {"until": -1}, {"since": 1.5}, {"status": []}):
        with pytest.raises(journal.Invalid):
            pages.scan(**options)  # type: ignore[arg-type]
        with pytest.raises(journal.Invalid):
            pages.count(**options)  # type: ignore[arg-type]


def test_a_scan_goes_over_many_pages(pages: journal.Journal) -> None:
    """Each entry once, in order, however many there are; a range too."""
    pages.put_many([Put(f"{i:04}", i, priority=i % 7) for i in range(2000)])
    found = [(e.priority, e.data) for e in pages.scan()]
    assert len(set(found)) == 2000
    assert [p for p, _ in found] == sorted(p for p, _ in found)
    assert pages.count() == 2000


def test_a_scan_goes_on_while_entries_come_and_go(pages: journal.Journal) -> None:
    """What was there all along is seen once; nothing is seen twice."""
    pages.put_many([Put(f"{i:04}", priority=10) for i in range(1000)])
    seen = []
    for n, entry in enumerate(pages.scan()):
        seen.append(entry.key)
        if n % 100 == 0:
            pages.put(f"new{n}", priority=5)
            pages.delete(f"new{n - 100}")
    assert len(seen) == len(set(seen))
    assert {f"{i:04}" for i in range(1000)} <= set(seen)


def test_a_scan_that_is_left_alone_holds_nobody_up(pages: journal.Journal) -> None:
    """An iterator in the middle keeps no lock and no transaction."""
    pages.put_many([Put(f"{i}") for i in range(600)])
    scan = pages.scan()
    next(scan)
    pages.put("more")
    assert pages.claim() is not None
    assert pages.count() == 601


def test_an_empty_journal_has_nothing(pages: journal.Journal, clock: ManualClock) -> None:
    """No entry, no error."""
    assert list(pages.scan()) == []
    assert [pages.count(), pages.count(status="P"), pages.count(since=clock.now())] == [0, 0, 0]


def test_counts_follow_every_change(pages: journal.Journal, clock: ManualClock) -> None:
    """Waiting, processing, gone."""

    def counts() -> tuple[int, int, int]:
        return pages.count(), pages.count(status="waiting"), pages.count(status="processing")

    pages.put_many([Put("a"), Put("b"), Put("c")])
    assert counts() == (3, 3, 0)
    leases = pages.claim_many(2, lease="1s")
    assert counts() == (3, 1, 2)
    leases[0].done()
    assert counts() == (2, 1, 1)
    clock.advance(1000)
    assert counts() == (2, 2, 0)
    lease = pages.claim()
    assert lease is not None
    lease.bury()
    assert counts() == (1, 1, 0)
