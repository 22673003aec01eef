"""The keeper: whose turn it is, and its alarm: one date at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest

from journal.core.limits import NEVER
from journal.engine.runtime.background import CANCELLED_MAX, Alarm, Keeper


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    """One that is closed at the end."""
    made = Keeper("test")
    yield made
    made.close()


def test_timed_work_has_its_turn_between_calls(keeper: Keeper) -> None:
    """Callers that come one after the other do not keep it waiting for ever."""
    order: list[str] = []
    began, go = threading.Event(), threading.Event()

    def first() -> None:
        began.set()
        assert go.wait(100)

    blocked = threading.Thread(target=keeper.call, args=(first,))
    blocked.start()
    assert began.wait(100)
    queued = threading.Semaphore(0)

    class Calls(deque[Any]):
        def append(self, call: Any) -> None:
            super().append(call)
            queued.release()

    keeper._calls = Calls()
    callers = [threading.Thread(target=keeper.call, args=(lambda: order.append("call"),)) for _ in range(4)]
    for caller in callers:
        caller.start()
    for _ in callers:
        assert queued.acquire(timeout=300)
    for _ in range(2):
        keeper.after(0, lambda: order.append("task"))
    go.set()
    for caller in [blocked, *callers]:
        caller.join()
    assert order == ["task", "call", "task", "call", "call", "call"]


def test_an_alarm_rings_for_the_last_date_alone(keeper: Keeper) -> None:
    """Those that it had before come to nothing, although their times come; then it can be set again."""
    rung = threading.Semaphore(0)
    alarm = Alarm(keeper, rung.release)
    for date in (30, 20, 10):
        alarm.set(date, 0.05)
    assert alarm.at == 10
    assert rung.acquire(timeout=300)
    all_are_over = threading.Event()
    keeper.after(0.05, all_are_over.set)
    assert all_are_over.wait(100)
    assert not rung.acquire(blocking=False) and alarm.at == NEVER
    alarm.set(40, 0)
    assert rung.acquire(timeout=300)


def test_an_alarm_that_sets_itself_anew_stays_one(keeper: Keeper) -> None:
    """However many earlier dates it was given meanwhile."""
    enough = threading.Event()
    rings = []

    def again() -> None:
        rings.append(len(keeper._tasks))
        if len(rings) >= 200:
            enough.set()
        else:
            alarm.set(len(rings), 0)

    alarm = Alarm(keeper, again)
    for date in range(100, 0, -1):
        alarm.set(date, 0.01)
    assert enough.wait(100)
    assert rings[-1] <= 1


def test_dates_that_were_given_up_are_forgotten(keeper: Keeper) -> None:
    """However far away they are: a store that is open for a year does not keep one for each lease."""
    alarm = Alarm(keeper, lambda: None)
    for date in range(1000):
        alarm.set(date, 1e7)
    assert len(keeper._tasks) <= 2 * CANCELLED_MAX + 2


def test_what_was_cancelled_is_not_done(keeper: Keeper) -> None:
    done = []
    keeper.cancel(keeper.after(0.01, lambda: done.append("cancelled")))
    others_turn = threading.Event()
    keeper.after(0.02, others_turn.set)
    assert others_turn.wait(100)
    assert done == []
