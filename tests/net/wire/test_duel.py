"""A client's end and a daemon's end against each other: bytes cut anywhere, connections that break, daemons that restart."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from journal.core.requests.registry import COMMANDS
from journal.core.requests.request import RetryRule
from journal.errors import Busy, ConnectionLost, FrameError, JournalError, Stopping
from journal.net.wire.events import Answered, Ended, Event, Failed, Pushed, Requested, Superseded
from journal.net.wire.limits import Limits
from journal.net.wire.server_connection import ServerConnection
from tests.net.wire.peers import SECRET, Peers

ASKED: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "pages", {"key": "a"}),
    ("PUT", "pages", {"key": "a", "data": b"\xc0" * 300}),
    ("CLAIM", "pages", {}),
    ("DONE", "pages", {"token": 7}),
    ("RELEASE", "mail-1", {"token": 7}),
    ("ALIVE", "", {"serial": "x"}),
    ("DROP", "pages", {}),
    ("CLAIM", "others", {}),
    ("SUBSCRIBE", "pages", {"credit": 3}),
]
SMALL = Limits(frame_bytes_max=4096, in_flight_max=5, output_bytes_max=2000, subscriptions_max=3)
ALLOWED = (ConnectionLost, Stopping)
DATA_MAX = 600


class Duel(RuleBasedStateMachine):
    """What is asked is answered once, with its own answer, and done no more often than it may be."""

    def __init__(self) -> None:
        super().__init__()
        self.peers = Peers(limits=SMALL, client_limits=Limits(), grant=None)
        self.names: dict[int, str] = {}
        self.open: list[tuple[ServerConnection, Requested]] = []
        self.done: Counter[tuple[int, int]] = Counter()
        """How often a request was handed out, by daemon."""
        self.given: dict[int, set[str]] = {}
        self.answers: dict[int, Event] = {}
        self.has_garbage = False
        self.pushed = 0
        self.received = 0
        self.subscriptions: dict[int, int] = {}
        self.peers.connect("backend", SECRET)
        self.flow()

    # -- what happens -------------------------------------------------------------------------------------------------

    @rule(which=st.sampled_from(ASKED), timeout_ms=st.none() | st.integers(1, 200_000))
    def ask(self, which: tuple[str, str, dict[str, Any]], timeout_ms: int | None) -> None:
        name, journal, parameters = which
        try:
            number = self.peers.client.request(name, journal, parameters, self.peers.now, timeout_ms=timeout_ms)
        except Busy:
            return
        self.names[number] = name

    @rule(size=st.integers(1, 400))
    def carry_up(self, size: int) -> None:
        if self.peers.server.wants_bytes:
            self.daemon_told(self.peers.up(size))

    @rule(size=st.integers(1, 400))
    def carry_down(self, size: int) -> None:
        before = len(self.peers.asked)
        self.client_told(self.peers.down(size))
        self.daemon_told(self.peers.asked[before:])

    @rule()
    def flow(self) -> None:
        """All bytes that are under way arrive; a connection that has ended is followed by another."""
        if self.peers.client.is_ended or self.peers.server.is_ended:
            self.reconnect(True, False, False)
        for _ in range(4):
            self.carry_up(1 << 20)
            self.carry_down(1 << 20)

    @rule(which=st.lists(st.sampled_from(ASKED), min_size=2, max_size=6))
    def ask_many(self, which: list[tuple[str, str, dict[str, Any]]]) -> None:
        for each in which:
            self.ask(each, None)

    @rule(data=st.data(), size=st.integers(0, DATA_MAX))
    @precondition(lambda self: self.open)
    def answer(self, data: st.DataObject, size: int) -> None:
        server, request = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        self.reply(server, request, "x" * size)

    @rule(n=st.integers(1, 4))
    def push(self, n: int) -> None:
        for subscription in self.subscriptions:
            if self.peers.server.push(subscription, ["item"] * n, self.peers.now):
                self.pushed += n

    @rule(n=st.integers(1, 6))
    def subscribe(self, n: int) -> None:
        """A subscription that is opened and used at once."""
        self.ask(ASKED[-1], None)
        self.flow()
        while self.open:
            self.reply(*self.open.pop(0), "")
        self.push(n)
        self.flow()

    @rule(n=st.integers(1, 4))
    def credit(self, n: int) -> None:
        for subscription in self.subscriptions:
            self.peers.client.credit(subscription, n, self.peers.now)

    @rule(ms=st.integers(1, 20_000))
    def wait(self, ms: int) -> None:
        self.peers.now += ms
        self.daemon_told(self.peers.server.tick(self.peers.now))
        self.client_told(self.peers.client.tick(self.peers.now))

    @rule(is_noticed=st.booleans(), is_restarted=st.booleans(), is_greeted=st.just(True))
    def reconnect(self, is_noticed: bool, is_restarted: bool, is_greeted: bool) -> None:
        """The wire breaks; the daemon may notice, or hold the old connection still when the new one comes."""
        self.client_told(self.peers.client.receive(b"", self.peers.now))
        if is_noticed or is_restarted:
            self.daemon_told(self.peers.server.receive(b"", self.peers.now))
        if is_restarted:
            self.open.clear()
            self.peers.restart()
        self.peers.connect("backend", SECRET)
        self.subscriptions.clear()
        self.pushed = self.received = 0
        self.has_garbage = False
        if is_greeted:
            self.flow()

    @rule(garbage=st.binary(min_size=1, max_size=20), is_up=st.booleans(), is_stop=st.booleans())
    def trouble(self, garbage: bytes, is_up: bool, is_stop: bool) -> None:
        """The daemon stops, or bytes come that nobody sent."""
        if is_stop:
            self.daemon_told(self.peers.server.stop(self.peers.now))
            return
        self.has_garbage = True
        if is_up:
            self.daemon_told(self.peers.server.receive(garbage, self.peers.now))
        else:
            self.client_told(self.peers.client.receive(garbage, self.peers.now))

    # -- what is told -------------------------------------------------------------------------------------------------

    def reply(self, server: ServerConnection, request: Requested, filler: str) -> None:
        result: Any = f"{request.id} {self.done[self.peers.daemon.epoch, request.id]} {filler}"
        if request.command.name == "SUBSCRIBE":
            if server is not self.peers.server or server.is_ended:
                server.fail(request.id, Stopping("gone"), self.peers.now)
                return
            try:
                result = {"subscription": server.subscribe(request.id, request.parameters["credit"])}
            except Busy as e:
                server.fail(request.id, e, self.peers.now)
                return
            self.subscriptions[result["subscription"]] = 0
        self.given.setdefault(request.id, set()).add(str(result))
        server.reply(request.id, result, self.peers.now)
        self.daemon_told(self.peers.server.more(self.peers.now))

    def daemon_told(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Requested):
                assert event.command.name not in ("DROP", "ALIVE") and event.journal != "others"
                self.done[self.peers.daemon.epoch, event.id] += 1
                self.open.append((self.peers.server, event))
            elif isinstance(event, Superseded):
                assert event.connection is not self.peers.server and event.connection.is_ended
            elif isinstance(event, Ended) and not self.has_garbage:
                assert event.error is None or not isinstance(event.error, FrameError), event.error

    def client_told(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Answered | Failed):
                if not self.has_garbage:
                    assert event.id in self.names
                assert event.id not in self.answers, "answered twice"
                self.answers[event.id] = event
                if isinstance(event, Answered) and self.names.get(event.id) != "ALIVE":
                    assert str(event.result) in self.given[event.id] or self.has_garbage
            elif isinstance(event, Pushed):
                self.received += len(event.items)
            elif isinstance(event, Ended) and not self.has_garbage:
                assert not isinstance(event.error, FrameError), event.error

    # -- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def nothing_is_done_too_often(self) -> None:
        total: Counter[int] = Counter()
        for (_, number), times in self.done.items():
            retry = COMMANDS[self.names[number]].retry if number in self.names else RetryRule.ALWAYS
            if retry is not RetryRule.ALWAYS:
                assert times == 1, "within a session"
            total[number] += times
            if retry in (RetryRule.REQUEST, RetryRule.CONNECTION, RetryRule.NEVER):
                assert total[number] == 1, "over restarts"

    @invariant()
    def limits_hold(self) -> None:
        server = self.peers.server
        assert server.in_flight <= SMALL.in_flight_max
        assert len(server.outgoing) <= SMALL.output_bytes_max + SMALL.in_flight_max * 2 * DATA_MAX + 4096
        assert self.received <= self.pushed
        assert server.deadline is None or server.deadline > self.peers.now or server.tick(self.peers.now) is not None

    def teardown(self) -> None:
        """On a good wire everything comes to its end."""
        self.reconnect(True, False, True)
        for _ in range(10_000):
            if self.peers.server.wants_bytes:
                self.daemon_told(self.peers.up())
            while self.open:
                self.reply(*self.open.pop(0), "")
            self.carry_down(1 << 20)
            if not (self.open or self.peers.client.outgoing or self.peers.server.outgoing):
                break
        assert set(self.answers) >= set(self.names) and not self.peers.session.asked
        for event in self.answers.values():
            if isinstance(event, Failed):
                assert isinstance(event.error, JournalError)


TestDuel = Duel.TestCase
TestDuel.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
