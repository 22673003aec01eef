"""
The order of work within a range of buckets: the entries of all its buckets, merged as they are asked for.

    a stream is one bucket of one generation, its entries sorted by primary key in the index (bucket_index):
        bucket 7 of generation 1     P  P  W  W  …
        bucket 8 of generation 1     W  W  …
        bucket 7 of generation 2     P  W  …             a heap for each priority has the head of each stream,
        bucket 8 of generation 2     W  …                and the entries that wait below the head of theirs

J1  Every waiting entry of the range is at or above its stream's head, or in its priority's heap by itself.
J2  A head is a lower bound; None: the stream has nothing at or above. What comes to the top of the heap is looked up before it
    is given out, and the stream advanced with one seek when it is not there, or processing.
J3  A priority that was not asked for since its first entry came has no heap yet: it is filled then, with a seek for each
    stream. So entries of other ranges cost a seek for each priority, once, and nothing after that.
J4  Memory is bounded by the streams and the leases: a heap that outgrows them has the heads lowered in place of the entries.

The heads of priorities, `ready` and `future` are those of Order (order O3). Orders of other ranges and the one over all buckets
exist beside this one and take from the same entries: what they took is in `processing`, or gone.
"""

from __future__ import annotations

from collections.abc import Container
from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from journal.core.buckets import Range, bucket_of
from journal.core.entry.keys import PRIMARY_BYTES, SLOT_AT, bucket_key, unpack_place
from journal.engine.runtime.wakeups import SleepingPlace
from journal.engine.state.file import GenerationRows
from journal.engine.state.order import FUTURE_MAX, RETURNED_MAX, Entries, Order, date_of

_ALONE = -1
"""In the place of a stream: an entry by itself."""


