"""What makes a generation due: what was put in it, and never what moved to it from older ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Put
from journal.core.periods import HOUR_MS
from journal.engine.generations import leftovers
from journal.engine.generations.generations import Generations
from journal.testing import ManualClock
from tests.engine.helpers import own_pipeline

MIB = 1 << 20


def settle(store: journal.Store) -> None:
    """Let the keeper do all that is scheduled for now."""
    for _ in range(60):
        store._backend.keeper.call(lambda: None)
        store.checkpoint()


def rest(store: journal.Store, pages: journal.Journal) -> int:
    """Let the keeper work as long as survivors move; the order that it comes to rest with."""
    carrying = own_pipeline(pages).generations.migration
    for _ in range(20_000):
        if store._backend.keeper.call(lambda: not carrying.is_busy and not carrying.is_awaited):
            return pages._backend.p.order
    pytest.fail("survivors move for ever")


def test_a_rotation_by_size_makes_one_generation(store: journal.Store) -> None:
    """The checkpoint within a rotation still sees the full generation: that is no reason for a second one."""
    pages = store.journal("pages", rotate_bytes=MIB, generations_max=64)
    for batch in range(50):
        pages.put_many([Put(f"{batch}-{i}", b"x" * 900, delay="300d") for i in range(100)])
        store.checkpoint()
    *closed, _ = [g for g in pages.generations() if g.state != "gone"]
    assert len(closed) >= 3
    assert all(g.bytes >= MIB for g in closed), [(g.order, g.last_offset, g.bytes) for g in closed]


def test_size_is_looked_at_in_time(store: journal.Store) -> None:
    """
    Nobody asks for a checkpoint, callers run as fast as they can, and yet a generation has not much more than it may: at most it was
    looked at just before it was full, and again when twice a quarter of its size was written. (The file is larger: each look is a
    commit, which writes the pages of that little file anew.)
    """
    pages = store.journal("pages", rotate_bytes=MIB, generations_max=64)
    for batch in range(60):
        pages.put_many([Put(f"{batch}-{i}", b"x" * 300, delay="300d") for i in range(300)])
    entries = [g.entries for g in pages.generations()]
    assert len(entries) >= 6
    assert max(entries) * 300 < 1.5 * MIB, entries


def test_a_size_is_looked_at_from_the_moment_it_is_given(store: journal.Store) -> None:
    """Also in a journal that has none until then, and that is written to already."""
    store.journal("pages").put("first")
    pages = store.journal("pages", rotate_bytes=MIB, generations_max=64)
    for batch in range(12):
        pages.put_many([Put(f"{batch}-{i}", b"x" * 300, delay="300d") for i in range(300)])
    assert len(pages.generations()) >= 2


def test_survivors_are_no_reason_to_rotate(store: journal.Store) -> None:
    """Twelve times rotate_bytes of far-future entries, two files for them, and nobody calls: it comes to rest."""
    pages = store.journal("pages", rotate_bytes=MIB, generations_max=2)
    for batch in range(24):
        pages.put_many([Put(f"{batch}-{i}", b"x" * 1000, delay="300d") for i in range(500)])
    order = rest(store, pages)
    for _ in range(5):
        store.checkpoint()
        assert rest(store, pages) == order
    assert pages.count() == 12_000


def test_survivors_are_no_reason_after_a_reopen(
    tmp_path: Path, clock: ManualClock, crashed: Callable[[journal.Store], Path]
) -> None:
    """What counts as moved is kept with the rows: neither a clean close nor a crash makes it the generation's own."""
    with journal.open(tmp_path / "s", clock=clock, durability="interval") as store:
        pages = store.journal("pages", rotate_bytes=MIB, generations_max=3)
        pages.put_many([Put(f"far-{i}", b"x" * 3000, delay="300d") for i in range(1000)])
        pages.rotate()
        pages.put("near", delay="1d")
        pages.rotate()  # so few entries as those of the first move now
        rest(store, pages)
        assert (pages._backend.p.order, pages.generations()[-1].entries) == (3, 1000)
        at_moves = crashed(store)
        store.checkpoint()
        at_checkpoint = crashed(store)
    for path in (tmp_path / "s", at_moves, at_checkpoint):
        with journal.open(path, clock=clock) as store:
            pages = store.journal("pages")
            pages.put("a")
            settle(store)
            pages.put("b")
            assert pages._backend.p.order == 3
            assert pages.generations()[-1].bytes > 2 * MIB
            assert store.check() == []


def test_what_a_generation_begins_with_is_not_its_own(store: journal.Store) -> None:
    """Flags and finished tokens are copied to each new generation; with a small rotate_bytes they fill one by themselves."""
    pages = store.journal("pages", rotate_bytes=1 << 16)
    for batch in range(20):
        pages.put_many([Put(f"{batch}-{i}") for i in range(1000)])
        pages.done_many(pages.claim_many(1000))
    pages.rotate()
    order = pages._backend.p.order
    for i in range(5):
        pages.put(f"few-{i}")
        store.checkpoint()
    assert pages._backend.p.order == order


