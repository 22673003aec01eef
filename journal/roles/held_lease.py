"""A lease that a consumer holds, and what is to be done for it next."""

from __future__ import annotations

from journal.api.lease import Lease
from journal.core.consumer.lease_renewal import Care, Step


class HeldLease:
    """One lease, and when to look after it next, by the steady clock."""

    __slots__ = ("deadline", "is_handed", "is_warned", "lease", "next_at", "start", "step")

    def __init__(self, lease: Lease, deadline: int, care: Care, now: int) -> None:
        self.lease = lease
        # However its dates are read, it has no more than its own length.
        self.deadline = min(deadline, now + lease.deadline - lease.start)
        self.start = self.deadline - (lease.deadline - lease.start)
        self.is_handed = False
        self.is_warned = False
        self.step: Step
        self.next_at: int
        self.plan(care, now)

    def plan(self, care: Care, now: int) -> None:
        """What comes next, and when."""
        self.step, self.next_at = care.plan(self.start, self.deadline, now, is_warned=self.is_warned)

    def extended(self, deadline: int, care: Care, now: int) -> None:
        """Set a new deadline; a holder that was warned of the old one is warned of the new one too."""
        self.is_warned = self.is_warned and deadline == self.deadline
        self.deadline = deadline
        self.plan(care, now)

    @property
    def rank(self) -> tuple[int, int, int]:
        """Its place in the order of work."""
        return self.lease.priority, self.lease.process_date, self.lease.token
