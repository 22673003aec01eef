"""
Whether a daemon answers: asked from outside, over its own socket, as any client would be served.

Z1  A daemon is alive when it reacts, also with a refusal. That the system takes a connection for it says nothing: it does so for a
    process that hangs, too.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence

from journal.errors import Invalid
from journal.net.server.runtime.addresses import parse_tcp

_QUESTION = b"ALIVE serial=watchdog\n"


def is_alive(addresses: Sequence[str], timeout_s: float) -> bool:
    """Whether the daemon at one of these addresses, its Unix socket if it has one, reacts in time."""
    for address in sorted(addresses, key=lambda address: not address.startswith("unix:")):
        try:
            with _connected(address, timeout_s) as sock:
                sock.sendall(_QUESTION)
                sock.recv(1)
            return True
        except TimeoutError:
            return False
        except (ConnectionResetError, BrokenPipeError, ssl.SSLError):
            return True  # it has closed the connection, so it runs (Z1)
        except OSError:
            continue
    return False


def _connected(address: str, timeout_s: float) -> socket.socket:
    scheme, _, place = address.partition(":")
    if scheme == "unix":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout_s)
            sock.connect(place)
        except BaseException:
            sock.close()
            raise
        return sock
    if scheme not in ("tcp", "tls"):
        raise Invalid(f"{address!r} is no address of a daemon")
    plain = socket.create_connection(parse_tcp(place.removeprefix("//")), timeout_s)
    if scheme == "tcp":
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # our own process answers, and no secret is sent
    context.verify_mode = ssl.CERT_NONE
    try:
        return context.wrap_socket(plain)
    except BaseException:
        plain.close()
        raise
