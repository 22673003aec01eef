"""
The daemon's end of a connection, without its socket: bytes in, events out; answers in, bytes out.

    NEW ──0x00──► HELLO ──hello──► PROVING ──prove──► READY ──bye, stop──► LEAVING ──all answered──► ENDED
     │              └──────── the system vouches ──────┘                                              ▲
     └──other────► LINES ───────────────────────────────────────────────────────── error, end, time ──┘

D1  Requests are handed out in their order and answered in their order. Each is answered once; one that is refused here never gets out.
D2  With `in_flight_max` requests unanswered, or `output_bytes_max` bytes unsent, or held, no further request is taken, and `wants_bytes`
    says so: a client that never reads stops itself and no other client.
D3  A client whose identity is not known yet can send small frames and ask whether the daemon is alive, and nothing else.
D4  An error of the protocol ends the connection with its reason; an error of a request ends nothing.
D5  While an answer takes long, the daemon sends `alive` from time to time; an idle connection costs no wake-up.
D6  What is pushed never exceeds the credit, but for the item that ends a subscription, and never comes before the reply that names it.
"""

from __future__ import annotations

from typing import Any

from journal.core.quoting import shown
from journal.core.requests.control import ANSWERED_HERE
from journal.core.requests.registry import COMMANDS, answer_here, command_named
from journal.core.requests.request import ANY_CONNECTION, Command, RetryRule, Role
from journal.errors import (
    AccessDenied,
    ConnectionLost,
    FrameError,
    Invalid,
    JournalError,
    LineError,
    Stopping,
    UnknownCommand,
)
from journal.net.wire.auth import CLIENT, DAEMON, EVERYTHING, NOTHING, Grant, check_nonce, is_proof, proof
from journal.net.wire.events import Credited, Event, Opened, Requested, Superseded
from journal.net.wire.frames import Alive, Bye, Credit, Frame, Hello, Prove, RequestFrame, Welcome, decode, name_of
from journal.net.wire.handshake import ClientHello, Daemon, read_client_hello, server_hello
from journal.net.wire.limits import DEFAULT, Limits
from journal.net.wire.line import parse_line
from journal.net.wire.line_stream import SERVICE, LineBuffer, failure_line
from journal.net.wire.replies import Answering, ServerState
from journal.net.wire.sessions import Standing

LINE_ERRORS_MAX = 8
_OWN_NAME = frozenset({"CLAIM", "CLAIM_MANY", "CLAIM_KEY", "LEASES", "SUBSCRIBE"})
"""What is done under the connection's own name unless another is given. (A feed without a name is one that keeps nothing.)"""


