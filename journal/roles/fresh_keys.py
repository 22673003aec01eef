"""
Fresh keys: the one source of this process for new unique keys.

N1  Keys of one process are in the order in which they were made, over all threads (journal.core.entry.uuid7 U1).
N2  A forked child begins with random bits of its own: it repeats no key of its parent, and it cannot inherit the lock from a
    thread that it does not have.
"""

from __future__ import annotations

import os
import threading

from journal.core.entry.uuid7 import RANDOM_BYTES, following, text_of


class KeySource:
    """A source of keys."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = -1

    def key(self, now_ms: int) -> str:
        """A key that sorts after all that this source has made (N1)."""
        chance = os.urandom(RANDOM_BYTES)
        with self._lock:
            self._last = following(self._last, now_ms, chance)
            number = self._last
        return text_of(number)


_source = KeySource()


def new_key(now_ms: int) -> str:
    """A key for an entry: a UUID of version 7 that tells when it was made."""
    return _source.key(now_ms)


def _begin_again() -> None:
    global _source
    _source = KeySource()  # N2


os.register_at_fork(after_in_child=_begin_again)
