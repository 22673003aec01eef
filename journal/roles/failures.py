"""Rate limit for the logged failures of handlers: a broken handler fails thousands of times in a minute, and the first lines suffice."""

from __future__ import annotations

import threading

LOG_EVERY_MS = 60_000
LOG_MAX = 20


class FailureLog:
    """Which failures of the handlers of one journal are logged: all, up to LOG_MAX in LOG_EVERY_MS; the others are counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until = 0
        self._room = LOG_MAX
        self._left_out = 0

    def take(self, now: int) -> int | None:
        """How many were left out since the last line, for the line that is to be written; None: leave this one out."""
        with self._lock:
            if now >= self._until or now < self._until - LOG_EVERY_MS:  # a clock may be set back
                self._until, self._room = now + LOG_EVERY_MS, LOG_MAX
            if not self._room:
                self._left_out += 1
                return None
            self._room -= 1
            left_out, self._left_out = self._left_out, 0
            return left_out
