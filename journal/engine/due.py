"""
Where workers sleep until something falls due.

Those who work on all buckets sleep in one place, those on a range each in a place apart: an entry of one range does not wake
the workers on others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Due(threading.Condition):
    """The condition that something may be due, over the journal's lock. `notify` wakes those on all buckets only."""

    def __init__(self, lock: threading.Lock) -> None:
        super().__init__(lock)
        self._shared = lock
        self._places: set[threading.Condition] = set()

    @contextmanager
    def apart(self) -> Iterator[threading.Condition]:
        """A place to sleep in for one worker; under the lock."""
        place = threading.Condition(self._shared)
        self._places.add(place)
        try:
            yield place
        finally:
            self._places.discard(place)

    def notify_all(self) -> None:
        """Wake everybody; under the lock."""
        super().notify_all()
        for place in self._places:
            place.notify_all()
