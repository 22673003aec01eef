"""
The heartbeat: a PING each third of the time after which the daemon takes silence for an end, while something is subscribed. Without it a
connection that is idle for too long ends, and the next call makes another one.

P1  One thread for a link, while something is subscribed. It is a caller as any other, and reads for all while it waits.
P2  With each PING the two clocks are compared. The PING carries the result of the last comparison: this program's drift.
"""

from __future__ import annotations

import logging
import threading
import time

from journal.errors import JournalError, StorageError
from journal.net.client.connection.clocks import Clocks
from journal.net.client.connection.link import Link
from journal.net.wire.codecs import pong_from
from journal.shield import shielded
from journal.threads import begin

log = logging.getLogger("journal.client")

TIMEOUT_MS = 30_000


def wall_ms() -> float:
    """What our clock shows."""
    return time.time_ns() / 1_000_000


def steady_ms() -> float:
    """A clock that is never set."""
    return time.monotonic_ns() / 1_000_000


@shielded
class Heart:
    """The heartbeat of a link."""

    def __init__(self, link: Link) -> None:
        self.clocks = Clocks(time.time_ns() / 1_000_000, steady_ms())
        self.link = link
        self._after_fork_in_child()
        link.on_fork.append(self._after_fork_in_child)

    def _after_fork_in_child(self) -> None:
        """The heartbeat's thread, and any thread that held the lock, do not exist in the child."""
        self._users = 0
        self._changed = threading.Condition(threading.Lock())
        self._thread: threading.Thread | None = None

    def beat(self, timeout_ms: int = TIMEOUT_MS) -> None:
        """One PING (P2)."""
        sent, steady_sent = wall_ms(), steady_ms()
        call = self.clocks.ping(int(sent))
        answer = pong_from(self.link.ask(call, timeout_ms))
        self.clocks.pong(sent, answer, wall_ms(), steady_sent, steady_ms())

    def begin(self) -> None:
        """A subscription has begun."""
        with self._changed:
            if self._thread is None:
                self._thread = begin(threading.Thread(target=self._run, name="journal-heartbeat", daemon=True))
            self._users += 1

    def end(self) -> None:
        """A subscription has ended."""
        with self._changed:
            self._users -= 1
            self._changed.notify_all()

    def close(self) -> None:
        """The link was closed."""
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._users == 0 or self.link.is_closed, self.link.ping_ms / 1000)
                if self._users == 0 or self.link.is_closed:
                    self._thread = None
                    return
            try:
                self.beat()
            except StorageError:
                continue  # the link was closed
            except JournalError as e:
                log.info("heartbeat_missed daemon=%s error=%s", self.link.address, e)  # the subscriptions see it too
