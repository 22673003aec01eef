"""
The commands about the daemon itself: PING, STATUS, STOP.

O1  A clock that is off raises the flag "drift", as an embedded one does: on the journal that its program named last, and as soon as it has
    named one. The log has it at once.
O2  What is known of a clock goes when the last connection under its name does.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from journal.core.clock_drift import Sample
from journal.core.quoting import told
from journal.core.requests.operate import RaiseFlagRequest
from journal.core.requests.request import Role
from journal.engine.runtime.clock_drift import FLAG
from journal.net.server.connection import Peer
from journal.net.server.verbs.served_journal import known

if TYPE_CHECKING:
    from journal.net.server.server import Server

log = logging.getLogger("journal.daemon")


class Controls:
    """See the module. On the daemon's thread."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._since = server.store.time.now()
        self._reporting: dict[Peer, str] = {}
        """The peers that report their clock, and the name of each."""
        self._names: Counter[str] = Counter()
        """How many of them there are under each."""
        self._news: dict[str, str] = {}
        """By the same names, messages for which no flag was raised yet (O1)."""
        server.hub.own |= {"PING": self._ping, "STATUS": self._status, "STOP": self._stop}
        server.hub.on_end.append(self._ended)

    def _ping(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        """The heartbeat; what the client has reckoned from earlier ones is its drift."""
        now = self._server.store.time.now()
        offset, delay = parameters.get("offset"), parameters.get("delay")
        if offset is not None and delay is not None and delay >= 0 and peer.connection.grant.roles:
            # The client reckoned how far we are from it; the drift is how far it is from us.
            self._drifts(peer, Sample(now, -float(offset), float(delay)))
        return {"received": now, "answered": now}

    def _drifts(self, peer: Peer, sample: Sample) -> None:
        name = _name_of(peer)
        if self._reporting.get(peer) != name:
            self._ended(peer)  # it has another name now
            self._reporting[peer] = name
            self._names[name] += 1
        message = self._server.store.peers.add(name, sample)
        if message is not None:
            log.warning("drift peer=%s message=%s", peer.name, told(message))
            self._news[name] = message
        if name in self._news and (served := known(self._server.store, peer.journal)) is not None:
            # On a worker's thread: a flag is written and synced as any change.
            self._server.hub.work(
                partial(served.journal.call, RaiseFlagRequest(name=FLAG, message=self._news.pop(name)))
            )

    def _ended(self, peer: Peer) -> None:
        name = self._reporting.pop(peer, None)
        if name is None:
            return
        self._names[name] -= 1
        if not self._names[name]:  # O2
            del self._names[name]
            self._news.pop(name, None)
            self._server.store.peers.forget(name)

    def _status(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        server, hub = self._server, self._server.hub
        service = parameters.get("service")
        if service is not None:
            is_there = any(connection.registered == service for connection in hub.peers)
            return {"service": service, "status": "registered" if is_there else "unknown"}
        status: dict[str, Any] = {
            "status": "stopping" if server.is_stopping else "ready",
            "up_since": self._since,
            "now": server.store.time.now(),
        }
        if Role.ADMIN in peer.connection.grant.roles:
            status |= {
                "pid": os.getpid(),
                "connections": len(hub.peers),
                "accepted": hub.accepted,
                "requests": hub.requests,
                "failures": hub.failures,
                "wake_ups": server.loop.rounds,
                "sessions": len(server.daemon.sessions),
                "listeners": server.watching.listeners_count,
                "subscriptions": server.pushing.count,
                "feeds": server.feeding.count,
                "snapshots": server.snapshotting.count,
                "datagrams": server.watching.sent,
                "addresses": list(server.addresses),
            }
        return status

    def _stop(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        log.info("stop_asked peer=%s", peer.name)
        self._server.loop.call(partial(self._server.stop))
        return None


def _name_of(peer: Peer) -> str:
    connection = peer.connection
    return f"backend {connection.registered or connection.grant.identity or peer.name}"
