"""The renewal thread: looks after each consumer at its date, and ends when there is none."""

from __future__ import annotations

import gc
import threading

import pytest

from journal.core.limits import NEVER
from journal.engine.runtime.clock import EngineTime, SystemClock
from journal.roles.renewal_thread import RenewalThread
from journal.testing import ManualClock
from tests.engine.helpers import HANG_S, must_end


class Sheep:
    """A target that is looked after."""

    def __init__(self, time: EngineTime, every: int = NEVER) -> None:
        self.time = time
        self.armed_at = NEVER
        self.every = every
        self.seen: list[int] = []
        self.threads: set[str] = set()

    def tick(self, now: int) -> int:
        self.seen.append(now)
        self.threads.add(threading.current_thread().name)
        return now + self.every if self.every < NEVER else NEVER


@pytest.fixture
def time(clock: ManualClock) -> EngineTime:
    return EngineTime(clock)


def idle(watch: RenewalThread) -> None:
    assert watch.wait_idle(HANG_S)


def test_at_its_date_and_not_before(clock: ManualClock, time: EngineTime) -> None:
    """To the millisecond, and once."""
    watch, sheep, start = RenewalThread(), Sheep(time), time.running()
    watch.at(sheep, start + 100)
    idle(watch)
    clock.advance(99)
    idle(watch)
    assert sheep.seen == []
    clock.advance(1)
    idle(watch)
    clock.advance(100)
    idle(watch)
    assert sheep.seen == [start + 100]


def test_again_when_it_says_so(clock: ManualClock, time: EngineTime) -> None:
    """An answer is the next date; an earlier one that comes meanwhile counts."""
    watch, sheep, start = RenewalThread(), Sheep(time, every=50), time.running()
    watch.at(sheep, start + 10)
    for _ in range(12):
        clock.advance(10)
        idle(watch)
    assert sheep.seen == [start + 10, start + 60, start + 110]
    watch.at(sheep, start + 130)
    watch.at(sheep, start + 155)
    clock.advance(10)
    idle(watch)
    assert sheep.seen[-1] == start + 130
    watch.forget(sheep)


def test_everybody_on_one_thread(clock: ManualClock, time: EngineTime) -> None:
    """It ends when there is no target, and comes back with one."""
    watch = RenewalThread()
    flock = [Sheep(time) for _ in range(20)]
    for round_ in (1, 2):
        for n, sheep in enumerate(flock):
            watch.at(sheep, time.running() + n)
        thread = watch._thread
        assert thread is not None
        clock.advance(20)
        idle(watch)
        assert all(len(sheep.seen) == round_ and len(sheep.threads) == 1 for sheep in flock)
        must_end(thread.join)
        assert watch._thread is None


def test_one_that_raises_is_tried_again(clock: ManualClock, time: EngineTime) -> None:
    """And the others are looked after all the same."""

    class Wolf(Sheep):
        def tick(self, now: int) -> int:
            super().tick(now)
            if len(self.seen) == 1:
                raise KeyError
            return NEVER

    watch, wolf, sheep = RenewalThread(), Wolf(time), Sheep(time)
    watch.at(wolf, time.running())
    watch.at(sheep, time.running())
    idle(watch)
    clock.advance(1000)
    idle(watch)
    assert (len(wolf.seen), len(sheep.seen)) == (2, 1)


def test_nobody_is_kept_alive(clock: ManualClock, time: EngineTime) -> None:
    """A date without a target passes."""
    watch, sheep = RenewalThread(), Sheep(time)
    watch.at(sheep, time.running() + 10)
    thread = watch._thread
    assert thread is not None
    del sheep
    gc.collect()
    clock.advance(10)
    idle(watch)
    must_end(thread.join)


def test_a_real_clock() -> None:
    """It wakes by itself."""
    time = EngineTime(SystemClock())
    watch = RenewalThread()
    seen = threading.Event()

    class Real(Sheep):
        def tick(self, now: int) -> int:
            seen.set()
            return NEVER

    sheep = Real(time)
    date = time.running() + 20
    watch.at(sheep, date)
    assert seen.wait(HANG_S)
    assert time.running() >= date
