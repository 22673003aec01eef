"""A lease that a daemon gave, as its consumer holds it: the same as journal.Lease."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from journal.core.entry.keys import UserKey
from journal.core.entry.rows import unpack_data
from journal.core.times import DateLike, DurationLike
from journal.core.values import Put, PutResult
from journal.errors import LeaseLost
from journal.net.wire.values import LeaseRow

if TYPE_CHECKING:
    from journal.net.client.journal import RemoteJournal


class LeaseView:
    """The fields of a lease; subclasses that have a connection end it."""

    __slots__ = ("_is_ended", "_row", "data", "deadline", "insertion_date", "key", "token", "version")

    def __init__(self, row: LeaseRow) -> None:
        self._row = row
        self._is_ended = False
        self.key: UserKey = row.key
        self.data: Any = unpack_data(row.data)
        self.deadline: int = row.deadline
        self.token: int = row.token
        self.version: int = row.version
        self.insertion_date: int = row.insertion_date

    @property
    def priority(self) -> int:
        """The priority of the entry; the smallest comes first."""
        return self._row.priority

    @property
    def process_date(self) -> int:
        """When the entry fell due."""
        return self._row.process_date

    @property
    def consumer(self) -> str:
        """The consumer that holds it."""
        return self._row.consumer

    @property
    def start(self) -> int:
        """When it was claimed."""
        return self._row.start

    @property
    def timeouts(self) -> int:
        """How many leases of the entry were lost before."""
        return self._row.timeouts

    @property
    def owner(self) -> str | None:
        """The producer group of the entry."""
        return self._row.owner

    @property
    def expiration(self) -> int:
        """When the entry is no longer wanted, unless it is under a lease; 0: never."""
        return self._row.expiration

    @property
    def is_ended(self) -> bool:
        """Whether it was ended through this object."""
        return self._is_ended

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.token} of {self.key!r} until {self.deadline}>"


class RemoteLease(LeaseView):
    """
    The right to one entry until `deadline`.

    As a context manager it is done when the block ends, and released when the block raises.
    """

    __slots__ = ("_holder",)

    def __init__(self, journal: RemoteJournal, row: LeaseRow) -> None:
        super().__init__(row)
        self._holder = journal

    def done(self, *, next: Put | None = None, durability: str | None = None) -> PutResult | None:
        """The work is finished: the entry goes, and what comes `next` is put, both or none. Repeating it is harmless."""
        result = self._holder.done(self.token, next=next, durability=durability)
        self._is_ended = True
        return result

    def extend(self, lease: DurationLike | None = None) -> int:
        """Ask for more time, from now on; the new deadline."""
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
        """Give the entry up: it is kept apart until it is retried."""
        self._holder.bury(self.token, reason, durability=durability)
        self._is_ended = True

    def __enter__(self) -> RemoteLease:
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
