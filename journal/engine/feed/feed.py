"""
A feed: a journal's log as an iterator of events, with acknowledgements.

One thread iterates; any thread may acknowledge, say that something failed, or close. A feed with a consumer's name keeps
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
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import length_hint
from time import monotonic
from types import TracebackType

from journal.core.arguments import cursors_of, run_of
from journal.core.log.acks import UNACKED_MAX as UNACKED_MAX
from journal.core.log.acks import Acks
from journal.core.log.cursor import Cursor
from journal.core.log.cursor_math import lag, newest
from journal.core.log.events import Event
from journal.engine.feed.consumers import Consumer, Consumers
from journal.engine.feed.initial_copy import ORDER as COPYING
from journal.engine.feed.initial_copy import Copy
from journal.engine.feed.log_tail import Tail, active_log, spans_of
from journal.engine.pipeline import Pipeline
from journal.errors import Invalid, StoreClosed, Unacknowledged
from journal.shield import SHIELD, Latch, shielded

LINGER_S = 0.005
"""
A live feed that has caught up looks again at most so often: each look takes the interpreter from the thread that writes.
Without it unsynced puts ran at a third to a half of their speed. A change that comes alone is delivered at once.
"""
_NOTHING: list[Event] = []
_ALL = 1 << 30


@shielded
class Feed:
    """An iterator of events; a context manager that closes itself. Made by `Journal.feed`."""

    def __init__(
        self,
        p: Pipeline,
        consumers: Consumers,
        consumer: Consumer | None,
        after: Cursor,
        *,
        is_live: bool,
        unacked_max: int,
        is_waiting: bool,
    ) -> None:
        self._p = p
        self._consumers = consumers
        self._consumer = consumer
        self._acks = Acks(after) if consumer is None else consumer.acks
        self._is_live = is_live
        self._unacked_max = unacked_max
        self._is_waiting = is_waiting
        self._news = Latch()
        self._is_called = False
        """Something has happened that the iteration must attend to: a failure, or the end."""
        self._has_failed = False
        self.is_closed = False
        self._copy: Copy | None = None
        self._pages: Iterator[list[Event]] | None = None
        """Of the copy that is being delivered."""
        self._page = iter(_NOTHING)
        """Being delivered."""
        self._ready = _NOTHING
        """Read, and not to be delivered yet."""
        self._one: Cursor | None = None
        """Delivered again and not acknowledged yet (K2)."""
        self._again_to = self._acks.high
        """Up to here changes are delivered again, one at a time."""
        self._last: Event | None = None
        """Delivered last, not counting what was delivered again."""
        self._read_at = 0.0
        self._tail = Tail(p, self._acks.position)
        self._is_busy = False
        """A thread reads, or waits."""
        self._blocks = -1
        """How many blocks are read at a time; -1: until there is an event. Set for feeds that do not wait (poll)."""

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
        while self._goes_on():
            for event in self._page:
                self._last = event
                yield event
                if self._is_called:
                    break

    def _goes_on(self) -> bool:
        """Whether there is something to deliver, in `_page`."""
        with SHIELD:
            return self._finds()

    def _finds(self) -> bool:
        self._is_busy = True
        try:
            while True:
                if (self._is_called or self._p.trouble is not None) and self._attend():
                    return False
                if length_hint(self._page):
                    return True
                page = self._take()
                if page:
                    self._page = iter(page)
                elif self._ready:
                    continue
                elif self._is_live:
                    self._wait()
                elif not self._is_called:
                    return False
        finally:
            self._is_busy = False

    def _is_again(self, cursor: Cursor) -> bool:
        return self._consumer is not None and cursor <= self._again_to

    def _take(self) -> list[Event]:
        """What may be delivered now; nothing when there is none, or when something has happened."""
        page = self._ready or self._read()
        while page and self._is_again(page[0].cursor):
            with self._consumers.lock:
                page = [each for each in page if not self._acks.has(each.cursor)]
            if page:
                break
            page = self._read()
        self._ready = page
        if not page:
            return page
        is_again = self._is_again(page[0].cursor)
        room = self._room(is_again)
        self._ready = page[room:]
        if is_again and room:
            self._one = page[0].cursor
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
        if self._has_failed:
            self._has_failed = False
            self._rewind()
        return False

    def _rewind(self) -> None:
        """Go back to what is not acknowledged (K2)."""
        with self._consumers.lock:
            self.note()
            self._acks.rewind()
            self._again_to, position = self._acks.high, self._acks.position
        self._page, self._ready, self._one = iter(_NOTHING), _NOTHING, None
        if self._copy is not None and position < self._copy.cursor:
            self._pages = self._copy.events(position.offset if position.order == COPYING else self._copy.size)
            self._tail.seek(self._copy.cursor)
        else:
            self._tail.seek(position)

    def _room(self, is_again: bool) -> int:
        """How many may be delivered before the next acknowledgement (K2, K3); 0 when something else has happened (K4)."""
        if self._consumer is None:
            return _ALL
        while not self._is_called:
            self._news.clear()
            with self._consumers.lock:
                self.note()
                is_held = self._one is not None and not self._acks.has(self._one)
                room = 1 if is_again else self._unacked_max - self._acks.unacked
            if is_held:
                reason = f"{self._one} was delivered again, and the next one comes when it is acknowledged"
            elif room <= 0:
                reason = f"{self._unacked_max} changes were delivered and are not acknowledged (unacked_max)"
            else:
                self._one = None
                return room
            if not self._is_waiting:
                raise Unacknowledged(f"{reason}: acknowledge with feed.ack, or go back with feed.fail")
            if not self._is_called:
                self._news.wait()
        return 0

    def _read(self) -> list[Event]:
        if self._consumer is not None and self._consumer.is_copying and self._copy is None:
            self._begin_copy()
        if self._pages is not None:
            page = next(self._pages, None)
            if page is not None:
                return page
            self._pages = None
        if self._is_live and self._tail.is_at_end and self._blocks < 0:
            self._linger()
        try:
            page = self._tail.page(self._blocks)
            self._read_at = monotonic()
        except StoreClosed:
            self.interrupt()
            return _NOTHING
        tail = self._tail
        if self._consumer is not None and (page or tail.crossed or tail.passed):
            with self._consumers.lock:
                for last, before in tail.crossed:
                    self._acks.cross(last, before)
                for run in tail.passed:
                    self._acks.pass_over(*run)
                self.note()
                self._consumers.touched(self._consumer)
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
            p.followers = (*p.followers, news)
        try:
            news.wait()
        finally:
            with p.lock:
                p.followers = tuple(each for each in p.followers if each is not news)

    def _begin_copy(self) -> None:
        """Take the copy, and follow from its cursor on (K5)."""
        consumer = self._consumer
        assert consumer is not None
        copy = Copy(self._p, self._consumers.directory)
        with self._consumers.lock:
            self._last = None
            acks = consumer.acks = self._acks = Acks(Cursor(COPYING, -1))
            acks.cross(copy.last, Cursor(copy.cursor.order, copy.cursor.offset - 1))
            self._again_to = Cursor(COPYING, -1)
            consumer.start = copy.cursor
            self._consumers.touched(consumer)
        self._copy = copy
        self._pages = copy.events(-1)
        self._tail.seek(copy.cursor)

    def note(self) -> None:
        """Record in the acknowledgements what was delivered; under the consumers' lock."""
        acks = self._acks
        acks.delivered(acks.high if self._last is None else self._last.cursor)

    # -- acknowledging ------------------------------------------------------------------------------------------------

    def ack(self, *which: Cursor | Event | Iterable[Cursor | Event]) -> None:
        """
        Acknowledge changes: cursors or events, singly or in lists, in any order.

        Repeating it is harmless. A change that was never delivered is refused, and then none of them is taken.
        """
        consumer = self._named()
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
                raise StoreClosed(f"the journal {self._p.name} is being closed: nothing is acknowledged any more")
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
        if self._is_waiting:
            self._news.set()

    def fail(self, which: Cursor | Event | Iterable[Cursor | Event] = ()) -> None:
        """
        Something could not be processed: all that was delivered and not acknowledged comes again, one at a time.

        `which` may name what failed; it must have been delivered, and not be acknowledged.
        """
        self._named()
        cursors = cursors_of(which)
        with self._consumers.lock:
            self.note()
            for cursor in cursors:
                self._acks.check(cursor)
                if self._acks.has(cursor):
                    raise Invalid(f"{cursor} is acknowledged: it cannot fail any more")
        self._has_failed = True
        self.interrupt()

    def _named(self) -> Consumer:
        if self._p.trouble is not None:
            raise self._p.trouble
        if self._consumer is None:
            raise Invalid(
                "a feed without a consumer's name keeps nothing: open it with feed(consumer=...) to acknowledge"
            )
        if self.is_closed:
            raise StoreClosed(f"the feed of consumer {self.consumer!r} is closed: open it again")
        return self._consumer

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def consumer(self) -> str | None:
        """The consumer's name."""
        if self._consumer is None:
            return None
        name = self._consumer.name
        return name if self._p.only is None else name.partition(":")[2]

    @property
    def position(self) -> Cursor:
        """The highest cursor up to which all is acknowledged; without a name: that was delivered."""
        with self._consumers.lock:
            self.note()
            return self._acks.high if self._consumer is None else self._consumer.position

    @property
    def again(self) -> Cursor:
        """What comes up to here was delivered before: each one comes when the one before it is acknowledged (K2)."""
        with self._consumers.lock:
            self.note()
            return self._acks.high if self._has_failed else self._again_to

    @property
    def unacked(self) -> int:
        """How many changes were delivered and are not acknowledged."""
        with self._consumers.lock:
            self.note()
            return 0 if self._consumer is None else self._acks.unacked

    @property
    def lag(self) -> int:
        """How many changes are there that were not acknowledged; without a name: not delivered."""
        with self._p.lock:
            spans = spans_of(self._p)
        with self._consumers.lock:
            self.note()
            if self._consumer is not None:
                return self._consumers.lag(self._consumer, spans)
            return 0 if self._acks.high >= newest(spans) else lag(self._acks.high, spans)

    @property
    def is_redelivering(self) -> bool:
        """Whether what was delivered last had been delivered before: the next one comes when it is acknowledged."""
        return self._one is not None

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
        self.is_closed = True
        self.end()
        if self._consumer is not None and self._p.trouble is None:
            with self._consumers.lock:
                self.note()
                self._consumers.touched(self._consumer)
            self._consumers.flush()

    def __del__(self) -> None:
        self.note()  # a feed that was dropped without a close has delivered all the same

    def __enter__(self) -> Feed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
