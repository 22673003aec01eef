"""The watch on the machine's clock: who sleeps to a date is woken when the clock was set, and nobody wakes up for nothing."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import journal
from journal.engine.runtime import clock_watch
from journal.engine.runtime.clock import STEP_S, EngineTime, SystemClock
from journal.errors import StoreFull
from tests.engine.helpers import HANG_S, must_end


class Settable(SystemClock):
    """The machine's clocks, with a wall clock that a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ns = 0
        wall = self.wall_ns
        self.wall_ns = lambda: wall() + self.ahead_ns


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """What stands for the timer: a byte that is written there says that the clock was set."""
    ends, told = os.pipe()
    os.set_blocking(ends, False)
    monkeypatch.setattr(clock_watch, "timer", lambda: os.dup(ends))
    monkeypatch.setattr(clock_watch, "_watch", clock_watch._Watch())
    yield told
    os.close(ends)
    os.close(told)


def watching() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "journal-clock"]


@pytest.mark.parametrize("is_merged", [False, True])
def test_a_worker_that_sleeps_for_an_hour_is_woken(tmp_path: Path, rung: int, is_merged: bool) -> None:
    """The clock is set to the date that it sleeps to: it has the entry, and nothing was looked at meanwhile."""
    clock = Settable()
    with journal.open(tmp_path / "s", clock=clock) as store:
        pages = store.journal("pages", merged=is_merged)
        assert pages._backend.p.time.until(pages.now() + 3_600_000) == pytest.approx(3600, abs=1)
        pages.put("a", delay="1h", expiration=pages.now() + 7_200_000)
        pages.put("gone", delay="2h", expiration=pages.now() + 3_600_000)
        found: list[str] = []
        worker = threading.Thread(target=lambda: found.append(next(pages.work()).key))
        worker.start()
        while not pages._backend.p.sleeping:
            pages.count()
        clock.ahead_ns = 3_601_000_000_000
        os.write(rung, b"12345678")
        must_end(worker.join)
        assert found == ["a"]
        assert store.statistics()["clock_steps"] == 1
        assert [entry.key for entry in pages.scan()] == ["a"]
    assert store._backend.time.statistics()["is_watched"] is False


def test_one_thread_for_all_stores_while_one_is_open(tmp_path: Path, rung: int) -> None:
    """It ends with the last of them, and begins again with the next."""
    for _ in range(2):
        with journal.open(tmp_path / "a"), journal.open(tmp_path / "b"):
            assert len(watching()) == 1
        (thread,) = [each for each in threading.enumerate() if each.name == "journal-clock"] or [None]
        if thread is not None:
            must_end(thread.join)
    assert watching() == []


@pytest.mark.parametrize(
    ("part", "error"),
    [("timer", OSError(errno.EMFILE, "none left")), ("begin", StoreFull("the system refused to start a thread"))],
)
def test_without_a_watch_sleeps_are_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, error: Exception
) -> None:
    """No timer, no descriptor or no thread: the store opens, and who sleeps to a date looks at the clock each second."""

    def refuse(*args: object) -> int:
        raise error

    monkeypatch.setattr(clock_watch, part, refuse)
    monkeypatch.setattr(clock_watch, "_watch", clock_watch._Watch())
    with journal.open(tmp_path / "s") as store:
        assert store.statistics()["clock"]["is_watched"] is False
        assert store._backend.time.until(store._backend.time.now() + 3_600_000) == STEP_S
        assert watching() == []


def test_a_watch_that_ends_is_not_relied_upon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rung: int) -> None:
    """Sleeps are short from then on."""
    ended = threading.Event()

    def broken(fd: int) -> bool:
        ended.set()
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(clock_watch, "was_set", broken)
    with journal.open(tmp_path / "s") as store:
        (thread,) = [each for each in threading.enumerate() if each.name == "journal-clock"]
        os.write(rung, b"12345678")
        assert ended.wait(HANG_S)
        must_end(thread.join)
        assert store._backend.time.until(store._backend.time.now() + 3_600_000) == STEP_S


def test_the_real_timer_is_silent() -> None:
    """Where there is one: nothing is told while nobody sets the clock."""
    try:
        fd = clock_watch.timer()
    except OSError:
        pytest.skip("no timerfd here")
    assert clock_watch.was_set(fd) is False
    os.close(fd)


def test_an_error_of_one_who_is_told_is_its_own() -> None:
    """Others are told, too."""
    told: list[int] = []
    for callback in (lambda: told.append(1), lambda: 1 // 0, lambda: told.append(2)):
        clock_watch.tell(callback)  # type: ignore[arg-type]
    assert told == [1, 2]


def test_readings_that_were_held_up_are_no_step() -> None:
    """A thread that stands still between two clocks sees them apart: it looks again."""

    class Slow(SystemClock):
        is_slow = False

        def __init__(self) -> None:
            super().__init__()
            steady, wall = self.steady_ns, self.wall_ns
            self.lag_ns = 0

            def read() -> int:
                shown = wall() + self.lag_ns
                if self.is_slow:
                    self.lag_ns += 500_000_000
                return shown

            self.steady_ns = lambda: steady() + self.lag_ns
            self.wall_ns = read

    clock = Slow()
    time = EngineTime(clock)
    clock.is_slow = True
    time.look_at = 0
    for _ in range(10):
        time.now()
    assert time.steps == 0
