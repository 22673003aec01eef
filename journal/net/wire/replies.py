"""
The answers of the daemon's end of a connection: replies, errors, pushes, and the end. One half of journal.net.wire.server_connection, whose
invariants they keep (server_connection D1, D2, D4, D6).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Self

from journal.core.requests.request import Command
from journal.errors import Invalid, JournalError, Stopping
from journal.net.wire.connection import Stream
from journal.net.wire.error_codes import to_wire
from journal.net.wire.events import Credited, Ended, Event
from journal.net.wire.frames import Bye, Failure, Push
from journal.net.wire.handshake import Daemon
from journal.net.wire.limits import Limits
from journal.net.wire.line_stream import answer_lines, failure_line, quitting_line
from journal.net.wire.sessions import Session
from journal.net.wire.subscriptions import Subscriptions


class ServerState(Enum):
    """Where a connection is."""

    NEW = "new"
    HELLO = "hello"
    PROVING = "proving"
    READY = "ready"
    LINES = "lines"
    LEAVING = "leaving"
    ENDED = "ended"


class Answering(Stream):
    """The sending half of a daemon's connection."""

    def __init__(self, daemon: Daemon, limits: Limits, now: int) -> None:
        super().__init__(limits, now, daemon.pack)
        self.state = ServerState.NEW
        self._daemon = daemon
        self._session: Session[Any] | None = None
        self._order: deque[int] = deque()
        self._asked: dict[int, Command | None] = {}
        """Requests that are not answered; None: a command that is not known."""
        self._ready: dict[int, bytes] = {}
        """Answers that wait for those before them (server_connection D1)."""
        self._ready_bytes = 0
        self._waiting: set[int] = set()
        """Of those, what an earlier connection of the session had asked for and will answer."""
        self._subscriptions = Subscriptions(subscriptions_max=limits.subscriptions_max, credit_max=limits.credit_max)
        self._output_bytes_max = limits.output_bytes_max
        self._is_lines = False
        self._has_said_bye = False
        self._alive_by: int | None = None
        self._events: list[Event] = []

    @property
    def in_flight(self) -> int:
        """Requests that are not answered."""
        return len(self._order)

    @property
    def is_full(self) -> bool:
        """Whether too much waits to be sent: nothing is pushed meanwhile, and no request is taken (server_connection D2)."""
        return len(self.outgoing) + self._ready_bytes > self._output_bytes_max

    def is_next(self, number: int) -> bool:
        """Whether nothing is left to send or to be answered before this request: whatever waits, waits for it."""
        return not self.outgoing and bool(self._order) and self._order[0] == number

    def more(self, now: int) -> list[Event]:
        """Events that could not come before: call it after answers were given or bytes were sent."""
        raise NotImplementedError

    # -- answers ------------------------------------------------------------------------------------------------------

    def reply(self, number: int, result: Any, now: int, unsent: Callable[[Any], None] | None = None) -> Self:
        """
        Answer a request; the connection that has bytes to send now: another one when the client has come anew.

        `unsent` is called with a result that no frame can hold, before the request is answered with that error.
        """
        command = self._asked.get(number)
        try:
            if self._is_lines and command is not None:
                return self._answered(number, answer_lines(self._daemon.server, command, result), now)
            return self._answered(number, self._encode.reply(number, result), now)
        except Invalid as e:
            if unsent is not None:
                unsent(result)
            return self.fail(number, e, now)

    def fail(self, number: int, error: BaseException, now: int) -> Self:
        """Answer a request with an error."""
        self._subscriptions.refused(number)
        if self._is_lines:
            command = self._asked.get(number)
            data = failure_line(self._daemon.server, "" if command is None else command.name, error)
        else:
            data = self._encode(Failure(number, *to_wire(error)))
        return self._answered(number, data, now)

    def _answered(self, number: int, data: bytes, now: int) -> Self:
        if number not in self._asked:
            raise Invalid(f"the request {number} is not open: it was answered before, or never asked")
        del self._asked[number]
        if self._waiting:
            self._waiting.discard(number)
        if self._session is not None:
            self._session.finish(number, data)
        if self.is_ended:
            heir: Self | None = None if self._session is None else self._session.holder
            is_awaited = heir is not None and number in heir._waiting
            return heir._answered(number, data, now) if heir is not None and is_awaited else self
        order = self._order
        if len(order) == 1 and not self._subscriptions.is_opening:
            order.clear()  # the usual case: nothing else waits
            self._write(data, now)
        else:
            self._ready[number] = data
            self._ready_bytes += len(data)
        while order and order[0] in self._ready:
            first = order.popleft()
            answer = self._ready.pop(first)
            self._ready_bytes -= len(answer)
            self._write(answer, now)
            if self._subscriptions.is_opening:
                subscription = self._subscriptions.answered(first)
                last = None if subscription is None else self._subscriptions.last_of(subscription)
                if subscription is None:
                    continue
                if last is not None:
                    self.push_last(subscription, last, now)
                elif credit := self.credit(subscription):
                    self._events.append(Credited(subscription, credit))
        if not order:
            self._alive_by = None
            if self.state is ServerState.LEAVING:
                self._depart(now)
        return self

    # -- subscriptions ------------------------------------------------------------------------------------------------

    def subscribe(self, number: int, credit: int) -> int:
        """A new subscription, asked for by a request that is still to be answered with its number (server_connection D6)."""
        return self._subscriptions.open(number, credit)

    def unsubscribe(self, subscription: int) -> bool:
        """End a subscription; False when there is none."""
        return self._subscriptions.close(subscription)

    def credit(self, subscription: int) -> int:
        """How many items may be pushed now; 0 while too much waits to be sent."""
        if self.state is not ServerState.READY or self.is_full:
            return 0
        return self._subscriptions.credit(subscription)

    def push(self, subscription: int, items: list[Any], now: int) -> bool:
        """Deliver items of a subscription; False, and nothing is sent, when there is not enough credit."""
        if not items or len(items) > self.credit(subscription):
            return False
        self._send(Push(subscription, self._subscriptions.next_sequence(subscription), items), now)
        self._subscriptions.pushed(subscription, len(items))
        return True

    def push_last(self, subscription: int, item: Any, now: int) -> None:
        """The item that ends a subscription: it costs no credit, and comes after the reply that names the subscription."""
        if self.state is not ServerState.READY:
            self._subscriptions.close(subscription)
        elif self._subscriptions.is_opening and self._subscriptions.end(subscription, item):
            return  # `_answered` sends it
        elif subscription in self._subscriptions:
            self._send(Push(subscription, self._subscriptions.next_sequence(subscription), [item]), now)
            self._subscriptions.close(subscription)

    # -- the end ------------------------------------------------------------------------------------------------------

    def stop(self, now: int) -> list[Event]:
        """The daemon stops: nothing new is taken, what is in flight is answered, within `stop_ms`."""
        if self.state in (ServerState.READY, ServerState.LINES):
            self._leave(now)
        elif not self.is_ended and self.state is not ServerState.LEAVING:
            self.break_off(Stopping("the daemon stops: connect again"), now)
        return self.more(now)

    def _leave(self, now: int, *, has_said_bye: bool = False) -> None:
        """Answer what was asked for, and end."""
        self.state = ServerState.LEAVING
        self._has_said_bye = has_said_bye
        self._stop_by = now + self.limits.stop_ms
        if not self._order:
            self._depart(now)

    def _depart(self, now: int) -> None:
        if self._is_lines:
            self._write(quitting_line(self._daemon.server), now)
        else:
            self._send(Bye("in good order"), now)
        if self._has_said_bye and self._session is not None:
            self._daemon.sessions.leave(self._session, self)
        self._close(None, now)

    def break_off(self, error: JournalError, now: int) -> None:
        """End with an error (server_connection D4)."""
        if self.is_ended:
            return
        if self._is_lines:
            self._write(failure_line(self._daemon.server, "", error), now)
        elif self.state is not ServerState.NEW:
            self._send(Failure(0, *to_wire(error)), now)
        self._close(error, now)

    def _close(self, error: JournalError | None, now: int) -> None:
        self._end()
        self.state = ServerState.ENDED
        self._order.clear()
        self._alive_by = None
        self._ready.clear()
        self._ready_bytes = 0
        self._subscriptions.clear()
        if self._session is not None:
            self._daemon.sessions.detach(self._session, self, now)
        self._events.append(Ended(error))
