"""
The order of work, in memory: for each priority, the lowest entry that may be waiting.

    entries of one priority, by primary key:
        P  P  w  P  P  P  │  W  W  W  W  …
              │           └─ mark: all from here on are in LMDB only
              └─ returned: waits below the mark; in a heap

O1  Every waiting entry is at or above its priority's mark, or in its heap of returned ones.
O2  Memory is bounded by the leases: a heap that outgrows them is dropped and the mark lowered to its least entry.
O3  `head` of a priority is a lower bound of its waiting entries; a priority whose head is due is in `ready`, else it is
    in the `future` heap under its head's date or an earlier one. Stale bounds cost one look, never a wrong answer.

O4  `_beyond` of a priority, where known, is a lower bound of the waiting entries at or above the mark that LMDB has. It
    shows whether an entry that only memory has yet is the next one, without a look at LMDB.

So a claim walks over no entry that is processing or in the future, and looks only at priorities that are due.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Protocol, TypeVar

from journal.core.entry.keys import BEHIND_ALL, pack_bound, unpack_place

T = TypeVar("T")
RETURNED_MAX = 4096
FUTURE_MAX = 1024
_ALL = (1 << 256) - 1
Names = Callable[[bytes], Iterator[bytes]]
"""The keys of the entries at or above one, without what is stored there."""


class Entries(Protocol):
    """A cursor over the entries, by primary key."""

    def set_range(self, key: bytes) -> bool: ...
    def set_key(self, key: bytes) -> bool: ...
    def key(self) -> bytes: ...
    def item(self) -> tuple[bytes, bytes]: ...
    def iternext(self) -> Iterator[tuple[bytes, bytes]]: ...


class _ByPriority(dict[int, T]):
    """What most priorities do not have: takes room for those that are in use only."""

    def __init__(self, make: Callable[[], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, priority: int) -> T:
        value = self[priority] = self._make()
        return value


class Order:
    """Which entry is next. A small one takes little memory, for one of thousands of journals, and is a little slower."""

    def __init__(self, *, is_small: bool = False) -> None:
        self.is_small = is_small
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        nothing: list[bytes | None] = [None] * (0 if self.is_small else 256)
        self._marks: list[bytes | None] | _ByPriority[bytes | None] = nothing.copy()
        self._heads: list[bytes | None] | _ByPriority[bytes | None] = nothing
        self._returned: list[list[bytes]] | _ByPriority[list[bytes]] = [[] for _ in nothing]
        if self.is_small:
            self._marks, self._heads = _ByPriority(lambda: None), _ByPriority(lambda: None)
            self._returned = _ByPriority(list)
        self._future: list[tuple[int, int]] = []
        self._ready = 0
        self._beyond: dict[int, bytes] = {}

    def rebuild(self, entries: Entries) -> None:
        """From what LMDB holds: one seek for each priority in use."""
        self.clear()
        priority = 0
        while priority < 256 and entries.set_range(bytes((priority,))):
            first = entries.key()
            self.added(first, 0)
            priority = first[0] + 1

    def stored(self) -> None:
        """LMDB has got entries that only memory had (O4)."""
        self._beyond.clear()

    def added(self, primary: bytes, leases: int, is_stored: bool = True) -> None:
        """An entry waits at this primary key (O1, O3), in LMDB or only in memory as yet."""
        priority = primary[0]
        mark = self._marks[priority]
        if is_stored and self._beyond:
            self._beyond.pop(priority, None)
        if mark is None:
            self._marks[priority] = primary
        elif primary < mark:
            heap = self._returned[priority]
            heappush(heap, primary)
            if len(heap) > RETURNED_MAX and len(heap) > leases:  # O2
                self._marks[priority] = heap[0]
                heap.clear()
                self._beyond.pop(priority, None)
        head = self._heads[priority]
        if head is not None and head <= primary:
            return
        self._heads[priority] = primary
        heappush(self._future, (date_of(primary), priority))
        if len(self._future) > FUTURE_MAX:
            self._trim_future()

    def returned(self, primary: bytes, leases: int) -> None:
        """An entry that was taken waits again, where it was."""
        self.added(primary, leases)

    def _trim_future(self) -> None:
        """Drop what the heap holds of heads that have changed."""
        heads = self._heads.items() if isinstance(self._heads, dict) else enumerate(self._heads)
        self._future = [(date_of(head), p) for p, head in heads if head is not None and not self._ready >> p & 1]
        heapify(self._future)

    def added_many(self, primaries: list[bytes], leases: int) -> None:
        """The same for many, sorted: most are above the mark, where nothing is to be done."""
        at, size = 0, len(primaries)
        while at < size:
            priority = primaries[at][0]
            self.added(primaries[at], leases)
            end = bisect_left(primaries, bytes((priority + 1,)), at) if priority < 255 else size
            for primary in islice(primaries, at + 1, end):
                mark = self._marks[priority]
                if mark is None or primary >= mark:
                    break
                self.added(primary, leases)
            at = end

    def take(
        self, limit: int, now: int, entries: Entries, processing: Container[bytes], below: int
    ) -> list[tuple[bytes, bytes]]:
        """Up to `limit` due entries with a priority under `below`, in order, removed from here; as stored."""
        taken: list[tuple[bytes, bytes]] = []
        while len(taken) < limit:
            head = self._due(now, entries, processing, below)  # the cursor is there
            if head is None:
                break
            priority = head[0]
            self._heads[priority] = head
            heap = self._returned[priority]
            if heap and heap[0] == head:
                while heap and heap[0] == head:  # a place may have been given up and taken again
                    heappop(heap)
                taken.append(entries.item())
                continue
            if limit == 1:
                taken.append(entries.item())
            else:
                stop = pack_bound(priority, now + 1)
                if heap and heap[0] < stop:
                    stop = heap[0]
                for item in entries.iternext():
                    primary = item[0]
                    if primary >= stop or primary in processing:
                        break
                    head = primary
                    taken.append(item)
                    if len(taken) == limit:
                        break
            self._marks[priority] = head + b"\0"
        return taken

    def take_new(self, primary: bytes, now: int, entries: Entries, below: int) -> bool:
        """Take the first due one of the entries that only memory has; False when another may come before it."""
        future = self._future
        while future and future[0][0] <= now:
            self._ready |= 1 << heappop(future)[1]
        ready = self._ready
        priority = primary[0]
        if priority >= below or ready & -ready != 1 << priority:
            return False
        heap = self._returned[priority]
        if heap:
            if heap[0] != primary:
                return False
            while heap and heap[0] == primary:
                heappop(heap)
            self._heads[priority] = primary
            return True
        bound = self._beyond.get(priority)
        if bound is None:
            bound = entries.key() if entries.set_range(self._marks[priority] or primary) else BEHIND_ALL
            self._beyond[priority] = bound
        if bound <= primary:
            return False
        self._heads[priority] = primary
        self._marks[priority] = primary + b"\0"
        return True

    def take_one(
        self, now: int, entries: Entries, processing: Container[bytes], below: int
    ) -> tuple[bytes, bytes] | None:
        """The next due entry; `take` with a limit of one, for the usual case in one go."""
        future = self._future
        if not future or future[0][0] > now:
            ready = self._ready if below > 255 else self._ready & ((1 << below) - 1)
            if not ready:
                return None
            priority = (ready & -ready).bit_length() - 1
            mark = self._marks[priority]
            if mark is not None and not self._returned[priority] and entries.set_range(mark):
                item = entries.item()
                primary = item[0]
                if primary[0] == priority and primary not in processing and unpack_place(primary)[1] <= now:
                    self._heads[priority] = primary
                    self._marks[priority] = primary + b"\0"
                    return item
        taken = self.take(1, now, entries, processing, below)
        return taken[0] if taken else None

    def _due(self, now: int, entries: Entries, processing: Container[bytes], below: int) -> bytes | None:
        """The next due entry; priorities that turn out not to be due leave `ready` (O3)."""
        future = self._future
        while future and future[0][0] <= now:
            self._ready |= 1 << heappop(future)[1]
        ready = self._ready & (_ALL >> (256 - below)) if below < 256 else self._ready
        while ready:
            bit = ready & -ready
            priority = bit.bit_length() - 1
            head = self._find(priority, entries, processing)
            if head is not None and unpack_place(head)[1] <= now:
                return head
            self._ready &= ~bit
            ready &= ~bit
            self._heads[priority] = head
            if head is None:
                self._marks[priority] = None
            else:
                heappush(future, (date_of(head), priority))
        return None

    def _find(self, priority: int, entries: Entries, processing: Container[bytes]) -> bytes | None:
        """The lowest waiting entry of a priority; the cursor is left at it."""
        heap = self._returned[priority]
        while heap and (heap[0] in processing or not entries.set_key(heap[0])):
            heappop(heap)
        found: bytes | None = None
        mark = self._marks[priority]
        if mark is not None and entries.set_range(mark):
            found = entries.key()
            while found[0] == priority and found in processing:
                # What is walked over is processing, so the mark may follow (O1).
                mark = self._marks[priority] = found + b"\0"
                if not entries.set_range(mark):
                    break
                found = entries.key()
            if found[0] != priority or found in processing:
                found = None
        if heap and (found is None or heap[0] < found):
            entries.set_key(heap[0])
            return heap[0]
        return found

    def next_due(self, now: int) -> int | None:
        """A date before which nothing falls due: `now` when something may be due already, None when nothing waits."""
        if self._ready:
            return now
        return max(now, self._future[0][0]) if self._future else None

    def next_due_exactly(self, now: int, entries: Entries, processing: Container[bytes]) -> int | None:
        """When the next entry falls due, or fell due; None when nothing waits."""
        head = self._due(now, entries, processing, 256)
        if head is not None:
            return date_of(head)
        # A bound in the heap may be stale: let its priority show its head as if its date had come.
        while self._future:
            date, priority = self._future[0]
            head = self._find(priority, entries, processing)
            if head is not None and date_of(head) == date:
                return date
            heappop(self._future)
            self._heads[priority] = head
            if head is None:
                self._marks[priority] = None
            else:
                heappush(self._future, (date_of(head), priority))
        return None

    def oldest_due(self, now: int, entries: Entries, processing: Container[bytes]) -> int | None:
        """The earliest date of all entries that are due, over all priorities: one look for each in use; None when none is."""
        heads = self._heads.items() if isinstance(self._heads, dict) else enumerate(self._heads)
        used = [priority for priority, head in heads if head is not None]
        found = [self._find(priority, entries, processing) for priority in used]
        date = min((date_of(each) for each in found if each is not None), default=None)
        return date if date is not None and date <= now else None

    def due_now(
        self, now: int, limit: int, entries: Entries, processing: Container[bytes], names: Names
    ) -> tuple[int, int | None]:
        """
        How many waiting entries are due, of up to `limit` keys that are looked at, and when the next one falls due that is not.

        When something is due, the number is at least 1.
        """
        if self._due(now, entries, processing, 256) is None:  # and no stale bit is left in `ready`
            return 0, self.next_due_exactly(now, entries, processing)
        due, left = 0, limit
        upcoming: int | None = None
        heads = self._heads.items() if isinstance(self._heads, dict) else enumerate(self._heads)
        for priority, head in [(priority, head) for priority, head in heads if head is not None]:
            date = date_of(head)
            if date <= now:
                found, looked = self._count_due(priority, now, left, entries, processing, names)
                due, left = due + found, left - looked
            elif upcoming is not None and upcoming <= date:
                continue
            for name in names(pack_bound(priority, now + 1)):
                if name[0] != priority:
                    break
                if name not in processing:
                    date = date_of(name)
                    upcoming = date if upcoming is None else min(date, upcoming)
                    break
        return max(due, 1), upcoming

    def _count_due(
        self, priority: int, now: int, limit: int, entries: Entries, processing: Container[bytes], names: Names
    ) -> tuple[int, int]:
        """How many entries of a priority are due, and how many keys were looked at (O1)."""
        stop = pack_bound(priority, now + 1)
        head = self._find(priority, entries, processing)  # the mark is behind those that are processing
        mark = self._marks[priority]
        if head is None or head >= stop or limit <= 0:
            return 0, 0
        below = set(islice(self._returned[priority], limit))
        due = sum(
            1 for key in below if key < (mark or stop) and key < stop and key not in processing and entries.set_key(key)
        )
        looked = len(below)
        if mark is not None:
            for name in names(mark):
                if name >= stop or looked >= limit:
                    break
                looked += 1
                due += name not in processing
        return due, looked

    def mark_of(self, priority: int) -> tuple[bytes | None, list[bytes], bytes]:
        """For the check: the mark, the returned entries and the bound of a priority."""
        return self._marks[priority], list(self._returned[priority]), self._beyond.get(priority, b"")


def date_of(primary: bytes) -> int:
    """The process date in a primary key."""
    date: int = unpack_place(primary)[1]
    return date
