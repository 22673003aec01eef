"""
beanstalkd, a daemon, with its write-ahead log: `-f 0` syncs before each reply, `-f 50` at most every 50 ms.

It is another process behind a socket, so a call pays a round trip over loopback, which its users pay too. A reserve
is not logged: a cycle costs it two syncs. Jobs are put with the longest time to run so that no timer interferes.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.peer import Setting

_START_SECONDS_MAX = 5.0


class Process:
    """A daemon of its own, with its log in a directory."""

    def __init__(self, directory: Path, sync_ms: int, before: Sequence[str] = ()) -> None:
        self.port = _free_port()
        command = ["beanstalkd", "-l", "127.0.0.1", "-p", str(self.port), "-b", str(directory), "-f", str(sync_ms)]
        self._process = subprocess.Popen([*before, *command])
        try:
            _connect(self.port, self._process).close()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


class Connection:
    """A client."""

    def __init__(self, port: int) -> None:
        self._socket = _connect(port)
        self._buffer = b""

    def put(self, data: bytes) -> None:
        self._socket.sendall(b"put 1024 0 86400 %d\r\n%b\r\n" % (len(data), data))
        reply = self._line()
        if not reply.startswith(b"INSERTED "):
            raise RuntimeError(f"beanstalkd answered a put with {reply!r}")

    def get(self) -> bytes:
        self._socket.sendall(b"reserve-with-timeout 0\r\n")
        reply = self._line()
        if not reply.startswith(b"RESERVED "):
            raise RuntimeError(f"beanstalkd answered a reserve with {reply!r}")
        _, job, size = reply.split()
        self._body(int(size))
        return job

    def ack(self, token: bytes) -> None:
        self._socket.sendall(b"delete %b\r\n" % token)
        reply = self._line()
        if reply != b"DELETED":
            raise RuntimeError(f"beanstalkd answered a delete with {reply!r}")

    def close(self) -> None:
        self._socket.close()

    def _line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            self._receive()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _body(self, size: int) -> bytes:
        while len(self._buffer) < size + 2:
            self._receive()
        body, self._buffer = self._buffer[:size], self._buffer[size + 2 :]
        return body

    def _receive(self) -> None:
        chunk = self._socket.recv(65536)
        if not chunk:
            raise RuntimeError("beanstalkd closed the connection")
        self._buffer += chunk


class _Beanstalkd(Connection):
    """A daemon with one client, as the peers are seen."""

    def __init__(self, directory: Path, sync_ms: int) -> None:
        self._process = Process(directory, sync_ms)
        super().__init__(self._process.port)

    def tidy(self) -> None:
        """It looks after its own log."""

    def close(self) -> None:
        super().close()
        self._process.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _connect(port: int, process: subprocess.Popen[bytes] | None = None) -> socket.socket:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while time.monotonic() < deadline and (process is None or process.poll() is None):
        with contextlib.suppress(ConnectionRefusedError):
            connected = socket.create_connection(("127.0.0.1", port))
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connected
        time.sleep(0.01)
    raise RuntimeError(f"beanstalkd did not start to listen on port {port}")


def missing() -> str | None:
    return None if shutil.which("beanstalkd") else "not installed"


SETTINGS = (
    Setting("beanstalkd -f 0", "synced at put and delete", True, lambda d: _Beanstalkd(d, 0), missing),
    Setting("beanstalkd -f 50", "synced every 50 ms", False, lambda d: _Beanstalkd(d, 50), missing),
)
