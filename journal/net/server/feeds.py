"""
Feeds over the stream: opened by a connection, closed with it; pushed as there is credit, or asked for.

F1  A feed belongs to its connection: no other connection can name it, and what was not acknowledged when it ends comes again.
F2  Events are pushed as there is credit and news. The last item of a feed that is at its end is null; of one that failed, the error. The
    former stays open until it is closed: its changes are acknowledged as those of any other.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from journal.core.quoting import told
from journal.errors import ConnectionLost, JournalError, NotFound
from journal.net.server.connection import Peer, steady_ms
from journal.net.server.verbs.open_feed import OpenFeed
from journal.net.server.verbs.served_journal import served_of
from journal.net.wire.values import error_to

if TYPE_CHECKING:
    from journal.net.server.dispatcher import Hub

log = logging.getLogger("journal.daemon")

BATCH = 256
"""Events that are read at once, before other feeds have their turn."""


@dataclass(slots=True, eq=False)
class _Feed:
    """A feed of a connection."""

    peer: Peer
    number: int
    feed: OpenFeed
    is_pushed: bool
    is_called: bool = False
    is_reading: bool = False
    """A worker's thread has it."""
    is_at_end: bool = False
    """Its end was pushed: it stays open for acknowledgements, and for requests for what has come since."""
    last: list[Any] | None = None
    """The item that ends it, when it is at its end."""


class Feeding:
    """All feeds that connections have open. On the daemon's thread."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._of: dict[Peer, dict[int, _Feed]] = {}
        hub.own |= {
            "FEED_OPEN": self._open,
            "FEED_NEXT": self._next,
            "FEED_ACK": self._ack,
            "FEED_FAIL": self._fail,
            "FEED_CLOSE": self._close,
        }
        hub.on_end.append(self._ended)
        hub.on_credit.append(self._credited)
        hub.on_drain.append(self._drained)

    @property
    def count(self) -> int:
        """How many are open."""
        return sum(map(len, self._of.values()))

    def _open(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        store, grant = self._hub.store, peer.connection.grant

        def make() -> OpenFeed:
            return OpenFeed(served_of(store, journal, grant), parameters, grant)

        return self._hub.later(peer, number, "FEED_OPEN", make, partial(self._opened, peer, number, parameters))

    def _opened(self, peer: Peer, number: int, parameters: dict[str, Any], feed: OpenFeed) -> Any:
        if peer.connection.is_ended:
            feed.close()
            raise ConnectionLost("the connection has ended")
        credit = parameters.get("credit") or 0
        try:
            subscription = peer.connection.subscribe(number, credit)
        except JournalError:
            feed.close()
            raise
        opened = _Feed(peer, subscription, feed, is_pushed=credit > 0)
        self._of.setdefault(peer, {})[subscription] = opened
        if opened.is_pushed:
            feed.on_news(partial(self._news, opened))
        return {"subscription": subscription, "position": feed.position, "again": feed.again, "blank": feed.blank}

    def _found(self, peer: Peer, parameters: dict[str, Any]) -> _Feed:
        found = self._of.get(peer, {}).get(parameters["subscription"])
        if found is None:
            raise NotFound(f"this connection has no feed {parameters['subscription']}")
        return found

    def _next(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        found = self._found(peer, parameters)
        if found.is_reading:
            return {"events": [], "is_end": False}
        events, is_end = found.feed.next(parameters["n"])
        if not events and found.feed.is_large:
            found.is_reading = True
            return self._hub.later(
                peer, number, "FEED_NEXT", found.feed.read_large, lambda _: self._read(found, parameters["n"])
            )
        return {"events": events, "is_end": is_end}

    def _read(self, found: _Feed, n: int) -> Any:
        """A large record was read for a FEED_NEXT."""
        found.is_reading = False
        events, is_end = found.feed.next(n)
        return {"events": events, "is_end": is_end}

    def _ack(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        return self._found(peer, parameters).feed.ack(parameters["cursors"])

    def _fail(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        found = self._found(peer, parameters)
        found.feed.fail(parameters.get("cursors"))
        if found.is_pushed:
            self._news(found)
        return {"again": found.feed.again}

    def _close(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        found = self._found(peer, parameters)
        self._forget(found)
        return self._hub.later(peer, number, "FEED_CLOSE", found.feed.close)

    def _forget(self, found: _Feed) -> None:
        del self._of[found.peer][found.number]
        found.peer.connection.unsubscribe(found.number)

    def _ended(self, peer: Peer) -> None:
        for found in self._of.pop(peer, {}).values():
            self._hub.work(found.feed.close)  # F1; it writes what was acknowledged

    # -- pushing ------------------------------------------------------------------------------------------------------

    def _news(self, found: _Feed) -> None:
        """There may be more; called on any thread."""
        if not found.is_called:
            found.is_called = True
            self._hub.loop.call(partial(self._push, found))

    def _credited(self, peer: Peer, subscription: int) -> None:
        found = self._of.get(peer, {}).get(subscription)
        if found is not None:
            found.is_pushed = True
            self._news(found)

    def _drained(self, peer: Peer) -> None:
        for found in self._of.get(peer, {}).values():
            if found.is_pushed:
                self._news(found)

    def _read_large(self, found: _Feed) -> None:
        """On a worker's thread."""
        found.feed.read_large()
        self._hub.loop.call(partial(self._have_read, found))

    def _have_read(self, found: _Feed) -> None:
        found.is_reading = False
        self._news(found)

    def _push(self, found: _Feed) -> None:
        found.is_called = False
        connection = found.peer.connection
        if found.is_reading or found.is_at_end or self._of.get(found.peer, {}).get(found.number) is not found:
            return
        room = min(connection.credit(found.number), BATCH)
        if room < 1:
            return
        items: list[Any] = []
        if found.last is None:
            try:
                items, is_end = found.feed.ready(room)
            except JournalError as e:
                log.warning("feed_ended peer=%s error=%s", found.peer.name, told(e))
                found.last = [error_to(e)]
            else:
                found.last = [None] if is_end else None
                if not items and found.feed.is_large:
                    found.is_reading = True
                    self._hub.work(partial(self._read_large, found))
                    return
        if found.last is not None and len(items) < room:
            items = [*items, *found.last]  # F2
        if items:
            connection.push(found.number, items, steady_ms())
            self._hub.touch(found.peer)
            if found.last is None or items[-1] is not found.last[0]:
                self._news(found)
            elif items[-1] is None:
                found.is_at_end = True
            else:
                self._forget(found)
                self._hub.work(found.feed.close)
