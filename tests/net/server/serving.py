"""A daemon as an operator runs it: `journal serve` in a process of its own, with its log in a file."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path


class Daemon:
    """A `journal serve` that is ready."""

    def __init__(self, store: Path, *options: object, environment: Mapping[str, str] | None = None) -> None:
        self.store = store
        self._log = store.parent / f"{store.name}-{os.urandom(4).hex()}.log"
        ready, write = os.pipe()
        try:
            with open(self._log, "w") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "journal", "serve", store, "--ready-fd", str(write), *map(str, options)],
                    stdout=subprocess.PIPE, stderr=log, text=True, pass_fds=[write], env={**os.environ, **(environment or {})},
                )  # fmt: skip
        finally:
            os.close(write)
        with open(ready) as lines:
            self.addresses = lines.read().splitlines()
        if not self.addresses:
            self.process.wait(30)
            raise AssertionError(f"it is not ready: {self.log}")

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text()

    def address(self, kind: str) -> str:
        """Its address of a kind: unix, tcp or tls."""
        return next(address for address in self.addresses if address.startswith(kind))

    def line(self, line: str) -> str:
        """What it answers to a line on its Unix socket."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(self.address("unix:").removeprefix("unix:"))
            client.sendall(line.encode() + b"\n")
            with client.makefile() as lines:
                return lines.readline().strip()

    def stop(self, signum: signal.Signals = signal.SIGTERM) -> int:
        """How it ends."""
        self.process.send_signal(signum)
        return self.wait()

    def wait(self) -> int:
        """Until it has ended."""
        try:
            self.process.communicate(timeout=300)
        finally:
            self.kill()
        return self.process.returncode

    def kill(self) -> None:
        """If it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@contextlib.contextmanager
def serving(store: Path, *options: object, environment: Mapping[str, str] | None = None) -> Iterator[Daemon]:
    """Serve a store; whatever the test did with the daemon, it is over at the end of the block."""
    daemon = Daemon(store, *options, environment=environment)
    try:
        yield daemon
    finally:
        if daemon.process.poll() is None:
            assert daemon.stop() == 0, daemon.log
