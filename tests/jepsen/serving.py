"""
The daemon as a process: started, killed, frozen, stopped in good order, and with a disk that is full.

V1  It is `journal serve`, as people run it; with a mutant, the same after `tests.jepsen.mutants` has broken it.
V2  A full disk is made by RLIMIT_FSIZE, set from outside while it runs: no file grows beyond what the log has prepared by then. That needs
    no rights, and takes effect at once, like a disk that others have filled.
V3  Whoever starts one ends it: `close` leaves no process behind.
"""

from __future__ import annotations

import os
import random
import resource
import select
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from time import monotonic

from journal.core.requests.request import Role
from journal.net.wire.auth import Grant
from journal.net.wire.tokens import Token, format_tokens

PROJECT = Path(__file__).resolve().parents[2]
START_S = 20.0
STOP_S = 20.0
PORTS = range(20_000, 32_000)
"""Below those that the system gives to whoever connects: a daemon that comes back finds its port free."""
IDENTITY = "backend"
SECRET = bytes(range(32))
TROUBLE = ("Traceback", "not foreseen", "request_failed")
"""What a daemon logs when something happened that it was not made for."""


class Failed(Exception):
    """The daemon did not do what a daemon must."""


class Serving:
    """One store's daemon, over all its lives."""

    def __init__(self, store: Path, *, options: tuple[str, ...] = (), mutant: str | None = None, seed: int = 0) -> None:
        self.store = store
        self.log = store.parent / "daemon.log"
        self.tokens = store.parent / "tokens"
        self.port = free_port(random.Random(f"port:{seed}:{store}"))
        self.unix = f"unix:{store / 'SOCKET'}"
        self.tcp = f"tcp://127.0.0.1:{self.port}"
        self.token = f"{IDENTITY}:{SECRET.hex()}"
        self._options = options
        self._mutant = mutant
        self._process: subprocess.Popen[bytes] | None = None
        grant = Grant(IDENTITY, frozenset(Role), ("*",), ("producer-*", "consumer-*", "drain"))
        self.tokens.write_text(format_tokens({IDENTITY: Token(SECRET, grant)}))
        self.tokens.chmod(0o600)

    @property
    def pid(self) -> int:
        """Of the process that serves now."""
        assert self._process is not None
        return self._process.pid

    # -- lives --------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start it, without waiting until it serves."""
        ready, told = os.pipe()
        self._ready = ready
        module = ["tests.jepsen.mutants", self._mutant] if self._mutant else ["journal"]
        command = [
            sys.executable, "-m", *module, "serve", str(self.store), "--tcp", f"127.0.0.1:{self.port}", "--tokens",
            str(self.tokens), "--ready-fd", str(told), *self._options,
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=PROJECT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[told]
            )
        os.close(told)

    def await_ready(self) -> None:
        """Until it serves."""
        told = b""
        by = monotonic() + START_S
        try:
            while select.select([self._ready], [], [], max(0.0, by - monotonic()))[0]:
                some = os.read(self._ready, 4096)
                told += some
                if not some:
                    break
        finally:
            os.close(self._ready)
        if not told:
            raise Failed(f"the daemon did not begin to serve within {START_S} s: {self.last_words()}")

    def start(self) -> None:
        """Start it, and wait until it serves."""
        self.begin()
        self.await_ready()

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop it in good order."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired as e:
            raise Failed(f"the daemon was asked to stop, and runs on after {STOP_S} s: {self.last_words()}") from e
        if code != 0:
            raise Failed(f"the daemon was asked to stop, and ended with {code}: {self.last_words()}")

    def freeze(self) -> None:
        """SIGSTOP: it does nothing, and nobody is told."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End whatever runs (V3)."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    # -- the disk -----------------------------------------------------------------------------------------------------

    def fill(self, spare_bytes: int = 0) -> None:
        """The disk is full but for so many bytes of the log (V2)."""
        sizes = [path.stat().st_size for path in self.store.rglob("*.log")]
        _limit(self.pid, max(sizes, default=0) + spare_bytes)

    def empty(self) -> None:
        """There is room again."""
        _limit(self.pid, resource.RLIM_INFINITY)

    # -- what it says -------------------------------------------------------------------------------------------------

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-2000:]

    def troubles(self) -> list[str]:
        """Lines of its log that no daemon should write."""
        return [line for line in self.log.read_text(errors="replace").splitlines() if any(t in line for t in TROUBLE)]


def _limit(pid: int, size: int) -> None:
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    if size == resource.RLIM_INFINITY:
        size = hard
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


def free_port(chance: random.Random) -> int:
    """A port of this machine that nobody has."""
    for _ in range(200):
        port = chance.choice(PORTS)
        with closing(socket.socket()) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise Failed("no free port was found")
