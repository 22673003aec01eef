"""Workers of tests: on threads, with what they got in a queue; and a network that loses datagrams."""

from __future__ import annotations

import queue
import random
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import journal
from journal.net.client.connection import due_notice_thread, due_notices
from journal.net.wire.due_notices import Poll

WAIT_S = 100.0
"""For what must happen."""
NEVER_MS = 3_600_000


class Worker:
    """Works on a journal until it is stopped: finishes each lease and notes its key; several may share the notes."""

    def __init__(self, journal: journal.Journal, keys: queue.Queue[Any] | None = None, **options: Any) -> None:
        self.keys: queue.Queue[Any] = queue.Queue() if keys is None else keys
        self.error: BaseException | None = None
        self.has_ended = threading.Event()
        self._journal = journal
        self._stop = threading.Event()
        self._options = options
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for lease in self._journal.work(**self._options, stop=self._stop):
                lease.done()
                self.keys.put(lease.key)
        except BaseException as e:  # noqa: BLE001 - the test looks at it
            self.error = e
        finally:
            self.has_ended.set()

    def next(self) -> Any:
        """The key of the next entry that it has finished."""
        return self.keys.get(timeout=WAIT_S)

    def stop(self) -> None:
        """End it, and wait until it has."""
        self._stop.set()
        self._journal.wake()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self.error is not None:
            raise self.error


def never_polls(monkeypatch: Any) -> None:
    """Have workers ask only when they were told."""
    monkeypatch.setattr(due_notices.Ear, "poll", lambda self: Poll(first_ms=NEVER_MS, most_ms=NEVER_MS))


class Relay:
    """A socket that datagrams are sent to, and from which some of them go on."""

    def __init__(self, own: socket.socket, passes: Callable[[], bool]) -> None:
        self.own = own
        self.front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.front.bind(("127.0.0.1", 0))
        self.passed = self.dropped = 0
        self.has_dropped = threading.Event()
        self._passes = passes
        self._wake, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            found, _, _ = select.select([self.front, self._wake], [], [])
            if self._wake in found:
                return
            raw = self.front.recv(4096)
            if self._passes():
                self.passed += 1
                self.front.sendto(raw, self.own.getsockname())
            else:
                self.dropped += 1
                self.has_dropped.set()

    def close(self) -> None:
        self._waker.send(b".")
        self._thread.join(WAIT_S)
        for each in (self.front, self._wake, self._waker):
            each.close()


class _Fronted:
    """A socket that tells the port of its relay in the place of its own."""

    def __init__(self, own: socket.socket, relay: Relay) -> None:
        self._own = own
        self._relay = relay

    def getsockname(self) -> Any:
        return self._relay.front.getsockname()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)


@contextmanager
def losing(monkeypatch: Any, share: float, seed: int) -> Iterator[list[Relay]]:
    """Datagrams to clients that begin to listen now are lost, so many of all."""
    relays: list[Relay] = []
    chance = random.Random(seed)
    bound = due_notice_thread.bound

    def fronted(host: str) -> Any:
        own = bound(host)
        relay = Relay(own, lambda: chance.random() >= share)
        relays.append(relay)
        return _Fronted(own, relay)

    monkeypatch.setattr(due_notice_thread, "bound", fronted)
    try:
        yield relays
    finally:
        for relay in relays:
            relay.close()
