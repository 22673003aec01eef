"""TLS: the same client, over bytes that nobody else reads; and what is refused because somebody might."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import journal
from journal.core.requests.control import PingRequest
from journal.net.client.connect import connect
from journal.net.client.connection import transport
from journal.net.client.connection.address import DaemonAddress, parse_address
from journal.net.client.connection.call import call_of
from journal.net.client.connection.link import Link
from journal.net.client.connection.options import Backoff, ConnectOptions
from journal.net.server.server import Server
from journal.net.tls import TlsFiles, client_context, server_context
from journal.net.wire.tokens import Token, parse_tokens
from tests.net.client.connection.test_link import in_threads
from tests.net.client.working import Worker

CERTIFICATES = Path(__file__).parents[2] / "server" / "certificates"
TOKENS = "backend 9f86d081884c7d659a2feaa0c55ad015 admin * *\n"
TOKEN = "backend:9f86d081884c7d659a2feaa0c55ad015"
BRIEF = Backoff(first="1ms", most="2ms", total="20ms")


@pytest.fixture
def tokens() -> dict[str, Token]:
    return parse_tokens(TOKENS)


@pytest.fixture
def tls_server(store: journal.Store, tokens: dict[str, Token], tmp_path: Path) -> Iterator[Server]:
    """The real daemon, with TLS on loopback."""
    key = Path(shutil.copy(CERTIFICATES / "daemon.key", tmp_path))
    key.chmod(0o600)
    context = server_context(TlsFiles(CERTIFICATES / "daemon.pem", key))
    with store.serve(unix=False, tcp=[("127.0.0.1", 0)], tokens=tokens, tls=context) as server:
        yield server


@pytest.fixture
def secure(tls_server: Server) -> Iterator[journal.Store]:
    """A client of it."""
    (address,) = tls_server.addresses
    with connect(address, token=TOKEN, tls=client_context(ca=CERTIFICATES / "ca.pem")) as far:
        yield far


def test_every_kind_of_talk(secure: journal.Store, pages: journal.Journal) -> None:
    """Calls, large ones, from many threads, feeds and work."""
    far_pages = secure.journal("pages")
    large = b"x" * 900_000
    in_threads(4, lambda n: far_pages.put(f"large-{n}", large) and None)
    assert all(entry.data == large for entry in far_pages.get_many([f"large-{n}" for n in range(4)]) if entry)
    in_threads(8, lambda n: [far_pages.put(f"{n}-{i}", i) for i in range(30)] and None)
    assert pages.count() == 244
    with far_pages.feed(live=False) as feed:
        assert sum(1 for _ in feed) == 244
    with Worker(far_pages, consumer="backend-1") as worker:
        assert len({worker.next() for _ in range(244)}) == 244


def test_a_client_that_sends_more_than_the_socket_takes_loses_nothing(
    tls_server: Server, store: journal.Store, pages: journal.Journal
) -> None:
    """Many megabytes are on their way while the daemon reads no further."""
    (address,) = tls_server.addresses
    with connect(address, token=TOKEN, tls=client_context(ca=CERTIFICATES / "ca.pem")) as far:
        far_pages = far.journal("pages")
        in_threads(16, lambda n: far_pages.put(f"k{n}", bytes([n]) * 700_000) and None)
        assert all(far_pages.get(f"k{n}").data == bytes([n]) * 700_000 for n in range(16))  # type: ignore[union-attr]


def test_a_certificate_that_is_not_believed_ends_it_at_once(tls_server: Server) -> None:
    """Of an unknown authority, or for another name: nothing is said to that daemon, and it is not tried again."""
    (address,) = tls_server.addresses
    with pytest.raises(journal.AccessDenied, match="not believed"):
        connect(address, token=TOKEN, tls=client_context(ca=CERTIFICATES / "other-ca.pem"), wait="1h")
    with pytest.raises(journal.AccessDenied, match="not believed"):
        connect(address, token=TOKEN, wait="1h")  # the system's authorities
    port = address.rpartition(":")[2]
    with pytest.raises(journal.AccessDenied, match="not believed"):
        connect(f"tls://127.1:{port}", token=TOKEN, tls=client_context(ca=CERTIFICATES / "ca.pem"), wait="1h")


def test_no_fall_back_to_plain(server: Server, tls_server: Server) -> None:
    """Who asks for TLS talks to nobody who has none, and the other way round."""
    tcp = next(address for address in server.addresses if address.startswith("tcp:"))
    with pytest.raises(journal.ConnectionLost, match="no daemon"):
        connect(tcp.replace("tcp:", "tls:"), tls=client_context(ca=CERTIFICATES / "ca.pem"))
    (tls,) = tls_server.addresses
    with pytest.raises((journal.ConnectionLost, journal.FrameError)):
        connect(tls.replace("tls:", "tcp:"), token=TOKEN)
    with pytest.raises(journal.Invalid, match="without TLS"):
        connect(tcp, tls=client_context(ca=CERTIFICATES / "ca.pem"))


def test_plain_tcp_stays_on_this_machine(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """A daemon elsewhere is refused before anything is said to it."""
    tcp = next(address for address in server.addresses if address.startswith("tcp:"))

    class Elsewhere(socket.socket):
        def getpeername(self) -> tuple[str, int]:
            return "192.0.2.7", 7070

    def far(address: DaemonAddress, timeout_s: float) -> socket.socket:
        found = socket.create_connection((address.host, address.port), timeout_s)
        return Elsewhere(fileno=found.detach())

    monkeypatch.setattr(transport, "connected_to", far)
    with pytest.raises(journal.AccessDenied, match="tls://"):
        connect(tcp, wait="1h")


def test_a_daemon_that_says_nothing_in_the_handshake_is_given_up_on() -> None:
    """After the time that the client has."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        taken: list[socket.socket] = []
        thread = threading.Thread(target=lambda: taken.append(listening.accept()[0]))
        thread.start()
        with pytest.raises((journal.ConnectionLost, journal.TimedOut)):
            ask_briefly(f"tls://127.0.0.1:{port}")
        thread.join(100)
        for each in taken:
            each.close()


def ask_briefly(address: str) -> None:
    """A connection that is not patient."""
    link = Link(parse_address(address), ConnectOptions(backoff=BRIEF, tls=client_context(ca=CERTIFICATES / "ca.pem")))
    try:
        link.ask(call_of(PingRequest()), 200)
    finally:
        link.close()
