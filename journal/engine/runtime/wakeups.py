"""
Where workers sleep until something falls due.

Workers on all buckets sleep in one place, those on a range each in a place apart: an entry of one range does not wake the
workers on other ranges. A thread that cannot sleep here, since it waits for sockets too, has a bell.

E1  A bell rings once after its owner has set the date to which it sleeps, and not again before it sets a new one: when something may
    be due before that date, and whenever all workers are woken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from journal.core.limits import NEVER
from journal.shield import take


class SleepingPlace:
    """Where one worker sleeps: taken and left under the lock, slept in without it. An interrupt may end the sleep (shield W6)."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()

    def sleep(self, seconds: float) -> None:
        """Until `wake` is called, or for so many seconds."""
        take(self._gate, seconds)

    def wake(self) -> None:
        """Under the lock."""
        if self._gate.locked():
            self._gate.release()


class Due:
    """The places of the workers that wait until something is due, over the journal's lock."""

    def __init__(self, lock: threading.Lock) -> None:
        self._shared = lock
        self._places: dict[SleepingPlace, None] = {}
        """On all buckets, and not woken yet."""
        self._apart: set[SleepingPlace] = set()
        self.sleeping: dict[object, int] = {}
        """When each sleeping worker wakes by itself, and up to when each bell is silent."""
        self.bells: set[Bell] = set()

    def take_place(self, until: int) -> SleepingPlace:
        """A place for a worker on all buckets, which wakes by itself at this date; under the lock."""
        place = SleepingPlace()
        self._places[place] = None
        self.sleeping[place] = until
        return place

    def take_place_apart(self) -> SleepingPlace:
        """A place for a worker on a range; under the lock."""
        place = SleepingPlace()
        self._apart.add(place)
        return place

    def leave(self, place: SleepingPlace) -> None:
        """A worker is awake; under the lock."""
        self._places.pop(place, None)
        self.sleeping.pop(place, None)
        self._apart.discard(place)

    def _wake_places(self) -> None:
        places, self._places = self._places, {}
        for place in places:
            place.wake()

    def notify_all(self) -> None:
        """Wake all workers and ring all bells; under the lock."""
        self._wake_places()
        for place in self._apart:
            place.wake()
        if self.bells:
            self.ring(-1)

    def bell(self, callback: Callable[[], None]) -> Bell:
        """A bell for a thread that sleeps elsewhere; the callback runs under the lock, on any thread, and must be short."""
        bell = Bell(self, callback)
        with self._shared:
            self.bells.add(bell)
        return bell

    def rouse(self, date: int) -> None:
        """Something may be due at this date: wake the workers on all buckets, and ring the bells of later dates. Under the lock."""
        self._wake_places()
        if self.bells:
            self.ring(date)

    def ring(self, date: int) -> None:
        """Ring the bells whose owners sleep longer than up to this date (E1). Under the lock."""
        for bell in self.bells:
            if date < self.sleeping.get(bell, date):
                del self.sleeping[bell]
                bell.callback()


class Bell:
    """Rings when something may be due before the date that its owner sleeps to (E1)."""

    def __init__(self, due: Due, callback: Callable[[], None]) -> None:
        self.callback = callback
        self._due = due

    @property
    def until(self) -> int | None:
        """The date that its owner sleeps to; None: for ever. One that has rung, and one that was never set: 0."""
        date = self._due.sleeping.get(self, 0)
        return None if date == NEVER else date

    @until.setter
    def until(self, date: int | None) -> None:
        """Under the lock, in one go with the look that has found the date: what comes in between would be missed."""
        self._due.sleeping[self] = NEVER if date is None else date

    def close(self) -> None:
        """It rings no more; not under the lock."""
        with self._due._shared:
            self._due.bells.discard(self)
            self._due.sleeping.pop(self, None)
