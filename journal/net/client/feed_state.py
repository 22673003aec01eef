"""
The client's state of a feed, without its connection: the requests to open it, to go on and to acknowledge; the handling of what comes.

A feed lives with its connection. When that breaks the feed is opened again: a named one goes on where the daemon says, one without a name
behind the last change that was handed out.

F1  A change that was acknowledged is not handed out again: when its acknowledgement was lost with the connection, it is repeated
    silently.
F2  What came before the reply to a failure is not handed out: it comes again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from journal.api.backend import FeedOptions
from journal.core.arguments import cursors_of
from journal.core.limits import LIST_MAX
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.requests.follow import (
    FeedAckRequest,
    FeedCloseRequest,
    FeedFailRequest,
    FeedNextRequest,
    FeedOpenRequest,
)
from journal.errors import Invalid, StoreClosed
from journal.net.client.connection.call import Call, call_of
from journal.net.wire.codecs import fields
from journal.net.wire.values import cursor_from, error_from, event_from

CREDIT = 256
"""Changes that are on their way or wait here."""
_NOWHERE = Cursor(0, -2)


class End:
    """In the place of an event: there are no more."""


END = End()


class Followed:
    """See the module. One thread at a time iterates; a thread that acknowledges holds a lock."""

    def __init__(self, journal: str, options: FeedOptions) -> None:
        self.journal = journal
        self.consumer = options.consumer
        self.is_waiting = options.wait_acks
        self.subscription = 0
        self.again = _NOWHERE
        """What comes up to here was delivered before."""
        self.last: Cursor | None = None
        """The last change that was handed out."""
        self.is_again = False
        """Whether that one had been delivered before."""
        self.unacked: set[Cursor] = set()
        """Handed out, and not acknowledged."""
        self._unsure: set[Cursor] = set()
        """Acknowledged, and the daemon has not confirmed it."""
        self._start = options.start
        self._blank: dict[str, Any] | None = None
        self._used = 0
        self._options = options

    # -- opening ------------------------------------------------------------------------------------------------------

    def open(self) -> Call:
        """Ask for the feed, for the first time or again; `opened` takes the reply."""
        options = self._options
        asked = FeedOpenRequest(
            consumer=self.consumer, start=self._start, live=options.live, copy=options.copy or None, flush=options.flush_ms,
            unacked_max=min(options.unacked_max, LIST_MAX), credit=CREDIT,
        )  # fmt: skip
        return call_of(asked, self.journal, lambda reply: [self.close(reply["subscription"])])

    def opened(self, reply: Any) -> Cursor:
        """It is open; its position."""
        self.subscription, position, again, self._blank = fields(
            reply, "FEED_OPEN", subscription=int, position=list, again=object, blank=dict | None
        )
        self.again = _NOWHERE if self.consumer is None else cursor_from(again)
        self._used = 0
        at = cursor_from(position)
        self._start = self._start if self.consumer is not None else self.last or at
        self._unsure.difference_update([cursor for cursor in set(self._unsure) if cursor <= at])
        return at

    def close(self, subscription: int | None = None) -> Call:
        """Ask for its end."""
        return call_of(FeedCloseRequest(subscription=subscription or self.subscription), self.journal)

    # -- what comes ---------------------------------------------------------------------------------------------------

    def take(self, item: Any) -> Event | End | Call:
        """What an item means: an event for the program, the end, or what to ask and go on (F1)."""
        if item is None:
            return END
        if type(item) is dict:
            raise error_from(item)
        self._used += 1
        event = event_from(item, self._blank)
        cursor = event.cursor
        if cursor in self._unsure:
            return self._ack([cursor])
        if self.consumer is None:
            self._start = cursor
        else:
            self.is_again = cursor <= self.again
            self.unacked.add(cursor)
        self.last = cursor
        return event

    def credit(self) -> int:
        """How many more items to ask for now; 0: not yet."""
        if self._used * 2 < CREDIT:
            return 0
        used, self._used = self._used, 0
        return used

    @property
    def must_look(self) -> bool:
        """Whether, with nothing there, the daemon may be waiting for an acknowledgement: to be asked with `look`."""
        return self.consumer is not None and not self.is_waiting and bool(self.unacked)

    def look(self) -> Call:
        """Ask what is there; Unacknowledged when none comes before something is acknowledged. `looked` takes the reply."""
        return call_of(FeedNextRequest(subscription=self.subscription, n=CREDIT), self.journal)

    def looked(self, reply: Any) -> tuple[list[Any], bool]:
        """What was there, as items; and whether that was all of a feed that is not live."""
        events, is_end = fields(reply, "FEED_NEXT", events=list, is_end=bool)
        self._used -= len(events)  # they cost no credit
        return events, is_end

    # -- acknowledging ------------------------------------------------------------------------------------------------

    def named(self, what: str) -> str:
        """The consumer's name; refuses what needs one."""
        if self.consumer is None:
            raise Invalid(f"a feed without a consumer's name keeps nothing: open it with feed(consumer=...) to {what}")
        return self.consumer

    def ack(self, which: Iterable[object]) -> tuple[list[Cursor], list[Call]]:
        """Acknowledge changes: their cursors, and what to ask. None of them is taken when one was never delivered."""
        cursors = [cursor for each in which for cursor in cursors_of(each)]
        self._check(cursors)
        self.unacked.difference_update(cursors)
        self._unsure.update(cursors)
        asks = [self._ack(cursors[first : first + LIST_MAX]) for first in range(0, len(cursors), LIST_MAX)]
        return cursors, asks

    def _ack(self, cursors: list[Cursor]) -> Call:
        return call_of(FeedAckRequest(subscription=self.subscription, cursors=cursors), self.journal)

    def sure(self, cursors: Iterable[Cursor]) -> None:
        """The daemon has confirmed these acknowledgements."""
        self._unsure.difference_update(cursors)

    def state(self) -> Call:
        """Ask where the daemon has it; the reply has the position."""
        return self._ack([])

    def fail(self, which: object) -> Call:
        """Report a failure; `failed` takes the reply."""
        cursors = cursors_of(which)
        self._check(cursors)
        for cursor in cursors:
            if cursor not in self.unacked and cursor > self.again:
                raise Invalid(f"{cursor} is acknowledged: it cannot fail any more")
        return call_of(FeedFailRequest(subscription=self.subscription, cursors=cursors or None), self.journal)

    def failed(self, reply: Any, dropped: int) -> None:
        """The daemon has confirmed a failure; so many items that had come before are dropped (F2)."""
        self.again = cursor_from(reply.get("again") if type(reply) is dict else reply)
        self._used += dropped

    def _check(self, cursors: list[Cursor]) -> None:
        for cursor in cursors:
            if (self.last is None or cursor > self.last) and cursor > self.again:
                raise Invalid(
                    f"{cursor} was never delivered, so it cannot be acknowledged: the last one that was is {self.last}"
                )

    def closed(self) -> StoreClosed:
        """The error for the use of a closed feed."""
        return StoreClosed(f"the feed of consumer {self.consumer!r} is closed: open it again")