def test_there_is_place_before_a_generation_begins_by_size(
    store: journal.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rotation that falls due while survivors move waits for its own place, too."""
    begun: list[int] = []
    begin = Generations._begin

    def counted(self: Generations, fresh: Path) -> None:
        begin(self, fresh)
        begun.append(sum(1 for rows in self._state.generations[:-1] if not rows.is_empty))

    monkeypatch.setattr(Generations, "_begin", counted)
    pages = store.journal("pages", rotate_bytes=1 << 18, generations_max=2)
    for batch in range(60):
        pages.put_many([Put(f"{batch}-{i}", b"x" * 1000, delay="300d") for i in range(100)])
    rest(store, pages)
    assert len(begun) >= 2 and set(begun) == {1}
    assert pages.count() == 6000


def test_a_rotation_that_falls_due_within_a_move_waits(store: journal.Store) -> None:
    """It falls due in the very step that finds nothing more to move: there is no place yet for the next generation."""
    pages = store.journal("pages", generations_max=2)
    pages.put_many([Put(f"a-{i}", delay="300d") for i in range(30)])
    pages.rotate()
    pages.put_many([Put(f"b-{i}", delay="300d") for i in range(30)])
    p = pages._backend.p

    carrying = own_pipeline(pages).generations.migration

    def step() -> int:
        with p.lock:
            carrying._generations.due()
        carrying._step()
        return p.order

    assert store._backend.keeper.call(step) == 2
    rest(store, pages)
    assert p.order == 3 and [g.entries for g in pages.generations()][1:] == [60, 0]


def test_a_rotation_by_hand_serves_one_that_waits(store: journal.Store, clock: ManualClock) -> None:
    """What was due was about the generation that has ended: no second one begins."""
    pages = store.journal("pages", rotate="1h", generations_max=2)
    pages.put_many([Put(f"a-{i}", delay="300d") for i in range(300)])
    pages.rotate()
    pages.put_many([Put(f"b-{i}", delay="300d") for i in range(300)])
    p = pages._backend.p

    def rotate() -> bool:
        clock.advance(HOUR_MS)
        with p.lock:
            p.enter()
        is_awaited = own_pipeline(pages).generations.migration.is_awaited
        p.generations.rotate()
        return is_awaited

    before = p.order
    assert store._backend.keeper.call(rotate)
    assert rest(store, pages) == before + 1


def test_an_idle_journal_does_not_rotate(store: journal.Store, clock: ManualClock) -> None:
    """A period in which nothing happened, but that survivors moved, is an empty one: also after a reopen."""
    pages = store.journal("pages", rotate="1h")
    for hour in range(3):
        pages.put(f"far-{hour}", delay="300d")
        clock.advance(HOUR_MS)
        pages.count()
        settle(store)
    order = rest(store, pages)
    assert order == 4 and pages.generations()[-1].last_offset >= 0  # survivors have moved to it
    for _ in range(10):
        clock.advance(HOUR_MS)
        pages.count()
        settle(store)
    assert pages._backend.p.order == order
    assert pages.put("somebody's").cursor.order == order
    clock.advance(HOUR_MS)
    assert pages.put("next").cursor.order == order + 1


def test_an_idle_journal_does_not_rotate_after_a_reopen(
    tmp_path: Path, clock: ManualClock, crashed: Callable[[journal.Store], Path]
) -> None:
    """Moves that a clean close, a checkpoint or only the log has are counted all the same."""
    with journal.open(tmp_path / "s", clock=clock, durability="interval") as store:
        pages = store.journal("pages", rotate="1h")
        pages.put("far", delay="300d")
        pages.rotate()
        pages.put("near", delay="100d")
        pages.rotate()
        rest(store, pages)
        assert pages.generations()[-1].entries == 1
        in_the_log = crashed(store)
    for path in (tmp_path / "s", in_the_log):
        with journal.open(path, clock=clock) as store:
            pages = store.journal("pages")
            for _ in range(3):
                clock.advance(HOUR_MS)
                pages.count()
                settle(store)
            assert pages._backend.p.order == 3
            assert store.check() == []


def test_survivors_leave_time_to_those_who_work(store: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step comes at once when nobody else has changed anything since the last one, and after a pause when somebody has."""
    pages = store.journal("pages", generations_max=2)
    carrying = own_pipeline(pages).generations.migration
    pages.put_many([journal.Put(f"far-{n}", n, delay="300d") for n in range(3 * leftovers.CARRY)])
    for _ in range(2):
        pages.rotate()
        pages.put("near")
    monkeypatch.setattr(carrying, "soon", lambda: None)
    pauses = []
    for is_working in (True, False, True):
        if is_working:
            pages.put("more")
        assert store._backend.keeper.call(carrying.make_place)
        pauses.append(carrying.pause_s() > 0)
    assert pauses == [True, False, True]


def test_a_step_is_bounded_by_bytes(store: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large entries move a few at a time, however many are left, and one at least."""
    monkeypatch.setattr(leftovers, "CARRY_BYTES", 1000)
    pages = store.journal("pages")
    pages.put_many([journal.Put(f"far-{n}", b"x" * 600, delay="300d") for n in range(5)])
    state = pages._backend.p.state
    with pages._backend.p.lock:
        pages._backend.p.enter()
        moved = leftovers.survivors(state, state.active, with_leased=False)
    assert moved is not None and len(moved.entries) == 2 * 2
