"""A lease as its consumer holds it: what to work on, until when, and how to end it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol, Self

from journal.api.backend import LeaseView
from journal.core.entry.keys import UserKey
from journal.core.entry.rows import unpack_data
from journal.core.times import DateLike, DurationLike
from journal.core.values import Put, PutResult
from journal.errors import LeaseLost


class Holder(Protocol):
    """What a lease is ended with: the verbs of its journal, or of a role that counts them."""

    def done(self, token: int, *, next: Put | None = None, durability: str | None = None) -> PutResult | None: ...
    def extended(self, token: int, lease: DurationLike | None = None) -> tuple[int, int]:
        """More time for a lease; its deadline and its version."""

    def release(
        self,
        token: int,
        *,
        delay: DurationLike | None = None,
        process_date: DateLike | None = None,
        priority: int | None = None,
        failed: bool = False,
        durability: str | None = None,
    ) -> None: ...
    def bury(self, token: int, reason: str = "", *, durability: str | None = None) -> None: ...


class Lease:
    """
    The right to one entry until `deadline`.

    As a context manager it is done when the block ends, and released when the block raises.
    """

    __slots__ = (
        "_held", "_holder", "_is_ended", "data", "deadline", "insertion_date", "key", "token", "version",
    )  # fmt: skip

    def __init__(self, holder: Holder, held: LeaseView, data: bytes, insertion_date: int) -> None:
        """`data` is packed."""
        self._holder = holder
        self._held = held
        self._is_ended = False
        self.key: UserKey = held.key
        self.data: Any = unpack_data(data)
        self.deadline: int = held.deadline
        self.token: int = held.token
        self.version: int = held.version
        self.insertion_date: int = insertion_date

    # What never changes under a lease is not copied for each claim: it is read on demand.

    @property
    def priority(self) -> int:
        """The priority of the entry; the smallest comes first."""
        return self._held.priority

    @property
    def process_date(self) -> int:
        """When the entry fell due."""
        return self._held.process_date

    @property
    def consumer(self) -> str:
        """The consumer that holds it."""
        return self._held.consumer

    @property
    def start(self) -> int:
        """When it was claimed."""
        return self._held.start

    @property
    def timeouts(self) -> int:
        """How many leases of the entry were lost before."""
        return self._held.timeouts

    @property
    def owner(self) -> str | None:
        """The producer group of the entry."""
        return self._held.group

    @property
    def expiration(self) -> int:
        """When the entry is no longer wanted, unless it is under a lease; 0: never."""
        return self._held.expiration

    @property
    def is_ended(self) -> bool:
        """Whether it was ended through this object."""
        return self._is_ended

    def done(self, *, next: Put | None = None, durability: str | None = None) -> PutResult | None:
        """The work is finished: the entry goes, and what comes `next` is put, both or none. Repeating it is harmless."""
        result = self._holder.done(self.token, next=next, durability=durability)
        self._is_ended = True
        return result

    def extend(self, lease: DurationLike | None = None) -> int:
        """Extend the lease, from now on; the new deadline."""
        self.deadline, self.version = self._holder.extended(self.token, lease)
        return self.deadline

    def release(
        self,
        *,
        delay: DurationLike | None = None,
        process_date: DateLike | None = None,
        priority: int | None = None,
        failed: bool = False,
        durability: str | None = None,
    ) -> None:
        """Give the entry back: it waits again, now or later, at its priority or another; `failed`: an attempt that counts (`timeouts`)."""
        self._holder.release(
            self.token, delay=delay, process_date=process_date, priority=priority, failed=failed, durability=durability
        )
        self._is_ended = True

    def bury(self, reason: str = "", *, durability: str | None = None) -> None:
        """Give the entry up: it is kept apart until it is retried or discarded."""
        self._holder.bury(self.token, reason, durability=durability)
        self._is_ended = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_ended:
            return
        if error is None:
            self.done()
            return
        try:
            self.release()
        except LeaseLost:
            # The block's own error matters more; the entry is free already.
            self._is_ended = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.token} of {self.key!r} until {self.deadline}>"


def answer_through(lease: Lease, holder: Holder) -> None:
    """Have a role, which records the answers, called in place of the journal."""
    lease._holder = holder


def mark_ended(lease: Lease) -> None:
    """Record that a lease was ended by its token, not through the object."""
    lease._is_ended = True
