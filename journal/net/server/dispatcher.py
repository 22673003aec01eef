"""
The daemon's thread: connections, their requests, and what they come to.

    socket ─► Peer ─► Hub.serve ─► a handler ──────────────► answer ─► Peer ─► socket
                        │             └─ rests on the disk ─► Settling ─┘
                        └─ may take long ─► a worker thread ────────────┘

H1  One thread makes the requests of all connections, each connection's in their order. A request that may take long is made on a worker
    thread; the later ones of its connection wait for it, other connections do not.
H2  Every request is answered once, also when its connection is gone: the session keeps the answer for the next one.
H3  An error that was not foreseen is logged and answered as `internal`; it ends no connection and no daemon.
H4  A claim whose answer cannot be sent leaves no lease behind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from journal.core.quoting import shown, told
from journal.core.requests.request import Command
from journal.core.settings import MERGED
from journal.engine.log.deferred_syncs import deferred
from journal.engine.pipeline import Pipeline
from journal.engine.store import EngineStore
from journal.errors import Invalid, JournalError, StoreFull
from journal.net.server.connection import Peer, steady_ms
from journal.net.server.durable_replies import Answer, Settling
from journal.net.server.runtime.event_loop import Loop
from journal.net.server.verbs.claims import TakesLong, give_back, lent_by
from journal.net.server.verbs.handlers import HANDLERS, NAMED, STORE, make_slowly
from journal.net.server.verbs.served_journal import known, served_of
from journal.net.wire.auth import Grant
from journal.net.wire.events import Requested
from journal.net.wire.server_connection import ServerConnection
from journal.threads import Workers

log = logging.getLogger("journal.daemon")

WORKERS = 4
READ_BYTES = 1 << 16
Own = Callable[[Peer, int, str, dict[str, Any]], Any]
"""A command that is about the connection itself: the peer, the request's number, the journal and the parameters."""
Unsent = Callable[[Any], None]


