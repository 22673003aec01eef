"""
The sockets of a client, and the bytes that go over them.

N1  `receive` waits at most LOOK_S. It looks for a moment before it sleeps, as long as answers come in that moment: a processor that
    has gone to sleep takes longer to wake up than a daemon takes to answer.
N2  `send` never waits: what the socket does not take now stays with the caller.
"""

from __future__ import annotations

import select
import socket
import struct
from os import sched_yield
from time import monotonic_ns

from journal.net.client.connection.address import DaemonAddress
from journal.shield import BREAKABLE, is_up

LOOK_S = 1
"""How often a thread that waits for an answer looks up: whether something is late."""
LOOPBACK = "127.0.0.1"
_READ_BYTES = 1 << 16
LOOKING_NS = 250_000
"""
How long it looks before it sleeps. With it a put at `interval` takes 66 to 120 µs on two virtual processors, and 140 to 180 without: each
of the two sleeps costs 30 to 50. Other threads that are ready to run go first; if they take longer than this, it stops looking.
"""
PATIENCE = 2
"""After so many answers in a row that came later it sleeps at once..."""
AGAIN = 1024
"""...and tries again after so many."""
_NO_WAIT = socket.MSG_DONTWAIT
_TIMEVAL = struct.Struct("@ll")


def connected_to(address: DaemonAddress, timeout_s: float) -> socket.socket:
    """A connected socket; OSError when there is no answer."""
    if address.kind == "unix":
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(timeout_s)
            connected.connect(address.host)
        except BaseException:
            connected.close()
            raise
    else:
        connected = socket.create_connection((address.host, address.port), timeout_s)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


class Wire:
    """A connected socket, blocking."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(None)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(LOOK_S, 0))
        self.socket = connected
        self.rest = b""
        """What was taken from the caller and not sent yet."""
        self._recv_into = connected.recv_into
        self._buffer = bytearray(_READ_BYTES)
        self._view = memoryview(self._buffer)
        self._send = connected.send
        poll = select.poll()
        poll.register(connected, select.POLLIN)
        self._poll = poll.poll
        self._late = 0
        """Answers in a row that came after the looks."""

    def _look(self) -> bool:
        """Look for bytes for a moment (N1); whether there are some."""
        if self._late >= PATIENCE:
            self._late += 1
            if self._late < AGAIN:
                return False
            self._late = PATIENCE - 1
        poll, until = self._poll, monotonic_ns() + LOOKING_NS
        while not (is_there := poll(0)):
            sched_yield()
            if monotonic_ns() >= until:
                break
        self._late = 0 if is_there else self._late + 1
        return bool(is_there)

    def receive(self) -> bytes | None:
        """The bytes that come; waits for them a while (N1). None: there were none; empty: the other side has closed."""
        if not self._look() and is_up():
            # Bytes that were taken must not be lost: what can be interrupted is the wait before it.
            with BREAKABLE:
                is_there = self._poll(LOOK_S * 1000)
            if not is_there:
                return None
        try:
            # A `recv` of so many bytes, of which it gives most back, leaves holes in the heap.
            return bytes(self._view[: self._recv_into(self._buffer)])
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def send(self, data: bytes | bytearray) -> int:
        """Send what the socket takes; how many bytes that was (N2). The receiving thread notices an end."""
        try:
            return self._send(data, _NO_WAIT)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            return 0

    def plain(self, data: bytes) -> bytes | None:
        """The plaintext of received bytes; under the lock of the connection. None: nothing yet."""
        return data

    def wait(self, seconds: float, *, is_sending: bool) -> bool:
        """Wait until bytes are there or, when `is_sending`, until some can be sent; whether there are bytes."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN | (select.POLLOUT if is_sending else 0))
        with BREAKABLE:
            found = poll.poll(max(0, int(seconds * 1000)))
        return any(ready & ~select.POLLOUT for _, ready in found)

    @property
    def local_host(self) -> str:
        """The address that the other side sees us at; of a Unix socket: loopback."""
        if self.socket.family == socket.AF_UNIX:
            return LOOPBACK
        try:
            host: str = self.socket.getsockname()[0]
        except OSError:
            return LOOPBACK  # it was closed: the caller's next operation fails
        return host

    def interrupt(self) -> None:
        """Have a thread that waits look up: nothing more comes."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is over already

    def close(self) -> None:
        """Close the socket; no thread may wait on it."""
        self.socket.close()
