"""Who is at the other end of a Unix socket, and what that is good for."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from journal.errors import AccessDenied
from journal.net.server.runtime import credentials
from journal.net.server.runtime.credentials import Credentials, credentials_of, vouched
from journal.net.wire.auth import EVERYTHING

CONNECT = """
import os, socket, sys
if len(sys.argv) > 2:
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as client:
    client.connect(sys.argv[1])
    print(os.getpid(), os.getuid(), os.getgid(), flush=True)
    sys.stdin.read()
"""


def test_the_system_tells_who_it_is(tmp_path: Path) -> None:
    """Process, user and group of another process."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "SOCKET"))
        server.listen()
        other = subprocess.Popen(
            [sys.executable, "-c", CONNECT, tmp_path / "SOCKET"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert other.stdin is not None and other.stdout is not None
        peer, _ = server.accept()
        with peer:
            told = Credentials(*map(int, other.stdout.readline().split()))
            assert credentials_of(peer) == told
            assert told.pid == other.pid and str(told) == f"uid-{os.getuid()}"
            assert vouched(credentials_of(peer), has_tokens=False) is EVERYTHING
        other.stdin.close()
        assert other.wait(100) == 0
        other.stdout.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_proves_a_token() -> None:
    """Somebody else's process that reached the socket all the same."""
    place = Path("/tmp") / f"journal-test-{os.getpid()}.sock"  # a place that another user can reach
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        try:
            place.chmod(0o777)
            server.listen()
            other = subprocess.Popen(
                [sys.executable, "-c", CONNECT, place, "12345"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert other.stdin is not None and other.stdout is not None
            peer, _ = server.accept()
        finally:
            place.unlink()
        with peer:
            found = credentials_of(peer)
            assert found is not None and (found.uid, found.gid) == (12345, 12345)
            assert vouched(found, has_tokens=True) is None
            with pytest.raises(AccessDenied, match="user 12345"):
                vouched(found, has_tokens=False)
        other.stdin.close()
        assert other.wait(100) == 0
        other.stdout.close()


@pytest.mark.parametrize(
    ("own", "uid", "is_vouched"),
    [(1000, 1000, True), (1000, 0, True), (0, 0, True), (1000, 1001, False), (0, 1000, False), (65534, 65534, False)],
)
def test_the_owner_and_root_are_vouched_for(
    monkeypatch: pytest.MonkeyPatch, own: int, uid: int, is_vouched: bool
) -> None:
    """Nobody else; and not a user of another namespace, who is shown with a number that stands for many."""
    monkeypatch.setattr(credentials.os, "geteuid", lambda: own)
    monkeypatch.setattr(credentials, "_unmapped", lambda: 65534)
    assert vouched(Credentials(1, uid, 5), has_tokens=True) == (EVERYTHING if is_vouched else None)
    if not is_vouched:
        with pytest.raises(AccessDenied, match=f"user {uid}"):
            vouched(Credentials(1, uid, 5), has_tokens=False)


def test_where_the_system_does_not_tell_a_token_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Platforms without the option, sockets that have no such peer, a call that fails."""
    one, other = socket.socketpair()
    with one, other:
        assert credentials_of(one) is not None
        monkeypatch.setattr(credentials, "_SO_PEERCRED", 1 << 20)
        assert credentials_of(one) is None
        monkeypatch.setattr(credentials, "_SO_PEERCRED", None)
        assert credentials_of(one) is None
    monkeypatch.undo()
    with socket.socket(socket.AF_INET) as tcp:
        assert credentials_of(tcp) is None
    assert vouched(None, has_tokens=True) is None
    with pytest.raises(AccessDenied, match="does not tell"):
        vouched(None, has_tokens=False)


def test_the_number_of_users_without_one() -> None:
    """As the system has it."""
    assert credentials._unmapped() == int(Path("/proc/sys/kernel/overflowuid").read_text())
