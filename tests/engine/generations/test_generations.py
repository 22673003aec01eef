"""Generations: rotation by period, by size and by hand; one journal over all of them; what becomes of the old ones."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import journal
from journal import Cursor, Put
from journal.core.periods import HOUR_MS, period_end
from journal.engine import checkpoints
from journal.engine.generations.generations import Generations
from journal.testing import ManualClock
from tests.engine.helpers import collide


def orders(pages: journal.Journal, *states: str) -> list[int]:
    return [g.order for g in pages.generations() if not states or g.state in states]


def live(pages: journal.Journal) -> list[int]:
    return orders(pages, "active", "draining")


@pytest.mark.parametrize(
    ("date", "period", "end"),
    [
        ("2026-11-16T10:59:59.999", "1h", "2026-11-16T11:00"),
        ("2026-11-16T11:00", "1h", "2026-11-16T12:00"),
        ("2026-12-31T23:00", "1d", "2027-01-01T00:00"),
        ("2026-12-31T23:00", "1mo", "2027-01-01T00:00"),
        ("2024-02-01T00:00", "1mo", "2024-03-01T00:00"),
        ("2024-11-30T00:00", "1mo", "2024-12-01T00:00"),
    ],
)
def test_periods_end_on_the_wall_clock(date: str, period: str, end: str) -> None:
    """Hours, days and months of UTC."""
    ms = [int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000) for text in (date, end)]
    assert period_end(ms[0], period) == ms[1]


def test_rotation_by_hand_keeps_one_journal(store: journal.Store, pages: journal.Journal) -> None:
    """get, put, claim and count see all generations as one; new entries go to the active one."""
    pages.put("old", 1, priority=50)
    assert pages.rotate().order == 2
    result = pages.put("new", 2, priority=10)
    assert result.cursor == Cursor(2, 0)
    assert pages.count() == 2 and [e.key for e in pages.scan()] == ["new", "old"]
    old = pages.get("old")
    assert old is not None and old.data == 1
    assert [lease.key for lease in (pages.claim(), pages.claim()) if lease] == ["new", "old"]
    assert pages.claim() is None
    with pytest.raises(journal.KeyExists):
        pages.create("old")
    assert [(g.order, g.state, g.entries, g.processing) for g in pages.generations()] == [
        (1, "draining", 1, 1),
        (2, "active", 1, 1),
    ]
    assert store.check() == []


def test_a_put_moves_its_key_to_the_active_generation(store: journal.Store, pages: journal.Journal) -> None:
    """Merged with what waits in the old one, by one record; the old generation goes when it is empty."""
    pages.put("a", 1, priority=5)
    pages.rotate()
    result = pages.put("a", 2, priority=9)
    assert (result.outcome, result.version, result.priority, result.cursor) == ("merged", 2, 5, Cursor(2, 0))
    assert [(g.order, g.entries) for g in pages.generations()] == [(1, 0), (2, 1)]
    store.checkpoint()
    assert live(pages) == [2] and orders(pages, "gone") == [1]
    entry = pages.get("a")
    assert entry is not None and (entry.data, entry.version) == (2, 2)


def test_every_verb_works_on_an_old_generation(
    store: journal.Store, pages: journal.Journal, clock: ManualClock
) -> None:
    """done, release, bury, retry, move, delete, extend, time-outs, successors and expirations."""
    keys = ["done", "release", "bury", "move", "delete", "extend", "lost", "queue", "expire"]
    pages.put_many([Put(key, key, owner="g") for key in keys[:-1]])
    pages.put("expire", expiration=clock.now() + 5000)
    pages.rotate()
    pages.move("move", delay="1h", owner="g")
    assert pages.delete("delete", owner="g")
    leases = {str(lease.key): lease for lease in pages.claim_many(100, lease="10s")}
    assert set(leases) == {"done", "release", "bury", "extend", "lost", "queue", "expire"}
    leases["done"].done()
    leases["release"].release(delay="1m")
    leases["bury"].bury("no")
    leases["extend"].extend("1h")
    assert pages.put("queue", "next", owner="g").outcome == "queued"
    store.checkpoint()
    leases["queue"].done()
    leases["expire"].done()
    clock.advance(10_000)
    lost = pages.get("lost")
    assert lost is not None and (lost.timeouts, lost.status) == (1, "W")
    assert {e.key for e in pages.scan()} == {"release", "extend", "lost", "queue", "move"}
    assert pages.retry("bury").outcome == "retried"
    assert {e.key for e in pages.scan(status="P")} == {"extend"}
    assert store.check() == []


def test_old_entries_expire(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """The timers look at all generations."""
    pages.put("a", expiration=clock.now() + 1000)
    pages.rotate()
    pages.put("b", expiration=clock.now() + 2000)
    clock.advance(1000)
    assert [e.key for e in pages.scan()] == ["b"]
    clock.advance(1000)
    assert pages.count() == 0


def test_colliding_keys_are_apart_over_generations(
    monkeypatch: pytest.MonkeyPatch, store: journal.Store, pages: journal.Journal
) -> None:
    """Two keys with one murmur in two generations never share a slot."""
    collide(monkeypatch, 1)
    pages.put("a", 1)
    pages.rotate()
    pages.put("b", 2)
    pages.put("a", 3)
    pages.rotate()
    pages.put("c", 4)
    assert {e.key: e.data for e in pages.scan()} == {"a": 3, "b": 2, "c": 4}
    assert {lease.key for lease in pages.claim_many(10)} == {"a", "b", "c"}
    assert store.check() == []


def test_a_period_rotates_and_empty_ones_are_passed_over(store: journal.Store, clock: ManualClock) -> None:
    """The first call after a boundary begins the next generation, unless nothing happened in this one."""
    pages = store.journal("pages", rotate="1h")
    clock.advance(5 * HOUR_MS)
    assert pages.put("a").cursor == Cursor(1, 0)
    clock.advance(3 * HOUR_MS)
    assert pages.put("b").cursor == Cursor(2, 0)
    clock.advance(HOUR_MS)
    assert pages.put("c").cursor.order == 3  # survivors of the first may have moved before
    assert pages.count() == 3
    assert store.check() == []


def test_size_rotates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the rows of the active generation take rotate_bytes, a checkpoint makes the next one due."""
    with journal.open(tmp_path / "s", durability="interval") as store:
        pages = store.journal("pages", rotate_bytes=1 << 20)
        for batch in range(30):
            pages.put_many([Put(f"{batch}-{i}", b"x" * 900) for i in range(100)])
            store.checkpoint()
        assert len(pages.generations()) >= 3
        assert pages.count() == 3000
        assert store.check() == []


