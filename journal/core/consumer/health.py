"""
Whether a consumer can be trusted with work: it can until it leaves too many leases unanswered, one after the other.

           lost, or a lease's time without a word       `silent_max` on end
    HEALTHY ──────────────────────────────────► missed ─────────────────────► SILENT
       ▲  ▲                                       │                             │
       │  └───────────── an accepted answer ──────┘                             │
       └─────── any answer, also one that comes too late, or a subscription ────┘

K1  An accepted answer forgets everything that was missed.
K2  An answer that comes too late shows that somebody is there, but not that he is fast enough: the next lease that he loses makes
    him silent again.
K3  One who is away (does not ask for more) after he lost a lease misses another one with each lease's time that passes: he may
    hold a single lease, or none, and yet buckets that others could work on.
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
        """When to look whether he is still away (K3)."""

    def lost(self, now: int) -> bool:
        """A lease that he had was lost; whether that makes him silent."""
        self.look_at = now + self._lease_ms
        return self._miss()

    def asked(self) -> None:
        """He wants more: he is not away, though that is no answer."""
        self.look_at = NEVER

    def look(self, now: int, *, is_away: bool) -> bool:
        """Time has passed; whether that makes him silent (K3)."""
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
        """He answered; whether that makes him healthy again (K1, K2)."""
        was_silent = self.is_silent
        self.is_silent = False
        self.look_at = NEVER
        if is_accepted:
            self.missed = 0
        elif was_silent:
            self.missed = self._silent_max - 1
        return was_silent
