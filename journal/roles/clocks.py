"""
The clocks of producers and consumers, compared with the engine's: one `Drifts` for a journal in a process.

Somebody in this process uses the machine's clock, which the engine follows; somebody elsewhere answers with the times of a question
and its answer. Both report here, under the name by which statistics and logs call them.

O1  A report changes no date of any entry or lease: these are the engine's. It only tells whose clock misleads him.
O2  A flag that is raised or lowered is logged once.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from typing import Any

from journal.core.drift import Drifts, Time
from journal.engine.journal import Journal

log = logging.getLogger("journal.clocks")


class Clocks:
    """What is known of the clocks of those who work with a journal."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.drifts = Drifts()

    def report(self, peer: str, journal: Journal, t1: Time, t2: Time | None, t0: Time | None, t3: Time | None) -> bool:
        """Take a report; whether the peer's clock is off. Times that are missing are now."""
        now = journal._p.time.now()
        with self._lock:
            is_changed = self.drifts.measure(
                peer,
                now if t0 is None else t0,
                t1,
                t1 if t2 is None else t2,
                now if t3 is None else t3,
            )
            known = self.drifts.get(peer)
            assert known is not None
            what = known.statistics()
        if is_changed:
            log.warning(
                "clock_%s peer=%s offset_ms=%s error_ms=%s",
                "drifts" if what["is_flagged"] else "agrees", peer, what["offset_ms"], what["error_ms"],
            )  # fmt: skip
        return bool(what["is_flagged"])

    def of(self, peer: str) -> dict[str, Any] | None:
        """What is known of one clock; None when it never reported."""
        with self._lock:
            known = self.drifts.get(peer)
            return None if known is None else known.statistics()

    def forget(self, peer: str) -> None:
        """Somebody said goodbye."""
        with self._lock:
            self.drifts.remove(peer)

    def statistics(self) -> dict[str, Any]:
        """How the clocks are, with the worst of them by name."""
        with self._lock:
            return self.drifts.statistics()


_making = threading.Lock()
_clocks: weakref.WeakKeyDictionary[Journal, Clocks] = weakref.WeakKeyDictionary()


def clocks_of(journal: Journal) -> Clocks:
    """The clocks that are known for a journal; there is one."""
    with _making:
        clocks = _clocks.get(journal)
        if clocks is None:
            clocks = _clocks[journal] = Clocks()
        return clocks


def _begin_again() -> None:
    global _making, _clocks
    _making = threading.Lock()
    _clocks = weakref.WeakKeyDictionary()


os.register_at_fork(after_in_child=_begin_again)
