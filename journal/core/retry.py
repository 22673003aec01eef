"""
Retry policy: exponential backoff with jitter, and an upper limit of failures.

    failures        1      2      3      4   …
    wait, at most   first  2      4      8   … times that, and never more than `cap`

E1  Waits grow by `factor` with each failure of an entry, up to `cap`.
E2  Of each wait a random part of up to `jitter` is left out, so that what failed together does not come back together.
E3  An entry that failed `failures_max` times is given up on (buried); None: never.
"""

from __future__ import annotations

from math import isfinite, log

from journal.core.times import DurationLike, duration_ms
from journal.errors import Invalid


class Retry:
    """A policy of retries; values are checked once, here."""

    __slots__ = ("_steps_max", "cap_ms", "factor", "failures_max", "first_ms", "jitter")

    def __init__(
        self,
        *,
        first: DurationLike = "1s",
        factor: float = 2.0,
        cap: DurationLike = "5m",
        jitter: float = 0.5,
        failures_max: int | None = 10,
    ) -> None:
        self.first_ms = duration_ms(first, "first")
        self.cap_ms = duration_ms(cap, "cap")
        if self.first_ms > self.cap_ms:
            raise Invalid(f"first ({self.first_ms} ms) is more than cap ({self.cap_ms} ms): it must not be")
        if type(factor) not in (int, float) or not (isfinite(factor) and factor >= 1):
            raise Invalid(f"factor is {factor!r}: it must be a number of at least 1")
        if type(jitter) not in (int, float) or not 0 <= jitter <= 1:
            raise Invalid(f"jitter is {jitter!r}: it must be from 0 (none) to 1 (a wait may be 0)")
        if failures_max is not None and (type(failures_max) is not int or failures_max < 1):
            raise Invalid(f"failures_max is {failures_max!r}: it must be an int of at least 1, or None")
        self.factor = float(factor)
        self.jitter = float(jitter)
        self.failures_max = failures_max
        # Beyond this many steps it is the cap anyway, and a power would overflow.
        grows = self.factor > 1 and 0 < self.first_ms < self.cap_ms
        self._steps_max = int(log(self.cap_ms / self.first_ms) / log(self.factor)) + 1 if grows else 0

    def delay_ms(self, failures: int, chance: float) -> int:
        """How long to wait after so many failures; `chance`: from 0 to 1, from the caller (E1, E2)."""
        if failures > self._steps_max:
            longest = float(self.cap_ms) if self._steps_max else float(self.first_ms)
        else:
            longest = min(self.first_ms * self.factor ** (failures - 1), self.cap_ms)
        return round(longest * (1 - self.jitter * chance))

    def is_over(self, failures: int) -> bool:
        """Whether so many failures are enough (E3)."""
        return self.failures_max is not None and failures >= self.failures_max

    def __repr__(self) -> str:
        return (
            f"Retry(first={self.first_ms}, factor={self.factor}, cap={self.cap_ms}, jitter={self.jitter}, "
            f"failures_max={self.failures_max})"
        )
