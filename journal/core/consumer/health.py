"""
Whether a consumer can be trusted with work: it can until it leaves too many leases unanswered, one after the other.

           lost, or a lease's time without a word       `silent_max` on end
    HEALTHY ──────────────────────────────────► missed ─────────────────────► SILENT
       ▲  ▲                                       │                             │
       │  └───────────── an accepted answer ──────┘                             │
       └─────── any answer, also one that comes too late, or a subscription ────┘

K1  An accepted answer forgets everything that was missed.
K2  A late answer shows that the consumer is alive, but not that it is fast enough: the next lease that it loses makes it silent
    again.
K3  A consumer that is away (does not ask for more) after it lost a lease misses another one with each lease's time that passes: it
    may hold a single lease, or none, and yet buckets that other consumers could work on.
"""

from __future__ import annotations

from journal.core.limits import NEVER


class Health:
    """The health of one consumer. One thread at a time."""

    __slots__ = ("_lease_ms", "_silent_max", "is_silent", "look_at", "missed")

    def __init__(self, silent_max: int, lease_ms: int) -> None:
        self._silent_max = silent_max
        self._lease_ms = lease_ms
        self.begin()

    def begin(self) -> None:
        """A subscription begins."""
        self.missed = 0
        self.is_silent = False
        self.look_at = NEVER
        """When to check whether the consumer is still away (K3)."""

    def lost(self, now: int) -> bool:
        """Record that the consumer lost a lease; return whether that makes it silent."""
        self.look_at = now + self._lease_ms
        return self._miss()

    def asked(self) -> None:
        """Record that the consumer asked for more: it is not away, though that is no answer."""
        self.look_at = NEVER

    def look(self, now: int, *, is_away: bool) -> bool:
        """Check for time that passed without a word; return whether that makes the consumer silent (K3)."""
        if now < self.look_at:
            return False
        if not is_away:
            self.look_at = NEVER
            return False
        self.look_at = now + self._lease_ms
        return self._miss()

    def _miss(self) -> bool:
        self.missed += 1
        if self.is_silent or self.missed < self._silent_max:
            return False
        self.is_silent = True
        self.look_at = NEVER
        return True

    def heard(self, *, is_accepted: bool) -> bool:
        """Record an answer of the consumer; return whether that makes it healthy again (K1, K2)."""
        was_silent = self.is_silent
        self.is_silent = False
        self.look_at = NEVER
        if is_accepted:
            self.missed = 0
        elif was_silent:
            self.missed = self._silent_max - 1
        return was_silent
