"""Wall clocks that step: dates follow at once, durations do not; the step is logged, counted and flagged."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import journal
from journal.core.limits import DATE_MAX
from journal.testing import ManualClock
from tests import top
from tests.engine.loads.blocks import block

HOUR = 3_600_000
STEPS = [HOUR, -HOUR, 24 * HOUR, -24 * HOUR, 365 * 24 * HOUR]
BOTH = [HOUR, -HOUR]


@pytest.mark.parametrize("step", STEPS)
def test_a_step_ends_no_lease(pages: journal.Journal, clock: ManualClock, step: int) -> None:
    """The holder finishes in its time, however the wall clock jumps."""
    pages.put("a")
    lease = pages.claim(lease="1m")
    assert lease is not None
    clock.step(step)
    clock.advance(59_999)
    assert pages.claim() is None
    assert lease.extend("1m") == clock.now() + 60_000
    lease.done()
    assert pages.statistics()["leases_lost"] == 0


@pytest.mark.parametrize("step", STEPS)
def test_a_step_lengthens_no_lease(pages: journal.Journal, clock: ManualClock, step: int) -> None:
    """A lease ends after its time, to the millisecond; so does one that was extended before, and one that is claimed after."""
    pages.put_many([journal.Put("a"), journal.Put("b")])
    clock.advance(1)
    assert len(pages.claim_many(1, lease=80_000)) == 1
    extended = pages.claim(lease=10)
    assert extended is not None
    extended.extend(80_000)
    clock.step(step)
    pages.put("c")
    assert [lease.deadline for lease in pages.leases()] == [clock.now() + 80_000] * 2
    assert pages.claim(lease=80_000) is not None
    clock.advance(79_999)
    assert pages.count(status="P") == 3
    clock.advance(1)
    assert pages.count(status="P") == 0
    with pytest.raises(journal.LeaseLost):
        extended.done()


@pytest.mark.parametrize("steps", [(HOUR, -HOUR), (-HOUR, HOUR), (HOUR, HOUR, -90), (60, 60, 60, -40)])
def test_many_steps_under_a_lease(pages: journal.Journal, clock: ManualClock, steps: tuple[int, ...]) -> None:
    """They add up, also those that are too small to be called steps: a lease is off by 100 ms at most."""
    pages.put("a")
    assert pages.claim(lease=10_000) is not None
    for step in steps:
        clock.step(step)
        clock.advance(1000)
    clock.advance(10_000 - 1000 * len(steps) - 101)
    assert pages.count(status="P") == 1
    clock.advance(202)
    assert pages.count(status="P") == 0


def test_a_step_forward_expires_what_has_its_date(pages: journal.Journal, clock: ManualClock) -> None:
    """An expiration is a date."""
    pages.put("a", expiration=clock.now() + HOUR, delay="2h")
    pages.put("b", expiration=clock.now() + HOUR + 2, delay="2h")
    clock.step(HOUR)
    assert pages.get("a") is None
    assert pages.get("b") is not None
    clock.advance(2)
    assert pages.get("b") is None


def test_a_step_back_lets_what_expires_live(pages: journal.Journal, clock: ManualClock) -> None:
    """Until its date comes again."""
    pages.put("a", expiration=clock.now() + 1000, delay="2h")
    clock.step(-HOUR)
    clock.advance(HOUR)
    assert pages.get("a") is not None
    clock.advance(1000)
    assert pages.get("a") is None


class Unwatched:
    """A clock that tells nobody when it is moved."""

    def __init__(self, clock: ManualClock) -> None:
        self.wall_ns, self.steady_ns = clock.wall_ns, clock.steady_ns


def test_what_claims_passed_over_is_back_after_a_step_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that had expired and were not removed yet have not expired any more: they are handed out."""
    clock = ManualClock()
    with journal.open(tmp_path / "s", clock=Unwatched(clock)) as store:
        pages = store.journal("pages")
        pages.put_many([journal.Put(f"k{n}", expiration=clock.now() + 10_000) for n in range(200)])
        pages.put("last")
        with monkeypatch.context() as quiet:
            quiet.setattr(pages._backend.p.keeper, "after", lambda *_: None)  # all that is removed is removed by calls
            clock.step(3_600_000)
            lease = pages.claim()
            assert lease is not None and lease.key == "last"
            clock.step(-3_600_000)
            left = pages.count(status="W")
            assert 0 < left < 200
            assert len(pages.claim_many(200)) == left


def test_a_step_forward_makes_work_due(pages: journal.Journal, clock: ManualClock) -> None:
    """At its date, whether it was given one or a delay."""
    pages.put("dated", process_date=clock.now() + HOUR)
    pages.put("delayed", delay=HOUR + 1)
    assert pages.claim() is None
    clock.step(HOUR)
    lease = pages.claim()
    assert lease is not None and lease.key == "dated"
    assert pages.claim() is None
    clock.advance(1)
    lease = pages.claim()
    assert lease is not None and lease.key == "delayed"


