"""
The order over all buckets, and beside it those of the ranges that are in use.

A journal has a plain Order until the first claim by a range of buckets; then this one is made of what LMDB holds. It
receives every entry that waits, and passes it on to the ranges that contain it.

R1  A range in use receives every entry of its buckets that begins to wait.
R2  All ranges together have at most SPAN times the buckets, so an entry is passed to few of them. The ones that were used
    longest ago go first; their workers are woken, and begin it anew.
"""

from __future__ import annotations

from journal.core.buckets import Range, bucket_of
from journal.core.entry.keys import SLOT_AT
from journal.engine.state.file import GenerationRows
from journal.engine.state.order import Entries, Order
from journal.engine.state.range_order import InRange

SPAN = 4


class Ranges(Order):
    """Which entry is next, over all buckets and in ranges of them."""

    def __init__(self, buckets: int, *, is_small: bool) -> None:
        self.buckets = buckets
        self._orders: dict[tuple[int, int], InRange] = {}
        """By the ends of their ranges; the one that was used last is the last."""
        self._by_bucket: dict[int, list[InRange]] = {}
        self._span = 0
        super().__init__(is_small=is_small)

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        for order in self._orders.values():
            order.wake()
        self._orders.clear()
        self._by_bucket.clear()
        self._span = 0

    def use(self, generations: list[GenerationRows]) -> None:
        """Work with these generations and with the transactions that are open now."""
        for order in self._orders.values():
            order.use(generations)

    def get(self, part: Range) -> InRange | None:
        """The order of a range that is in use."""
        ends = part.low, part.high
        order = self._orders.pop(ends, None)
        if order is not None:
            self._orders[ends] = order
        return order

    def begin(self, part: Range, generations: list[GenerationRows], entries: Entries) -> InRange:
        """Use a range from now on; every entry is in the index, and LMDB has all."""
        order = InRange(part, self.buckets, generations)
        order.rebuild(entries)
        self._orders[part.low, part.high] = order
        self._span += len(part)
        while self._span > SPAN * self.buckets:  # R2
            oldest = self._orders.pop(next(iter(self._orders)))
            self._span -= len(oldest.part)
            oldest.wake()
        self._by_bucket.clear()
        return order

    def all(self) -> list[InRange]:
        """The orders of the ranges in use."""
        return list(self._orders.values())

    def added(self, primary: bytes, leases: int, is_stored: bool = True) -> None:
        """An entry waits at this primary key."""
        super().added(primary, leases, is_stored)
        for order in self._of(primary):
            order.added(primary, leases)

    def returned(self, primary: bytes, leases: int) -> None:
        """An entry that was taken waits again, where it was."""
        super().added(primary, leases)
        for order in self._of(primary):
            order.returned(primary, leases)

    def added_many(self, primaries: list[bytes], leases: int) -> None:
        """The same for many."""
        for primary in primaries:
            self.added(primary, leases)

    def _of(self, primary: bytes) -> list[InRange]:
        bucket = bucket_of(primary, self.buckets, SLOT_AT)
        orders = self._by_bucket.get(bucket)
        if orders is None:
            orders = [order for order in self._orders.values() if bucket in order.part]
            self._by_bucket[bucket] = orders
        return orders
