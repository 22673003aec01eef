"""
Retention: what a consumer may lose, and that it loses nothing else.

The model knows the place before which the journal has said that changes are lost. All others come, in order and once; a
consumer that wants one that is gone is told the oldest cursor that is left, and goes on from there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

import journal
from journal import Cursor
from tests.model.world import CHOICES, CONSUMER, SHRINK_S, World, effort

FILE_BYTES = 256 << 10
"""The least that a segment takes."""
BYTES_MAX = 3 * FILE_BYTES
AGE_MAX = 60_000
LIMITS: list[dict[str, Any]] = [{"log_bytes_max": BYTES_MAX}, {"log_age_max": AGE_MAX}]
LIMITS.append(LIMITS[0] | LIMITS[1])


def before(cursor: Cursor) -> Cursor:
    """The place before a change."""
    return Cursor(cursor.order, cursor.offset - 1)


class Retention(World):
    """A queue with small segments, and a consumer that is sometimes too slow."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.keys: set[str] = set()
        self.floor = Cursor(1, 0)
        """Changes before this one may be lost."""
        self.losses = 0

    @initialize(durability=st.sampled_from(["full", "interval"]), limits=st.sampled_from(LIMITS))
    def begin(self, durability: str, limits: dict[str, Any]) -> None:
        self.limits = limits
        self.start(durability, segment_bytes_max=1 << 16, **limits)

    # -- rules ----------------------------------------------------------------------------------------------------------

    @rule(number=st.integers(1, 4), size=st.sampled_from([10, 30_000, 60_000]))
    def put(self, number: int, size: int) -> None:
        for _ in range(number):
            self.count += 1
            key, data = f"k{self.count}", b"x" * size
            self.told[self.pages.put(key, data).cursor] = key, data
            self.keys.add(key)

    @rule(number=st.integers(4, 12))
    def flood(self, number: int) -> None:
        """More than may be kept, with checkpoints that let it go."""
        self.put(number, 60_000)
        for _ in range(3):
            self.store.checkpoint()
            self.note()

    @rule()
    def work(self) -> None:
        leases = self.pages.claim_many(1000)
        self.pages.done_many(leases)
        self.keys -= {str(lease.key) for lease in leases}

    @rule(ms=st.sampled_from([1, AGE_MAX // 2, 2 * AGE_MAX]))
    def advance(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule(choices=CHOICES)
    def follow(self, choices: list[str]) -> None:
        """Who has lost something is told so, and where it can go on; it has been flagged before."""
        try:
            super().follow(choices)
        except journal.CursorUnavailable as e:
            oldest = Cursor.parse(str(e).rsplit(" ", 1)[1])
            position = self.pages.feeds()[0].position
            assert self.pages.distance(position, oldest) > 0
            assert self.is_flagged_up_to(oldest)
            self.pages.mark_feed(CONSUMER, oldest)
            self.joined = oldest
            self.acked.clear()
            self.unacked.clear()
            self.losses += 1
            super().follow(choices)

    @rule()
    def catch_up(self) -> None:
        """A consumer that is fast enough loses nothing."""
        before = self.losses
        while self.losses == before and self.lag():
            self.follow(["ack"] * 100)

    @rule()
    def tidy(self) -> None:
        """What is kept for consumers does not pile up, and what is not flagged as lost is there."""
        for _ in range(3):
            self.store.checkpoint()
            self.note()
        self.settle()
        kept = sum(map(size, self.path.glob("pages/0*/log/*.log")))
        if "log_bytes_max" in self.limits:
            # A generation's log goes as a whole; and two files wait to be used again.
            assert kept <= 2 * BYTES_MAX + 5 * FILE_BYTES
        self.undisturbed(self._all_is_there)  # what is let go later on may raise a flag, which is a change

    def _all_is_there(self) -> None:
        with self.pages.feed(live=False) as feed:
            assert self.pages.lag(feed.position) == sum(1 for _ in feed)

    # -- what must hold -------------------------------------------------------------------------------------------------

    @invariant()
    def note(self) -> None:
        """Nothing is lost without being told before."""
        self.undisturbed(self._note)

    def _note(self) -> None:
        for flag in self.store.flags():
            if found := re.search(r"have lost the changes from (\S+) to before (\S+):", flag.message):
                first, floor = map(Cursor.parse, found.groups())
                self.floor = max(self.floor, floor)
                assert self.pages.distance(before(first), before(floor)) > 0
        with self.pages.feed(live=False) as feed:
            oldest = feed.position
        (view,) = self.pages.feeds()
        if self.pages.distance(view.position, oldest) > 0:
            assert self.is_flagged_up_to(oldest)
        assert view.lag == self.lag()
        assert self.pages.count() == len(self.keys)
        assert self.store.check() == []

    def is_flagged_up_to(self, oldest: Cursor) -> bool:
        """Whether all changes up to a cursor were said to be lost."""
        return self.pages.distance(before(self.floor), oldest) <= 0


def size(path: Path) -> int:
    """A file's size, 0 when it has been renamed or removed: a thread prepares the next segment and renames it when it is used."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


TestRetention = Retention.TestCase
TestRetention.settings = effort(30, 0.5)
TestRetention = pytest.mark.timeout(SHRINK_S)(TestRetention)
TestRetention = pytest.mark.alone(reason="it looks at a journal's own files")(TestRetention)