def test_a_step_back_makes_work_wait(pages: journal.Journal, clock: ManualClock) -> None:
    """What was due is not any more; what is put after it is, and comes first."""
    pages.put("before")
    assert pages.statistics()["next_due"] == clock.now()
    due = clock.now()
    clock.step(-HOUR)
    assert pages.claim() is None
    assert pages.claim_many(5) == []
    assert pages.statistics()["next_due"] == due
    pages.put("after")
    lease = pages.claim()
    assert lease is not None and (lease.key, lease.process_date) == ("after", clock.now())
    lease.done()
    clock.advance(HOUR - 1)
    assert pages.claim() is None
    clock.advance(1)
    lease = pages.claim()
    assert lease is not None and lease.key == "before"


def test_work_by_buckets_follows(store: journal.Store, clock: ManualClock) -> None:
    """The order of a range looks at dates as the one over all does."""
    shared = store.journal("shared", buckets=4)
    part = journal.Range(0, 2)
    for number in range(20):
        shared.put(f"k{number}")
    first = len(shared.claim_many(3, buckets=part))
    clock.step(-HOUR)
    assert shared.claim(buckets=part) is None
    clock.step(2 * HOUR)
    assert first + len(shared.claim_many(50, buckets=part)) + len(shared.claim_many(50)) == 20


@pytest.mark.parametrize("rule", ["merge", "debounce", "replace"])
def test_a_put_after_a_step_back_is_not_old(store: journal.Store, clock: ManualClock, rule: str) -> None:
    """A put that has its date from the engine is accepted: waiting, as a successor, in a group and in a load."""
    pages = store.journal("pages", merge=rule)
    pages.put("a", 1)
    pages.put("b", 1, priority=0)
    assert pages.claim() is not None
    clock.step(-HOUR)
    assert pages.put("a", 2).outcome == "merged"
    assert pages.put("b", 2).outcome == "queued"
    assert pages.put("b", 3).outcome == "queued"
    results = pages.put_many([journal.Put("a", 4), journal.Put("b", 4)])
    assert [result.outcome for result in results if isinstance(result, journal.PutResult)] == ["merged", "queued"]
    assert pages.load([block(("a", 5))]).merged == 1
    entry = pages.get("a")
    assert entry is not None and entry.data == 5
    pages.put("old", 1, insertion_date=clock.now() - 5, process_date=clock.now())
    assert pages.put("old", 2, insertion_date=clock.now() - 6, process_date=clock.now()).outcome == "ignored"


@pytest.mark.parametrize("step", BOTH)
def test_changes_after_a_step_are_not_refused(pages: journal.Journal, clock: ManualClock, step: int) -> None:
    """move, release and retry have dates of now, although the entry was inserted by another clock."""
    pages.put_many([journal.Put("moved"), journal.Put("released"), journal.Put("later"), journal.Put("buried")])
    clock.advance(10)
    held = {lease.key: lease for lease in pages.claim_many(4)}
    held["moved"].release()
    held["buried"].bury()
    clock.step(step)
    now = clock.now()
    assert pages.move("moved", process_date=now + 5).process_date == now + 5
    assert pages.move("moved", delay=0).process_date == now
    held["released"].release()
    held["later"].release(process_date=now + 7)
    assert pages.retry("buried").process_date == now
    entries = {entry.key: entry.process_date for entry in pages.scan()}
    assert entries == {"moved": now, "released": now, "later": now + 7, "buried": now}


@pytest.mark.parametrize("step", BOTH)
def test_postpone_max_is_a_duration(store: journal.Store, clock: ManualClock, step: int) -> None:
    """It has run as long as the steady clock says, also when the entry was changed, worn or claimed in between."""
    pages = store.journal("pages", merge="debounce", postpone_max="30m")
    keys = ("plain", "worn", "moved", "queued")
    for key in keys:
        pages.put(key)
    clock.advance(10 * 60_000)
    assert {lease.key for lease in pages.claim_many(10, lease=1000)} == set(keys)
    clock.advance(1000)  # all are worn
    began = clock.now() - 10 * 60_000 - 1000
    pages.move("plain", delay=0)
    pages.move("queued", delay=0, priority=0)
    clock.step(step)
    clock.step(-2 * step)
    clock.step(step * 2)
    began += step
    pages.move("moved", process_date=clock.now())
    limit = began + 30 * 60_000
    for key in ("plain", "worn", "moved"):
        pages.move(key, process_date=clock.now())
        assert pages.put(key, delay="15m").process_date == clock.now() + 15 * 60_000, key
        assert pages.put(key, delay="45m").process_date == limit, key


@pytest.mark.parametrize("step", BOTH)
def test_a_worker_that_sleeps_looks_again(pages: journal.Journal, clock: ManualClock, step: int) -> None:
    """A step wakes it: what is due by the new clock comes at once."""
    pages.put("a", process_date=clock.now() + HOUR if step > 0 else clock.now() - HOUR + 5)
    if step > 0:
        clock.step(step)
    leases = pages.work()
    assert next(leases).key == "a"


