"""
When something falls due: the daemon's timer, and the datagrams to clients that LISTEN.

For each journal that has listeners or subscriptions, the next due date is kept in memory: the engine rings a bell when
something falls due before it (a put, a release, a lost lease), and the timer looks at that date. A look asks the engine how many entries
are due, which walks at most DUE_MAX keys and no payload.

B1  No look without a reason: a bell, or the date that was known. Without listeners or subscriptions there is no bell.
B2  While entries are due already, changes ring at most one look in BUSY_MS: a backlog is news once, not with each claim.
B3  A datagram goes to the host of the connection that asked, and nowhere else (due_notices L4). One that cannot be sent is lost, as
    any may be.
B4  A look ends when users have found nothing to take after the bell was set: what falls due while they take is not left to the next bell.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from journal.core.quoting import shown, told
from journal.engine.store import EngineStore
from journal.engine.work.outlook import outlook
from journal.errors import ConnectionLost, JournalError, NotFound, StoreClosed
from journal.net.server.connection import Peer
from journal.net.server.runtime.event_loop import Timer
from journal.net.server.verbs.served_journal import Served, known, served_of
from journal.net.wire.auth import Grant
from journal.net.wire.due_notices import ALL, COOKIE_BYTES, Datagram, Listeners

if TYPE_CHECKING:
    from journal.net.server.dispatcher import Hub

log = logging.getLogger("journal.daemon")

DUE_MAX = 100
"""How many due entries are counted; so many mean: so many or more."""
BUSY_MS = 20
RETRY_S = 1.0
LOOK_AGAIN_S = 60.0
"""Waits are clamped: whatever the clocks do, the timer looks again."""


class Watched:
    """A journal that has listeners or subscriptions."""

    __slots__ = ("_watching", "bell", "is_busy", "is_rung", "looked_at", "next_due", "served", "timer", "users")

    def __init__(self, watching: Watching, served: Served) -> None:
        self.served = served
        self.users: list[Callable[[int], bool]] = []
        """Callbacks that take what is due: called with the engine's time at each look; each returns whether it took something."""
        self.is_busy = False
        """Whether the last look found something due."""
        self.is_rung = False
        self.looked_at = 0
        self.next_due: int | None = None
        self.timer: Timer | None = None
        self._watching = watching
        self.bell = served.p.due.bell(self._ring)

    @property
    def name(self) -> str:
        """Of the journal."""
        return self.served.journal.name

    def _ring(self) -> None:
        """Something may be due sooner; under the journal's lock, on any thread: only a note is made."""
        if not self.is_rung:
            self.is_rung = True
            self._watching.hub.loop.call(partial(self._watching.rung, self))


