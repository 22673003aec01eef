"""Every moment of a recording at which the power may go, with the states that it may leave."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.crash import events as ev
from tests.crash.disk import Disk
from tests.crash.states import State, enumerate_states


@dataclass(frozen=True, slots=True)
class Cut:
    """The power went after event `point`, when `marks` marks had been written. `name` finds it again in the same recording."""

    point: int
    number: int
    marks: int
    state: State

    @property
    def name(self) -> str:
        return f"{self.point}.{self.number}"


def moments(events: Sequence[ev.Event]) -> int:
    """How many moments of a recording have states of their own."""
    return sum(1 for event in events if not isinstance(event, ev.WriteEnded | ev.SyncBegun))


def cuts(
    events: Sequence[ev.Event],
    *,
    root: str,
    seed: int,
    per_moment: int,
    image: Mapping[str, bytes | None] | None = None,
) -> Iterator[Cut]:
    """
    At most `per_moment` states after each event that changes what may be lost.

    A mark changes no state but what must be in it, so the states are told again after it. The order is that of the recording and the
    same for the same seed. `image` is what was there, and durable, before the recording began (None: a directory), parents first.
    """
    disk, marks = Disk(root), 0
    for path, data in (image or {}).items():
        disk.load(path, data)
    for point, event in enumerate(events):
        is_changed = disk.apply(event)
        if isinstance(event, ev.Marked):
            marks += 1
        elif not is_changed:
            continue
        states = enumerate_states(disk, random.Random(f"{seed}:{point}"), per_moment)
        for number, state in enumerate(states):
            yield Cut(point, number, marks, state)
