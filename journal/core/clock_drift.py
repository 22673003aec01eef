"""
Clock drift: how far a peer's clock is from ours, from the times of a question and its answer, as NTP does it.

            t0 ─────────question────────►  t1        offset  ((t1 - t0) + (t2 - t3)) / 2    the peer's clock minus ours
      we                                   peer      delay   (t3 - t0) - (t2 - t1)          what the way there and back took
            t3 ◄────────answer───────────  t2

Which side asks and which side answers affects only the sign (`Sample.turned`). Times are milliseconds, with fractions where a
clock has them. Nothing here reads a clock.

D1  The true offset is within `offset ± delay / 2`, however uneven the two ways are; so the sample with the least delay is the
    best one. It is taken from the last SAMPLES, none older than WINDOW_MS.
D2  Two samples that cannot both be true, even for clocks that run SKEW apart, mean that a clock was set in between: what is
    older than the newest is forgotten, or the window would hide the step.
D3  A peer is flagged when its drift is *certain* to be beyond the limit (|offset| - delay / 2 > limit) in CONFIRM estimates
    on end, and cleared when the drift is *estimated* to be below CALM of the limit in as many. In between it stays as it was:
    a slow network raises no flag, and a clock at the limit does not make it flap.
D4  Peers are bounded in number: the one that was silent for longest goes first.
"""

from __future__ import annotations

from collections import deque
from math import isfinite, sqrt
from typing import Any, NamedTuple

from journal.core.statistics import median
from journal.core.times import DurationLike, duration_ms
from journal.errors import Invalid

LIMIT_MS = 250
SAMPLES = 8
WINDOW_MS = 600_000
CONFIRM = 2
CALM = 0.75
SKEW = 0.0005
"""500 ppm: more than that is no quartz, and NTP does not follow it either."""
GRAIN_MS = 2.0
"""Four readings of clocks that tell whole milliseconds: a delay may come out as much as this below 0."""
PEERS_MAX = 1024
WORST = 10
"""How many peers `statistics` names."""

Time = int | float


class Sample(NamedTuple):
    """What one question and its answer tell."""

    at: float
    """When the answer came, on our clock."""
    offset: float
    """The peer's clock minus ours: positive when it is fast."""
    delay: float

    def turned(self, at: Time) -> Sample:
        """The same as the other side sees it, on whose clock it is `at`."""
        return Sample(at, -self.offset, self.delay)

    @property
    def least(self) -> float:
        """The smallest drift that this sample can be explained by (D1)."""
        return max(0.0, abs(self.offset) - self.delay / 2)


def round_trip(t0: Time, t1: Time, t2: Time, t3: Time) -> Sample:
    """The sample of a question sent at t0 and received at t1, answered at t2, the answer received at t3."""
    for name, time in (("t0", t0), ("t1", t1), ("t2", t2), ("t3", t3)):
        if type(time) not in (int, float) or not isfinite(time):
            raise Invalid(f"{name} is {time!r}: it must be a number of milliseconds since the epoch")
    delay = (t3 - t0) - (t2 - t1)
    if t3 < t0 or t2 < t1 or delay < -GRAIN_MS:
        raise Invalid(
            f"a round trip of {t3 - t0} ms in which the peer took {t2 - t1} ms: a clock was set meanwhile; measure again"
        )
    return Sample(float(t3), ((t1 - t0) + (t2 - t3)) / 2, max(0.0, float(delay)))


def _agree(a: Sample, b: Sample) -> bool:
    """Whether one offset, and a little skew, explains both (D2)."""
    return abs(a.offset - b.offset) <= (a.delay + b.delay) / 2 + GRAIN_MS + SKEW * abs(a.at - b.at)