class Watching:
    """See the module. On the daemon's thread."""

    def __init__(self, hub: Hub, server: str) -> None:
        self.hub = hub
        self.sent = 0
        """Datagrams."""
        self.looks = 0
        self.on_gone: list[Callable[[Watched, JournalError], None]] = []
        """Told of journals that are no more."""
        self._listeners = Listeners(server)
        self._watched: dict[str, Watched] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._gap: Timer | None = None
        hub.own |= {"LISTEN": self._listen, "UNLISTEN": self._unlisten}
        hub.on_end.append(self._ended)

    @property
    def listeners_count(self) -> int:
        """How many listen."""
        return len(self._listeners)

    # -- listeners ----------------------------------------------------------------------------------------------------

    def _listen(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        number_before = parameters.get("listener")
        names, grant = parameters["journals"], peer.connection.grant
        if number_before is not None:
            return self._listeners.renew(
                number_before, peer.connection, self.hub.store.time.running(), port=parameters["port"], journals=names
            ).reply()
        if ALL not in names:
            open_already = [known(self.hub.store, name) for name in names if grant.may_see(name)]
            served = [each for each in open_already if each is not None]
            if len(served) == len(open_already):
                return self._begin(peer, parameters, served)  # the usual case, which waits for no worker
        make = partial(_opened, self.hub.store, names, grant)
        return self.hub.later(peer, number, "LISTEN", make, partial(self._begin, peer, parameters))

    def _begin(self, peer: Peer, parameters: dict[str, Any], served: list[Served]) -> Any:
        connection, names = peer.connection, parameters["journals"]
        if connection.is_ended:
            raise ConnectionLost("the connection has ended")
        where, cookie = (peer.host, parameters["port"]), os.urandom(COOKIE_BYTES)
        listener = self._listeners.add(
            connection, where, names, connection.grant, cookie, self.hub.store.time.running()
        )
        for each in served:
            if self._end_of(each) is None:
                self.look_soon(self.watch(each))  # what is due already is reported at once
        return listener.reply()

    def _unlisten(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        is_there = self._listeners.remove(parameters["listener"], peer.connection)
        self._tidy()
        return is_there

    def _ended(self, peer: Peer) -> None:
        self._listeners.remove_all(peer.connection)
        self._tidy()

    def declared(self, name: str) -> None:
        """There is a new journal: listeners to all journals get it too, and so do listeners that named a dropped one of this name."""
        served = known(self.hub.store, name) if self._listeners.is_wanted(name) else None
        if served is not None and self._end_of(served) is None:
            self.look_soon(self.watch(served))

    # -- journals -----------------------------------------------------------------------------------------------------

    def watch(self, served: Served) -> Watched:
        """Have a journal watched; raises why it is no more: the caller may have found it before it was dropped."""
        if (error := self._end_of(served)) is not None:
            raise error
        name = served.journal.name
        watched = self._watched.get(name)
        if watched is not None and watched.served is not served:
            self._end(watched, self._end_of(watched.served) or _dropped(name))  # dropped since the last look
            watched = None
        if watched is None:
            watched = self._watched[name] = Watched(self, served)
        return watched

    def _tidy(self) -> None:
        """Stop watching journals without listeners and subscriptions: they cause no wake-up (B1)."""
        for watched in list(self._watched.values()):
            if not watched.users and not self._listeners.is_wanted(watched.name):
                self._unwatch(watched)

    def forget(self, watched: Watched, user: Callable[[int], bool]) -> None:
        """Remove a user."""
        if user in watched.users:
            watched.users.remove(user)
        self._tidy()

    def _unwatch(self, watched: Watched) -> None:
        watched.bell.close()
        if watched.timer is not None:
            watched.timer.cancel()
        self._watched.pop(watched.name, None)

    # -- looks --------------------------------------------------------------------------------------------------------

    def rung(self, watched: Watched) -> None:
        """The bell rang: look now, or when a look is due again (B2)."""
        if self._watched.get(watched.name) is not watched:
            return
        time = self.hub.store.time
        wait = watched.looked_at + BUSY_MS - time.running()
        again = time.now() + wait
        is_early = watched.is_busy and wait > 0
        if not (is_early and self._look_at(watched, min(again, watched.next_due or again))):
            self.look(watched)

    def look_soon(self, watched: Watched) -> None:
        """Look when the round is over."""
        if not watched.is_rung:
            watched.is_rung = True
            self.hub.loop.call(partial(self.look, watched))

    def look(self, watched: Watched) -> None:
        """What is due, and when is the next one?"""
        if self._watched.get(watched.name) is not watched:
            return
        self.looks += 1
        watched.is_rung = False
        try:
            has_given, error = self._use(watched)
            while self._watched.get(watched.name) is watched:
                _, number, next_due = outlook(watched.served.p, watched.bell, DUE_MAX)
                if not number or not watched.users:
                    break
                has_given, again = self._use(watched)  # B4
                error = error or again
                if not has_given:
                    break
        except JournalError as e:
            self._failed(watched, e)
            return
        if self._watched.get(watched.name) is not watched:
            return  # that was the last one
        watched.looked_at = running = self.hub.store.time.running()
        watched.is_busy, watched.next_due = number > 0, next_due
        if next_due is not None:
            self._look_at(watched, next_due)
        elif watched.timer is not None:
            watched.timer.cancel()
            watched.timer = None
        self._listeners.due(watched.name, number, next_due, running)
        self._tell(running)
        if error is not None:
            self._failed(watched, error)

    def _use(self, watched: Watched) -> tuple[bool, JournalError | None]:
        """Have the users take what is due; whether one did. The error of one does not keep the others from it."""
        error: JournalError | None = None
        has_given = False
        for user in list(watched.users):
            try:
                has_given |= user(self.hub.store.time.now())
            except JournalError as e:
                error = e
        return has_given, error

    def _failed(self, watched: Watched, error: JournalError) -> None:
        """A look failed: for good, or (a full disk) for now."""
        log.warning("not_looked_at journal=%s error=%s", watched.name, told(error))
        end = self._end_of(watched.served)
        if end is not None:
            self._end(watched, end)
            return
        if watched.timer is not None:
            watched.timer.cancel()
        watched.timer = self.hub.loop.at(monotonic() + RETRY_S, partial(self._on_time, watched))

    def _end_of(self, served: Served) -> JournalError | None:
        """Why a journal is no more; None: it is there."""
        trouble = served.p.trouble
        if isinstance(trouble, StoreClosed) and self.hub.store.trouble is None:
            return _dropped(served.journal.name)
        return trouble

    def _end(self, watched: Watched, error: JournalError) -> None:
        """A journal is no more."""
        self._unwatch(watched)
        for function in self.on_gone:
            function(watched, error)

    def _look_at(self, watched: Watched, date: int) -> bool:
        """Look at a date; False when the clock's owner moves it: then the engine rings."""
        seconds = self.hub.store.time.until(date)
        if watched.timer is not None:
            watched.timer.cancel()
            watched.timer = None
        if seconds is None:
            return False
        watched.timer = self.hub.loop.at(monotonic() + min(seconds, LOOK_AGAIN_S), partial(self._on_time, watched))
        return True

    def _on_time(self, watched: Watched) -> None:
        watched.timer = None
        self.look(watched)

    # -- datagrams ----------------------------------------------------------------------------------------------------

    def _tell(self, now: int) -> None:
        for datagram in self._listeners.take(now):
            self._send(datagram)
        gap_at = self._listeners.gap_at
        if gap_at is not None and self._gap is None:
            seconds = self.hub.store.time.until_running(gap_at)
            if seconds is not None:
                self._gap = self.hub.loop.at(monotonic() + seconds, self._on_gap)

    def _on_gap(self) -> None:
        self._gap = None
        self._tell(self.hub.store.time.running())

    def _send(self, datagram: Datagram) -> None:
        (host, port), data = datagram
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sender = self._sockets.get(family)
        try:
            if sender is None:
                sender = self._sockets[family] = socket.socket(family, socket.SOCK_DGRAM)
                sender.setblocking(False)
            sender.sendto(data, (host, port))
            self.sent += 1
        except OSError as e:
            log.debug("datagram_lost to=%s error=%s", host, e)  # B3

    def close(self) -> None:
        """The daemon is over."""
        for watched in list(self._watched.values()):
            self._unwatch(watched)
        for sender in self._sockets.values():
            sender.close()


def _dropped(name: str) -> NotFound:
    """The error for the listeners and subscriptions of a dropped journal."""
    return NotFound(f"the journal {shown(name)} was dropped, with all that was in it")


def _opened(store: EngineStore, names: list[str], grant: Grant) -> list[Served]:
    """On a worker's thread: the journals that a LISTEN names, opened."""
    wanted = store.journals() if ALL in names else names
    return [served_of(store, name, grant) for name in wanted if grant.may_see(name)]