class ServerConnection(Answering):
    """One connection of a daemon. One thread at a time uses it and all other connections that share its sessions."""

    def __init__(
        self, daemon: Daemon, *, nonce: bytes, now: int, grant: Grant | None = None, limits: Limits = DEFAULT
    ) -> None:
        """`grant`: what the system vouches for (the owner on its own socket); None: a token must be proved."""
        if limits.in_flight_max > daemon.sessions.answers_max:
            raise Invalid(
                f"in_flight_max is {limits.in_flight_max}, and a session keeps {daemon.sessions.answers_max} answers: what is "
                "in flight when a connection breaks must be remembered"
            )
        super().__init__(daemon, limits, now)
        self.grant = NOTHING
        self.registered: str | None = None
        self.is_held = False
        """Set by the owner while it has requests that it cannot make yet: no further one is taken (D2)."""
        self._nonce = check_nonce(nonce)
        self._vouched = grant
        self._hello: ClientHello | None = None
        self._lines = LineBuffer(limits.line_bytes_max)
        self._line_errors = 0
        self._last_id = 0
        self._in_flight_max = limits.in_flight_max
        self._is_stalled = False
        self._taken = 0

    # -- bytes --------------------------------------------------------------------------------------------------------

    @property
    def _is_blocked(self) -> bool:
        return (
            self.is_held
            or len(self._order) >= self._in_flight_max
            or len(self.outgoing) + self._ready_bytes > self._output_bytes_max
        )

    @property
    def wants_bytes(self) -> bool:
        """Whether to read from the socket (D2)."""
        return not (
            self.is_ended
            or self.is_held
            or len(self._order) >= self._in_flight_max
            or len(self.outgoing) + self._ready_bytes > self._output_bytes_max
        )

    def receive(self, data: bytes, now: int) -> list[Event]:
        """Bytes have come; empty: the other side has closed."""
        if self.is_ended:
            return []
        if not data:
            self._close(None, now)
            return self.more(now)
        self._heard(now)
        if self.state is ServerState.READY and self._decoder.is_whole(data) and not self._is_blocked:
            return self._receive_one(data, now)
        if self.state is ServerState.NEW:
            self._begin(data[0], now)
        try:
            if self._is_lines:
                self._lines.feed(data)
            else:
                self._decoder.feed(data)
        except FrameError as e:
            self.break_off(e, now)
        return self.more(now)

    def _receive_one(self, data: bytes, now: int) -> list[Event]:
        """The usual case: one frame, and nothing before it or behind it. What `more` does, without its loop."""
        try:
            frame = decode(data[4:])
            if type(frame) is RequestFrame:
                self._ask(frame, now)
            else:
                self._take_frame(frame, now)
        except JournalError as e:
            self.break_off(e, now)
        self._taken += 1
        self._frame_by = None
        events, self._events = self._events, []
        return events

    def _begin(self, first: int, now: int) -> None:
        """Frames or lines: a frame begins with a length below 2**24, a line with a letter or '<'."""
        self.state = ServerState.HELLO if first == 0 else ServerState.LINES
        if self.state is ServerState.LINES:
            self._is_lines = True
            self.grant = self._vouched or NOTHING
            self._hello_by, self._heard_by = None, now + self.limits.idle_ms

    @property
    def is_stirred(self) -> bool:
        """Whether `more` has something to give."""
        return bool(self._events) or (self._is_stalled and not self._is_blocked)

    def more(self, now: int) -> list[Event]:
        """Events that could not come before: call it after answers were given or bytes were sent."""
        before = self._taken
        try:
            while not self.is_ended and not self._is_blocked and self._take(now):
                self._taken += 1
        except JournalError as e:
            self.break_off(e, now)
        self._is_stalled = not self.is_ended and self._is_blocked
        if not self.is_ended:
            is_cut = self._lines.has_part if self._is_lines else self._decoder.has_part
            self._part_began(now, has_part=is_cut and not self._is_blocked, has_taken=self._taken != before)
        events, self._events = self._events, []
        return events

    def _take(self, now: int) -> bool:
        """Take one frame or line; whether there was one."""
        if self._is_lines:
            line = self._lines.next()
            if line is not None:
                self._take_line(line, now)
            return line is not None
        frame = self._decoder.next()
        if frame is not None:
            self._take_frame(frame, now)
        return frame is not None

    def tick(self, now: int) -> list[Event]:
        """Time has passed."""
        if self.is_ended:
            self._give_up_sending(now)
            return []
        if self._is_blocked:
            self._heard(now)  # it was not listened to
        error: JournalError | None = self._overdue(now)
        if error is None and self._stop_by is not None and self._stop_by <= now:
            error = Stopping(f"the daemon stops, and {self.in_flight} requests were not finished in time")
        if error is not None:
            self.break_off(error, now)
        elif self._alive_by is not None and self._alive_by <= now:
            self._alive_by = now + self.limits.idle_ms // 3
            self._send(Alive(self.in_flight), now)  # D5
        return self.more(now)

    @property
    def deadline(self) -> int | None:
        """When `tick` must be called, if nothing comes before."""
        times = super().deadline, self._alive_by
        return min((time for time in times if time is not None), default=None)

    # -- handshake ----------------------------------------------------------------------------------------------------

    def _take_frame(self, frame: Frame, now: int) -> None:
        if type(frame) is RequestFrame and self.state is ServerState.READY:
            self._ask(frame, now)  # the usual case, without a look at all others
            return
        match self.state, frame:
            case ServerState.HELLO, Hello():
                self._greet(frame, now)
            case ServerState.PROVING, Prove(identity, given):
                self._prove(identity, given, now)
            case ServerState.LEAVING, RequestFrame():
                self._ask(frame, now)
            case ((ServerState.READY | ServerState.LEAVING), Credit(subscription, number)):
                if self._subscriptions.add(subscription, number) and (credit := self.credit(subscription)):
                    self._events.append(Credited(subscription, credit))
            case ServerState.READY, Bye():
                self._leave(now, has_said_bye=True)
            case ServerState.LEAVING, Bye():
                pass  # both sides leave
            case _:
                raise FrameError(f"a {name_of(type(frame))} frame may not come when a connection is {self.state.value}")

    def _greet(self, hello: Hello, now: int) -> None:
        self._hello = read_client_hello(hello)
        self._send(server_hello(self._daemon, self._nonce, self.limits, needs_proof=self._vouched is None), now)
        self.state = ServerState.PROVING
        if self._vouched is not None and not self._hello.proves:
            self._welcome(self._vouched, b"", now)

    def _prove(self, identity: str, given: bytes, now: int) -> None:
        assert self._hello is not None
        token = self._daemon.tokens.get(identity)
        parts = identity, self._hello.session, self._hello.nonce, self._nonce
        if not is_proof(given, None if token is None else token.secret, CLIENT, *parts) or token is None:
            raise AccessDenied(f"the proof of the identity {shown(identity)} is wrong, or there is no such identity")
        self._welcome(token.grant, proof(token.secret, DAEMON, *parts), now)

    def _welcome(self, grant: Grant, own: bytes, now: int) -> None:
        assert self._hello is not None
        sessions = self._daemon.sessions
        self._session, before = sessions.attach(grant.identity, self._hello.session, self, now)
        if before is not None and before is not self:
            before.break_off(ConnectionLost("the client has connected anew"), now)
            self._events.append(Superseded(before))
        self.grant = grant
        self._send(Welcome(grant.identity, sorted(grant.roles), own), now)
        self._welcomed(self.limits.frame_bytes_max, now)
        self.state = ServerState.READY
        self._events.append(Opened(grant))

    # -- requests -----------------------------------------------------------------------------------------------------

    def _ask(self, request: RequestFrame, now: int) -> None:
        number = request.id
        if number <= self._last_id:
            raise FrameError(
                f"a request with the id {number} comes after one with the id {self._last_id}: they must grow"
            )
        command = COMMANDS.get(request.command)
        self._expect(number, command, now)
        session = self._session
        assert session is not None
        if self.state is ServerState.LEAVING and not session.has_seen(number):
            self.fail(number, Stopping("the daemon takes nothing new: connect again"), now)
            return
        standing = session.begin(number, RetryRule.ALWAYS if command is None else command.retry)
        if standing is not Standing.NEW:
            self._ask_again(request, standing, now)
            return
        if self.state is ServerState.LEAVING:  # it may have been done when it came first, so it is no refusal
            text = f"the daemon stops, and does not do {shown(request.command)} again: whether it was done before is unknown"
            self.fail(number, ConnectionLost(text), now)
            return
        try:
            row = command or command_named(request.command)
            row.check(request.journal, request.parameters)
            self._admit(number, row, request.journal, request.parameters, now)
        except JournalError as e:
            self.fail(number, e, now)

    def _ask_again(self, request: RequestFrame, standing: Standing, now: int) -> None:
        """A request that came before, on an earlier connection of the session."""
        number = request.id
        assert self._session is not None
        if standing is Standing.ANSWERED:
            self._answered(number, self._session.answer(number), now)
        elif standing is Standing.FORGOTTEN:
            text = f"what {shown(request.command)} came to is forgotten: it was asked for too long ago"
            self.fail(number, ConnectionLost(text), now)
        else:
            self._waiting.add(number)

    def _expect(self, number: int, command: Command | None, now: int) -> None:
        if self._alive_by is None and not self._is_lines:
            self._alive_by = now + self.limits.idle_ms // 3
        self._last_id = number
        self._order.append(number)
        self._asked[number] = command

    def _admit(self, number: int, row: Command, journal: str, parameters: dict[str, Any], now: int) -> None:
        """Answer a request here, or hand it out; or raise why not."""
        if self._is_lines and row.roles is not ANY_CONNECTION and self._vouched is None:
            raise AccessDenied(f"{row.name} needs an identity, which cannot be proved in lines: use frames")
        if self.grant is not EVERYTHING:
            self.grant.check(row, journal, parameters)
        if row.name in ANSWERED_HERE:
            if row.name in ("REGISTER", "UNREGISTER"):
                self._name_it(row, parameters.get("service"))
            self.reply(number, answer_here(row, parameters, is_line=self._is_lines), now)
            return
        if row.name in _OWN_NAME and parameters.get("consumer") is None:
            is_for_all = row.name == "LEASES" and Role.ADMIN in self.grant.roles
            if not is_for_all:
                parameters = {**parameters, "consumer": self.registered or self.grant.identity}
        self._events.append(Requested(number, row, journal, parameters))

    def _name_it(self, row: Command, service: str | None) -> None:
        """REGISTER and UNREGISTER. The latter may say which name it means: then that one, or nothing, is taken away."""
        if row.name == "REGISTER":
            self.registered = service
            return
        if service is not None and service != self.registered:
            has = "no name" if self.registered is None else f"the name {shown(self.registered)}"
            raise Invalid(f"this connection has {has}, not {shown(service)}: it can take away its own only")
        self.registered = None

    def _take_line(self, raw: bytes, now: int) -> None:
        number = self._last_id + 1
        name = ""
        self._expect(number, None, now)
        try:
            if self.state is ServerState.LEAVING:
                raise Stopping("the daemon takes nothing new: connect again")
            message = parse_line(raw, bytes_max=self.limits.line_bytes_max, parameters_max=self.limits.parameters_max)
            name = message.command
            server, service = message.to
            if server and server != self._daemon.server:
                raise Invalid(
                    f"this is the server {shown(self._daemon.server)}, and the line is for {shown(server)}: nothing is passed on"
                )
            row = command_named(name)
            self._asked[number] = row
            journal = "" if service == SERVICE else service
            self._admit(number, row, journal, row.read(journal, message.parameters), now)
        except JournalError as e:
            self._answered(number, failure_line(self._daemon.server, name, e), now)
            self._line_errors += isinstance(e, (LineError, UnknownCommand))
            if self._line_errors > LINE_ERRORS_MAX:
                raise LineError("too many lines that are no messages", reason="too many") from e