class Hub:
    """All connections of a daemon. On its thread."""

    def __init__(self, store: EngineStore, loop: Loop) -> None:
        self.store = store
        self.loop = loop
        self.settling = Settling(loop)
        self.buffer = bytearray(READ_BYTES)
        """What sockets are read into. A `recv` of so many bytes, of which it gives most back, leaves holes in the heap for ever."""
        self.view = memoryview(self.buffer)
        self.peers: dict[ServerConnection, Peer] = {}
        self.own: dict[str, Own] = {}
        """Commands that the daemon's other parts answer."""
        self.on_credit: list[Callable[[Peer, int], None]] = []
        self.on_answer: Callable[[Peer, str, str, dict[str, Any], bool], None] | None = None
        """Called with the answers of consumers about their leases, while there are subscriptions."""
        self.on_drain: list[Callable[[Peer], None]] = []
        """Called when a peer that was full takes bytes again."""
        self.on_end: list[Callable[[Peer], None]] = []
        self.on_empty: Callable[[], None] = lambda: None
        self.requests = 0
        self.failures = 0
        self.accepted = 0
        self._workers = Workers(WORKERS, "journal-daemon-worker")
        self._waits: dict[Pipeline, int] = {}
        """By log: the offset that must be durable before the current request is answered."""
        self._touched: dict[Peer, None] = {}
        """Peers with answers to send when the round is over."""
        loop.after_round.append(self._send_answers)

    def begin(self) -> None:
        """On the daemon's thread, before anything else: no call of the engine waits for a sync here."""
        deferred.waits = self._waits

    def end(self) -> None:
        """On the daemon's thread, at last."""
        deferred.waits, deferred.has_company = None, False
        self._workers.close()
        self.settling.close()

    # -- requests -----------------------------------------------------------------------------------------------------

    def serve(self, peer: Peer, event: Requested, now: int) -> None:
        """Make a request, or have it made (H1)."""
        self.requests += 1
        number, command, name, parameters = event
        connection = peer.connection
        deferred.has_company = self.loop.crowd > 1 or self.settling.count > 0
        if name:
            peer.journal = name
        try:
            handler = None if command.is_slow else HANDLERS.get(command.name)
            if handler is not None and (served := known(self.store, name)) is not None:
                result = handler(served, parameters, connection.grant)
            else:
                result = self._make(peer, event)
        except TakesLong:
            self._later(peer, event)
            return
        except JournalError as e:
            self._waits.clear()
            self.failures += 1
            if self.on_answer is not None:
                self.on_answer(peer, name, command.name, parameters, False)
            self._out(connection.fail(number, e, now), connection)
            return
        except Exception as e:  # noqa: BLE001 - it is answered, and logged (H3)
            self._waits.clear()
            self._unforeseen(peer, command.name, e)
            self._out(connection.fail(number, e, now), connection)
            return
        if result is LATER:
            return
        if self.on_answer is not None:
            self.on_answer(peer, name, command.name, parameters, True)
        if self._waits:
            self.settle(partial(self._settled, peer, number, result, self._unsent(command, name)))
        else:
            self._out(connection.reply(number, result, now, self._unsent(command, name)), connection)

    def _make(self, peer: Peer, event: Requested) -> Any:
        """A request that is not one of the usual ones."""
        number, command, name, parameters = event
        if name == MERGED and not command.is_of_log:
            raise Invalid(f"{command.name} is for one journal, not for all merged ones together")
        own = self.own.get(command.name)
        if own is not None:
            return own(peer, number, name, parameters)
        store, grant = self.store, peer.connection.grant
        make: Callable[[], Any]
        if command.name in STORE:
            make = partial(STORE[command.name], store, parameters, grant)
        elif command.name in NAMED:
            make = partial(NAMED[command.name], store, name, parameters, grant)
        else:
            return self._later(peer, event)
        return self.later(peer, number, command.name, make)

    def _later(self, peer: Peer, event: Requested) -> Any:
        number, command, name, parameters = event
        make = partial(_make_later, command.name, self.store, name, parameters, peer.connection.grant)
        return self.later(peer, number, command.name, make, unsent=self._unsent(command, name))

    def settle(self, answer: Answer) -> None:
        """Call back when every offset that the request rests on is durable."""
        waits = self._waits
        pipeline, offset = waits.popitem()
        while waits:  # it rests on several logs: one after the other
            answer = partial(self._settle_next, *waits.popitem(), answer)
        self.settling.add(pipeline, offset, answer)

    @property
    def has_waits(self) -> bool:
        """Whether what was made last rests on the disk."""
        return bool(self._waits)

    def _settle_next(self, pipeline: Pipeline, offset: int, answer: Answer, error: JournalError | None) -> None:
        if error is not None:
            answer(error)
        else:
            self.settling.add(pipeline, offset, answer)

    def _settled(self, peer: Peer, number: int, result: Any, unsent: Unsent | None, error: JournalError | None) -> None:
        connection, now = peer.connection, steady_ms()
        if error is None:
            self._out(connection.reply(number, result, now, unsent), connection, peer)
        else:
            self._out(connection.fail(number, error, now), connection, peer)

    def _unsent(self, command: Command, journal: str) -> Unsent | None:
        """What to do with a result that no frame can hold."""
        return partial(self._take_back, command.name, journal) if command.lends else None

    def _take_back(self, command: str, journal: str, result: Any) -> None:
        """Give back the leases of a result that was not sent (H4)."""
        served = known(self.store, journal)
        if served is not None:
            give_back(served.journal, lent_by(command, result))

    def _out(self, out: ServerConnection, connection: ServerConnection, peer: Peer | None = None) -> None:
        """An answer is on its way; `out` is where: the client may have come anew (H2)."""
        if out is not connection:
            peer = self.peers.get(out)
        if peer is not None:
            self._touched[peer] = None

    def touch(self, peer: Peer) -> None:
        """Something is to be sent when the round is over."""
        self._touched[peer] = None

    def _send_answers(self) -> None:
        while self._touched:
            now = steady_ms()
            touched, self._touched = self._touched, {}
            for peer in touched:
                peer.stir(now)

    def _unforeseen(self, peer: Peer, command: str, error: BaseException) -> None:
        self.failures += 1
        log.error("request_failed peer=%s command=%s", peer.name, command, exc_info=error)

    # -- what takes long ----------------------------------------------------------------------------------------------

    def later(
        self,
        peer: Peer,
        number: int,
        command: str,
        make: Callable[[], Any],
        then: Callable[[Any], Any] = lambda result: result,
        unsent: Unsent | None = None,
    ) -> Any:
        """Have a request made on a worker's thread; `then` makes the answer of its result, here. The handler returns what this returns."""
        self._workers.submit(self._work, peer, number, command, make, then, unsent)
        peer.is_slow = True
        return LATER

    def work(self, make: Callable[[], object]) -> None:
        """Have something done on a worker's thread, without waiting for it."""
        try:
            self._workers.submit(self._work_unasked, make)
        except StoreFull:
            self._work_unasked(make)  # no thread for it: here, though other requests wait

    def _work_unasked(self, make: Callable[[], object]) -> None:
        try:
            make()
        except JournalError as e:
            log.warning("work_failed error=%s", told(e))
        except Exception:
            log.exception("work_failed")

    def _work(
        self,
        peer: Peer,
        number: int,
        command: str,
        make: Callable[[], Any],
        then: Callable[[Any], Any],
        unsent: Unsent | None,
    ) -> None:
        """On a worker's thread."""
        result: Any = None
        error: BaseException | None = None
        try:
            result = make()
        except Exception as e:  # noqa: BLE001 - it is answered
            error = e
        self.loop.call(partial(self._worked, peer, number, command, result, error, then, unsent))

    def _worked(
        self,
        peer: Peer,
        number: int,
        command: str,
        result: Any,
        error: BaseException | None,
        then: Callable[[Any], Any],
        unsent: Unsent | None,
    ) -> None:
        connection, now = peer.connection, steady_ms()
        if error is None:
            try:
                result = then(result)
            except Exception as e:  # noqa: BLE001 - it is answered
                error = e
        if error is None:
            out = connection.reply(number, result, now, unsent)
        else:
            if isinstance(error, JournalError):
                self.failures += 1
            else:
                self._unforeseen(peer, command, error)
            out = connection.fail(number, error, now)
        self._out(out, connection)
        peer.go_on(now)

    # -- connections --------------------------------------------------------------------------------------------------

    def opened(self, peer: Peer, grant: Grant) -> None:
        """The identity of a peer is known."""
        log.info("peer_opened peer=%s identity=%s", peer.name, shown(grant.identity))

    def credited(self, peer: Peer, subscription: int) -> None:
        """More may be pushed."""
        for function in self.on_credit:
            function(peer, subscription)

    def drained(self, peer: Peer) -> None:
        """There is room again for what is pushed."""
        for function in self.on_drain:
            function(peer)

    def superseded(self, connection: ServerConnection, now: int) -> None:
        """A client came anew: its old connection is over."""
        peer = self.peers.get(connection)
        if peer is not None:
            peer.stir(now)

    def ended(self, peer: Peer, error: JournalError | None) -> None:
        """Nothing more comes from a peer."""
        if error is None:
            log.info("peer_left peer=%s", peer.name)
        else:
            log.warning("peer_ended peer=%s error=%s", peer.name, told(error))
        for function in self.on_end:
            function(peer)

    def closed(self, peer: Peer) -> None:
        """Its socket is closed."""
        self.peers.pop(peer.connection, None)
        if not self.peers:
            self.on_empty()


LATER: Any = object()
"""The answer will come from another thread."""


def _make_later(command: str, store: EngineStore, name: str, parameters: dict[str, Any], grant: Grant) -> Any:
    """On a worker's thread: a journal that has not been used yet is opened first."""
    return make_slowly(HANDLERS[command], served_of(store, name, grant), parameters, grant)
