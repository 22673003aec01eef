"""What the store should hold, as dicts and sorted(), and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from journal.core.buckets import Range
from journal.core.entry.keys import key_bytes

MURMURS = 3
"""All keys share so many, each in a bucket of its own."""
TIMEOUTS_MAX = 1
POSTPONE_MAX = 5000


@dataclass
class Row:
    """An entry of the model."""

    key: Any
    data: Any
    priority: int
    date: int
    insertion: int
    expiration: int
    accepted: int
    timeouts: int = 0
    deadline: int = 0
    token: int = 0
    successor: Row | None = None
    stamped: bool = False
    """Whether its insertion date is the engine's."""
    owed: int = 0
    """By how much the clock was set since its insertion date was written."""
    turn: int = 0
    """Where in the log it got its place."""

    def settled(self) -> Row:
        """As it is when it is written again: its insertion date by the clock of now."""
        return replace(self, insertion=self.insertion + self.owed, owed=0)

    @property
    def place(self) -> tuple[int, int]:
        return self.priority, self.date

    @property
    def order(self) -> tuple[int, int, int]:
        return self.priority, self.date, self.turn


def merged(old: Row, new: Row, turn: int, preset: str = "merge") -> Row:
    """Seed 004's table and the presets beside it, with the cap on postponing; `turn` is that of this change."""
    old, new = old.settled(), new.settled()
    if preset == "keep":
        return replace(old, accepted=max(old.accepted, new.accepted))
    insertion = new.insertion if preset == "replace" else old.insertion
    date = max(old.date, new.date) if preset == "merge" else new.date
    if date > old.date:
        date = max(old.date, min(date, insertion + POSTPONE_MAX))
    expiration = 0 if 0 in (old.expiration, new.expiration) else max(old.expiration, new.expiration)
    place = new.priority if preset == "replace" else min(old.priority, new.priority), date
    return replace(
        old,
        data=new.data,
        priority=place[0],
        turn=old.turn if place == old.place else new.turn if place == new.place else turn,
        date=date,
        insertion=insertion,
        expiration=new.expiration if preset == "replace" else expiration,
        accepted=max(old.accepted, new.accepted),
        timeouts=0,
    )


@dataclass
class Model:
    """What the store should hold."""

    rows: dict[Any, Row] = field(default_factory=dict)
    buried: list[Row] = field(default_factory=list)
    finished: set[int] = field(default_factory=set)
    flags: int = 0
    preset: str = "merge"
    pauses: int = 0
    """How often it was paused since it was resumed."""
    turns: Iterator[int] = field(default_factory=lambda: count(1))
    """As the log's offsets do, they grow with each change."""

    def put(self, new: Row) -> str:
        new.turn = next(self.turns)
        row = self.rows.get(new.key)
        if row is None:
            self.rows[new.key] = new
            return "inserted"
        last = row.successor or row
        if new.stamped:
            new.accepted = max(new.accepted, last.accepted)
        if new.accepted < last.accepted:
            return "ignored"
        if self.preset == "keep" and (row.successor is not None or not row.token):
            return "ignored"
        if not row.token:
            self.rows[new.key] = merged(row, new, new.turn, self.preset)
            return "merged"
        row.successor = new if row.successor is None else merged(row.successor, new, new.turn, self.preset)
        return "queued"

    def due(self, now: int, part: Range | None = None) -> list[Row]:
        """Whom a claim gets, in order of work."""
        if self.pauses:
            return []
        waiting = sorted((r for r in self.rows.values() if not r.token and r.date <= now), key=lambda r: r.order)
        if part is not None:
            waiting = [r for r in waiting if sum(key_bytes(r.key)) % MURMURS in part]
        return [r for r in waiting if r.priority < 200] or waiting

    def free(self, row: Row, now: int) -> None:
        """The lease ended badly: the row waits, its successor merged in, its failures counted on; or it has expired."""
        successor, row.successor, row.token, row.deadline = row.successor, None, 0, 0
        if successor is None:
            return
        if 0 < row.expiration <= now:
            self.rows[row.key] = successor.settled()
        else:
            self.rows[row.key] = replace(merged(row, successor, next(self.turns), self.preset), timeouts=row.timeouts)

    def finish(self, row: Row) -> None:
        """The entry is gone; its successor takes its place."""
        del self.rows[row.key]
        if row.successor is not None:
            self.rows[row.key] = row.successor.settled()

    def step(self, by: int) -> None:
        """The wall clock was set: leases have what is left of them."""
        for row in [*self.rows.values(), *(r.successor for r in self.rows.values() if r.successor), *self.buried]:
            row.owed += by
            if row.token:
                row.deadline += by
        self.flags += abs(by) > 60_000

    def tick(self, now: int) -> None:
        """What happens by itself."""
        for row in sorted(self.rows.values(), key=lambda r: (r.deadline, r.token)):
            if row.token and row.deadline <= now:
                if not 0 < row.expiration <= now:
                    row.timeouts += 1
                    if row.timeouts > TIMEOUTS_MAX:
                        self.bury(row)
                        self.flags += 1
                        continue
                self.free(row, now)
        for row in list(self.rows.values()):
            if not row.token and row.expiration and row.expiration <= now:
                del self.rows[row.key]

    def bury(self, row: Row) -> None:
        self.finish(row)
        self.buried.append(row.settled())
