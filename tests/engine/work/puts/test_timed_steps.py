"""Timed work comes in steps: however much falls due at one moment, a call does little of it, and none of it is seen meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import journal
from journal.core.buckets import Range
from journal.engine.runtime.timed_steps import PASS_MAX, STEP
from journal.errors import LeaseLost
from journal.testing import ManualClock

MANY = 1000


class Still:
    """A clock that a test sets, and that tells nobody."""

    def __init__(self) -> None:
        self.time = 1_700_000_000_000

    def now(self) -> int:
        """In ms."""
        return self.time


@pytest.fixture
def still() -> Still:
    """Time that stands still until it is set."""
    return Still()


@pytest.fixture
def quiet(tmp_path: Path, still: Still) -> Iterator[journal.Journal]:
    """A journal whose timers a test stops by `idle`; checked at the end."""
    with journal.open(tmp_path / "quiet.journal", clock=still, durability="none") as store:
        yield store.journal("pages")
        assert store.check() == []


def idle(pages: journal.Journal) -> None:
    """The timers have not come to it yet."""
    pages._backend.p.tick = lambda now: 0


def steps_of(pages: journal.Journal) -> list[int]:
    """How many changes each tick of a journal writes from now on."""
    p = pages._backend.p
    sizes: list[int] = []
    tick = p.tick

    def counted(now: int) -> int:
        before = p.log.next_offset
        taken = tick(now)
        sizes.append(p.log.next_offset - before)
        assert taken == sizes[-1]
        return taken

    p.tick = counted
    return sizes


def put_expiring(pages: journal.Journal, expiration: int, count: int = MANY, **options: int) -> None:
    """Entries that expire in one millisecond."""
    pages.put_many([journal.Put(f"old-{n}", n, expiration=expiration, **options) for n in range(count)])


def test_entries_that_expire_at_once_go_in_steps(pages: journal.Journal, clock: ManualClock) -> None:
    """No call and no tick of the keeper writes more than a step, and all of them go."""
    put_expiring(pages, clock.now() + 100)
    sizes = steps_of(pages)
    clock.advance(100)
    assert max(sizes) <= STEP and sum(sizes) == MANY
    assert pages.count() == 0 and pages.statistics()["entries"] == 0
    assert pages.statistics()["expired"] == MANY


def test_a_put_does_one_step_of_what_expired(quiet: journal.Journal, still: Still) -> None:
    """Whoever calls next pays for a step, not for all that is due."""
    put_expiring(quiet, still.now() + 100)
    p = quiet._backend.p
    still.time += 100
    with p.lock:  # the keeper stays out of the count
        at = [p.log.next_offset]
        for _ in range(3):
            p.enter()
            at.append(p.log.next_offset)
    assert [b - a for a, b in pairwise(at)] == [STEP] * 3
    assert quiet.put("new").outcome == "inserted"


def test_leases_that_end_at_once_are_taken_back_in_steps(pages: journal.Journal, clock: ManualClock) -> None:
    """The same for leases with one deadline; all entries come back."""
    pages.put_many([journal.Put(f"page-{n}") for n in range(MANY)])
    assert len(pages.claim_many(MANY, lease="1s")) == MANY
    sizes = steps_of(pages)
    clock.advance(1000)
    assert max(sizes) <= STEP and sum(sizes) == MANY
    assert pages.count(status="W") == MANY
    assert pages.statistics()["leases_lost"] == MANY


def test_merged_journals_share_a_step(store: journal.Store, clock: ManualClock) -> None:
    """Leases of many small journals that end together are taken back in steps over all of them."""
    members = [store.journal(f"small-{n}", merged=True) for n in range(3 * STEP)]
    for each in members:
        each.put("a")
        assert each.claim(lease="1s") is not None
    shared = members[0]._backend.p.shared  # type: ignore[attr-defined]
    sizes = steps_of_shared(shared)
    clock.advance(1000)
    assert max(sizes) <= STEP and sum(sizes) == len(members)
    assert all(each.count(status="W") == 1 for each in members)


def steps_of_shared(shared: object) -> list[int]:
    """How many changes each tick of what merged journals share writes from now on."""
    sizes: list[int] = []
    tick = shared.tick  # type: ignore[attr-defined]

    def counted(now: int) -> int:
        taken: int = tick(now)
        sizes.append(taken)
        return taken

    shared.tick = counted  # type: ignore[attr-defined]
    return sizes


def test_what_has_expired_is_not_seen_before_it_is_removed(quiet: journal.Journal, still: Still) -> None:
    """Neither by get, scan, count, select nor by a claim of any kind; what is alive is."""
    put_expiring(quiet, still.now() + 100, priority=1)
    quiet.put("alive", priority=2)
    idle(quiet)
    still.time += 100
    assert quiet.get("old-1") is None
    assert quiet.get_many(["old-1", "alive"])[0] is None
    assert [entry.key for entry in quiet.scan()] == ["alive"]
    assert quiet.count() == quiet.count(status="W") == quiet.count(status="available") == 1
    assert [entry.key for entry in quiet.select(limit=10).entries] == ["alive"]
    assert quiet.delete("old-2") is False
    assert quiet.statistics()["timers_behind_ms"] == 0  # it is due in this millisecond
    lease = quiet.claim()
    assert lease is not None and lease.key == "alive"
    assert quiet.claim() is None and quiet.claim_many(10) == []


def test_claims_find_what_is_behind_many_that_have_expired(quiet: journal.Journal, still: Still) -> None:
    """More than a claim passes over at once: it goes on, with a record for what it hands out only."""
    put_expiring(quiet, still.now() + 100, 4 * PASS_MAX, priority=1)
    for n in range(4):
        quiet.put(f"alive-{n}", priority=2)
    idle(quiet)
    still.time += 100
    before = quiet.statistics()["next_offset"]
    one, several = quiet.claim(), quiet.claim_many(2)
    assert one is not None and one.key.startswith("alive")
    assert len(several) == 2
    last = quiet.claim(buckets=Range(0, quiet.settings.buckets - 1))
    assert last is not None
    assert quiet.statistics()["next_offset"] == before + 4


def test_a_claim_by_buckets_passes_over_what_has_expired(quiet: journal.Journal, still: Still) -> None:
    """The same in the order of a range."""
    put_expiring(quiet, still.now() + 100, 4 * PASS_MAX, priority=1)
    for n in range(64):
        quiet.put(f"alive-{n}", priority=2)
    idle(quiet)
    still.time += 100
    half = Range(0, quiet.settings.buckets // 2)
    lease = quiet.claim(buckets=half)
    assert lease is not None and str(lease.key).startswith("alive")
    assert all(str(each.key).startswith("alive") for each in quiet.claim_many(4, buckets=half))


def test_an_expired_entry_that_nobody_has_stored_yet_is_passed_over(quiet: journal.Journal, still: Still) -> None:
    """Also one that waits in memory: a claim does not meet it again and again."""
    quiet.put("old", expiration=still.now() + 100)
    idle(quiet)
    still.time += 100
    assert quiet.claim() is None
    assert quiet.put("old").outcome == "inserted"
    lease = quiet.claim()
    assert lease is not None and lease.key == "old"


def test_a_lease_that_is_over_cannot_be_used_before_it_is_taken_back(quiet: journal.Journal, still: Still) -> None:
    """Done, extend and release are refused, it is not listed, and its key is settled by who names it."""
    for key in ("a", "b", "c", "d"):
        quiet.put(key, 1)
    leases = {lease.key: lease for lease in quiet.claim_many(4, lease="1s")}
    idle(quiet)
    still.time += 1000
    for act in (leases["a"].done, leases["a"].extend, leases["a"].release, leases["a"].bury):
        with pytest.raises(LeaseLost):
            act()
    assert [type(error) for error in quiet.done_many([leases["a"]])] == [LeaseLost]
    assert quiet.leases() == []
    assert quiet.put("b", 2).outcome == "merged"
    assert quiet.delete("c") is True
    assert quiet.claim_key("d").token != leases["d"].token
    assert quiet.statistics()["leases_lost"] == 3


def test_a_snapshot_has_nothing_that_is_over(pages: journal.Journal, clock: ManualClock) -> None:
    """What has expired by then, and what leases have left, is settled first, however much it is."""
    put_expiring(pages, clock.now() + 100)
    pages.put("alive")
    tick = pages._backend.p.tick
    pages._backend.p.tick = lambda now: 0
    pages._backend.p.timer_at = 1 << 60  # nothing ticks while the clock moves
    clock.advance(100)
    pages._backend.p.tick = tick
    pages._backend.p.timer_soon(0)
    with pages.snapshot() as shot:
        assert shot.size == 1
