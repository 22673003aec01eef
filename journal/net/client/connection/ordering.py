"""
How threads that make calls for other threads keep the order in which the calls were submitted.

The thread that has the turn holds a lock, which the link releases as soon as the first request of its call is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SendingOrder(threading.local):
    """The turn that this thread has."""

    turn: threading.Lock | None = None

    def over(self) -> None:
        """A request was sent: the next one may."""
        turn, self.turn = self.turn, None
        if turn is not None:
            turn.release()

    @contextmanager
    def held(self, turn: threading.Lock) -> Iterator[None]:
        """Have a turn, which this thread has acquired, until a request is sent, or at the latest until the end."""
        self.turn = turn
        try:
            yield
        finally:
            self.over()


turns = SendingOrder()
