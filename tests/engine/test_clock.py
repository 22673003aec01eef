"""Wall clocks that step: nothing fires, nothing is lost, nothing stalls; the step is logged."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import journal
from journal.testing import ManualClock

HOUR = 3_600_000
STEPS = [HOUR, -HOUR, 24 * HOUR, -24 * HOUR, 365 * 24 * HOUR]


@pytest.mark.parametrize("step", STEPS)
def test_a_step_ends_no_lease(pages: journal.Journal, clock: ManualClock, step: int) -> None:
    """The holder finishes in its time, however the wall clock jumps."""
    pages.put("a")
    lease = pages.claim(lease="1m")
    assert lease is not None
    clock.step(step)
    clock.advance(30_000)
    assert pages.claim() is None
    lease.extend("1m")
    lease.done()
    assert pages.statistics()["leases_lost"] == 0


@pytest.mark.parametrize("step", STEPS)
def test_a_step_stalls_no_lease(pages: journal.Journal, clock: ManualClock, step: int) -> None:
    """A lost lease comes back after about its time: engine time runs at most an eighth faster or slower."""
    pages.put("a")
    lease = pages.claim(lease=80_000)
    assert lease is not None
    clock.step(step)
    for _ in range(69):
        clock.advance(1000)
    assert pages.count(status="P") == 1
    for _ in range(24):
        clock.advance(1000)
    assert pages.count(status="P") == 0
    with pytest.raises(journal.LeaseLost):
        lease.done()


@pytest.mark.parametrize("step", STEPS)
def test_a_step_expires_nothing(pages: journal.Journal, clock: ManualClock, step: int) -> None:
    """An entry lives as long as it was given, give or take an eighth."""
    pages.put("a", expiration=clock.now() + 80_000, delay="30m")
    clock.step(step)
    for _ in range(69):
        clock.advance(1000)
    assert pages.get("a") is not None
    for _ in range(24):
        clock.advance(1000)
    assert pages.get("a") is None


@pytest.mark.parametrize("step", STEPS)
def test_a_step_makes_nothing_due(pages: journal.Journal, clock: ManualClock, step: int) -> None:
    """Nor does it hold up what is: a delay is a delay."""
    pages.put("later", delay=80_000)
    pages.put("now")
    clock.step(step)
    lease = pages.claim()
    assert lease is not None and lease.key == "now"
    assert pages.claim() is None
    for _ in range(93):
        clock.advance(1000)
    lease = pages.claim()
    assert lease is not None and lease.key == "later"


def test_engine_time_never_goes_back(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """Whatever the wall clock does: stamps only grow."""
    stamps = []
    for step in (0, 50, -50, 99, -99, 1000, -5000, 10_000, -HOUR, 3):
        clock.step(step)
        clock.advance(25)
        stamps.append(pages.put(f"k{step}").process_date)
    assert stamps == sorted(stamps)


def test_ordinary_drift_is_followed(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """Up to 100 ms: NTP at its work, not a step."""
    for _ in range(10):
        clock.step(40)
        clock.advance(60_000)
        pages.count()
    assert store.statistics()["now"] == clock.now()
    assert store.statistics()["clock_steps"] == 0


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_step_is_logged_once_and_counted(
    store: journal.Store, pages: journal.Journal, clock: ManualClock, caplog: pytest.LogCaptureFixture, step: int
) -> None:
    """With its size; not again and again while it is approached."""
    with caplog.at_level(logging.WARNING, logger="journal"):
        clock.step(step)
        for _ in range(20):
            clock.advance(1000)
            pages.count()
    lines = [r.getMessage() for r in caplog.records if "clock_step" in r.getMessage()]
    assert len(lines) == 1
    assert str(step)[:3] in lines[0]
    assert store.statistics()["clock_steps"] == 1


def test_a_step_is_approached(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """An eighth of the time that passes: a step of 10 s is worked off within 80 s and some."""
    clock.step(10_000)
    for _ in range(85):
        clock.advance(1000)
        pages.count()
    assert abs(store.statistics()["now"] - clock.now()) <= 100


def test_a_reopen_with_a_clock_that_was_set_back(tmp_path: Path) -> None:
    """Engine time begins no earlier than the last record: what was due stays due, a lease is not longer."""
    clock = ManualClock(1_700_000_000_000)
    with journal.open(tmp_path / "s", clock=clock) as opened:
        pages = opened.journal("pages")
        pages.put("due")
        pages.put("leased", priority=0)
        assert pages.claim(lease=10_000) is not None
    back = ManualClock(1_700_000_000_000 - HOUR)
    with journal.open(tmp_path / "s", clock=back) as again:
        pages = again.journal("pages")
        lease = pages.claim()
        assert lease is not None and lease.key == "due"
        for _ in range(12):
            back.advance(1000)
        entry = pages.get("leased")
        assert entry is not None and entry.status == "W"
        assert again.check() == []


def test_a_reopen_with_a_later_clock_takes_the_new_time(tmp_path: Path) -> None:
    """While the store was down time passed: leases that ran out meanwhile are lost, work fell due."""
    with journal.open(tmp_path / "s", clock=ManualClock(1_700_000_000_000)) as opened:
        pages = opened.journal("pages")
        pages.put("leased")
        assert pages.claim(lease=10_000) is not None
        pages.put("later", delay="30m")
    with journal.open(tmp_path / "s", clock=ManualClock(1_700_000_000_000 + HOUR)) as again:
        pages = again.journal("pages")
        assert [x.key for x in pages.claim_many(5)] == ["leased", "later"]
        entry = pages.get("leased")
        assert entry is not None and entry.timeouts == 1
        assert again.check() == []


def test_a_manual_clock_does_not_run_back() -> None:
    """advance is time passing: negative is an error; step goes both ways."""
    clock = ManualClock(5000)
    with pytest.raises(ValueError, match="step"):
        clock.advance(-1)
    clock.step(-1000)
    assert clock.now() == 4000
    clock.advance(5)
    assert clock.now() == 4005
