"""
A real store under a machine: opened, closed, killed, rotated and followed by one feed consumer, as every model needs it.

What a follower may expect is modelled here: acknowledged changes never come again, others come in order and without a
gap, and a change says of the key what its put said.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

import journal
from journal import Cursor
from journal.testing import ManualClock
from tests import top
from tests.conftest import copy_live
from tests.engine.helpers import HANG_S, collide
from tests.model.rows import MURMURS

START = 1_700_000_000_000
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "40"))
"""Sequences tried; 40 are a smoke test of some seconds, MODEL_EXAMPLES=2000 is a search."""
SHRINK_S = 600
"""A failure is made small before it is told: five minutes at most, by hypothesis' own limit."""
CHOICES = st.lists(st.sampled_from(["ack", "ack", "ack", "skip", "fail"]), min_size=1, max_size=12)
CONSUMER = "model"


def effort(steps: int, share: float = 1) -> settings:
    """How long a machine is run."""
    return settings(
        max_examples=max(1, int(EXAMPLES * share)),
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


class World(RuleBasedStateMachine):
    """The store, and the consumer that follows it."""

    shared_changes = 0
    """How many changes in the log may belong to no journal."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        collide(self.patch, MURMURS)
        self.folder = Path(tempfile.mkdtemp(prefix="journal-model-"))
        self.path = self.folder / "0"
        self.clock = ManualClock(START)
        self.store: journal.Store | None = None
        self.joined = Cursor(1, -1)
        """Where the consumer began."""
        self.acked: set[Cursor] = set()
        self.unacked: set[Cursor] = set()
        """Delivered by the feed, and not acknowledged."""
        self.told: dict[Cursor, tuple[Any, Any]] = {}
        """Key and data of what was put, as its event must have them."""

    def start(self, durability: str, **options: Any) -> None:
        """Make the store, the journal and the consumer."""
        self.durability = durability
        self.open(**options)
        self.pages.feed(consumer=CONSUMER, live=False).close()

    def open(self, **options: Any) -> None:
        self.store = journal.open(self.path, clock=self.clock, durability=self.durability)
        self.pages = self.store.journal("pages", **options)

    def teardown(self) -> None:
        try:
            if self.store is not None:
                self.store.close()
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder)

    @property
    def now(self) -> int:
        return self.clock.now()

    def settle(self) -> None:
        """Return when what the engine does by itself after a rotation or a checkpoint is done."""
        p = self.pages._backend.p
        generations = getattr(p, "shared", p).generations  # of merged journals: those of all
        is_busy = True
        while is_busy:
            turn = threading.Event()
            self.pages._backend.p.keeper.after(0, turn.set)
            assert turn.wait(HANG_S)
            is_busy = generations.migration.is_busy
        generations.disposal.close()

    def undisturbed(self, look: Callable[[], None]) -> None:
        """Look at several things as of one moment: where it runs nothing is carried, given up or let go meanwhile."""
        if self.store is not None:
            self.pages._backend.p.keeper.call(look)

    def shown(self, data: Any) -> Any:
        """Data as readers get it: with all fields of the union."""
        return data

    # -- rules --------------------------------------------------------------------------------------------------------

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def rotate(self) -> None:
        """Nobody sees it."""
        self.pages.rotate()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()

    @rule()
    def crash(self) -> None:
        """A kill -9: what the OS has is there, what the process held is not."""
        copy = self.folder / str(int(self.path.name) + 1)
        copy_live(self.store, copy)
        self.store.close()
        self.path = copy
        self.open()

    @rule(choices=CHOICES)
    def follow(self, choices: list[str]) -> None:
        """What was acknowledged never comes again; what was not comes before all else, one at a time."""
        self.undisturbed(partial(self._follow, choices))

    def _follow(self, choices: list[str]) -> None:
        again = set(self.unacked)
        with self.pages.feed(consumer=CONSUMER, live=False) as feed:
            for choice in choices:
                event = next(feed, None)
                if event is None:
                    assert not again
                    break
                cursor = event.cursor
                self.expect(event, min(again) if again else None)
                self.unacked.add(cursor)
                if choice == "ack":
                    feed.ack(cursor)
                    self.acked.add(cursor)
                    self.unacked.discard(cursor)
                    again.discard(cursor)
                elif choice == "fail":
                    feed.fail(cursor)
                    again = set(self.unacked)
                elif again:
                    break

    def expect(self, event: journal.Event, again: Cursor | None) -> None:
        """An event is the one that must come next, and says what happened."""
        cursor = event.cursor
        assert cursor not in self.acked
        if again is not None:
            assert cursor == again
        else:
            last = max(self.acked | self.unacked, default=self.joined)
            assert cursor > last and self.pages.distance(last, cursor) <= 1 + self.shared_changes
        if cursor in self.told:
            key, data = self.told[cursor]
            assert event.has_data and (event.key, event.data) == (key, self.shown(data))

    def lag(self) -> int:
        """How many changes the consumer has not acknowledged."""
        return self.pages.lag(self.joined) - len(self.acked)

    def is_lag(self, found: int) -> bool:
        """Whether a consumer may be so far behind: of a shared log it passes over what belongs to no journal, sooner or later."""
        return self.lag() - self.shared_changes <= found <= self.lag()

    def set_clock(self, by: int) -> None:
        """Set the wall clock. Where journals share a log, the step and its flag belong to none of them."""
        self.clock.step(by)
        if top.is_merged:
            self.shared_changes += 2
