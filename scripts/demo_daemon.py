"""
The second scene of the demo: a daemon keeps a store, two backends in processes of their own sleep on LISTEN, and scheduled entries
arrive on time.

The witness starts `journal serve` and the backends, schedules mails over its own connection, and hears from the backends when each of
them came. No backend polls: the daemon's timer tells the backends with a datagram, and how often it woke up is shown.

E1  Every mail arrives, at one backend, once.
E2  None arrives before its date.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import journal
from journal.net.wire.line import parse_line

BACKENDS = ("backend-1", "backend-2")
JOURNAL = "mails"
MAILS = 8
FIRST_MS = 1_500
APART_MS = 250
PATIENCE_S = 60.0
CLOCKS_MS = 20
"""The daemon's time follows the system's clock, which may be set meanwhile; so much apart they may be."""
Promise = tuple[bool, str]


# --- a backend: a process that connects, sleeps and works -------------------------------------------------------------


def back(address: str, name: str) -> int:
    """Work until standard input ends; a line for each mail, with the ms from its date to its arrival here."""
    stop = threading.Event()
    with journal.connect(address) as store:
        mails = store.journal(JOURNAL)

        def wait_for_end() -> None:
            sys.stdin.read()
            stop.set()
            mails.wake()

        threading.Thread(target=wait_for_end, daemon=True).start()
        for lease in mails.work(consumer=name, lease="30s", stop=stop):
            late_ms = time.time() * 1000 - lease.process_date
            with lease:
                print(lease.key, f"{late_ms:.3f}", flush=True)
    return 0


class Backend:
    """One of them, as the witness sees it."""

    def __init__(self, address: str, name: str, told: Callable[[str, str, float], None]) -> None:
        self.name = name
        self._told = told
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), address, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            key, late_ms = line.split()
            self._told(self.name, key, float(late_ms))

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self._reader.join()


# --- the witness ------------------------------------------------------------------------------------------------------


class Scene:
    """The daemon, the backends, and what was seen."""

    def __init__(self, store: Path, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self.seen: list[tuple[str, str, float]] = []
        self._all_seen = threading.Event()
        ready, written = os.pipe()
        command = [
            sys.executable,
            "-m",
            "journal",
            "serve",
            str(store),
            "--ready-fd",
            str(written),
            "--log-level",
            "warning",
        ]
        self.daemon = subprocess.Popen(command, pass_fds=[written])
        os.close(written)
        with open(ready) as lines:
            self.address = lines.readline().strip()
        self.backends: list[Backend] = []

    def arrived(self, backend: str, key: str, late_ms: float) -> None:
        self.seen.append((backend, key, late_ms))
        self.tell(f"    {key} arrived at {backend}, {late_ms:.1f} ms after its date")
        if len(self.seen) >= MAILS:
            self._all_seen.set()

    def play(self) -> list[Promise]:
        if not self.address:
            return [(False, "the daemon did not begin to serve")]
        with journal.connect(self.address) as store:
            mails = store.journal(JOURNAL)
            self.backends = [Backend(self.address, name, self.arrived) for name in BACKENDS]
            status = self._wait_for_listeners()
            self.tell(
                f"* process {self.daemon.pid} serves a store at {self.address.partition(':')[0]}:…/SOCKET; "
                f"{len(BACKENDS)} backends sleep on LISTEN"
            )
            due = mails.now() + FIRST_MS
            for n in range(MAILS):
                mails.put(f"mail-{n + 1}", {"number": n + 1}, process_date=due + n * APART_MS)
            self.tell(f"* {MAILS} mails are scheduled, the first in {FIRST_MS / 1000:g} s, one each {APART_MS} ms")
            self._all_seen.wait(PATIENCE_S)
            for backend in self.backends:
                backend.end()
            after = self.status()
            self.tell(
                f"* {int(after['datagrams']) - int(status['datagrams'])} datagrams told of them; the daemon answered "
                f"{int(after['requests']) - int(status['requests'])} requests in all: no backend polled"
            )
            return self.promises(mails.count())

    def status(self) -> dict[str, str]:
        """What the daemon says of itself to a person: `echo STATUS | nc -U …/SOCKET`."""
        with socket.socket(socket.AF_UNIX) as person:
            person.connect(self.address.removeprefix("unix:"))
            person.sendall(b"STATUS\n")
            with person.makefile("rb") as lines:
                return dict(parse_line(lines.readline().rstrip(b"\n")).parameters)

    def _wait_for_listeners(self) -> dict[str, str]:
        """Until both backends sleep."""
        give_up = time.monotonic() + PATIENCE_S
        while int((status := self.status())["listeners"]) < len(BACKENDS) and time.monotonic() < give_up:
            time.sleep(0.05)
        return status

    def promises(self, left: int) -> list[Promise]:
        """E1, E2; how late they were is told, not promised: that depends on what else the machine does."""
        lates = sorted(late_ms for _, _, late_ms in self.seen)
        keys = [key for _, key, _ in self.seen]
        shown = f"median {lates[len(lates) // 2]:.1f} ms, at most {lates[-1]:.1f} ms late" if lates else "none came"
        return [
            (len(set(keys)) == MAILS and not left, f"{len(set(keys))} of {MAILS} scheduled mails arrived, {left} left"),
            (len(keys) == len(set(keys)), f"{len(keys) - len(set(keys))} arrived twice"),
            (bool(lates) and lates[0] > -CLOCKS_MS, f"none before its date; {shown}"),
        ]

    def close(self) -> bool:
        """Stop the daemon in good order; whether it did."""
        for backend in self.backends:
            if backend.process.poll() is None:
                backend.process.kill()
                backend.process.wait()
        if self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
        return self.daemon.wait() == 0


def play(store: Path, tell: Callable[[str], None]) -> list[Promise]:
    """The scene, from an empty directory to the end of the daemon: what was promised, and whether it was seen."""
    scene = Scene(store, tell)
    try:
        promises = scene.play()
    finally:
        is_ended = scene.close()
    return [*promises, (is_ended, "the daemon ended in good order" if is_ended else "the daemon failed")]


if __name__ == "__main__":
    sys.exit(back(*sys.argv[1:]))
