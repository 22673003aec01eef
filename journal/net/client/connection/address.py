"""
Where a daemon is, as people write it.

    unix:PATH                    a Unix socket
    tcp://HOST:PORT              TCP; without TLS on the loopback only, since the secret of a token is all that protects it
    tls://HOST:PORT              TCP with TLS
    PATH                         a store: wherever its daemon listens (journal.net.client.connection.discovery), else the socket in it
"""

from __future__ import annotations

import os
from typing import NamedTuple

from journal.errors import Invalid

SOCKET = "SOCKET"
"""The Unix socket of a daemon, in its store."""
_FORMS = "unix:PATH, tcp://HOST:PORT, tls://HOST:PORT, or the path of a store whose daemon runs"


class DaemonAddress(NamedTuple):
    """Where to connect."""

    kind: str
    """unix, tcp or tls."""
    host: str
    """The path of a Unix socket."""
    port: int = 0

    def __str__(self) -> str:
        if self.kind == "unix":
            return f"unix:{self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.kind}://{host}:{self.port}"


def store_of(written: str | os.PathLike[str]) -> str | None:
    """The path of a store, where `written` is one; None: it is an address."""
    text = os.fspath(written) if isinstance(written, os.PathLike) else written
    is_path = type(text) is str and text and not text.startswith("unix:") and "://" not in text
    return os.path.abspath(text) if is_path else None


def parse_address(written: str | os.PathLike[str]) -> DaemonAddress:
    """The address that `written` names."""
    text = os.fspath(written) if isinstance(written, os.PathLike) else written
    if type(text) is not str or not text:
        raise Invalid(f"{written!r} is no address of a daemon: write {_FORMS}")
    for kind in ("tcp", "tls"):
        if text.startswith(f"{kind}://"):
            return DaemonAddress(kind, *_host_and_port(text, text[len(kind) + 3 :]))
    if text.startswith("unix:"):
        path = text[5:].removeprefix("//")
        if not path:
            raise Invalid(f"{written!r} names no socket: write {_FORMS}")
        return DaemonAddress("unix", path)
    if "://" in text:
        raise Invalid(f"{written!r} is no address of a daemon: write {_FORMS}")
    return DaemonAddress("unix", os.path.join(os.path.abspath(text), SOCKET))


def _host_and_port(written: str, text: str) -> tuple[str, int]:
    host, _, port = text.rstrip("/").rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        raise Invalid(f"{written!r} has no host and port: write {_FORMS}")
    return host, int(port)