def test_dates_go_back_and_timestamps_do_not(pages: journal.Journal, clock: ManualClock) -> None:
    """A follower sees timestamps that only grow; the process date of a put is what the wall clock shows."""
    feed = pages.feed(live=False)
    dates = []
    for step in (0, 50, -50, 99, -99, 1000, -5000, 10_000, -HOUR, 3):
        clock.step(step)
        clock.advance(25)
        dates.append(clock.now())
        assert pages.put(f"k{step}").process_date == clock.now()
    assert dates != sorted(dates)
    events = list(feed)
    assert sum(event.verb == "step" for event in events) == (0 if top.is_merged else 4)  # then it is nobody's
    stamps = [event.timestamp for event in events]
    assert stamps == sorted(stamps)


def test_ordinary_drift_is_followed(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """Up to 100 ms: NTP at its work, not a step."""
    for _ in range(10):
        clock.step(40)
        clock.advance(60_000)
        pages.count()
        assert store.statistics()["now"] == clock.now()
    assert store.statistics()["clock_steps"] == 0


@pytest.mark.parametrize("step", BOTH)
def test_a_step_is_logged_counted_and_flagged(
    store: journal.Store, pages: journal.Journal, clock: ManualClock, caplog: pytest.LogCaptureFixture, step: int
) -> None:
    """Once, with its size; a person lowers the flag, and the next step raises it again."""
    with caplog.at_level(logging.WARNING, logger="journal"):
        clock.step(step)
        at = clock.now()
        for _ in range(20):
            clock.advance(1000)
            pages.count()
    lines = [r.getMessage() for r in caplog.records if "clock_step" in r.getMessage()]
    assert lines == [f"clock_step by_ms={step} steps=1"]
    known = store.statistics()
    assert known["clock_steps"] == 1
    assert (known["clock"]["step_ms"], known["clock"]["step_date"]) == (step, at)
    (flag,) = store.flags()
    assert (flag.name, flag.count) == ("clock", 1)
    assert "3600 s" in flag.message and ("forward" if step > 0 else "back") in flag.message
    store.lower(flag)
    clock.step(59_000)
    assert store.flags() == []
    clock.step(-61_000)
    assert [flag.name for flag in store.flags()] == ["clock"]
    assert store.statistics()["clock_steps"] == 3


@pytest.mark.parametrize("now", [-1, DATE_MAX, 1 << 63, 1 << 80])
def test_a_clock_beyond_all_dates(tmp_path: Path, now: int) -> None:
    """It is refused with what to do, at open and later; when it is right again, all goes on."""
    with pytest.raises(journal.Invalid, match="set the clock"):
        journal.open(tmp_path / "s", clock=ManualClock(now))

    class Given:
        ms = 1_700_000_000_000

        def now(self) -> int:
            return self.ms

    given = Given()
    with journal.open(tmp_path / "t", clock=given) as opened:
        pages = opened.journal("pages", rotate="1mo")
        pages.put("a")
        given.ms = now
        with pytest.raises(journal.Invalid, match="set the clock"):
            pages.put("b")
        with pytest.raises(journal.Invalid, match="set the clock"):
            pages.claim()
        given.ms = 1_700_000_000_001
        lease = pages.claim()
        assert lease is not None and lease.key == "a"
        assert pages.get("b") is None


def test_a_clock_in_the_year_200000(tmp_path: Path) -> None:
    """It is far, and within bounds: everything works."""
    clock = ManualClock(6_250_000_000_000_000)
    with journal.open(tmp_path / "s", clock=clock) as opened:
        pages = opened.journal("pages", rotate="1mo")
        pages.put("a", delay="1h")
        clock.advance(HOUR)
        assert pages.claim() is not None


def test_a_manual_clock_does_not_run_back() -> None:
    """advance is time passing: negative is an error; step goes both ways."""
    clock = ManualClock(5000)
    with pytest.raises(ValueError, match="step"):
        clock.advance(-1)
    clock.step(-1000)
    assert clock.now() == 4000
    clock.advance(5)
    assert clock.now() == 4005


def test_a_clock_that_only_knows_now(tmp_path: Path) -> None:
    """Forward is time passing: leases run out. Back is a step: they do not get longer."""

    class Given:
        ms = 1_700_000_000_000

        def now(self) -> int:
            return self.ms

    given = Given()
    with journal.open(tmp_path / "s", clock=given) as opened:
        pages = opened.journal("pages")
        pages.put("a")
        assert pages.claim(lease=10_000) is not None
        given.ms -= HOUR
        assert [lease.deadline for lease in pages.leases()] == [given.ms + 10_000]
        given.ms += 9999
        assert pages.count(status="P") == 1
        given.ms += 1
        assert pages.count(status="P") == 0
