"""What several engine tests need: colliding keys, threads that must end, a disk that fails."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import journal.engine.store  # noqa: F401 - all of the engine, before a test replaces parts of it for its own time (collide)
from journal import shield

HANG_S = 100.0
"""How long a thread may take before it is said to hang; nothing waits for this when all is well."""


def collide(monkeypatch: pytest.MonkeyPatch, buckets: int = 1) -> None:
    """Let all keys share `buckets` murmurs, as keys made on purpose would."""

    def murmur(raw: bytes) -> bytes:
        number = sum(raw) % buckets
        return bytes((-(-number * 256 // buckets),)) + bytes(14) + bytes((number,))

    for name, module in list(sys.modules.items()):
        if name.startswith("journal.") and hasattr(module, "murmur"):
            monkeypatch.setattr(module, "murmur", murmur)


def must_end(function: Callable[[], Any]) -> Any:
    """Run a function on a thread and give its result; a hang is a failure with a name."""
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(function())
        except BaseException as e:  # noqa: BLE001 - it belongs to the caller, who raises it
            failure.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG_S)
    if thread.is_alive():
        pytest.fail(f"{function} hangs")
    if failure:
        raise failure[0]
    return outcome[0]


def _stack(thread: threading.Thread) -> list[tuple[str, str]]:
    """File and function of each frame of a thread, the innermost first."""
    frame = sys._current_frames().get(thread.ident or 0)
    names = []
    while frame is not None:
        names.append((os.path.basename(frame.f_code.co_filename), frame.f_code.co_name))
        frame = frame.f_back
    return names


def poll(condition: Callable[[], bool], what: str) -> None:
    """Return when something that another thread does is true."""
    looked = threading.Event()
    for _ in range(int(HANG_S / 0.001)):
        if condition():
            return
        looked.wait(0.001)
    pytest.fail(what)


def wait_asleep(thread: threading.Thread) -> None:
    """Return when a worker's thread sleeps in its place (`journal.engine.runtime.wakeups`)."""
    poll(lambda: _stack(thread)[:2] == [("shield.py", "take"), ("wakeups.py", "sleep")], "the worker does not sleep")


def wait_waiting(thread: threading.Thread) -> None:
    """Return when a thread waits where it can be interrupted: a worker in its place, a feed for news."""
    poll(
        lambda: _stack(thread)[:1] == [("shield.py", "take")] and shield._is_open,
        "the thread does not wait",
    )


def wait_blocked(thread: threading.Thread) -> None:
    """Return when a thread waits for a sync of others: its stack stands in `journal.engine.log.group_commit`."""
    poll(lambda: _stack(thread)[:1] != [] and _stack(thread)[0][0] == "group_commit.py", "the thread does not wait")


class Failing:
    """A system call that fails when told to, and counts how often it was made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, error: int | None = None, after: int = 0) -> None:
        self._real = getattr(os, name)
        self._after = after
        self.error = error
        self.calls = 0
        monkeypatch.setattr(os, name, self)

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        if self.error is not None and self.calls > self._after:
            raise OSError(self.error, os.strerror(self.error))
        return self._real(*args)


def own_pipeline(pages: Any) -> Any:
    """The pipeline of the files that a journal is in: its own, or that of all merged journals."""
    p = pages._backend.p
    return getattr(p, "shared", p)
