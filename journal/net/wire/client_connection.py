"""
The client's end of a connection, without its socket: calls in, bytes out; bytes in, events out.

    HELLO ──hello──► PROVING ──welcome──► READY ──bye, error, time──► ENDED
             └─ no proof needed: the welcome follows

A `ClientSession` outlives its connections: it numbers the requests and keeps those that are not answered. When a connection ends, the
program makes another one with the same session, and what can be asked again is asked again, in the old order and before anything new.

R1  A request is answered once: Answered, or Failed. Failed with ConnectionLost means that its outcome is unknown. One that must be
    undone (`outlives`) is answered once more after it has failed for being late: with its outcome, when a daemon that knows it says so.
R2  What was sent is sent again only when its command allows it (journal.core.requests.request): always, by its key or token, or, to a
    daemon that has not been restarted, by its request id.
R3  A client that has a secret talks only to a daemon that has it too.
R4  Answers come in the order of the requests; pushes in their sequence and within the credit (the error that ends one needs none). A
    daemon that does otherwise is not trusted any further.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from journal.core.quoting import shown
from journal.core.requests.registry import command_named
from journal.core.requests.request import Command, RetryRule
from journal.errors import (
    AccessDenied,
    Busy,
    ConnectionLost,
    FrameError,
    Invalid,
    JournalError,
    ProtocolError,
    Stopping,
    TimedOut,
)
from journal.net.wire.auth import CLIENT, DAEMON, SESSION_BYTES, check_nonce, is_proof, proof
from journal.net.wire.connection import Stream
from journal.net.wire.error_codes import from_wire
from journal.net.wire.events import Answered, Ended, Event, Failed, PingDue, Pushed, Welcomed
from journal.net.wire.frames import (
    LARGER,
    LENGTH,
    Alive,
    Bye,
    Credit,
    Encoder,
    Failure,
    Frame,
    Hello,
    Prove,
    Push,
    Reply,
    TooLong,
    Welcome,
    check_plain,
    name_of,
    whole_replies,
)
from journal.net.wire.handshake import ServerHello, client_hello, read_server_hello
from journal.net.wire.limits import DEFAULT, FRAME_BYTES_LIMIT, NESTING_MAX, Limits

_OPENS = frozenset({"SUBSCRIBE", "FEED_OPEN"})
_CLOSES = frozenset({"UNSUBSCRIBE", "FEED_CLOSE"})


_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function


class ClientState(Enum):
    """Where a connection is."""

    HELLO = "hello"
    PROVING = "proving"
    READY = "ready"
    ENDED = "ended"


@dataclass(slots=True, eq=False)
class Asked:
    """A request that is not answered."""

    id: int
    command: Command
    parameters: Mapping[str, Any]
    data: bytes
    by: int | None
    """When the program gives up on it."""
    is_sent: bool = False
    outlives: bool = False
    """Whether its outcome must become known also when its caller has stopped waiting."""
    is_late: bool = False
    """Its caller has stopped waiting."""

    def abandon(self) -> None:
        """Its caller has stopped waiting, and its outcome is still needed (R1)."""
        self.by, self.is_late = None, True


class ClientSession:
    """What a client keeps over its connections."""

    def __init__(self, name: bytes, *, limits: Limits = DEFAULT) -> None:
        """`name`: random bytes, for this session alone."""
        self.name = check_nonce(name, SESSION_BYTES)
        self.limits = limits
        self.asked: dict[int, Asked] = {}
        """In the order of asking."""
        self.epoch: int | None = None
        """The epoch of the daemon that has the answers."""
        self.in_flight_max = limits.in_flight_max
        self._last = 0
        self._encode = Encoder(limits.frame_bytes_max)

    def ask(
        self, name: str, journal: str, parameters: Mapping[str, Any], now: int, timeout_ms: int | None = None
    ) -> Asked:
        """A new request; refused here when it is not well-formed, or too much is unanswered."""
        command = command_named(name)
        given = {key: value for key, value in parameters.items() if value is not None}
        command.check(journal, given)
        try:
            check_plain(given, NESTING_MAX)
        except FrameError as e:
            raise Invalid(f"a request cannot be sent: {e}") from e
        return self.ask_formed(command, journal, given, None if timeout_ms is None else now + timeout_ms)

    def ask_formed(self, command: Command, journal: str, parameters: dict[str, Any], by: int | None) -> Asked:
        """A new request from a caller that has formed its parameters: they are not checked here, the daemon does that anyway."""
        if len(self.asked) >= self.in_flight_max:
            raise Busy(f"{len(self.asked)} requests are not answered yet: take answers before asking for more")
        number = self._last + 1
        asked = Asked(number, command, parameters, self._encode.request(number, command.name, journal, parameters), by)
        self._last = number
        self.asked[number] = asked
        return asked

    def reconnected(self, hello: ServerHello) -> list[Event]:
        """A daemon has welcomed the client: what cannot be asked again fails (R2), and what it would not take."""
        is_same = hello.epoch == self.epoch
        self.epoch = hello.epoch
        self.in_flight_max = min(self.limits.in_flight_max, hello.in_flight_max)
        limit = self._encode.bytes_max = min(self.limits.frame_bytes_max, hello.frame_bytes_max)
        lost = [
            number
            for number, asked in self.asked.items()
            if asked.is_sent and not may_repeat(asked.command.retry, is_same_daemon=is_same)
        ]
        events: list[Event] = [self._lose(number) for number in lost]
        for number in [number for number, asked in self.asked.items() if len(asked.data) - LENGTH.size > limit]:
            del self.asked[number]
            events.append(Failed(number, TooLong(f"the daemon takes frames of up to {limit} bytes: {LARGER}")))
        return events

    def give_up(self) -> list[Failed]:
        """No connection will follow for now: every request with a waiting caller fails, also if it was never sent."""
        return [self._lose(asked.id) for asked in list(self.asked.values()) if not asked.is_late]

    def late(self, now: int) -> list[Event]:
        """There is no connection: what the program does not wait for any longer fails."""
        late = [asked for asked in self.asked.values() if asked.by is not None and asked.by <= now]
        return [self.time_out(asked) for asked in late]

    def time_out(self, late: Asked) -> Failed:
        """A request was not answered in time. What ends with its connection is undone by that."""
        if late.is_sent and late.outlives and may_repeat(late.command.retry, is_same_daemon=True):
            late.abandon()
        else:
            del self.asked[late.id]
        outcome = "whether it is done is unknown" if late.is_sent else "it was never sent"
        return Failed(late.id, TimedOut(f"{late.command.name} was not answered in time: {outcome}"))

    def forget(self, asked: Asked) -> None:
        """A request that was never sent is not wanted any more."""
        assert not asked.is_sent
        self.asked.pop(asked.id, None)

    def _lose(self, number: int) -> Failed:
        asked = self.asked.pop(number)
        outcome = "whether it was done is unknown" if asked.is_sent else "it was never sent"
        return Failed(
            number, ConnectionLost(f"the connection ended before {asked.command.name} was answered: {outcome}")
        )


def may_repeat(retry: RetryRule, *, is_same_daemon: bool) -> bool:
    """Whether what was sent may be sent again (R2)."""
    return retry in (RetryRule.ALWAYS, RetryRule.KEY, RetryRule.TOKEN) or (
        retry is RetryRule.REQUEST and is_same_daemon
    )


class ClientConnection(Stream):
    """One connection of a client. One thread at a time."""

    def __init__(
        self,
        session: ClientSession,
        *,
        nonce: bytes,
        now: int,
        identity: str = "",
        secret: bytes | None = None,
    ) -> None:
        """With a secret the identity is proved, and the daemon must prove that it knows it (R3)."""
        super().__init__(session.limits, now)
        self.session = session
        self.state = ClientState.HELLO
        self.identity = identity
        self._secret = secret
        self._nonce = check_nonce(nonce)
        self._hello: ServerHello | None = None
        self._is_leaving = False
        self._ping_by: int | None = None
        self._ping_ms = session.limits.idle_ms
        self._credit: dict[int, int] = {}
        self._sequence: dict[int, int] = {}
        self._events: list[Event] = []
        self._send(client_hello(session.name, self._nonce, proves=secret is not None), now)

    @property
    def wants_bytes(self) -> bool:
        """Whether to read from the socket."""
        return not self.is_ended

    @property
    def deadline(self) -> int | None:
        """When `tick` must be called, if nothing comes before."""
        times = [super().deadline, self._ping_by, *(a.by for a in self.session.asked.values())]
        return min((time for time in times if time is not None), default=None)

    # -- asking -------------------------------------------------------------------------------------------------------

    def request(
        self,
        command: str,
        journal: str,
        parameters: Mapping[str, Any],
        now: int,
        *,
        timeout_ms: int | None = None,
    ) -> int:
        """Ask for something; the id that its answer will have. Before the welcome it waits."""
        if self._is_leaving:
            raise Stopping("this connection is being left: make another one")
        asked = self.session.ask(command, journal, parameters, now, timeout_ms)
        if self.state is ClientState.READY:
            self._put_out(asked, now)
        return asked.id

    @property
    def ping_ms(self) -> int:
        """After so long without a request a PING is due."""
        return self._ping_ms

    def put_out(self, asked: Asked, sent: int, now: int) -> None:
        """A request of this session's was given to the socket, which took so many bytes of it."""
        asked.is_sent = True
        self._ping_by = now + self._ping_ms
        if sent < len(asked.data):
            self._write(asked.data[sent:], now)

    def _put_out(self, asked: Asked, now: int) -> None:
        self.put_out(asked, 0, now)

    def credit(self, subscription: int, number: int, now: int) -> None:
        """Take so many more items of a subscription; one that has ended needs none."""
        if subscription in self._credit and number > 0 and not self.is_ended:
            self._credit[subscription] += number
            self._send(Credit(subscription, number), now)

    def leave(self, now: int) -> None:
        """Say bye: the daemon answers what was asked for, and ends."""
        if self.state is ClientState.READY and not self._is_leaving:
            self._is_leaving = True
            self._send(Bye("the client leaves"), now)

    # -- bytes --------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: int) -> list[Event]:
        """Bytes have come; empty: the other side has closed."""
        if self.is_ended:
            return []
        self._heard(now)
        has_taken = False
        try:
            if not data:
                raise ConnectionLost("the daemon closed the connection")
            if self.state is ClientState.READY and not self._decoder.buffered:
                replies, size = whole_replies(data, self._decoder.bytes_max)
                for reply in replies:
                    self._answer(reply[0], _new(Answered, reply))
                if size == len(data):
                    return self._told()
                data = data[size:]
            self._decoder.feed(data)
            while self._goes_on() and (frame := self._decoder.next()) is not None:
                has_taken = True
                self._take(frame, now)
        except JournalError as e:
            self._break(e)
        if self._goes_on():
            self._part_began(now, has_part=self._decoder.has_part, has_taken=has_taken)
        return self._told()

    def _goes_on(self) -> bool:
        return not self.is_ended

    def tick(self, now: int) -> list[Event]:
        """Time has passed."""
        if self.is_ended:
            self._give_up_sending(now)
            return []
        error = self._overdue(now)
        late = next((a for a in self.session.asked.values() if a.by is not None and a.by <= now), None)
        if error is not None:
            self._break(error)
        elif late is not None:
            self._too_late(late)
        elif self._ping_by is not None and self._ping_by <= now:
            self._ping_by = now + self._ping_ms
            self._events.append(PingDue())
        return self._told()

    def _too_late(self, late: Asked) -> None:
        """
        A request was not answered in time. Answers come in order, so the connection is of no use to those behind it either: it ends, and
        the session asks for them again.
        """
        failed = self.session.time_out(late)
        self._events.append(failed)
        if late.is_sent:
            self._break(failed.error)

    def _told(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    # -- frames -------------------------------------------------------------------------------------------------------

    def _take(self, frame: Frame, now: int) -> None:
        match self.state, frame:
            case _, Failure(0, code, message, fields):
                raise from_wire(code, message, fields)
            case ClientState.HELLO, Hello():
                self._greeted(frame, now)
            case ClientState.PROVING, Welcome():
                self._welcome(frame, now)
            case ClientState.READY, Reply(number, result):
                self._answer(number, Answered(number, result))
            case ClientState.READY, Failure(number, code, message, fields):
                self._answer(number, Failed(number, from_wire(code, message, fields)))
            case ClientState.READY, Alive():
                pass
            case ClientState.READY, Push():
                self._pushed(frame)
            case ClientState.READY, Bye() if self._is_leaving and not self.session.asked:
                self._break(None)
            case ClientState.READY, Bye(reason):
                raise Stopping(f"the daemon said bye: {shown(reason)}")
            case _:
                raise FrameError(f"a {name_of(type(frame))} frame may not come when a connection is {self.state.value}")

    def _greeted(self, frame: Hello, now: int) -> None:
        hello = self._hello = read_server_hello(frame)
        self.state = ClientState.PROVING
        if self._secret is not None:
            parts = self.identity, self.session.name, self._nonce, hello.nonce
            self._send(Prove(self.identity, proof(self._secret, CLIENT, *parts)), now)
        elif hello.needs_proof:
            raise AccessDenied(f"the daemon {shown(hello.server)} asks for an identity: give a token")

    def _welcome(self, welcome: Welcome, now: int) -> None:
        hello = self._hello
        assert hello is not None
        if self._secret is not None:
            parts = self.identity, self.session.name, self._nonce, hello.nonce
            if welcome.identity != self.identity or not is_proof(welcome.proof, self._secret, DAEMON, *parts):
                raise AccessDenied(
                    f"the daemon {shown(hello.server)} does not know the secret of {shown(self.identity)}"
                )
        session = self.session
        is_same = session.epoch == hello.epoch
        self._idle_ms = max(self.limits.idle_ms, hello.idle_ms)  # it speaks at least each third of its own
        self._welcomed(min(hello.frame_bytes_max, FRAME_BYTES_LIMIT), now)
        self._ping_ms = max(1, min(self.limits.idle_ms, hello.idle_ms) // 3)
        self._ping_by = now + self._ping_ms
        self.state = ClientState.READY
        roles = frozenset(role for role in welcome.roles if type(role) is str)
        self._events.append(Welcomed(hello.server, roles, is_same))
        self._events += session.reconnected(hello)
        for asked in session.asked.values():
            self._put_out(asked, now)

    def _answer(self, number: int, event: Answered | Failed) -> None:
        asked = next(iter(self.session.asked.values()), None)
        if asked is None or asked.id != number or not asked.is_sent:
            raise FrameError(f"an answer to {number}, which is not the oldest request that waits for one")  # R4
        if asked.command.retry is RetryRule.CONNECTION and type(event) is Answered:
            self._subscribed(asked, event.result)
        del self.session.asked[number]
        self._events.append(event)

    def _subscribed(self, asked: Asked, result: Any) -> None:
        """Know what subscriptions there are."""
        name, parameters = asked.command.name, asked.parameters
        if name in _OPENS:
            number = result.get("subscription") if type(result) is dict else None
            if type(number) is not int or number in self._credit:
                raise FrameError(f"{name} was answered with {shown(number)}, which is no new subscription")
            self._credit[number] = parameters.get("credit", 0)
            self._sequence[number] = 0
        elif name in _CLOSES:
            self._credit.pop(parameters["subscription"], None)
            self._sequence.pop(parameters["subscription"], None)

    def _pushed(self, push: Push) -> None:
        number = push.subscription
        if number not in self._credit:
            raise FrameError(f"a push of the subscription {number}, which there is not")
        if push.sequence != self._sequence[number] + 1:
            raise FrameError(f"push {push.sequence} of the subscription {number} comes after {self._sequence[number]}")
        is_last = len(push.items) == 1 and type(push.items[0]) is dict  # an error, which needs no credit
        if len(push.items) > self._credit[number] and not is_last:
            raise FrameError(f"{len(push.items)} items are pushed, and there is credit for {self._credit[number]}")
        self._sequence[number] = push.sequence
        self._credit[number] -= 0 if is_last else len(push.items)
        self._events.append(Pushed(number, push.items))

    def _break(self, error: JournalError | None) -> None:
        self._end()
        self._ping_by = None
        self.state = ClientState.ENDED
        self._credit.clear()
        if isinstance(error, ProtocolError):
            self.outgoing.clear()
        self._events.append(Ended(error))
