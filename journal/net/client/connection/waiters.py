"""
Waiters of a connection: for the answer to a request, for room to send one, for pushed items.

Each of them is ended with `end`, once, under the lock of the link.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections import deque
from collections.abc import Callable
from typing import Any

from journal.errors import JournalError
from journal.net.client.connection.call import Undo


class Waiter:
    """A thread that waits."""

    is_done = False
    is_reader = False
    """Whether it reads for all."""
    is_near = False
    """Whether it gives up soon: the thread that reads for it must not wait for long."""
    lock: Any = None
    """Held until there is news; only threads that do not read have one."""
    result: Any = None
    error: JournalError | None = None
    undo: Undo | None = None
    """What to do with an answer that it has not waited for."""

    def __init__(self, by: int | None) -> None:
        self.by = by
        """When it gives up."""

    def sit(self) -> None:
        """Prepare to wait for the reader."""
        self.lock = allocate_lock()
        self.lock.acquire()

    def end(self, result: Any = None, error: JournalError | None = None) -> None:
        """End the wait, with the outcome."""
        if not self.is_done:
            self.result, self.error, self.is_done = result, error, True
            if self.lock is not None and not self.is_reader:
                self.lock.release()

    def lead(self) -> None:
        """Make it the reader."""
        self.is_reader = True
        if self.lock is not None:
            self.lock.release()


class Posted:
    """An answer that no thread waits for."""

    __slots__ = ("_then",)

    def __init__(self, then: Callable[[Any, JournalError | None], None]) -> None:
        self._then = then

    def end(self, result: Any = None, error: JournalError | None = None) -> None:
        """The answer has come; under the lock of the link."""
        self._then(result, error)


class Inbox:
    """What a subscription has pushed and no thread has taken yet."""

    def __init__(self) -> None:
        self.number = 0
        """The number of the subscription on its connection."""
        self.items: deque[Any] = deque()
        self.is_over = False
        """Nothing more comes: its connection has ended, or it was closed."""
        self.waiters: list[Waiter] = []

    def put(self, items: list[Any]) -> None:
        """Items have come."""
        self.items.extend(items)
        self.wake()

    def end(self) -> None:
        """Nothing more comes."""
        self.is_over = True
        self.wake()

    def wake(self) -> None:
        """Wake the threads that wait for it."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.end()


class OpeningWaiter(Waiter):
    """A thread that waits for a subscription, whose items may come at once."""

    def __init__(self, by: int | None, inboxes: dict[int, Inbox]) -> None:
        super().__init__(by)
        self.inbox = Inbox()
        self.inboxes = inboxes

    def end(self, result: Any = None, error: JournalError | None = None) -> None:
        """It is there: items that come from now on are for its inbox."""
        if error is None and not self.is_done and type(result) is dict:
            self.inbox.number = result["subscription"]
            self.inboxes[self.inbox.number] = self.inbox
        super().end(result, error)
