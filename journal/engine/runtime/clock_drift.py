"""
The clocks of peers: producers and consumers report theirs, the store records how far each is off.

A drift that is certain to be beyond the limit raises the flag "drift" on the journal that the report came through. All dates are
stamped by the engine, so a wrong clock moves no entry; the operator should look at it all the same.

Q1  `drifts` is used under `lock` only: reports come from many threads.
"""

from __future__ import annotations

import threading
from typing import Any

from journal.core.arguments import name_text
from journal.core.clock_drift import Drift, Drifts, Sample, Time
from journal.core.limits import CONSUMER_BYTES_MAX

FLAG = "drift"
PEER_BYTES_MAX = CONSUMER_BYTES_MAX + 16
"""A peer's kind and its name: "consumer mail-1"."""


class Peers:
    """The measured drifts of all peers of a store."""

    def __init__(self) -> None:
        self.drifts = Drifts()
        self.lock = threading.Lock()

    def measure(self, peer: str, t0: Time, t1: Time, t2: Time, t3: Time) -> str | None:
        """Take a round trip to a peer, t0 and t3 on the engine's clock; returns a message for the operator if that is new."""
        name_text(peer, "peer", PEER_BYTES_MAX)
        with self.lock:
            return self._news(peer) if self.drifts.measure(peer, t0, t1, t2, t3) else None

    def add(self, peer: str, sample: Sample) -> str | None:
        """Take what a peer computed itself; returns a message for the operator if that is new."""
        with self.lock:
            return self._news(peer) if self.drifts.add(peer, sample) else None

    def _news(self, peer: str) -> str | None:
        drift = self.drifts.get(peer)
        return None if drift is None or not drift.is_flagged else self._message(peer, drift)

    def of(self, peer: str) -> dict[str, Any] | None:
        """What is known of one clock; None when it never reported."""
        with self.lock:
            drift = self.drifts.get(peer)
            return None if drift is None else drift.statistics()

    def forget(self, peer: str) -> None:
        """Remove a peer that has disconnected."""
        with self.lock:
            self.drifts.remove(peer)

    def _message(self, peer: str, drift: Drift) -> str:
        best = drift.best
        assert best is not None
        way = "fast" if best.offset > 0 else "slow"
        message = (
            f"the clock of {peer!r} is {abs(best.offset):.0f} ms {way} (\u00b1 {best.delay / 2:.0f} ms; the limit is "
            f"{self.drifts.limit_ms} ms)"
        )
        if self.drifts.is_ours:
            return f"{message}, and so are most others: look at the clock of this machine"
        return f"{message}: have it follow a time server"

    def statistics(self) -> dict[str, Any]:
        """What is known of all clocks."""
        with self.lock:
            return self.drifts.statistics()
