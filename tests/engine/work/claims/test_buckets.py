"""Claims by buckets: the order of all, filtered; whoever else works, whatever happens to the store."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import journal
from journal.engine.state import range_order
from journal.engine.state.range_orders import SPAN, Ranges
from journal.engine.work import bucket_index_build
from journal.testing import ManualClock
from tests import top
from tests.conftest import copy_live
from tests.engine.work.claims.sharing import bucket, due_in, keys_in, state

BUCKETS = 8
PARTS = st.sampled_from([journal.Range(0, 3), journal.Range(2, 8), journal.Range(0, 7)])
"""Few, so that each is claimed by many times while it is in use."""


class Sharing(RuleBasedStateMachine):
    """A journal that many claim from, by changing ranges; the answer is always what a filtered scan says."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="journal-buckets-"))
        self.path = self.folder / "0"
        self.clock = ManualClock(1_700_000_000_000)
        self.patch = pytest.MonkeyPatch()
        self.store: journal.Store | None = None
        self.tokens: list[int] = []

    @initialize(step=st.sampled_from([1, 3, 1000]), returned=st.sampled_from([0, 2, 4096]))
    def begin(self, step: int, returned: int) -> None:
        self.patch.setattr(bucket_index_build, "STEP", step)
        self.patch.setattr(range_order, "RETURNED_MAX", returned)
        self.open()

    def open(self) -> None:
        self.store = journal.open(self.path, clock=self.clock)
        options: dict[str, Any] = {"generations_max": 3} if not top.is_merged else {"merged": True}
        self.pages = self.store.journal("pages", buckets=BUCKETS, processing_timeout=5000, **options)

    def teardown(self) -> None:
        self.patch.undo()
        if self.store is not None:
            self.store.close()
        shutil.rmtree(self.folder)

    @rule(
        items=st.lists(
            st.tuples(st.integers(0, 40), st.sampled_from([0, 100, 100, 220]), st.sampled_from([0, 0, 0, 700, 9000])),
            min_size=1,
            max_size=12,
        ),
        is_group=st.booleans(),
        life=st.sampled_from([None, None, 800]),
    )
    def put(self, items: list[tuple[int, int, int]], is_group: bool, life: int | None) -> None:
        expiration = 0 if life is None else self.clock.now() + life
        puts = [journal.Put(f"k{n}", n, priority=p, delay=d, expiration=expiration) for n, p, d in items]
        if is_group:
            self.pages.put_many(puts)
        else:
            for n, p, d in items:
                self.pages.put(f"k{n}", n, priority=p, delay=d, expiration=expiration)

    @rule(part=PARTS, n=st.integers(1, 4), is_single=st.booleans())
    def claim_in(self, part: journal.Range, n: int, is_single: bool) -> None:
        expected = due_in(self.pages, part, self.clock.now())
        if is_single:
            n, one = 1, self.pages.claim(buckets=part)
            leases = [] if one is None else [one]
        else:
            leases = self.pages.claim_many(n, buckets=part)
        assert [lease.key for lease in leases] == expected[:n]
        self.tokens += [lease.token for lease in leases]

    @rule(n=st.integers(1, 3))
    def claim_over_all(self, n: int) -> None:
        expected = due_in(self.pages, None, self.clock.now())
        leases = self.pages.claim_many(n)
        assert [lease.key for lease in leases] == expected[:n]
        self.tokens += [lease.token for lease in leases]

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), verb=st.sampled_from(["done", "done", "release", "late", "bury"]))
    def end(self, data: Any, verb: str) -> None:
        token = data.draw(st.sampled_from(self.tokens))
        self.tokens.remove(token)
        try:
            if verb == "done":
                self.pages.done(token)
            elif verb == "bury":
                self.pages.bury(token)
            else:
                self.pages.release(token, delay=0 if verb == "release" else 600)
        except journal.LeaseLost:
            assert token not in {lease.token for lease in self.pages.leases()}

    @rule(n=st.integers(0, 40), delay=st.sampled_from([0, 700]), priority=st.sampled_from([0, 100, 220]))
    def move(self, n: int, delay: int, priority: int) -> None:
        entry = self.pages.get(f"k{n}")
        if entry is not None and entry.status == "W":
            self.pages.move(f"k{n}", delay=delay, priority=priority)

    @rule(n=st.integers(0, 40))
    def delete(self, n: int) -> None:
        entry = self.pages.get(f"k{n}")
        if entry is not None and entry.status == "W":
            self.pages.delete(f"k{n}")

    @rule(ms=st.sampled_from([1, 600, 6000]))
    def advance(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule()
    def rotate(self) -> None:
        self.pages.rotate()

    @rule()
    def checkpoint(self) -> None:
        assert self.store is not None
        self.store.checkpoint()

    @rule()
    def half_of_an_index(self) -> None:
        """Somebody began to make it and was interrupted."""
        p = self.pages._backend.p
        with p.lock:
            p.enter()
            if p.state.order_in(journal.Range(0, 1)) is None:
                bucket_index_build._step(p)

    @rule(is_crash=st.booleans())
    def reopen(self, is_crash: bool) -> None:
        assert self.store is not None
        copy = self.folder / str(int(self.path.name) + 1)
        if is_crash:
            copy_live(self.store, copy)
        self.store.close()
        self.path = copy if is_crash else self.path
        self.open()

    @invariant()
    def sound(self) -> None:
        if self.store is not None:
            assert self.store.check() == []


TestSharing = pytest.mark.slow(Sharing.TestCase)
TestSharing.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_only_buckets_of_the_range_come(pages: journal.Journal) -> None:
    """And none of them stays behind."""
    part = journal.Range(100, 300)
    pages.put_many([journal.Put(f"k{n}", n) for n in range(500)])
    got = {lease.key for lease in pages.claim_many(500, buckets=part)}
    assert got == {f"k{n}" for n in range(500) if bucket(f"k{n}", 1024) in part}
    assert pages.claim(buckets=part) is None
    assert pages.count(status="W") == 500 - len(got)


def test_ranges_that_overlap_share_their_entries(pages: journal.Journal) -> None:
    """An entry has one holder, whichever range it was claimed by."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(300)])
    parts = [journal.Range(0, 600), journal.Range(400, 1024), journal.Range(500, 501)]
    got: list[Any] = []
    while leases := [lease for part in parts if (lease := pages.claim(buckets=part)) is not None]:
        got += [lease.key for lease in leases]
    assert sorted(got) == sorted(f"k{n}" for n in range(300))


def test_all_buckets_are_no_restriction(pages: journal.Journal) -> None:
    """Who has them all claims as if he had said nothing, and no index is made."""
    pages.put("a")
    assert pages.claim(buckets=journal.Range(0, 1024)).key == "a"
    assert all(rows.index is None for rows in state(pages).generations)


@pytest.mark.parametrize(
    ("given", "message"),
    [("0-3", "journal.Range"), ((0, 3), "journal.Range"), (journal.Range(1000, 1025), "from 0 to 1023")],
    ids=["text", "tuple", "too-high"],
)
def test_what_is_no_range_is_refused(pages: journal.Journal, given: Any, message: str) -> None:
    """With what is allowed; nothing is claimed."""
    pages.put("a")
    for verb in (lambda: pages.claim(buckets=given), lambda: pages.claim_many(2, buckets=given)):
        with pytest.raises(journal.Invalid, match=message):
            verb()
    with pytest.raises(journal.Invalid, match=message):
        pages.work(buckets=given)
    assert pages.count(status="P") == 0


def test_the_number_of_buckets_is_fixed(store: journal.Store) -> None:
    """The index depends on it."""
    store.journal("few", buckets=10)
    with pytest.raises(journal.Invalid, match="buckets is 10"):
        store.journal("few", buckets=11)
    for wrong in (0, 65537, True, "7"):
        with pytest.raises(journal.Invalid, match="buckets"):
            store.journal("other", buckets=wrong)


def test_a_single_bucket_is_a_range(store: journal.Store) -> None:
    """And with one bucket in all, it is everything."""
    lone = store.journal("lone", buckets=1)
    lone.put("a")
    assert lone.claim(buckets=journal.Range(0, 1)).key == "a"
    many = store.journal("many", buckets=65536)
    part = journal.Range(bucket("a", 65536), bucket("a", 65536) + 1)
    many.put_many([journal.Put(key) for key in ("a", "b", "c")])
    assert [lease.key for lease in many.claim_many(3, buckets=part)] == ["a"]


def test_slow_entries_come_last_in_a_range_too(pages: journal.Journal) -> None:
    """Only when nothing else of the range is due."""
    part = journal.Range(0, 512)
    keys = keys_in(part, 1024, 3)
    pages.put(keys[0], priority=journal.SLOW)
    pages.put(keys[1], priority=journal.UPDATES)
    pages.put(keys[2], priority=journal.REVIEW)
    pages.put(keys_in(journal.Range(512, 1024), 1024, 1)[0], priority=0)
    assert [lease.key for lease in pages.claim_many(3, buckets=part)] == [keys[1]]
    assert [lease.key for lease in pages.claim_many(3, buckets=part)] == [keys[0], keys[2]]


def test_an_entry_that_expired_unseen_is_passed_over(pages: journal.Journal, clock: ManualClock) -> None:
    """It goes; the next one comes."""
    part = journal.Range(0, 512)
    first, second = keys_in(part, 1024, 2)
    pages.put(first, expiration=clock.now() + 10)
    pages.put(second, priority=150)
    assert pages.claim_many(1, buckets=journal.Range(900, 1000)) == []
    clock.advance(10)
    assert pages.claim(buckets=part).key == second
    assert pages.get(first) is None


def test_a_lost_lease_returns_to_its_range(pages: journal.Journal, clock: ManualClock) -> None:
    """At the place it had, after a rotation and with others in front and behind."""
    part = journal.Range(0, 512)
    keys = keys_in(part, 1024, 5)
    for key in keys:
        pages.put(key)
        clock.advance(1)
    assert pages.claim(buckets=part, lease=100).key == keys[0]
    assert pages.claim(buckets=part, lease=9000).key == keys[1]
    pages.rotate()
    pages.put(keys_in(part, 1024, 6)[5])
    clock.advance(200)
    assert [lease.key for lease in pages.claim_many(9, buckets=part)] == [
        keys[0],
        *keys[2:],
        keys_in(part, 1024, 6)[5],
    ]


def test_many_lost_leases_of_an_older_generation_return(
    pages: journal.Journal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than are remembered one by one."""
    monkeypatch.setattr(range_order, "RETURNED_MAX", 2)
    part = journal.Range(0, 512)
    keys = keys_in(part, 1024, 2000)
    pages.put_many([journal.Put(key) for key in keys[:-1]])
    assert len(pages.claim_many(2000, buckets=part, lease=100)) == 1999
    pages.rotate()
    pages.put(keys[-1])
    assert pages.claim(buckets=part).key == keys[-1]
    assert pages.claim(buckets=part) is None
    clock.advance(200)
    assert {lease.key for lease in pages.claim_many(2000, buckets=part)} == set(keys[:-1])


def test_ranges_in_use_are_bounded(pages: journal.Journal) -> None:
    """However many are claimed by; one that went is begun anew."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(200)])
    for low in range(500):
        pages.claim(buckets=journal.Range(low, low + 300))
    ranges = state(pages).order
    assert isinstance(ranges, Ranges)
    assert sum(len(order.part) for order in ranges.all()) <= SPAN * 1024
    expected = due_in(pages, journal.Range(0, 300), pages.now())
    assert [lease.key for lease in pages.claim_many(200, buckets=journal.Range(0, 300))] == expected
    pages.put(keys_in(journal.Range(0, 1), 1024, 1)[0])
    assert pages.claim(buckets=journal.Range(0, 300)) is not None


def test_memory_is_bounded_by_streams_and_leases(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that come below the heads are not all remembered, and all are found."""
    monkeypatch.setattr(range_order, "RETURNED_MAX", 16)
    part = journal.Range(0, 4)
    keys = keys_in(part, 1024, 200)
    pages.put_many([journal.Put(key, delay=10) for key in keys[:20]])
    pages.put(keys[20])
    assert pages.claim(buckets=part).key == keys[20]
    assert pages.claim(buckets=part) is None  # every stream's head is in the future now
    for key in keys[21:]:
        pages.put(key)
        order = state(pages).order_in(part)
        assert order is not None
        assert len(order._heaps[100]) <= 4 + 16
    expected = due_in(pages, part, pages._backend.p.time.now())
    assert [lease.key for lease in pages.claim_many(500, buckets=part)] == expected
    assert len(expected) == 179
