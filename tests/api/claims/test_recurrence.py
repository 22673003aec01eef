"""`done(next=Put(…))`: the end of an attempt and what comes after it, both or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import journal
from journal import Lease, Put
from journal.testing import ManualClock
from tests.engine.helpers import collide

Copy = Callable[[journal.Store], Path]


def claimed(pages: journal.Journal, **options: Any) -> Lease:
    lease = pages.claim(**options)
    assert lease is not None
    return lease


@pytest.fixture
def lease(pages: journal.Journal) -> Lease:
    """Key "a" is processing its first data."""
    pages.put("a", "first", priority=50)
    return claimed(pages, lease="10s")


def test_the_same_key_takes_the_place_of_what_is_done(pages: journal.Journal, lease: Lease, clock: ManualClock) -> None:
    """With the data and the place of the put, a version that goes on, and no failures."""
    result = lease.done(next=Put("a", "second", priority=70, delay="1s"))
    assert result is not None
    assert (result.outcome, result.process_date, result.priority) == ("inserted", clock.now() + 1000, 70)
    entry = pages.get("a")
    assert entry is not None
    assert (entry.data, entry.priority, entry.status, entry.timeouts) == ("second", 70, "W", 0)
    assert (entry.version, entry.process_date) == (result.version, result.process_date)
    assert entry.version > lease.version
    assert pages.count() == 1 and pages.claim() is None
    clock.advance(1000)
    assert claimed(pages).data == "second"


def test_another_key_is_put_as_by_any_put(pages: journal.Journal, lease: Lease) -> None:
    """New: inserted. Waiting: merged. Processing: queued behind it."""
    pages.put("waits", 1, priority=200, delay="1h")
    pages.put("held", 1)
    held = claimed(pages)
    assert lease.done(next=Put("b", 2)).outcome == "inserted"  # type: ignore[union-attr]
    other = claimed(pages)
    assert other.key == "b"
    assert other.done(next=Put("waits", 2)).outcome == "merged"  # type: ignore[union-attr]
    pages.put("c")
    assert claimed(pages).done(next=Put("held", 2)).outcome == "queued"  # type: ignore[union-attr]
    held.done()
    assert sorted((e.key, e.data) for e in pages.scan()) == [("held", 2), ("waits", 2)]


@pytest.mark.parametrize("is_closed", [False, True])
def test_a_crash_leaves_both_or_none(
    store: journal.Store, pages: journal.Journal, lease: Lease, crashed: Copy, is_closed: bool
) -> None:
    """Replayed from the log, or read from the rows: one record has it all."""
    lease.done(next=Put("a", "again"))
    pages.put("x")
    second = pages.claim_key("a")
    before = pages.statistics()["next_offset"]
    second.done(next=Put("b", "after"))
    assert pages.statistics()["next_offset"] == before + 2
    if is_closed:
        store.checkpoint()
    with journal.open(crashed(store), clock=ManualClock(1_700_000_000_000)) as again:
        there = again.journal("pages")
        assert sorted((e.key, e.data) for e in there.scan()) == [("b", "after"), ("x", None)]
        result = there.done(second.token, next=Put("b", "after"))
        assert result is not None and result.outcome == "repeated"
        assert again.check() == []


def test_a_successor_is_met_by_the_rules(store: journal.Store) -> None:
    """It takes the place first; then the put merges into it, replaces it, or gives way to it."""
    for preset, data, outcome in (
        ("merge", "next", "merged"),
        ("replace", "next", "merged"),
        ("keep", "queued", "ignored"),
    ):
        pages = store.journal(preset, merge=preset)
        pages.put("a", "first")
        lease = claimed(pages)
        pages.put("a", "queued", priority=10)
        result = lease.done(next=Put("a", "next", priority=20))
        entry = pages.get("a")
        assert result is not None and entry is not None
        assert (result.outcome, entry.data, entry.version) == (outcome, data, result.version)
        assert entry.priority == (20 if preset == "replace" else 10)
        assert pages.statistics()["successors"] == 0


def test_repeating_it_does_not_put_twice(pages: journal.Journal, lease: Lease) -> None:
    """Who got no answer asks again; also when somebody has finished what was put meanwhile."""
    first = lease.done(next=Put("b", 1))
    assert first is not None
    again = lease.done(next=Put("b", 1))
    assert again is not None and (again.outcome, again.version, again.cursor) == ("repeated", 1, first.cursor)
    claimed(pages).done()
    gone = lease.done(next=Put("b", 1))
    assert gone is not None and (gone.outcome, gone.version) == ("repeated", 0)
    assert pages.count() == 0
    lease.done()


@pytest.mark.parametrize(
    ("put", "error"),
    [
        (Put("", 1), journal.Invalid),
        (Put("b", object()), journal.Invalid),
        (Put("b", 1, process_date=5, insertion_date=6), journal.Invalid),
        (Put("owned", 1), journal.NotOwner),
        ("b", journal.Invalid),
    ],
)
def test_a_refused_put_refuses_the_whole(
    pages: journal.Journal, lease: Lease, put: Any, error: type[Exception]
) -> None:
    """Nothing is changed, and the lease goes on."""
    pages.put("owned", owner="producer")
    before = sorted(map(repr, pages.scan()))
    with pytest.raises(error):
        lease.done(next=put)
    assert sorted(map(repr, pages.scan())) == before
    lease.extend("20s")
    lease.done()


def test_a_schema_checks_what_comes_next(store: journal.Store) -> None:
    """And forms its key."""
    pages = store.journal("typed", schema=journal.Schema([journal.Field("n", "int")], key=["n"]))
    pages.put(None, {"n": 1})
    lease = claimed(pages)
    with pytest.raises(journal.Invalid):
        lease.done(next=Put(None, {"n": "two"}))
    lease.done(next=Put(None, {"n": 2}))
    assert [e.key for e in pages.scan()] == ["2"]


def test_a_late_holder_puts_nothing(pages: journal.Journal, lease: Lease, clock: ManualClock) -> None:
    """The lease is lost, so is what it wanted."""
    clock.advance(10_000)
    with pytest.raises(journal.LeaseLost):
        lease.done(next=Put("b", 1))
    assert pages.get("b") is None


def test_the_owner_stays(pages: journal.Journal) -> None:
    """A consumer that goes on with an owned key does not take it away; nor may it give it to somebody else."""
    pages.put("a", 1, owner="producer")
    lease = claimed(pages)
    with pytest.raises(journal.NotOwner):
        lease.done(next=Put("a", 2, owner="other"))
    lease.done(next=Put("a", 2))
    assert [(e.data, e.owner) for e in pages.scan()] == [(2, "producer")]


def test_many_are_one_record(pages: journal.Journal, store: journal.Store) -> None:
    """Each with its put or without, each seeing what those before it did; what is refused leaves its lease."""
    pages.put_many([Put(key, 0) for key in "abcde"])
    held = {lease.key: lease for lease in pages.claim_many(5)}
    leases = [held[key] for key in "abcde"]
    before = pages.statistics()["syncs"]
    results = pages.done_many(
        leases,
        next=[
            Put("a", 1),
            Put("c", 1),
            Put("x", 1),
            None,
            Put("", 1),
        ],  # c is processing when b's comes, and done after
    )
    assert [getattr(r, "outcome", type(r)) for r in results] == [
        "inserted",
        "queued",
        "inserted",
        type(None),
        journal.Invalid,
    ]
    assert pages.statistics()["syncs"] - before == 1
    assert sorted((e.key, e.data, e.status) for e in pages.scan()) == [
        ("a", 1, "W"), ("c", 1, "W"), ("e", 0, "P"), ("x", 1, "W"),
    ]  # fmt: skip
    again = pages.done_many(leases[:2], next=[Put("a", 1), None])
    assert [getattr(r, "outcome", None) for r in again] == ["repeated", None]
    with pytest.raises(journal.Invalid):
        pages.done_many(leases, next=[None])


def test_keys_that_collide_keep_apart(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """New keys of one hash in one group have slots of their own, also beside what is done."""
    collide(monkeypatch, 1)
    pages.put_many([Put("a"), Put("b")])
    leases = pages.claim_many(2)
    pages.done_many(leases, next=[Put("c", 1), Put("d", 2)])
    assert sorted((e.key, e.data) for e in pages.scan()) == [("c", 1), ("d", 2)]


def test_the_feed_tells_what_became_of_each_key(pages: journal.Journal, lease: Lease) -> None:
    """The same key: an update with its data. Another: a delete, then what the put did, in order."""
    with pages.feed(live=False) as feed:
        start = [event.cursor for event in feed][-1]
    lease.done(next=Put("a", "second"))
    claimed(pages).done(next=Put("b", "third"))
    changes = [(e.op, e.verb, e.key, e.data) for e in pages.changes(start, pages.durable_cursor)]
    assert changes == [
        ("update", "done", "a", "second"),
        ("update", "claim", "a", None),
        ("delete", "done", "a", None),
        ("insert", "put", "b", "third"),
    ]


def test_the_log_keeps_what_was_before(store: journal.Store) -> None:
    """With log_old, also of what is done and put in one change."""
    pages = store.journal("old", log_old=True)
    pages.put("a", 1)
    claimed(pages).done(next=Put("a", 2))
    claimed(pages).done(next=Put("b", 3))
    with pages.feed(live=False) as feed:
        found = [(e.verb, e.key, e.old) for e in feed if e.verb in ("done", "put")]
    assert found == [("put", "a", None), ("done", "a", 1), ("done", "a", 2), ("put", "b", None)]


def test_an_entry_of_an_older_generation_goes_on_in_the_active_one(
    store: journal.Store, pages: journal.Journal, lease: Lease
) -> None:
    """What comes next is new work."""
    pages.rotate()
    lease.done(next=Put("a", 2))
    assert [g.entries for g in pages.generations() if g.state == "active"] == [1]
    entry = pages.get("a")
    assert entry is not None and entry.data == 2
