"""
A lease that a consumer holds: the answers of its holder go through the consumer.

A lease that a consumer hands out is a `journal.Lease` whose verbs are called here first, so that the consumer records each answer. The
engine decides, as for every caller: what it refuses is refused, and changes nothing here either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.api.lease import Lease
from journal.core.consumer.lease_renewal import Care, Step
from journal.core.times import DateLike, DurationLike
from journal.core.values import Put, PutResult
from journal.errors import LeaseLost

if TYPE_CHECKING:
    from journal.roles.prefetch import Taking


class Taken:
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


class Answers:
    """What a lease calls in place of its journal."""

    def __init__(self, consumer: Taking) -> None:
        self._consumer = consumer
        self._journal = consumer.journal

    def done(self, token: int, *, next: Put | None = None, durability: str | None = None) -> PutResult | None:
        """Finish the work."""
        try:
            result = self._journal.done(token, next=next, durability=durability)
        except LeaseLost:
            self._consumer._heard()
            raise
        self._consumer._answered(token, "done")
        return result

    def extended(self, token: int, lease: DurationLike | None = None) -> tuple[int, int]:
        """Extend the lease; by default for as long as the consumer's leases last."""
        try:
            deadline, version = self._journal.extended(token, self._consumer.care.lease_ms if lease is None else lease)
        except LeaseLost:
            self._consumer._heard()
            raise
        self._consumer._extended(token, deadline)
        self._consumer._heard(is_accepted=True)
        return deadline, version

    def release(
        self,
        token: int,
        *,
        delay: DurationLike | None = None,
        process_date: DateLike | None = None,
        priority: int | None = None,
        failed: bool = False,
        durability: str | None = None,
    ) -> None:
        """Give the lease back; the entry waits again."""
        try:
            self._journal.release(
                token, delay=delay, process_date=process_date, priority=priority, failed=failed, durability=durability
            )
        except LeaseLost:
            self._consumer._heard()
            raise
        self._consumer._answered(token, "released")

    def bury(self, token: int, reason: str = "", *, durability: str | None = None) -> None:
        """Give the entry up."""
        try:
            self._journal.bury(token, reason, durability=durability)
        except LeaseLost:
            self._consumer._heard()
            raise
        self._consumer._answered(token, "buried")
