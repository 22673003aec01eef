"""
Making a connection: to a Unix socket, over TCP, with TLS.

O1  Plaintext stays on this machine: TCP without TLS to any other host is refused.
O2  Nothing is sent to a daemon whose certificate is not trusted, and it is not tried again: the result would be the same.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl

from journal.net.client.connection.address import DaemonAddress
from journal.net.client.connection.options import ConnectOptions
from journal.net.client.connection.sockets import Wire, connected_to
from journal.net.client.connection.tls_socket import TlsWire
from journal.net.tls import client_context

CONNECT_S = 10.0


class Insecure(Exception):
    """The peer cannot be authenticated, or the connection could be read by a third party."""


def open_wire(address: DaemonAddress, options: ConnectOptions, timeout_ms: int | None) -> Wire:
    """A connected wire; OSError when there is no answer, Insecure when it must not be used."""
    seconds = CONNECT_S if timeout_ms is None else max(0.001, min(CONNECT_S, timeout_ms / 1000))
    connected = connected_to(address, seconds)
    try:
        if address.kind == "tls":
            context = client_context() if options.tls is None else options.tls
            return TlsWire(connected, context, address.host, seconds)
        if address.kind == "tcp":
            _check_near(connected, address)
        return Wire(connected)
    except ssl.SSLCertVerificationError as e:
        connected.close()
        raise Insecure(f"the certificate of the daemon at {address} is not believed: {e.verify_message}") from e
    except BaseException:
        connected.close()
        raise


def _check_near(connected: socket.socket, address: DaemonAddress) -> None:
    """O1."""
    found = ipaddress.ip_address(connected.getpeername()[0].partition("%")[0])
    found = getattr(found, "ipv4_mapped", None) or found
    if not found.is_loopback:
        raise Insecure(
            f"{address} is not on this machine, and tcp:// is not secure: use tls://{address.host}:{address.port}"
        )
