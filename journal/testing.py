"""Test doubles that users may rely on: a clock that a test moves."""

from __future__ import annotations

import threading
from collections.abc import Callable


class ManualClock:
    """
    Time that stands still until it is moved; pass it as `journal.open(…, clock=ManualClock(now_ms))`.

    `advance` lets time pass: timers fire, leases run out. `step` sets the wall clock only, as an operator or NTP would.
    """

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._wall = now_ms * 1_000_000
        self._steady = 0
        self._lock = threading.Lock()
        self._callbacks: dict[object, Callable[[], None]] = {}

    def now(self) -> int:
        """The wall clock in ms."""
        return self._wall // 1_000_000

    def wall_ns(self) -> int:
        """The wall clock."""
        return self._wall

    def steady_ns(self) -> int:
        """What has passed."""
        return self._steady

    def advance(self, ms: int) -> None:
        """Let `ms` milliseconds pass."""
        if ms < 0:
            raise ValueError("time does not run backwards: use step() to set the wall clock back")
        with self._lock:
            self._wall += ms * 1_000_000
            self._steady += ms * 1_000_000
        self._tell()

    def step(self, ms: int) -> None:
        """Set the wall clock forward or back without any time passing."""
        with self._lock:
            self._wall += ms * 1_000_000
        self._tell()

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back after each move; returns a function that ends it."""
        token = object()
        self._callbacks[token] = callback

        def end() -> None:
            self._callbacks.pop(token, None)

        return end

    def _tell(self) -> None:
        for callback in list(self._callbacks.values()):
            callback()
