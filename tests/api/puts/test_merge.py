"""Putting a key again: presets, stale dates, the cap on postponing, expiration 0."""

from __future__ import annotations

import pytest

import journal
from journal import Entry
from journal.testing import ManualClock


def put_twice(pages: journal.Journal, clock: ManualClock) -> tuple[str, Entry]:
    """The same two puts, 10 ms apart, for every preset."""
    now = clock.now()
    pages.put("a", "old", priority=50, delay=100, expiration=now + 500)
    clock.advance(10)
    outcome = pages.put("a", "new", priority=90, delay=40, expiration=now + 300).outcome
    entry = pages.get("a")
    assert entry is not None
    return outcome, entry


@pytest.mark.parametrize(
    ("preset", "outcome", "expected"),
    [
        ("merge", "merged", ("new", 50, 100, 0, 500, 2)),
        ("keep", "ignored", ("old", 50, 100, 0, 500, 1)),
        ("replace", "merged", ("new", 90, 50, 10, 300, 2)),
        ("debounce", "merged", ("new", 50, 50, 0, 500, 2)),
    ],
)
def test_presets(
    store: journal.Store, clock: ManualClock, preset: str, outcome: str, expected: tuple[object, ...]
) -> None:
    """Data, priority, process date, insertion date, expiration, version."""
    now = clock.now()
    said, e = put_twice(store.journal(preset, merge=preset), clock)
    found = (e.data, e.priority, e.process_date - now, e.insertion_date - now, e.expiration - now, e.version)
    assert (said, found) == (outcome, expected)
    assert store.journal(preset).count() == 1


def test_the_preset_may_change_while_the_journal_is_open(store: journal.Store) -> None:
    """From then on the new rules apply, to entries that are there too."""
    pages = store.journal("pages")
    pages.put("a", 1)
    store.journal("pages", merge="keep")
    assert pages.put("a", 2).outcome == "ignored"
    store.journal("pages", merge="merge")
    assert pages.put("a", 3).outcome == "merged"


def test_an_older_insertion_date_changes_nothing(pages: journal.Journal, clock: ManualClock) -> None:
    """Only the latest data is kept; the same millisecond counts as newer."""
    now = clock.now()
    pages.put("a", "latest", insertion_date=now)
    before = pages.get("a")
    stale = pages.put("a", "older", insertion_date=now - 1, process_date=now + 99, priority=0)
    assert (stale.outcome, stale.version, stale.priority, stale.process_date) == ("ignored", 1, 100, now)
    assert pages.get("a") == before
    assert pages.put("a", "same", insertion_date=now).outcome == "merged"


def test_stale_is_measured_against_the_last_accepted_put(pages: journal.Journal, clock: ManualClock) -> None:
    """The insertion date shown is the first one's; what counts is the last accepted one."""
    now = clock.now()
    pages.put("a", 1, insertion_date=now - 100)
    pages.put("a", 2, insertion_date=now - 50)
    assert pages.put("a", 3, insertion_date=now - 60).outcome == "ignored"
    entry = pages.get("a")
    assert entry is not None and (entry.data, entry.insertion_date) == (2, now - 100)


def test_stale_survives_release_timeout_and_reopen(store: journal.Store, clock: ManualClock) -> None:
    """A lease does not make the engine forget what was accepted last."""
    pages = store.journal("pages")
    now = clock.now()
    pages.put("a", 2, insertion_date=now - 50)
    lease = pages.claim(lease=10)
    assert lease is not None
    lease.release()
    assert pages.put("a", 1, insertion_date=now - 51).outcome == "ignored"
    assert pages.claim(lease=10) is not None
    clock.advance(10)
    assert pages.put("a", 1, insertion_date=now - 51).outcome == "ignored"
    entry = pages.get("a")
    assert entry is not None and (entry.data, entry.timeouts) == (2, 1)


def test_a_merge_forgets_the_timeouts(pages: journal.Journal, clock: ManualClock) -> None:
    """New data is a new try."""
    pages.put("a")
    assert pages.claim(lease=10) is not None
    clock.advance(10)
    entry = pages.get("a")
    assert entry is not None and entry.timeouts == 1
    pages.put("a")
    entry = pages.get("a")
    assert entry is not None and entry.timeouts == 0


@pytest.mark.parametrize(("first", "second", "merged"), [(0, 50, 0), (50, 0, 0), (50, 60, 60), (60, 50, 60)])
def test_expiration_zero_is_infinity(
    pages: journal.Journal, clock: ManualClock, first: int, second: int, merged: int
) -> None:
    """The largest wins and never is the largest; leaving it out is never."""
    now = clock.now()
    for life in (first, second):
        pages.put("a", delay=1000, expiration=now + life if life else None)
    entry = pages.get("a")
    assert entry is not None and entry.expiration == (now + merged if merged else 0)
    clock.advance(70)
    assert (pages.get("a") is None) == bool(merged)


def test_postpone_max_keeps_a_hot_key_from_starving(store: journal.Store, clock: ManualClock) -> None:
    """Measured from the insertion date of the first put."""
    pages = store.journal("pages", postpone_max="1s")
    start = clock.now()
    for _ in range(30):
        pages.put("hot", delay=500)
        clock.advance(100)
        if pages.claim() is not None:
            break
    assert clock.now() - start == 1000


def test_postpone_max_pulls_nothing_forward(store: journal.Store, clock: ManualClock) -> None:
    """An entry that was put later than the cap in the first place stays where it is."""
    pages = store.journal("pages", postpone_max="1s")
    pages.put("a", delay=5000)
    assert pages.put("a", delay=9000).process_date == clock.now() + 5000
    assert pages.put("b", delay=5000).process_date == clock.now() + 5000


def test_without_a_cap_puts_push_as_far_as_they_ask(pages: journal.Journal, clock: ManualClock) -> None:
    """The seed's rule: the process date is the largest."""
    pages.put("a")
    assert pages.put("a", delay="1d").process_date == clock.now() + 86_400_000
    assert pages.put("a", delay="1h").process_date == clock.now() + 86_400_000


def test_a_merge_moves_the_entry_in_the_order_of_work(pages: journal.Journal) -> None:
    """A smaller priority brings it forward, and there is one entry, not two."""
    pages.put("a", priority=150)
    pages.put("b", priority=100)
    pages.put("a", priority=50)
    assert [lease.key for lease in pages.claim_many(10)] == ["a", "b"]
