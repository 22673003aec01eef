"""
Where the workers of a program sleep until something falls due, each journal's in a place of its own; a thread listens for all of them
(journal.net.client.connection.due_notice_thread), while there are workers.

E1  Whatever datagrams arrive, get lost or are forged, a worker only claims earlier than it would by itself: work comes from claims alone.
E2  A worker that reads the news count of a place before it claims misses nothing that comes afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from journal.net.client.connection.clocks import Clocks
from journal.net.client.connection.due_notice_thread import Listening
from journal.net.client.connection.heartbeat import Heart, steady_ms
from journal.net.wire.due_notices import Poll
from journal.shield import SHIELD, give_way, look_up_s

STOP_LOOK_S = 0.25
"""An Event cannot be waited for together with a Condition: a worker with one looks at it this often."""


class ListeningPlace:
    """Where the workers of one journal sleep."""

    def __init__(self) -> None:
        self.news = 0
        """The number of notices so far."""
        self.users = 0
        self._told = threading.Condition(threading.Lock())

    def tell(self) -> None:
        """Wake all workers that sleep here."""
        with self._told:
            self.news += 1
            self._told.notify_all()

    def wait(self, seen: int, seconds: float, stop: threading.Event | None) -> bool:
        """Sleep until there is more news than was seen, time has passed, or `stop` is set; whether there is news (E2)."""
        by = monotonic() + seconds
        with SHIELD:
            while True:
                give_way()
                with self._told:
                    if self.news != seen or (stop is not None and stop.is_set()):
                        return self.news != seen
                    rest = by - monotonic()
                    if rest <= 0:
                        return False
                    self._told.wait(look_up_s(rest if stop is None else min(rest, STOP_LOOK_S)))


class Key:
    """Stands for one journal of one connection."""


class FarTime:
    """The daemon's time, as far as it is known here."""

    is_far = True

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks

    def now(self) -> int:
        """In ms since the epoch."""
        return self._clocks.theirs(steady_ms())

    def running(self) -> int:
        """Our own steady clock in ms."""
        return int(steady_ms())

    def running_at(self, date: int) -> int:
        """What `running` shows when a date comes there."""
        return self._clocks.ours(date)

    def until_running(self, ms: int) -> float:
        """Seconds of waiting until `running` shows that."""
        return max(0.0, ms - steady_ms()) / 1000

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """This clock never jumps, so the callback is never called."""
        return lambda: None


class Ear:
    """See the module. Safe to use from many threads."""

    def __init__(self, heart: Heart) -> None:
        self.heart = heart
        self.time = FarTime(heart.clocks)
        """The daemon's."""
        self._keys: dict[str, Key] = {}
        self._after_fork_in_child()
        heart.link.on_fork.append(self._after_fork_in_child)

    def _after_fork_in_child(self) -> None:
        """The threads that held locks, slept or listened do not exist in the child."""
        self._lock = (
            threading.RLock()
        )  # reentrant: the garbage collector may end an abandoned worker in this thread, at any point
        self._places: dict[str, ListeningPlace] = {}
        self._thread: Listening | None = None

    def key_of(self, journal: str) -> Key:
        """What stands for a journal of this connection: the same object each time."""
        with self._lock:
            return self._keys.setdefault(journal, Key())

    def poll(self) -> Poll:
        """When a worker claims without a notice."""
        most_ms = self.heart.link.options.poll_ms
        return Poll(first_ms=min(1000, most_ms), most_ms=most_ms)

    @contextmanager
    def place(self, journal: str) -> Iterator[ListeningPlace]:
        """The place where a worker of this journal sleeps, while it works."""
        self.heart.link.check()
        with SHIELD, self._lock:
            if self._thread is None:
                self._thread = Listening(self.heart, self.names, self.tell)
            place = self._places.setdefault(journal, ListeningPlace())
            place.users += 1
            self._thread.look()
        try:
            yield place
        finally:
            with SHIELD, self._lock:
                place.users -= 1
                if not place.users and self._places.get(journal) is place:
                    del self._places[journal]
                if self._thread is not None:
                    self._thread.look()
                    if not self._places:
                        self._thread.end()
                        self._thread = None

    def names(self) -> set[str]:
        """The journals that have workers."""
        with self._lock:
            return set(self._places)

    def tell(self, journal: str | None = None) -> None:
        """Wake the workers of a journal; None: of all."""
        with self._lock:
            places = list(self._places.values()) if journal is None else [self._places.get(journal)]
        for place in places:
            if place is not None:
                place.tell()
