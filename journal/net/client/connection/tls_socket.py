"""
TLS around the socket of a client.

The bytes go through memory, not through an ssl.SSLSocket: one thread receives while other threads send, which OpenSSL does not allow.
The receiving thread takes raw bytes from the socket; they are decrypted under the same lock under which outgoing bytes are encrypted.

T1  The daemon's certificate is checked, and that it is for the requested name or address, before a byte of the protocol is sent.
T2  What was encrypted goes out before anything else (`rest`).
"""

from __future__ import annotations

import socket
import ssl
from time import monotonic

from journal.net.client.connection.sockets import Wire

TAKEN_MAX = 1 << 18
"""Enciphered at a time, so that what waits for the socket is bounded."""
_READ_BYTES = 1 << 16


class TlsWire(Wire):
    """A connected socket, with TLS."""

    def __init__(self, connected: socket.socket, context: ssl.SSLContext, host: str, timeout_s: float) -> None:
        """Shakes hands; OSError when that does not work."""
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=host)
        _shake_hands(self._tls, self._in, self._out, connected, timeout_s)
        super().__init__(connected)

    def send(self, data: bytes | bytearray) -> int:
        """Send what the socket takes; how many bytes of the data that was (sockets N2, T2)."""
        if self.rest:
            self._push()
        if self.rest or not data:
            return 0
        taken = min(len(data), TAKEN_MAX)
        try:
            self._tls.write(memoryview(data)[:taken])
        except ssl.SSLError:
            return 0  # it is over; the receiving thread sees that
        self.rest = self._out.read()
        self._push()
        return taken

    def _push(self) -> None:
        self.rest = self.rest[super().send(self.rest) :]

    def plain(self, data: bytes) -> bytes | None:
        """What received bytes say: None when nothing yet, empty when the other side has closed."""
        if not data:
            return b""
        self._in.write(data)
        said = bytearray()
        try:
            while True:
                part = self._tls.read(_READ_BYTES)
                if not part:
                    break
                said += part
        except ssl.SSLWantReadError:
            if not said:
                return None
        except ssl.SSLError:
            pass  # an end, or bytes that are no TLS: nothing after them can be trusted
        finally:
            if self._out.pending:
                self.rest += self._out.read()
        return bytes(said)


def _shake_hands(
    tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, connected: socket.socket, timeout_s: float
) -> None:
    by = monotonic() + timeout_s
    while True:
        try:
            tls.do_handshake()
            is_over = True
        except ssl.SSLWantReadError:
            is_over = False
        finally:
            if outgoing.pending:  # also the alert that says what is wrong
                connected.settimeout(max(0.001, by - monotonic()))
                connected.sendall(outgoing.read())
        if is_over:
            return
        connected.settimeout(max(0.001, by - monotonic()))
        data = connected.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError("the daemon closed the connection in the TLS handshake")
        incoming.write(data)