class InRange(Order):
    """Which entry is next within a range of buckets. Under the journal's lock, with LMDB having all entries."""

    def __init__(self, part: Range, buckets: int, generations: list[GenerationRows]) -> None:
        self.part = part
        self.sleeping: dict[SleepingPlace, int] = {}
        """Workers on this range, and when each wakes by itself."""
        self._buckets = buckets
        self._width = len(part)
        self._generations = generations
        self._cursors: list[Any] = []
        self._heaps: dict[int, list[tuple[bytes, int]]] = {}
        self._streams: dict[int, list[bytes | None]] = {}
        super().__init__(is_small=True)

    def use(self, generations: list[GenerationRows]) -> None:
        """Work with these generations and with the transactions that are open now."""
        self._cursors = []
        if len(generations) != len(self._generations) or any(
            a is not b for a, b in zip(generations, self._generations, strict=True)
        ):
            self._heaps.clear()
            self._streams.clear()
        self._generations = generations

    # -- entries that wait --------------------------------------------------------------------------------------------

    def added(self, primary: bytes, leases: int, is_stored: bool = True) -> None:
        """An entry of the range waits in the active generation (J1)."""
        heap = self._heaps.get(primary[0])
        if heap is not None:
            heads = self._streams[primary[0]]
            stream = self._stream(len(self._generations) - 1, primary)
            head = heads[stream]
            if head is None:
                heads[stream] = primary
                heappush(heap, (primary, stream))
            elif primary < head:
                self._push(heap, heads, primary, leases)
        self._told(primary)

    def returned(self, primary: bytes, leases: int) -> None:
        """An entry of the range that was taken waits again, in whichever generation."""
        heap = self._heaps.get(primary[0])
        if heap is not None:
            self._push(heap, self._streams[primary[0]], primary, leases)
        self._told(primary)

    def _told(self, primary: bytes) -> None:
        priority = primary[0]
        head = self._heads[priority]
        if head is None or primary < head:
            self._heads[priority] = primary
            heappush(self._future, (date_of(primary), priority))
            if len(self._future) > FUTURE_MAX:
                self._trim_future()
        if self.sleeping:
            date = date_of(primary)
            for worker, wakes in self.sleeping.items():
                if date < wakes:
                    self.sleeping[worker] = 0
                    worker.wake()

    def wake(self) -> None:
        """Have the workers on this range look again: it receives no entries any more."""
        for worker in self.sleeping:
            worker.wake()

    def _push(self, heap: list[tuple[bytes, int]], heads: list[bytes | None], primary: bytes, leases: int) -> None:
        heappush(heap, (primary, _ALONE))
        if len(heap) <= len(heads) + max(RETURNED_MAX, leases):
            return
        for key, stream in heap:  # J4
            if stream == _ALONE:
                for generation in range(len(self._generations)):
                    at = self._stream(generation, key)
                    head = heads[at]
                    if head is None or key < head:
                        heads[at] = key
        heap[:] = [(head, stream) for stream, head in enumerate(heads) if head is not None]
        heapify(heap)

    def _stream(self, generation: int, primary: bytes) -> int:
        return generation * self._width + bucket_of(primary, self._buckets, SLOT_AT) - self.part.low

    # -- what is asked ------------------------------------------------------------------------------------------------

    def take(
        self, limit: int, now: int, entries: Entries, processing: Container[bytes], below: int
    ) -> list[tuple[bytes, bytes]]:
        """Up to `limit` due entries with a priority under `below`, in order, removed from here; as stored."""
        taken: list[tuple[bytes, bytes]] = []
        while len(taken) < limit:
            head = self._due(now, entries, processing, below)  # the cursor is there
            if head is None:
                break
            taken.append(entries.item())
            self._pass(head)
        return taken

    def take_one(
        self, now: int, entries: Entries, processing: Container[bytes], below: int
    ) -> tuple[bytes, bytes] | None:
        """The next due entry; `take` with a limit of one, for the usual case in one go."""
        future = self._future
        if not future or future[0][0] > now:
            ready = self._ready if below > 255 else self._ready & ((1 << below) - 1)
            if not ready:
                return None
            head = self._find((ready & -ready).bit_length() - 1, entries, processing)
            if head is not None and unpack_place(head)[1] <= now:
                item = entries.item()
                self._pass(head)
                return item
        taken = self.take(1, now, entries, processing, below)
        return taken[0] if taken else None

    def _pass(self, head: bytes) -> None:
        """An entry is taken: what is next in its stream is above it."""
        priority = head[0]
        self._heads[priority] = head
        heap, heads = self._heaps[priority], self._streams[priority]
        above = head + b"\0"
        while heap and heap[0][0] == head:
            stream = heap[0][1]
            if stream == _ALONE:
                heappop(heap)
            else:
                heads[stream] = above
                heapreplace(heap, (above, stream))

    def _find(self, priority: int, entries: Entries, processing: Container[bytes]) -> bytes | None:
        """The lowest waiting entry of a priority; the cursor is left at it."""
        heap = self._heaps.get(priority)
        if heap is None:
            heap = self._fill(priority)
        while heap:
            key, stream = heap[0]
            if len(key) == PRIMARY_BYTES and key not in processing and entries.set_key(key):
                return key
            if stream == _ALONE:
                heappop(heap)
            else:
                self._advance(heap, stream, key, processing)
        return None

    def _fill(self, priority: int) -> list[tuple[bytes, int]]:
        """Look for the first entry of each stream (J3)."""
        lowest = bytes((priority,))
        heap: list[tuple[bytes, int]] = []
        heads: list[bytes | None] = []
        for cursor in self._cursors or self._open():
            for bucket in range(self.part.low, self.part.high):
                start = bucket_key(bucket, lowest)
                found = cursor.key() if cursor.set_range(start) else b""
                if found.startswith(start):
                    heap.append((found[2:], len(heads)))
                    heads.append(found[2:])
                else:
                    heads.append(None)
        heapify(heap)
        self._heaps[priority], self._streams[priority] = heap, heads
        return heap

    def _open(self) -> list[Any]:
        self._cursors = [rows.cursor(db=rows.buckets) for rows in self._generations]
        return self._cursors

    def _advance(self, heap: list[tuple[bytes, int]], stream: int, key: bytes, processing: Container[bytes]) -> None:
        """The stream at the top of the heap has no waiting entry at `key`: go to the next one (J2)."""
        generation, at = divmod(stream, self._width)
        cursor = (self._cursors or self._open())[generation]
        bucket = bucket_key(self.part.low + at, b"")
        same = bucket + key[:1]
        start = bucket + key if len(key) > PRIMARY_BYTES else bucket + key + b"\0"
        heads = self._streams[key[0]]
        while cursor.set_range(start):
            found = cursor.key()
            if not found.startswith(same):
                break
            head = found[2:]
            if head not in processing:
                heads[stream] = head
                heapreplace(heap, (head, stream))
                return
            start = found + b"\0"
        heads[stream] = None
        heappop(heap)

    # -- for the check ------------------------------------------------------------------------------------------------

    def finds(self, home: GenerationRows, primary: bytes) -> bool:
        """Whether a waiting entry of the range would be found (J1, order O3)."""
        priority = primary[0]
        head = self._heads[priority]
        if head is None or head > primary:
            return False
        if not self._ready >> priority & 1 and not any(
            p == priority and date <= date_of(head) for date, p in self._future
        ):
            return False
        heap = self._heaps.get(priority)
        if heap is None or (primary, _ALONE) in heap:
            return True
        generation = next(i for i, rows in enumerate(self._generations) if rows is home)
        stream = self._stream(generation, primary)
        lowest = self._streams[priority][stream]
        return lowest is not None and lowest <= primary and (lowest, stream) in heap
