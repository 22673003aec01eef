"""The daemon's Unix socket: who can connect, what is replaced, what is not."""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from journal.errors import Invalid, Refused
from journal.net.server.runtime import unix_socket
from journal.net.server.runtime.unix_socket import PATH_BYTES_MAX, UnixSocket, checked_path, is_answered


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_it_is_for_its_owner_alone(tmp_path: Path, umask: int) -> None:
    """0600 whatever the umask, and the umask stays as it is."""
    old = os.umask(umask)
    try:
        ours = UnixSocket(tmp_path / "SOCKET")
        assert os.umask(umask) == umask
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "SOCKET").lstat().st_mode) == 0o600
    assert connects(tmp_path / "SOCKET")
    ours.close()
    assert not (tmp_path / "SOCKET").exists()


def test_nobody_connects_before_it_is_0600(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it has the rights that the umask left it refuses everybody."""
    seen = []
    chmod = os.chmod

    def watched(path: Path, mode: int) -> None:
        seen.append(connects(path))
        chmod(path, mode)
        seen.append(connects(path))

    monkeypatch.setattr(unix_socket.os, "chmod", watched)
    ours = UnixSocket(tmp_path / "SOCKET")
    assert seen == [False, False]
    assert connects(tmp_path / "SOCKET")
    ours.close()


DIE = """
import os, sys
from pathlib import Path
from journal.net.server.runtime.unix_socket import UnixSocket
UnixSocket(Path(sys.argv[1]))
os._exit(9)
"""


def test_what_a_dead_daemon_left_is_replaced(tmp_path: Path) -> None:
    """A socket that nobody listens on."""
    path = tmp_path / "SOCKET"
    assert subprocess.run([sys.executable, "-c", DIE, path], check=False).returncode == 9
    assert stat.S_ISSOCK(path.lstat().st_mode) and not is_answered(path)
    ours = UnixSocket(path)
    assert connects(path)
    ours.close()


def test_a_socket_in_use_is_not_taken(tmp_path: Path) -> None:
    """The first daemon goes on."""
    first = UnixSocket(tmp_path / "SOCKET")
    with pytest.raises(Refused, match="another process listens"):
        UnixSocket(tmp_path / "SOCKET")
    assert connects(tmp_path / "SOCKET")
    first.close()


def test_a_socket_whose_queue_is_full_is_in_use(tmp_path: Path) -> None:
    """A daemon that is slow is not dead."""
    path = tmp_path / "SOCKET"
    first = UnixSocket(path, backlog=0)
    waiting = []
    for _ in range(4):
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        client.connect_ex(str(path))
        waiting.append(client)
    with pytest.raises(Refused, match="another process listens"):
        UnixSocket(path)
    for client in waiting:
        client.close()
    first.close()


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_is_no_socket_stays(tmp_path: Path, kind: str) -> None:
    """It is somebody's."""
    path = tmp_path / "SOCKET"
    if kind == "file":
        path.write_text("mine")
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")
    before = path.lstat()
    with pytest.raises(Refused, match="is no socket"):
        UnixSocket(path)
    assert path.lstat() == before
    assert not (tmp_path / "elsewhere").exists()


def test_a_name_that_is_another_sockets_stays(tmp_path: Path) -> None:
    """Who ends takes away its own name and no other."""
    path = tmp_path / "SOCKET"
    first = UnixSocket(path)
    path.unlink()
    second = UnixSocket(path)
    first.close()
    assert connects(path)
    second.close()
    second.close()
    assert not path.exists()


def test_a_forked_child_does_not_take_the_name_away(tmp_path: Path) -> None:
    """Its parent goes on listening."""
    ours = UnixSocket(tmp_path / "SOCKET")
    ours._pid += 1  # as in a child, which has another pid
    ours.close()
    assert (tmp_path / "SOCKET").exists()


def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    """The error says how long it may be and what to do; the longest that is allowed works."""
    room = PATH_BYTES_MAX - len(os.fsencode(tmp_path)) - 1
    longest = tmp_path / ("x" * room)
    ours = UnixSocket(longest)
    assert connects(longest)
    ours.close()
    with pytest.raises(Invalid, match=r"108 bytes.*107.*--unix PATH"):
        UnixSocket(tmp_path / ("x" * (room + 1)))
    with pytest.raises(Invalid, match="--unix PATH"):
        checked_path(tmp_path / ("ü" * (room // 2 + 1)))
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the process goes elsewhere."""
    monkeypatch.chdir(tmp_path)
    ours = UnixSocket(Path("SOCKET"))
    monkeypatch.chdir("/")
    assert ours.path == tmp_path / "SOCKET"
    ours.close()
    assert not (tmp_path / "SOCKET").exists()


def test_a_directory_that_everybody_writes_to(tmp_path: Path) -> None:
    """Anybody could put another socket there; with the sticky bit nobody can."""
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(Refused, match="every user can write"):
        UnixSocket(place / "SOCKET")
    place.chmod(0o1777)
    UnixSocket(place / "SOCKET").close()


def test_a_directory_that_is_missing(tmp_path: Path) -> None:
    """The system's reason, with the path."""
    with pytest.raises(Refused, match=r"cannot listen on .*missing/SOCKET: No such file"):
        UnixSocket(tmp_path / "missing" / "SOCKET")


def test_two_that_begin_at_once_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one waits; one that waits too long is told to try again."""
    monkeypatch.setattr(unix_socket, "_TURN_S", 0.1)
    held = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Refused, match="try again"):
            UnixSocket(tmp_path / "SOCKET")
        monkeypatch.setattr(unix_socket, "sleep", lambda s: fcntl.flock(held, fcntl.LOCK_UN))
        UnixSocket(tmp_path / "SOCKET").close()
    finally:
        os.close(held)
