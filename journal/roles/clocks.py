"""
The clocks of producers and consumers, as they report them; the store keeps what is known of each (engine.peers).

Somebody in this process uses the machine's clock, which the engine follows; somebody elsewhere answers with the times of a question
and its answer. Both report here, under the name by which statistics, flags and logs call them.

O1  A report changes no date of any entry or lease: these are the engine's. It only tells whose clock misleads him.
"""

from __future__ import annotations

from typing import Any

from journal.core.drift import Time
from journal.engine.journal import Journal


def report(peer: str, journal: Journal, t1: Time, t2: Time | None, t0: Time | None, t3: Time | None) -> bool:
    """Take a report; whether the peer's clock is found to be off. Times that are missing are now."""
    now = journal.now()
    return journal.measure_drift(
        peer, now if t0 is None else t0, t1, t1 if t2 is None else t2, now if t3 is None else t3
    )  # fmt: skip


def known_of(peer: str, journal: Journal) -> dict[str, Any] | None:
    """What is known of one clock; None when it never reported."""
    peers = journal._peers
    with peers.lock:
        known = peers.drifts.get(peer)
        return None if known is None else known.statistics()


def forget(peer: str, journal: Journal) -> None:
    """Somebody said goodbye."""
    peers = journal._peers
    with peers.lock:
        peers.drifts.remove(peer)
