"""
Subscriptions of one connection, on the daemon's side: how much may be pushed.

Q1  What is pushed never exceeds the credit that the client gave; the item that ends a subscription needs none.
Q2  Nothing is pushed before the reply that names the subscription is on its way.
"""

from __future__ import annotations

from typing import Any

from journal.errors import Busy


class Subscriptions:
    """Credit and sequence of each subscription."""

    def __init__(self, *, subscriptions_max: int, credit_max: int) -> None:
        self._subscriptions_max = subscriptions_max
        self._credit_max = credit_max
        self._highest = 0
        self._credit: dict[int, int] = {}
        self._sequence: dict[int, int] = {}
        self._opening: dict[int, int] = {}
        """Subscriptions whose reply is not out yet, by request (Q2)."""
        self._last: dict[int, Any] = {}
        """Of those, the ones that have ended meanwhile: their last items."""

    def open(self, request: int, credit: int) -> int:
        """A new one, which a request asked for."""
        if len(self._credit) >= self._subscriptions_max:
            raise Busy(f"a connection has at most {self._subscriptions_max} subscriptions: end one first")
        self._highest += 1
        self._credit[self._highest] = min(credit, self._credit_max)
        self._sequence[self._highest] = 0
        self._opening[request] = self._highest
        return self._highest

    @property
    def is_opening(self) -> bool:
        """Whether a reply that names a subscription is still to come."""
        return bool(self._opening)

    def answered(self, request: int) -> int | None:
        """A reply is out: the subscription that it opened."""
        return self._opening.pop(request, None)

    def refused(self, request: int) -> None:
        """The request was answered with an error: what it opened is none."""
        subscription = self._opening.pop(request, None)
        if subscription is not None:
            self.close(subscription)

    def close(self, subscription: int) -> bool:
        """End one; False when there is none."""
        self._sequence.pop(subscription, None)
        self._last.pop(subscription, None)
        return self._credit.pop(subscription, None) is not None

    def end(self, subscription: int, item: Any) -> bool:
        """Keep the last item of one whose reply is not out yet; False: it is out (Q2)."""
        if subscription not in self._opening.values():
            return False
        self._last[subscription] = item
        return True

    def last_of(self, subscription: int) -> Any:
        """The item that was kept to end it; None: there is none."""
        return self._last.get(subscription)

    def add(self, subscription: int, number: int) -> bool:
        """The client gives credit; False when there is no such subscription (it may have ended meanwhile)."""
        if subscription not in self._credit:
            return False
        self._credit[subscription] = min(self._credit[subscription] + number, self._credit_max)
        return True

    def credit(self, subscription: int) -> int:
        """How many items may be pushed (Q1, Q2)."""
        return 0 if subscription in self._opening.values() else self._credit.get(subscription, 0)

    def next_sequence(self, subscription: int) -> int:
        """The number of the next push."""
        return self._sequence[subscription] + 1

    def pushed(self, subscription: int, items: int) -> None:
        """Items are on their way."""
        self._sequence[subscription] += 1
        self._credit[subscription] -= items

    def clear(self) -> None:
        """The connection has ended."""
        self._credit.clear()
        self._sequence.clear()
        self._opening.clear()
        self._last.clear()

    def __contains__(self, subscription: int) -> bool:
        return subscription in self._credit

    def __len__(self) -> int:
        return len(self._credit)
