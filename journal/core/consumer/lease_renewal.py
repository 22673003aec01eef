"""
How a consumer's leases are looked after: when to extend one, when to warn, and when it is over.

    start            half            deadline
      │───────────────│────────────────│            an extension at half moves the deadline, and with it the next half
      │               └─ EXTEND        │
      │                          warn  │            when no extension is to come
      │                            └─ WARN
      │                                └─ END

V1  A lease is extended when half of a lease is left, to a whole one from then on, but never beyond `start + extend_max`.
V2  The holder of a lease that is not extended any more (switched off, or at the limit) is warned once for each deadline, `warn`
    before it.
V3  An extension that failed is tried again, several times before the deadline, and its holder is warned meanwhile.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from journal.core.times import DurationLike, duration_ms
from journal.errors import Invalid

TRIES = 8
"""How often a failing extension is tried within half a lease."""


class Step(Enum):
    """What to do with a lease next."""

    EXTEND = "extend"
    WARN = "warn"
    END = "end"


class Care(NamedTuple):
    """How the leases of one consumer are looked after."""

    lease_ms: int
    extend_max_ms: int
    """0: they are not extended."""
    warn_ms: int

    @classmethod
    def of(cls, lease: DurationLike, extend: bool, extend_max: DurationLike, warn: DurationLike) -> Care:
        """From what a caller wrote."""
        lease_ms = duration_ms(lease, "lease")
        if lease_ms < 1:
            raise Invalid("a lease lasts at least 1 ms")
        limit = duration_ms(extend_max, "extend_max")
        if type(extend) is not bool:
            raise Invalid(f"extend is {extend!r}: it must be True or False")
        if extend and limit < lease_ms:
            raise Invalid(f"extend_max ({limit} ms) is less than the lease ({lease_ms} ms): give more, or extend=False")
        # A warning in the first half of a short lease would say nothing: it had only just begun.
        return cls(lease_ms, limit if extend else 0, min(duration_ms(warn, "warn"), lease_ms // 2))

    def extended(self, start: int, deadline: int, now: int) -> int:
        """The deadline that an extension gives now; the one that is there when it would not help (V1)."""
        return max(deadline, min(now + self.lease_ms, start + self.extend_max_ms))

    def plan(self, start: int, deadline: int, now: int, *, is_warned: bool) -> tuple[Step, int]:
        """The next step for a lease, and its date, which may have passed."""
        if deadline > now and start + self.extend_max_ms > deadline:
            return Step.EXTEND, deadline - self.lease_ms // 2
        if deadline > now and not is_warned:
            return Step.WARN, deadline - self.warn_ms
        return Step.END, deadline

    def again(self, deadline: int, now: int) -> int:
        """When to try an extension again that failed (V3)."""
        return min(deadline, now + max(1, self.lease_ms // 2 // TRIES))