def test_too_many_generations_move_their_survivors(store: journal.Store, clock: ManualClock) -> None:
    """Far-future entries never pin more than generations_max files; buried and timed-out ones move too."""
    pages = store.journal("pages", generations_max=3, timeouts_max=9)
    pages.put("worn")
    assert pages.claim(lease="1s")
    clock.advance(1000)
    pages.put("bury")
    buried = [lease for lease in pages.claim_many(5, lease="1s") if lease.key == "bury"]
    buried[0].bury("no")
    clock.advance(1000)
    for period in range(8):
        for i in range(90):
            pages.put(f"{period}-{i}", period, delay="300d", expiration=clock.now() + 400 * 24 * HOUR_MS)
        pages.rotate()
    settle(store)
    assert len(live(pages)) <= 3
    assert pages.count() == 8 * 90 + 1
    worn = pages.get("worn")
    assert worn is not None and worn.timeouts == 2
    assert [b.entry.key for b in pages.buried()] == ["bury"]
    assert store.check() == []


def test_there_is_place_before_a_generation_begins(store: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much the oldest has left: there are never more files than generations_max, not for a moment."""
    begun: list[int] = []
    begin = Generations._begin

    def counted(self: Generations, fresh: Path) -> None:
        begin(self, fresh)
        begun.append(len(list(fresh.parent.glob("[0-9]*[0-9]/rows.mdb"))))

    monkeypatch.setattr(Generations, "_begin", counted)
    pages = store.journal("pages", generations_max=2)
    for period in range(6):
        pages.put_many([Put(f"{period}-{i}", period, delay="300d") for i in range(1500)])
        pages.rotate()
    assert begun == [2] * 6
    assert pages.count() == 6 * 1500
    assert store.check() == []


def test_a_rotation_that_is_due_waits_for_place(store: journal.Store, clock: ManualClock) -> None:
    """Who puts does not wait for it; it comes when the survivors have moved."""
    pages = store.journal("pages", rotate="1h", generations_max=2)
    for hour in range(5):
        assert pages.put_many([Put(f"{hour}-{i}", hour, delay="300d") for i in range(300)])
        before = pages._backend.p.order
        clock.advance(HOUR_MS)
        pages.put(f"first of {hour}", delay="300d")
        assert len(live(pages)) <= 2
        while pages._backend.p.order == before:
            store._backend.keeper.call(lambda: None)
        assert pages._backend.p.order == before + 1 and len(live(pages)) <= 2
    assert pages.count() == 5 * 301


def settle(store: journal.Store) -> None:
    """Let the keeper do all that is scheduled for now."""
    for _ in range(60):
        store._backend.keeper.call(lambda: None)
        store.checkpoint()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "claim", "done", "release", "rotate", "checkpoint", "reopen", "advance"]),
        st.integers(0, 9),
        st.sampled_from([0, 50, 210]),
    ),
    max_size=50,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_rotation_is_not_seen(steps: list[tuple[str, int, int]]) -> None:
    """The same calls with and without rotations give the same answers."""
    with tempfile.TemporaryDirectory() as folder:
        answers = [_run(Path(folder) / str(n), steps, is_rotating=bool(n)) for n in range(2)]
    assert answers[0] == answers[1]


def _run(path: Path, steps: list[tuple[str, int, int]], *, is_rotating: bool) -> list[object]:
    clock = ManualClock(1_700_000_000_000)
    answers: list[object] = []
    store = journal.open(path, clock=clock, durability="interval")
    pages = store.journal("pages", generations_max=2)
    leases: list[journal.Lease] = []
    try:
        for step, number, priority in steps:
            match step:
                case "put":
                    result = pages.put(f"k{number}", number, priority=priority, delay=number if number > 5 else 0)
                    answers.append((result.outcome, result.version, result.process_date))
                case "claim":
                    lease = pages.claim(lease="1m")
                    answers.append(None if lease is None else (lease.key, lease.version, lease.timeouts))
                    leases += [lease] if lease is not None else []
                case "done" | "release" if leases:
                    lease = leases.pop(number % len(leases))
                    try:
                        lease.done() if step == "done" else lease.release(delay=number)
                        answers.append("ended")
                    except journal.LeaseLost:
                        answers.append("lost")
                case "rotate" if is_rotating:
                    pages.rotate()
                case "checkpoint":
                    store.checkpoint()
                case "advance":
                    clock.advance(number * 10_000)
                case "reopen":
                    store.close()
                    store = journal.open(path, clock=clock, durability="interval")
                    pages = store.journal("pages")
                    leases = pages.leases()
            answers.append((pages.count(), pages.count(status="P")))
        answers.append([(e.key, e.data, e.status, e.version, e.timeouts) for e in pages.scan()])
        assert store.check() == []
    finally:
        store.close()
    return answers


def test_threads_go_on_over_rotations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers and consumers at work while generations come and go: nothing lost, nothing twice."""
    from tests.engine.test_threads import together

    monkeypatch.setattr(checkpoints, "CHANGES_FIRST", 64)
    worked: list[object] = []
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages", generations_max=3)

        def produce(name: int) -> None:
            for i in range(120):
                pages.put(f"{name}-{i}", i)

        def consume() -> None:
            while len(worked) < 480:
                lease = pages.claim(lease="1h")
                if lease is not None:
                    worked.append(lease.key)
                    lease.done()

        def turn() -> None:
            for _ in range(12):
                pages.rotate()

        together(*[lambda name=name: produce(name) for name in range(4)], consume, consume, turn)
        assert len(worked) == len(set(worked)) == 480
        assert pages.count() == 0 and pages._backend.p.order == 13
        assert store.check() == []


def test_cursors_count_over_generations(store: journal.Store, pages: journal.Journal) -> None:
    """Distance, shift and lag go over closed and gone generations; beyond the ends there is nothing."""
    first = pages.put("a").cursor
    pages.put("b")
    pages.rotate()
    pages.rotate()
    last = pages.put("c").cursor
    pages.done_many(pages.claim_many(10))
    store.checkpoint()
    assert orders(pages, "gone") == [1, 2]
    assert (first, last) == (Cursor(1, 0), Cursor(3, 0))
    assert pages.distance(first, last) == 2 and pages.distance(last, first) == -2
    assert pages.distance(Cursor(1, 1), Cursor(3, -1)) == 0
    assert pages.shift(first, 2) == last and pages.shift(last, -3) == Cursor(1, -1)
    assert pages.lag(last) == 6
    with pytest.raises(journal.CursorUnavailable, match="001-"):
        pages.shift(last, 7)
    with pytest.raises(journal.CursorUnavailable):
        pages.shift(first, -2)
    with pytest.raises(journal.JournalError):
        pages.distance(first, Cursor(9, 0))


def test_it_is_told_what_keeps_a_generation(store: journal.Store, clock: ManualClock) -> None:
    """Its period, the entry that comes first, the lease that ends last, the consumers that are behind."""
    pages = store.journal("pages")
    began = clock.now()
    pages.feed(consumer="slow", live=False).close()
    pages.put("far", delay="1d")
    pages.put("near", delay="1h")
    pages.put("now")
    pages.claim(lease="10m")
    clock.advance(5000)
    pages.rotate()
    old, active = pages.generations()
    assert (old.state, old.began, old.ended, old.kept_by) == (
        "draining",
        began,
        began + 5000,
        ("entries", "leases", "followers"),
    )
    assert old.first_entry == ("now", began) and old.last_lease == ("now", began + 600_000)
    assert old.consumers == ("slow",) and active.ended is None and active.first_entry is None
    with pages.feed(consumer="slow", live=False) as feed:
        feed.ack(list(feed))
    assert pages.generations()[0].consumers == ()


def test_it_is_told_what_other_merged_journals_keep(store: journal.Store, clock: ManualClock) -> None:
    """A journal without rows in a generation sees that other ones keep it; who asks for all sees the lease that ends last."""
    a, b = store.journal("a", merged=True), store.journal("b", merged=True)
    for key, minutes in (("early", 5), ("late", 20), ("later", 10)):
        b.put(key, priority=minutes)
    for lease in ("5m", "20m", "10m"):
        assert b.claim(consumer="w", lease=lease)
    first = b.leases()[0]
    a.put("x")
    done = a.claim()
    assert done is not None
    done.done()
    store.merged().rotate()
    a.put("y")
    store.checkpoint()
    mine, theirs, both = a.generations()[0], b.generations()[0], store.merged().generations()[0]
    assert (mine.state, mine.entries, mine.kept_by, mine.last_lease) == ("draining", 0, ("others",), None)
    assert (theirs.processing, theirs.kept_by) == (3, ("leases",))
    assert (both.processing, both.kept_by) == (3, ("leases",))
    last = max(b.leases(), key=lambda lease: lease.deadline)
    assert both.last_lease == theirs.last_lease == (last.key, clock.now() + 20 * 60_000)
    first.extend("1h")  # known before a checkpoint has it
    assert store.merged().generations()[0].last_lease == (first.key, clock.now() + 60 * 60_000)
    b.done_many(b.leases())
    assert a.generations()[0].kept_by == ()
    store.checkpoint()
    assert a.generations()[0].state == "gone"
