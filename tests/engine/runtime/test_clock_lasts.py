"""Steps of the wall clock last: over a crash, a reopen and a rotation, leases have what is left of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal.testing import ManualClock
from tests import top

HOUR = 3_600_000
BOTH = [HOUR, -HOUR]


@pytest.mark.parametrize("step", BOTH)
@pytest.mark.parametrize("is_kept", [False, True])
def test_a_crash_after_a_step(
    store: journal.Store, clock: ManualClock, crashed: Callable[[journal.Store], Path], step: int, is_kept: bool
) -> None:
    """What kill -9 leaves has the same rest of each lease, before and after a checkpoint, for journals that are not in use, too."""
    names = ("pages", "other")
    for name in names:
        each = store.journal(name)
        each.put("before")
        clock.advance(1)
        assert each.claim(lease=60_000) is not None
    store.checkpoint()
    clock.step(step)
    for name in names:
        each = store.journal(name)
        each.put("after")
        assert each.claim(lease=60_000) is not None
        if is_kept:
            store.checkpoint()
    clock.advance(59_000)
    copy = crashed(store)
    again = ManualClock(clock.now())
    with journal.open(copy, clock=again) as opened:
        pages = opened.journal("pages")
        assert [lease.deadline - again.now() for lease in pages.leases()] == [999, 1000]
        again.advance(998)
        assert pages.count(status="P") == 2
        again.advance(2)
        assert pages.count(status="P") == 0
        assert opened.journal("other").count(status="P") == 0
        assert opened.check(deep=True) == []


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_reopen_with_a_clock_that_was_set_back(
    tmp_path: Path, crashed: Callable[[journal.Store], Path], is_clean: bool
) -> None:
    """A lease is not longer, dates are dates, timestamps go on; a clock that is set right later changes no lease."""
    clock = ManualClock(1_700_000_000_000)
    with journal.open(tmp_path / "s", clock=clock) as opened:
        pages = opened.journal("pages")
        pages.put("due")
        pages.put("leased", priority=0)
        assert pages.claim(lease=10_000) is not None
        path = tmp_path / "s" if is_clean else crashed(opened)
    back = ManualClock(1_700_000_000_000 - HOUR)
    with journal.open(path, clock=back) as again:
        pages = again.journal("pages")
        assert pages.claim() is None
        back.advance(5000)
        back.step(HOUR)
        back.advance(4999)
        assert pages.count(status="P") == 1
        back.advance(1)
        entry = pages.get("leased")
        assert entry is not None and entry.status == "W"
        lease = pages.claim()
        assert lease is not None and lease.key == "leased"
        assert [flag.name for flag in again.flags()] == ["clock"]
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


@pytest.mark.parametrize("step", BOTH)
def test_reopened_while_timestamps_stand_still(tmp_path: Path, step: int) -> None:
    """A clock that was set back before the close is not set back by the reopen."""
    clock = ManualClock(1_700_000_000_000)
    for _ in range(3):
        with journal.open(tmp_path / "s", clock=clock) as opened:
            pages = opened.journal("pages")
            clock.step(step)
            pages.put("a")
            lease = pages.claim(lease=10_000)
            assert lease is not None
        clock.advance(9999)
        with journal.open(tmp_path / "s", clock=clock) as opened:
            pages = opened.journal("pages")
            assert [each.deadline for each in pages.leases()] == [clock.now() + 1]
            pages.done(lease.token)
            assert opened.check(deep=True) == []


@pytest.mark.alone(reason="merged journals rotate together")
def test_rotation_by_a_period(store: journal.Store, clock: ManualClock) -> None:
    """Forward: once. Back: not at the same boundary again, and not never: at the boundary after that."""
    clock.step(-(clock.now() % HOUR) + HOUR // 2)
    pages = store.journal("hourly", rotate="1h")

    def orders() -> int:
        pages.put(f"k{clock.now()}")
        return pages.generations()[-1].order

    assert orders() == 1
    clock.step(5 * HOUR)
    assert (orders(), orders()) == (2, 2)
    clock.step(-HOUR)
    assert orders() == 2
    clock.advance(HOUR)
    assert orders() == 2
    clock.advance(HOUR)
    assert orders() == 3
    clock.step(365 * 24 * HOUR)
    assert orders() == 4
    clock.step(-365 * 24 * HOUR)
    assert orders() == 4
    clock.advance(2 * HOUR)
    assert orders() == 5


def test_steps_are_remembered_over_generations(store: journal.Store, clock: ManualClock, tmp_path: Path) -> None:
    """A rotation takes them along; at most 64, of which the sum is right."""
    pages = store.journal("pages", merge="debounce", postpone_max="1h")
    pages.put("a")
    pages.put("leased", priority=0)
    clock.advance(10)
    assert pages.claim(lease="1h") is not None
    began = clock.now() - 10
    for number in range(70):
        clock.step(HOUR if number % 2 else -2 * HOUR)
    began += 35 * HOUR - 35 * 2 * HOUR
    (store.merged() if top.is_merged else pages).rotate()
    pages.move("a", process_date=clock.now())
    assert pages.put("a", delay="2h").process_date == began + HOUR
    assert [lease.deadline for lease in pages.leases()] == [clock.now() + HOUR]


@pytest.mark.parametrize("step", BOTH)
def test_a_merged_journal_that_was_not_in_use(tmp_path: Path, clock: ManualClock, step: int) -> None:
    """Its leases have moved when it is opened, also after its entries have moved to another generation and the store was reopened."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        idle = store.journal("idle", merged=True)
        idle.put("a")
        assert idle.claim(lease="1h") is not None
    with journal.open(tmp_path / "s", clock=clock) as store:
        store.journal("busy", merged=True).put("b")
        clock.step(step)
        store.checkpoint()
        clock.advance(1000)
        left = HOUR - 1000
        idle = store.journal("idle")
        assert [lease.deadline - clock.now() for lease in idle.leases()] == [left]
        for number in range(6):
            store.journal("busy").put(f"k{number}")
            store.merged().rotate()
        store.checkpoint()
        assert store.check() == []
    with journal.open(tmp_path / "s", clock=clock) as store:
        (lease,) = store.journal("idle").leases()
        assert (lease.deadline - clock.now(), clock.now() - lease.start) == (left, 1000)
        assert store.check(deep=True) == []
