"""
What one feed has delivered, and what of it is acknowledged. A feed with a consumer's name keeps that; one without keeps nothing.

Under the consumers' lock, which is taken here.
"""

from __future__ import annotations

from collections.abc import Iterable

from journal.core.arguments import cursors_of, run_of
from journal.core.log.acks import Acks, Run
from journal.core.log.cursor import Cursor
from journal.core.log.cursor_math import Span, lag, newest
from journal.core.log.events import Event
from journal.engine.feed.consumer import Consumers, FeedConsumer
from journal.engine.feed.initial_copy import ORDER as COPYING
from journal.engine.feed.initial_copy import Copy
from journal.errors import Invalid, StoreClosed

_ALL = 1 << 30
Which = Cursor | Event | Iterable[Cursor | Event]


class Deliveries:
    """Those of one feed."""

    def __init__(
        self, journal: str, consumers: Consumers, consumer: FeedConsumer | None, after: Cursor, unacked_max: int
    ) -> None:
        self.consumer = consumer
        self.last: Event | None = None
        """Delivered last, not counting what was delivered again."""
        self.one: Cursor | None = None
        """Delivered again and not acknowledged yet (feed K2)."""
        self.is_failing = False
        """A failure was reported, and the iteration has not gone back yet."""
        self._journal = journal
        self._consumers = consumers
        self._acks = Acks(after) if consumer is None else consumer.acks
        self._unacked_max = unacked_max
        self._again_to = self._acks.high
        """Up to here changes are delivered again, one at a time."""

    def note(self) -> None:
        """Record in the acknowledgements what was delivered; under the consumers' lock."""
        acks = self._acks
        acks.delivered(acks.high if self.last is None else self.last.cursor)

    def is_again(self, cursor: Cursor) -> bool:
        """Whether a change was delivered before."""
        return self.consumer is not None and cursor <= self._again_to

    def unacknowledged(self, page: list[Event]) -> list[Event]:
        """Those of a page that are not acknowledged."""
        with self._consumers.lock:
            return [each for each in page if not self._acks.has(each.cursor)]

    def room(self, *, is_again: bool) -> tuple[int, str]:
        """How many may be delivered before the next acknowledgement (feed K2, K3), and why none."""
        if self.consumer is None:
            return _ALL, ""
        with self._consumers.lock:
            self.note()
            is_held = self.one is not None and not self._acks.has(self.one)
            room = 1 if is_again else self._unacked_max - self._acks.unacked
        if is_held:
            return 0, f"{self.one} was delivered again, and the next one comes when it is acknowledged"
        if room <= 0:
            return 0, f"{self._unacked_max} changes were delivered and are not acknowledged (unacked_max)"
        self.one = None
        return room, ""

    def passed(self, crossed: list[tuple[Cursor, Cursor]], passed: list[Run]) -> None:
        """The reader has passed ends of generations, and changes that have no event for this feed."""
        if self.consumer is None:
            return
        with self._consumers.lock:
            for last, before in crossed:
                self._acks.cross(last, before)
            for run in passed:
                self._acks.pass_over(*run)
            self.note()
            self._consumers.touched(self.consumer)

    def begin_copy(self, copy: Copy) -> None:
        """A copy was taken: it comes first, and what follows its cursor comes then (feed K5)."""
        consumer = self.consumer
        assert consumer is not None
        with self._consumers.lock:
            self.last = None
            acks = consumer.acks = self._acks = Acks(Cursor(COPYING, -1))
            acks.cross(copy.last, Cursor(copy.cursor.order, copy.cursor.offset - 1))
            self._again_to = Cursor(COPYING, -1)
            consumer.start = copy.cursor
            self._consumers.touched(consumer)

    def rewind(self) -> Cursor:
        """Go back to what is not acknowledged (feed K2); the cursor before it."""
        self.is_failing = False
        self.one = None
        with self._consumers.lock:
            self.note()
            self._acks.rewind()
            self._again_to = self._acks.high
            return self._acks.position

    def ack(self, which: tuple[Which, ...]) -> None:
        """Acknowledge changes; one that was never delivered is refused, and then none of them is taken."""
        consumer = self.consumer
        assert consumer is not None
        run = run_of(which[0]) if len(which) == 1 else None
        if run is not None:
            order, _, last = run
            cursors = [Cursor(order, last)]
        elif len(which) == 1 and type(which[0]) is Cursor:
            cursors = [which[0]]  # a usual case, without a look at all others
        else:
            cursors = [cursor for each in which for cursor in cursors_of(each)]
        with self._consumers.lock:
            if self._consumers.is_closed:
                raise StoreClosed(f"the journal {self._journal} is being closed: nothing is acknowledged any more")
            self.note()
            acks = self._acks
            for cursor in cursors:
                acks.check(cursor)
            if run is not None:
                acks.ack_run(*run)
            else:
                for cursor in cursors:
                    acks.ack(cursor)
            if consumer.is_copying and acks.position >= consumer.start:
                consumer.is_copying = False  # the event that ends the copy, and all before it
            self._consumers.touched(consumer)

    def fail(self, which: Which) -> None:
        """Something could not be processed; it must have been delivered, and not be acknowledged."""
        cursors = cursors_of(which)
        with self._consumers.lock:
            self.note()
            for cursor in cursors:
                self._acks.check(cursor)
                if self._acks.has(cursor):
                    raise Invalid(f"{cursor} is acknowledged: it cannot fail any more")
        self.is_failing = True

    def position(self) -> Cursor:
        """The highest cursor up to which all is acknowledged; without a name: that was delivered."""
        with self._consumers.lock:
            self.note()
            return self._acks.high if self.consumer is None else self.consumer.position

    def again(self) -> Cursor:
        """What comes up to here was delivered before."""
        with self._consumers.lock:
            self.note()
            return self._acks.high if self.is_failing else self._again_to

    def unacked(self) -> int:
        """How many changes were delivered and are not acknowledged."""
        with self._consumers.lock:
            self.note()
            return 0 if self.consumer is None else self._acks.unacked

    def lag(self, spans: list[Span]) -> int:
        """How many changes there are that were not acknowledged; without a name: not delivered."""
        with self._consumers.lock:
            self.note()
            if self.consumer is not None:
                return self.consumer.lag(spans)
            return 0 if self._acks.high >= newest(spans) else lag(self._acks.high, spans)

    def close(self) -> None:
        """Write what was acknowledged."""
        if self.consumer is not None:
            with self._consumers.lock:
                self.note()
                self._consumers.touched(self.consumer)
            self._consumers.flush()
