"""
LISTEN, the client's socket: one UDP port and one thread for all workers of a connection, while there are any.

The thread registers the port over the stream, renews the registration, receives the datagrams (journal.net.wire.due_notices), and
wakes sleeping workers.

D1  A registration ends with its connection. The thread sees that end also while no thread reads, and registers anew: the daemon then
    reports what is due already.
D2  Without a registration (the daemon has no room for more, its answer does not come) workers poll, and it is tried again.
D3  When the loss of a datagram shows, all workers are woken.
"""

from __future__ import annotations

import logging
import random
import select
import socket
import threading
from collections.abc import Callable
from typing import Any

from journal.core.requests.control import ListenRequest, UnlistenRequest
from journal.errors import ConnectionLost, JournalError, NotFound, StorageError
from journal.net.client.connection.call import call_of
from journal.net.client.connection.connection import now_ms
from journal.net.client.connection.heartbeat import TIMEOUT_MS, Heart
from journal.net.wire.due_notices import ALL, Watch
from journal.net.wire.limits import DATAGRAM_BYTES_MAX
from journal.threads import begin

log = logging.getLogger("journal.client")

NAMED_MAX = 1024
"""Journals that LISTEN may name; a client with workers on more of them listens to all."""
AGAIN_MS = 5_000
SOON_MS = 200
"""After a connection that broke just then: the next one was waited for already, as long as the backoff says."""
_HUNG_UP = select.POLLRDHUP | select.POLLHUP | select.POLLERR


def bound(host: str) -> socket.socket:
    """A UDP socket that only this host's own address reaches."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.bind((host, 0))
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


class Listening:
    """See the module. `names`: the journals that have workers; `tell`: wakes the workers of one, or (None) all."""

    def __init__(self, heart: Heart, names: Callable[[], set[str]], tell: Callable[[str | None], None]) -> None:
        self._heart = heart
        self._link = heart.link
        self._names = names
        self._tell = tell
        self._wake, self._waker = socket.socketpair()
        self._wake.setblocking(False)
        self._waker.setblocking(False)
        self._is_over = False
        self._socket: socket.socket | None = None
        self._host = ""
        self._watch: Watch | None = None
        self._journals: set[str] = set()
        """What the registration is about."""
        self._asked: set[str] = set()
        """What it asked for: the same, or all."""
        self._is_lost = True
        """Whether the connection has ended that the registration was made on (D1)."""
        self._again_at = 0
        self._failed: set[str] | None = None
        """After a failure: when to try again, and what was asked for (D2)."""
        self._link.on_end.append(self._ended)
        try:
            heart.begin()
            try:
                begin(threading.Thread(target=self._run, name="journal-listen", daemon=True))
            except BaseException:
                heart.end()
                raise
        except BaseException:
            self._link.on_end.remove(self._ended)
            self._wake.close()
            self._waker.close()
            raise

    def look(self) -> None:
        """Wake the thread, to check its state."""
        try:
            self._waker.send(b".")
        except OSError:
            return  # it has much to read already, or is over

    def end(self) -> None:
        """End the thread: there are no workers any more."""
        self._is_over = True
        self.look()

    def _ended(self) -> None:
        """A connection has ended; under the lock of the link."""
        self._is_lost = True
        self.look()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_over:
                try:
                    self._keep_registered()
                except StorageError:
                    return  # the connection was closed by this program
                except ConnectionLost:
                    self._failed_for(SOON_MS)
                except (JournalError, OSError) as e:
                    log.info("not_listening daemon=%s error=%s", self._link.address, e)
                    self._failed_for(AGAIN_MS)
                self._hear()
        finally:
            self._close()

    def _failed_for(self, wait_ms: int) -> None:
        self._failed = self._names()
        self._again_at = now_ms() + random.randint(wait_ms // 2, wait_ms)

    def _close(self) -> None:
        self._link.on_end.remove(self._ended)
        self._forget(self._watch)
        self._heart.end()
        for each in (self._wake, self._waker, self._socket):
            if each is not None:
                each.close()

    def _keep_registered(self) -> None:
        """Register, or renew that, when it is time."""
        now, wanted = now_ms(), self._names()
        if now < self._again_at and wanted == self._failed:
            return
        if self._watch is not None and not self._is_lost and self._watch.renew_at <= now:
            self._renew(self._watch)
        if self._watch is None or self._is_lost or not wanted <= self._journals:
            self._register(wanted)
        self._again_at = 0

    def _renew(self, watch: Watch) -> None:
        assert self._socket is not None
        try:
            reply = self._listen(self._socket, self._asked, watch.listener)
        except NotFound:
            self._watch = None  # it came too late
            return
        now = now_ms()
        if watch.renewed(Watch(reply, now).sequence, now):
            self._tell(None)  # D3

    def _register(self, wanted: set[str]) -> None:
        if not wanted:
            return
        old = None if self._is_lost else self._watch
        self._watch, self._is_lost = None, False
        self._heart.beat()  # it finds out whether the connection is still there, and connects
        host = self._link.local_host
        if self._socket is None or host != self._host:
            self._socket, replaced = bound(host), self._socket
            self._host = host
            if replaced is not None:
                replaced.close()
        asked = wanted if len(wanted) <= NAMED_MAX else {ALL}
        reply = self._listen(self._socket, asked)
        self._watch, self._journals, self._asked = Watch(reply, now_ms()), wanted, asked
        self._tell(None)  # D3: what was sent to an earlier one may be lost
        self._forget(old)

    def _forget(self, watch: Watch | None) -> None:
        """A registration is of no use any more; one of an earlier connection has ended with it."""
        if watch is None or self._is_lost:
            return
        try:
            self._link.post(call_of(UnlistenRequest(listener=watch.listener)), lambda result, error: None)
        except StorageError:
            return  # the connection was closed by this program

    def _listen(self, heard: socket.socket, journals: set[str], listener: int | None = None) -> Any:
        """Ask for datagrams to this socket when something falls due; with `listener`: renew that."""
        port = heard.getsockname()[1]
        asked = ListenRequest(port=port, journals=sorted(journals), listener=listener)
        return self._link.ask(call_of(asked), TIMEOUT_MS)

    def _hear(self) -> None:
        """Wait for a datagram, for the end of the connection, or until there is something to do."""
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if self._socket is not None:
            poll.register(self._socket, select.POLLIN)
        stream = self._link.descriptor
        if stream is not None and not self._again_at:
            poll.register(stream, select.POLLRDHUP)
        found = dict(poll.poll(self._rest_ms()))
        if self._wake.fileno() in found:
            _emptied(self._wake)
        if self._socket is not None and self._socket.fileno() in found:
            self._take(self._socket)
        if stream is not None and found.get(stream, 0) & _HUNG_UP and stream == self._link.descriptor:
            self._is_lost = True  # no thread has read that end yet: the next request reconnects (D1)

    def _rest_ms(self) -> int:
        if self._again_at:
            at = self._again_at
        elif self._watch is None:
            return 0
        else:
            at = self._watch.renew_at
        return max(0, at - now_ms()) + 1

    def _take(self, heard: socket.socket) -> None:
        for raw in _emptied(heard):
            notice = None if self._watch is None else self._watch.receive(raw, now_ms())
            if notice is not None:
                self._tell(None if notice.lost else notice.journal)


def _emptied(readable: socket.socket) -> list[bytes]:
    """What has come, up to a batch."""
    found: list[bytes] = []
    try:
        while len(found) < 64:
            found.append(readable.recv(DATAGRAM_BYTES_MAX + 1))
    except OSError:
        return found
    return found
