"""Leases: tokens, late holders, repeated done, timeouts, extend, release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Lease
from journal.testing import ManualClock

Copy = Callable[[journal.Store], Path]


def claimed(pages: journal.Journal, **options: object) -> Lease:
    lease = pages.claim(**options)  # type: ignore[arg-type]
    assert lease is not None
    return lease


def verbs(pages: journal.Journal, token: int) -> list[Callable[[], object]]:
    """All that a holder can do, by token."""
    return [
        lambda: pages.done(token),
        lambda: pages.extend(token, "1h"),
        lambda: pages.release(token),
        lambda: pages.bury(token, "late"),
    ]


def test_a_lease_says_what_to_work_on(pages: journal.Journal, clock: ManualClock) -> None:
    """Key, data, place, deadline, counter, version, consumer, token."""
    pages.put("a", {"x": 1}, priority=7)
    lease = claimed(pages, consumer="backend-1", lease="30s")
    assert (lease.key, lease.data, lease.priority, lease.process_date) == ("a", {"x": 1}, 7, clock.now())
    assert (lease.deadline, lease.timeouts, lease.consumer) == (clock.now() + 30_000, 0, "backend-1")
    assert type(lease.token) is int
    entry = pages.get("a")
    assert entry is not None and entry.version == lease.version


def test_the_lease_time_is_the_journals_unless_given(store: journal.Store, clock: ManualClock) -> None:
    """processing_timeout, an hour by default."""
    pages = store.journal("pages")
    pages.put("a")
    lease = claimed(pages)
    assert lease.deadline == clock.now() + 3_600_000
    lease.release()
    store.journal("pages", processing_timeout="2s")
    assert claimed(pages).deadline == clock.now() + 2000


def test_nothing_due_is_none(pages: journal.Journal) -> None:
    """Not an error, and nothing is written."""
    before = pages.statistics()["next_offset"]
    assert pages.claim() is None
    assert pages.claim_many(5) == []
    assert pages.statistics()["next_offset"] == before


def test_done_removes_the_entry(pages: journal.Journal) -> None:
    """The key is free for a new entry."""
    pages.put("a")
    claimed(pages).done()
    assert pages.get("a") is None
    assert pages.leases() == []
    assert pages.put("a").outcome == "inserted"


def test_done_twice_succeeds_and_changes_nothing(pages: journal.Journal) -> None:
    """A lost reply is retried, even when the key is back and leased to another."""
    pages.put("a", 1)
    lease = claimed(pages)
    lease.done()
    lease.done()
    pages.put("a", 2)
    other = claimed(pages)
    before = pages.statistics()["next_offset"]
    pages.done(lease.token)
    assert pages.done_many([lease, lease.token]) == [None, None]
    assert pages.statistics()["next_offset"] == before
    entry = pages.get("a")
    assert entry is not None and (entry.data, entry.status) == (2, "P")
    other.done()


@pytest.mark.parametrize("how", ["close", "crash", "checkpoint and crash"])
def test_done_is_remembered_over_a_reopen(tmp_path: Path, crashed: Copy, how: str) -> None:
    """Repeating it succeeds; a token that was never given does not."""
    opened = journal.open(tmp_path / "s")
    pages = opened.journal("pages")
    pages.put("a")
    lease = claimed(pages)
    lease.done()
    if how == "checkpoint and crash":
        opened.checkpoint()
    path = opened.path if how == "close" else crashed(opened)
    opened.close()
    for _ in range(3):
        with journal.open(path) as again:
            again.journal("pages").done(lease.token)
            with pytest.raises(journal.LeaseLost):
                again.journal("pages").done(lease.token + 1)
            assert again.check() == []


def test_a_late_holder_can_do_nothing(pages: journal.Journal, clock: ManualClock) -> None:
    """At the very millisecond of the deadline, and when the entry is leased again."""
    pages.put("a")
    late = claimed(pages, lease=100)
    clock.advance(100)
    before = pages.get("a")
    for verb in verbs(pages, late.token):
        with pytest.raises(journal.LeaseLost):
            verb()
    assert pages.get("a") == before
    holder = claimed(pages)
    before = pages.get("a")
    for verb in [*verbs(pages, late.token), late.done, late.extend, late.release, late.bury]:
        with pytest.raises(journal.LeaseLost):
            verb()
    assert pages.get("a") == before
    assert pages.buried() == []
    holder.done()


@pytest.mark.parametrize("end", ["release", "bury", "done"])
def test_an_ended_lease_is_lost(pages: journal.Journal, end: str) -> None:
    """Whoever ended it, its token names nothing any more; only a repeated done is fine."""
    pages.put("a")
    lease = claimed(pages)
    getattr(lease, end)()
    for verb in verbs(pages, lease.token)[1 if end == "done" else 0 :]:
        with pytest.raises(journal.LeaseLost):
            verb()


@pytest.mark.parametrize("token", [0, -1, 1, 1 << 63, 1 << 80])
def test_a_token_that_was_never_given_is_lost(pages: journal.Journal, token: int) -> None:
    """LeaseLost, whatever the number."""
    pages.put("a")
    for verb in verbs(pages, token):
        with pytest.raises(journal.LeaseLost):
            verb()
    assert pages.count(status="W") == 1


def test_tokens_never_come_twice(tmp_path: Path, crashed: Copy) -> None:
    """Not over a reopen, and not after a crash that forgot the claims."""
    seen: set[int] = set()
    path = tmp_path / "s"
    for _ in range(4):
        with journal.open(path) as opened:
            pages = opened.journal("pages")
            pages.put_many([journal.Put(f"k{i}") for i in range(3)])
            copy = crashed(opened)  # as it was before the claims
            tokens = [lease.token for lease in pages.claim_many(3, lease=1)]
            assert len(tokens) == 3
            assert not seen & set(tokens)
            seen |= set(tokens)
        path = copy


def test_extend_gives_time_from_now(pages: journal.Journal, clock: ManualClock) -> None:
    """Never less than it has; the entry stays with its holder past the old deadline."""
    pages.put("a")
    lease = claimed(pages, lease=1000)
    clock.advance(500)
    assert lease.extend(1000) == lease.deadline == clock.now() + 1000
    assert lease.extend(1) == clock.now() + 1000
    clock.advance(999)
    assert pages.claim() is None
    assert pages.extend(lease.token, "1s") == clock.now() + 1000
    clock.advance(500)
    lease.done()


def test_a_lost_lease_comes_back_with_its_counter(pages: journal.Journal, clock: ManualClock) -> None:
    """In its old place, once for each lease."""
    pages.put("a", priority=5)
    place = claimed(pages, lease=10).process_date
    clock.advance(10)
    entry = pages.get("a")
    assert entry is not None
    assert (entry.status, entry.timeouts, entry.process_date, entry.priority) == ("W", 1, place, 5)
    clock.advance(10_000)
    lease = claimed(pages, lease=10)
    assert lease.timeouts == 1
    clock.advance(10)
    entry = pages.get("a")
    assert entry is not None and entry.timeouts == 2


def test_release_counts_no_timeout(pages: journal.Journal, clock: ManualClock) -> None:
    """Now, after a delay, or at a date; priority and data stay."""
    now = clock.now()
    pages.put("a", 1, priority=5)
    claimed(pages).release(delay="2s")
    entry = pages.get("a")
    assert entry is not None
    assert (entry.process_date, entry.priority, entry.data, entry.timeouts) == (now + 2000, 5, 1, 0)
    assert pages.claim() is None
    clock.advance(2000)
    claimed(pages).release(process_date=now + 9000)
    entry = pages.get("a")
    assert entry is not None and entry.process_date == now + 9000
    clock.advance(9000)
    claimed(pages).release()
    claimed(pages).done()


def test_a_release_that_makes_no_sense_changes_nothing(pages: journal.Journal, clock: ManualClock) -> None:
    """Two dates, or one before the insertion date: the lease stays."""
    pages.put("a")
    lease = claimed(pages)
    with pytest.raises(journal.Invalid):
        lease.release(delay=1, process_date=clock.now())
    with pytest.raises(journal.Invalid):
        lease.release(process_date=clock.now() - 1)
    lease.done()
    assert pages.count() == 0


def test_a_block_finishes_or_releases(pages: journal.Journal, clock: ManualClock) -> None:
    """done when it ends, released when it raises, left alone when it was ended inside."""
    pages.put("a")
    with pytest.raises(KeyError), claimed(pages):
        raise KeyError
    assert pages.count(status="W") == 1
    with claimed(pages) as lease:
        lease.release(delay=5)
    assert pages.count(status="W") == 1
    clock.advance(5)
    with claimed(pages):
        pass
    assert pages.count() == 0


def test_a_block_that_comes_too_late_says_so(pages: journal.Journal, clock: ManualClock) -> None:
    """LeaseLost at its end; but the block's own error comes first."""
    pages.put("a")
    with pytest.raises(journal.LeaseLost), claimed(pages, lease=5):
        clock.advance(5)

    def too_late_and_wrong() -> None:
        with claimed(pages, lease=5):
            clock.advance(5)
            raise KeyError

    with pytest.raises(KeyError):
        too_late_and_wrong()
    entry = pages.get("a")
    assert entry is not None and entry.timeouts == 2