class Drift:
    """What is known of one peer's clock. One thread at a time."""

    __slots__ = ("_confirming", "_samples", "is_flagged", "limit_ms", "samples", "steps")

    def __init__(self, limit: DurationLike = LIMIT_MS) -> None:
        self.limit_ms = _limit(limit)
        self.is_flagged = False
        self.samples = 0
        """How many there have been."""
        self.steps = 0
        """How often its clock, or ours, was set."""
        self._samples: deque[Sample] = deque(maxlen=SAMPLES)
        self._confirming = 0

    def add(self, sample: Sample) -> bool:
        """Take a sample; whether that changed the flag."""
        kept = [old for old in self._samples if abs(sample.at - old.at) <= WINDOW_MS]
        if not all(_agree(old, sample) for old in kept):
            self.steps += 1  # D2
            kept = []
        self._samples.clear()
        self._samples.extend([*kept, sample])
        self.samples += 1
        return self._judge()

    def _judge(self) -> bool:
        """Raise or clear the flag (D3)."""
        best = self.best
        assert best is not None
        if self.is_flagged:
            is_other = abs(best.offset) <= CALM * self.limit_ms
        else:
            is_other = best.least > self.limit_ms
        self._confirming = self._confirming + 1 if is_other else 0
        if self._confirming < CONFIRM:
            return False
        self.is_flagged = not self.is_flagged
        self._confirming = 0
        return True

    @property
    def best(self) -> Sample | None:
        """The sample with the least delay, the newest of several (D1); None before the first."""
        return min(reversed(self._samples), key=lambda sample: sample.delay, default=None)

    @property
    def last_at(self) -> float:
        """When it was heard last, on our clock."""
        return self._samples[-1].at if self._samples else 0.0

    @property
    def jitter(self) -> float:
        """How much the samples scatter about the best one: the root of the mean square."""
        best = self.best
        if best is None or len(self._samples) < 2:
            return 0.0
        return sqrt(sum((s.offset - best.offset) ** 2 for s in self._samples) / (len(self._samples) - 1))

    def statistics(self) -> dict[str, Any]:
        """What is known, in milliseconds."""
        best = self.best
        return {
            "offset_ms": None if best is None else round(best.offset, 3),
            "error_ms": None if best is None else round(best.delay / 2, 3),
            "jitter_ms": round(self.jitter, 3),
            "samples": self.samples,
            "steps": self.steps,
            "is_flagged": self.is_flagged,
            "last": self.last_at,
        }


class Drifts:
    """The clocks of all peers. One thread at a time."""

    def __init__(self, *, limit: DurationLike = LIMIT_MS, peers_max: int = PEERS_MAX) -> None:
        if type(peers_max) is not int or peers_max < 1:
            raise Invalid(f"peers_max is {peers_max!r}: it must be an int of at least 1")
        self.limit_ms = _limit(limit)
        self.rejected = 0
        """Round trips that made no sense."""
        self.forgotten = 0
        """Peers that were dropped to make room for other peers (D4)."""
        self._peers_max = peers_max
        self._peers: dict[str, Drift] = {}
        """The one that was silent for longest comes first."""

    def measure(self, peer: str, t0: Time, t1: Time, t2: Time, t3: Time) -> bool:
        """Take a round trip to a peer (t0 and t3 on our clock); whether that changed its flag."""
        try:
            sample = round_trip(t0, t1, t2, t3)
        except Invalid:
            self.rejected += 1
            raise
        return self.add(peer, sample)

    def add(self, peer: str, sample: Sample) -> bool:
        """Take a sample of a peer; whether that changed its flag."""
        drift = self._peers.pop(peer, None)
        if drift is None:
            drift = Drift(self.limit_ms)
            if len(self._peers) >= self._peers_max:
                del self._peers[next(iter(self._peers))]
                self.forgotten += 1
        self._peers[peer] = drift
        return drift.add(sample)

    def remove(self, peer: str) -> None:
        """Remove a peer that has ended."""
        self._peers.pop(peer, None)

    def get(self, peer: str) -> Drift | None:
        """What is known of a peer."""
        return self._peers.get(peer)

    def __len__(self) -> int:
        return len(self._peers)

    @property
    def flagged(self) -> list[str]:
        """The peers whose clocks are off."""
        return sorted(peer for peer, drift in self._peers.items() if drift.is_flagged)

    @property
    def is_ours(self) -> bool:
        """Whether it is rather our clock that is off: most peers, of three or more, say so, and in the same direction."""
        if len(self._peers) < 3:
            return False
        signs = [drift.best.offset > 0 for drift in self._peers.values() if drift.is_flagged and drift.best]
        return 2 * max(sum(signs), len(signs) - sum(signs)) > len(self._peers)

    def statistics(self) -> dict[str, Any]:
        """How the clocks are, with the worst of them by name."""
        offsets = {peer: drift.best.offset for peer, drift in self._peers.items() if drift.best is not None}
        worst = sorted(offsets, key=lambda peer: (-abs(offsets[peer]), peer))[:WORST]
        return {
            "peers": len(self._peers),
            "flagged": len(self.flagged),
            "is_ours": self.is_ours,
            "limit_ms": self.limit_ms,
            "offset_ms_median": round(median(offsets.values()), 3) if offsets else None,
            "offset_ms_worst": round(offsets[worst[0]], 3) if worst else None,
            "steps": sum(drift.steps for drift in self._peers.values()),
            "rejected": self.rejected,
            "forgotten": self.forgotten,
            "worst": {peer: self._peers[peer].statistics() for peer in worst},
        }


def _limit(limit: DurationLike) -> int:
    ms = duration_ms(limit, "limit")
    if ms < 1:
        raise Invalid("the limit of a drift is at least 1 ms")
    return ms
