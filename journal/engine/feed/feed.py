"""
A feed: a journal's log as events, with acknowledgements: an iterator, or polled by a thread that serves sockets (`poll`, `take`).

One thread iterates or takes; any thread may acknowledge, say that something failed, or close. A feed with a consumer's name keeps
what was acknowledged; one without a name keeps nothing and holds nothing of the log back.

    delivered ──► acknowledged, in any order            position: the highest cursor up to which all is
        └───────► failed, or the feed ended: delivered again, ONE AT A TIME, before anything new

K1  Every change is delivered at least once and in order; one that was acknowledged is never delivered again.
K2  After a failure, and when a consumer comes back, what had been delivered and not acknowledged is delivered again, each
    one only when the one before it is acknowledged.
K3  At most `unacked_max` delivered changes are unacknowledged at a time; so what is in memory is bounded.
K4  A caller that asks for more than K2 and K3 allow is refused (Unacknowledged): a program that acknowledges on the same
    thread would wait for ever. With wait_acks=True the iteration waits for another thread to acknowledge.
K5  A copy comes before everything else, and is begun anew when it was not completed.
K6  `take` waits for nothing. What it gives is delivered, as by iterating; what it does not give, although it was read, is not.
K7  The callback of `poll` comes once, on any thread, after a `take` that has left nothing, and again after the next one. It may come
    without news.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import length_hint
from time import monotonic
from types import TracebackType

from journal.core.log.acks import UNACKED_MAX as UNACKED_MAX
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.engine.feed.consumer import Consumers, FeedConsumer
from journal.engine.feed.deliveries import Deliveries, Which
from journal.engine.feed.initial_copy import ORDER as COPYING
from journal.engine.feed.initial_copy import CopiedJournal, Copy
from journal.engine.feed.log_tail import Tail, active_log, spans_of
from journal.engine.log.followers import CallingLatch
from journal.errors import Invalid, StoreClosed, Unacknowledged
from journal.shield import SHIELD, Latch, shielded

LINGER_S = 0.005
"""
A live feed that has caught up looks again at most so often: each look takes the interpreter from the thread that writes.
Without it unsynced puts ran at a third to a half of their speed. A change that comes alone is delivered at once.
"""
LARGE_BYTES = 4 << 20
"""A record with more bytes, of a load, takes as long to read as it takes: `read_large` does that, on another thread than `take`."""
BLOCKS = 1
"""`take` reads so many at a time from a log that other journals share: some milliseconds, also when none of it is for this feed."""
_NOTHING: list[Event] = []


@shielded
class EngineFeed:
    """Events, iterated or polled; a context manager that closes itself. Made by `Journal.feed`."""

    def __init__(
        self, p: CopiedJournal, consumers: Consumers, consumer: FeedConsumer | None, after: Cursor, *, is_live: bool,
        unacked_max: int, is_waiting: bool,
    ) -> None:  # fmt: skip
        self._p = p
        self._followers = p.followers
        self._directory = consumers.directory
        self._deliveries = Deliveries(p.name, consumers, consumer, after, unacked_max)
        self._is_live = is_live
        self._is_waiting = is_waiting
        self._news = Latch()
        self._is_called = False
        """Something has happened that the iteration must attend to: a failure, or the end."""
        self.is_closed = False
        self.is_over = False
        """The last `take` has found that there will be no more: all was delivered, or the feed or its store was closed."""
        self.is_large = False
        """The last `take` has ended before a record that `read_large` must read, which it has not called back for."""
        self._copy: Copy | None = None
        self._pages: Iterator[list[Event]] | None = None
        """Of the copy that is being delivered."""
        self._page = iter(_NOTHING)
        """Being delivered."""
        self._ready = _NOTHING
        """Read, and not to be delivered yet."""
        self._read_at = 0.0
        self._tail = Tail(p, after)
        self._is_busy = False
        """A thread reads, or waits."""
        self._is_polled = False
        """It is taken from, and not iterated."""

    # -- iterating ----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Event]:
        # A generator, which needs no call of ours for each event. It keeps nothing that is not kept here: one that was
        # left, raised or ended is followed by another that goes on.
        return self._run()

    def __next__(self) -> Event:
        for event in self._run():
            return event
        raise StopIteration

    def _run(self) -> Iterator[Event]:
        deliveries = self._deliveries
        while self._goes_on():
            for event in self._page:
                deliveries.last = event
                yield event
                if self._is_called:
                    break

    def _goes_on(self) -> bool:
        """Whether there is something to deliver, in `_page`."""
        with SHIELD:
            self._is_busy = True
            try:
                return self._finds(has_some=False)
            finally:
                self._is_busy = False

    def _finds(self, *, has_some: bool) -> bool:
        """The same; a feed that is polled does not wait for it. `has_some`: others are delivered along with it."""
        tail = self._tail
        while True:
            if (self._is_called or self._p.trouble is not None) and self._attend():
                self.is_over = True
                return False
            if length_hint(self._page):
                return True
            try:
                page = self._take()
            except Unacknowledged:
                if has_some:
                    return False
                raise
            if page:
                self._page = iter(page)
            elif self._is_polled and (tail.is_large or tail.is_cut):
                self.is_large = tail.is_large
                if not tail.is_large:
                    self._news.set()  # to be polled again, after other feeds had their turn
                return False
            elif self._ready:
                continue
            elif self._is_live and not self._is_polled:
                self._wait()
            elif not self._is_called:
                self.is_over = not self._is_live
                return False

    # -- polling --------------------------------------------------------------------------------------------------------

    def poll(self, callback: Callable[[], None]) -> None:
        """
        Be polled from now on, with `take`: the callback signals when to call it again (K7). This may take long: a copy is taken.

        The feed must not wait for acknowledgements (wait_acks=False); no other code may iterate it.
        """
        self._is_polled = True
        self._news = CallingLatch(callback)
        self._tail.large_bytes = LARGE_BYTES
        if self._is_copy_due():
            self._begin_copy()
        with self._p.lock:
            self._followers.add(self._news)

    def take(self, n: int, room: int, size: Callable[[Event], int]) -> list[Event]:
        """
        Up to `n` of the events that are there, whose sizes together fit into `room` (K6).

        Unacknowledged, as the iteration, when there is none because of what is not acknowledged; Invalid when the first one does not fit.
        """
        found: list[Event] = []
        left = room
        self.is_over = self.is_large = False
        self._news.clear()
        self._is_busy = True
        try:
            while len(found) < n and self._finds(has_some=bool(found)):
                for event in self._page:
                    left -= size(event)
                    if left < 0:
                        self._page = iter([event, *self._page])
                        if not found:
                            raise _too_large(event, size(event), room)
                        return found
                    self._deliveries.last = event
                    found.append(event)
                    if len(found) == n or self._is_called:
                        break
        finally:
            self._is_busy = False
        return found

    def read_large(self) -> None:
        """Read what the last `take` has ended before (`is_large`), on any thread, while no other one takes."""
        self._is_busy = True
        try:
            self._tail.read_large()
        finally:
            self._is_busy = False

    # -- what comes next ------------------------------------------------------------------------------------------------

    def _take(self) -> list[Event]:
        """What may be delivered now; nothing when there is none, or when something has happened."""
        deliveries = self._deliveries
        page = self._ready or self._read()
        while page and deliveries.is_again(page[0].cursor):
            page = deliveries.unacknowledged(page)
            if page:
                break
            page = self._read()
        self._ready = page
        if not page:
            return page
        is_again = deliveries.is_again(page[0].cursor)
        room = self._room(is_again=is_again)
        self._ready = page[room:]
        if is_again and room:
            deliveries.one = page[0].cursor
        return page[:room]

    def _attend(self) -> bool:
        """Attend to a call; whether it was the end."""
        trouble = self._p.trouble
        if self.is_closed or (self._is_live and isinstance(trouble, StoreClosed)):
            self._let_go()
            return True
        if trouble is not None:
            raise trouble
        self._is_called = False
        if self._deliveries.is_failing:
            self._rewind()
        return False

    def _rewind(self) -> None:
        """Go back to what is not acknowledged (K2)."""
        position = self._deliveries.rewind()
        self._page, self._ready = iter(_NOTHING), _NOTHING
        if self._copy is not None and position < self._copy.cursor:
            self._pages = self._copy.events(position.offset if position.order == COPYING else self._copy.size)
            self._tail.seek(self._copy.cursor)
        else:
            self._tail.seek(position)

    def _room(self, *, is_again: bool) -> int:
        """How many may be delivered before the next acknowledgement (K2, K3); 0 when something else has happened (K4)."""
        while not self._is_called:
            self._news.clear()
            room, reason = self._deliveries.room(is_again=is_again)
            if room:
                return room
            if not self._is_waiting:
                raise Unacknowledged(f"{reason}: acknowledge with feed.ack, or go back with feed.fail")
            if not self._is_called:
                self._news.wait()
        return 0

    def _read(self) -> list[Event]:
        if self._is_copy_due():
            self._begin_copy()
        if self._pages is not None:
            page = next(self._pages, None)
            if page is not None:
                return page
            self._pages = None
        tail = self._tail
        if self._is_live and tail.is_at_end and not self._is_polled:
            self._linger()
        try:
            page = tail.page(BLOCKS if self._is_polled else -1)
            self._read_at = monotonic()
        except StoreClosed:
            self.interrupt()
            return _NOTHING
        if page or tail.crossed or tail.passed:
            self._deliveries.passed(tail.crossed, tail.passed)
            tail.crossed.clear()
            tail.passed.clear()
        return page

    def _linger(self) -> None:
        """Let changes gather, when the last look was a moment ago and has found all that there was."""
        self._news.clear()
        rest = self._read_at + LINGER_S - monotonic()
        if rest > 0 and not self._is_called:
            self._news.wait(rest)

    def _wait(self) -> None:
        """Sleep until there may be more."""
        p = self._p
        news = self._news
        news.clear()
        with p.lock:
            if self._is_called or p.trouble is not None:
                self._is_called = True
                return
            span = active_log(p).span
            if (span.order, span.last) > self._tail.at:
                return
            self._followers.add(news)
        try:
            news.wait()
        finally:
            with p.lock:
                self._followers.remove(news)

    def _is_copy_due(self) -> bool:
        consumer = self._deliveries.consumer
        return consumer is not None and consumer.is_copying and self._copy is None

    def _begin_copy(self) -> None:
        """Take the copy, and follow from its cursor on (K5)."""
        copy = self._copy = Copy(self._p, self._directory)
        self._deliveries.begin_copy(copy)
        self._pages = copy.events(-1)
        self._tail.seek(copy.cursor)

    def note(self) -> None:
        """Record in the acknowledgements what was delivered; under the consumers' lock."""
        self._deliveries.note()

    # -- acknowledging ------------------------------------------------------------------------------------------------

    def ack(self, *which: Which) -> None:
        """
        Acknowledge changes: cursors or events, singly or in lists, in any order.

        Repeating it is harmless. A change that was never delivered is refused, and then none of them is taken.
        """
        self._check_named()
        self._deliveries.ack(which)
        if self._is_waiting:
            self._news.set()

    def fail(self, which: Which = ()) -> None:
        """
        Something could not be processed: all that was delivered and not acknowledged comes again, one at a time.

        `which` may name what failed; it must have been delivered, and not be acknowledged.
        """
        self._check_named()
        self._deliveries.fail(which)
        self.interrupt()

    def _check_named(self) -> None:
        if self._p.trouble is not None:
            raise self._p.trouble
        if self._deliveries.consumer is None:
            raise Invalid(
                "a feed without a consumer's name keeps nothing: open it with feed(consumer=...) to acknowledge"
            )
        if self.is_closed:
            raise StoreClosed(f"the feed of consumer {self.consumer!r} is closed: open it again")

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def consumer(self) -> str | None:
        """The consumer's name."""
        consumer = self._deliveries.consumer
        if consumer is None:
            return None
        return consumer.name if self._p.only is None else consumer.name.partition(":")[2]

    @property
    def position(self) -> Cursor:
        """The highest cursor up to which all is acknowledged; without a name: that was delivered."""
        return self._deliveries.position()

    @property
    def again(self) -> Cursor:
        """What comes up to here was delivered before: each one comes when the one before it is acknowledged (K2)."""
        return self._deliveries.again()

    @property
    def unacked(self) -> int:
        """How many changes were delivered and are not acknowledged."""
        return self._deliveries.unacked()

    @property
    def lag(self) -> int:
        """How many changes are there that were not acknowledged; without a name: not delivered."""
        with self._p.lock:
            spans = spans_of(self._p)
        return self._deliveries.lag(spans)

    @property
    def is_redelivering(self) -> bool:
        """Whether what was delivered last had been delivered before: the next one comes when it is acknowledged."""
        return self._deliveries.one is not None

    def __repr__(self) -> str:
        return f"<Feed of {self._p.name} consumer={self.consumer}>"

    # -- ending -------------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Have the iteration look up from what it does."""
        self._is_called = True
        self._news.set()

    def end(self) -> None:
        """End the iteration, and close the files; a thread that is reading closes them itself."""
        self.interrupt()
        if not self._is_busy:
            self._let_go()

    def _let_go(self) -> None:
        self._tail.close()
        if self._copy is not None:
            self._copy.close()

    def close(self) -> None:
        """End the iteration, on whatever thread it is, and write what was acknowledged. Closing twice is fine."""
        if self.is_closed:
            return
        if self._is_polled:
            with self._p.lock:
                self._followers.remove(self._news)
        self.is_closed = True
        self.end()
        if self._p.trouble is None:
            self._deliveries.close()

    def __del__(self) -> None:
        self.note()  # a feed that was dropped without a close has delivered all the same

    def __enter__(self) -> EngineFeed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _too_large(event: Event, size: int, room: int) -> Invalid:
    return Invalid(
        f"the change at {event.cursor}, of the entry {event.key!r}, has {size} bytes, and {room} can be handed over: follow in the process "
        "that has the store, or pass over it (skip_feed)"
    )