def test_a_consumer_that_restarts_finds_its_leases(
    store: journal.Store, pages: journal.Journal, clock: ManualClock, crashed: Copy
) -> None:
    """By name, also after a crash, and can finish them; others' leases are not among them."""
    pages.put_many([journal.Put(k) for k in "abc"])
    mine = pages.claim_many(2, consumer="me", lease="1m")
    theirs = claimed(pages, consumer="them")
    assert {x.token for x in pages.leases(consumer="me")} == {x.token for x in mine}
    assert pages.leases(consumer="nobody") == []
    with journal.open(crashed(store), clock=clock) as again:
        there = again.journal("pages")
        found = there.leases(consumer="me")
        assert [(x.token, x.key, x.deadline, x.consumer) for x in found] == [
            (x.token, x.key, x.deadline, "me") for x in sorted(mine, key=lambda x: x.token)
        ]
        assert there.done_many(found) == [None, None]
        assert [x.token for x in there.leases()] == [theirs.token]
        assert again.check() == []


def test_claim_many_takes_what_is_there(pages: journal.Journal) -> None:
    """Up to n, in the order of work, each with its own token."""
    pages.put_many([journal.Put(f"k{i}", priority=i) for i in range(5)])
    leases = pages.claim_many(3)
    assert [x.key for x in leases] == ["k0", "k1", "k2"]
    assert len({x.token for x in leases}) == 3
    assert [x.key for x in pages.claim_many(10)] == ["k3", "k4"]


def test_done_many_answers_for_each(pages: journal.Journal, clock: ManualClock) -> None:
    """None or the error, in order; a late one keeps nobody else back."""
    pages.put_many([journal.Put(k) for k in "abc"])
    late = claimed(pages, lease=1)
    clock.advance(1)
    one, two = (lease for lease in pages.claim_many(3) if lease.key != late.key)
    results = pages.done_many([one, late.token, two.token, one])
    assert [type(r) for r in results] == [type(None), journal.LeaseLost, type(None), type(None)]
    assert [e.key for e in pages.scan()] == [late.key]
    assert pages.done_many([]) == []


def test_tokens_that_no_lease_can_have(pages: journal.Journal) -> None:
    """In a group they are lost leases, as alone; the others are finished."""
    pages.put("a")
    lease = pages.claim()
    assert lease is not None
    lost, done, huge = pages.done_many([-1, lease.token, 1 << 70])
    assert isinstance(lost, journal.LeaseLost) and done is None and isinstance(huge, journal.LeaseLost)
    for token in (-1, 1 << 70):
        with pytest.raises(journal.LeaseLost):
            pages.done(token)
    assert pages.count() == 0
