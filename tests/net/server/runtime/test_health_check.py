"""Whether a daemon answers, asked over its own sockets."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from journal.net.server.runtime.health_check import is_alive
from journal.net.tls import TlsFiles, server_context

CERTIFICATES = Path(__file__).parent.parent / "certificates"
Reaction = Callable[[socket.socket], None]
Listen = Callable[[socket.socket, Reaction | None], None]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Has one connection reacted to; None: the system takes it, and nobody looks."""
    sockets: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def listener(listening: socket.socket, reaction: Reaction | None) -> None:
        sockets.append(listening)
        listening.listen()

        def react() -> None:
            peer, _ = listening.accept()
            with peer:
                assert reaction is not None
                reaction(peer)

        if reaction is not None:
            threads.append(threading.Thread(target=react))
            threads[-1].start()

    yield listener
    for thread in threads:
        thread.join(100)
        assert not thread.is_alive()
    for listening in sockets:
        listening.close()


def unix(path: Path) -> tuple[socket.socket, str]:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    return listening, f"unix:{path}"


def tcp(scheme: str = "tcp") -> tuple[socket.socket, str]:
    listening = socket.socket(socket.AF_INET)
    listening.bind(("127.0.0.1", 0))
    return listening, f"{scheme}://127.0.0.1:{listening.getsockname()[1]}"


def answer(peer: socket.socket) -> None:
    assert peer.recv(100) == b"ALIVE serial=watchdog\n"
    peer.sendall(b"ABSOLUTELY serial=watchdog\n")


def refuse(peer: socket.socket) -> None:
    """Closes without a word, as a daemon that is full does."""


@pytest.mark.parametrize("reaction", [answer, refuse])
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_whoever_reacts_is_alive(tmp_path: Path, listen: Listen, kind: str, reaction: Reaction) -> None:
    """With an answer or with a refusal."""
    listening, address = unix(tmp_path / "SOCKET") if kind == "unix" else tcp()
    listen(listening, reaction)
    assert is_alive([address], 30)


def test_over_tls(tmp_path: Path, listen: Listen) -> None:
    """Without asking for a certificate: it is we ourselves."""
    key = Path(shutil.copy(CERTIFICATES / "daemon.key", tmp_path))
    key.chmod(0o600)
    context = server_context(TlsFiles(CERTIFICATES / "daemon.pem", key))

    def react(peer: socket.socket) -> None:
        with context.wrap_socket(peer, server_side=True) as wrapped:
            answer(wrapped)

    listening, address = tcp("tls")
    listen(listening, react)
    assert is_alive([address], 30)


def test_a_tls_daemon_that_falls_over_in_the_handshake(listen: Listen) -> None:
    """It closed the connection, so it runs."""
    listening, address = tcp("tls")
    listen(listening, refuse)
    assert is_alive([address], 30)


@pytest.mark.parametrize("kind", ["unix", "tcp", "tls"])
def test_who_does_not_react_is_not(tmp_path: Path, listen: Listen, kind: str) -> None:
    """Also when the system takes the connection for it."""
    listening, address = unix(tmp_path / "SOCKET") if kind == "unix" else tcp(kind)
    listen(listening, None)
    assert not is_alive([address], 0.05)


def test_nobody_there(tmp_path: Path) -> None:
    """No socket, or one that nobody listens on."""
    assert not is_alive([f"unix:{tmp_path / 'missing'}"], 1)
    listening, address = unix(tmp_path / "SOCKET")
    listening.close()
    assert not is_alive([address], 1)
    assert not is_alive([], 1)


def test_the_unix_socket_is_asked_first(tmp_path: Path, listen: Listen) -> None:
    """And the next address when that is not there."""
    listening, address = unix(tmp_path / "SOCKET")
    listen(listening, answer)
    assert is_alive(["tcp://127.0.0.1:1", address], 30)
    listening, address = tcp()
    listen(listening, answer)
    assert is_alive([f"unix:{tmp_path / 'missing'}", address], 30)
