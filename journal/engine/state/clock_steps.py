"""
The steps of the wall clock that a journal has seen: they convert a stored date to the present setting of the clock.

    meta   "steps" -> msgpack [[place, by, date, stamp], …], oldest first

The dates of a lease and the insertion date of an entry mean durations: the rest of the lease, and the time that
`postpone_max` has run. Each is stored with the place (`at`) of the record that wrote it, and so are the steps. The date of now
is the stored one plus all steps since.

D1  A step is in the log before anything that was decided by the clock after it.
D2  What is in memory, and what a rule is given to write again, has the dates of now (StoredState); rows have those of their `at`.
D3  At most STEPS_MAX are remembered. Of older ones only the sum is right, for rows that are older than all of them.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgpack

from journal.core.entry import effects as fx
from journal.core.entry.rows import LeaseRow, Row
from journal.engine.log.writer import LogWriter
from journal.engine.runtime.clock import FOLLOW_MS, EngineTime
from journal.engine.runtime.host import WritingHost
from journal.engine.state.file import GenerationRows
from journal.errors import Invalid, StoreDamaged, StoreFull

if TYPE_CHECKING:
    from journal.engine.state.apply import JournalState

log = logging.getLogger("journal.clock")

FLAG = "clock"
FLAG_MS = 60_000
STEPS_MAX = 64
STEPS = b"steps"


class Stepped(NamedTuple):
    """One step."""

    at: int
    """The place of its record."""
    by: int
    """How far the clock was set, in ms; negative: back."""
    date: int
    """What it showed then."""
    stamp: int
    """The timestamp of its record, which is later when the clock was set back."""


class Steps:
    """The steps of a journal, or of those that share a log. Under the lock."""

    def __init__(self) -> None:
        self.all: list[Stepped] = []
        self._is_kept = True

    def add(self, at: int, step: fx.StepEffect) -> None:
        """The clock was set (D1)."""
        self.all.append(Stepped(at, *step))
        self._is_kept = False
        if len(self.all) > STEPS_MAX:  # D3
            first, second = self.all[:2]
            self.all[:2] = [second._replace(by=first.by + second.by)]

    def since(self, at: int) -> int:
        """How far a date that was written at this place has moved, in ms."""
        return sum(step.by for step in self.all if step.at > at)

    def moved(self, row: Row) -> Row:
        """An entry as stored, with its insertion date by the clock of now."""
        by = self.since(row.at)
        return row._replace(insertion=max(0, row.insertion + by)) if by else row

    def moved_lease(self, lease: LeaseRow) -> LeaseRow:
        """A lease as stored, with its dates by the clock of now, and the place as of which they are."""
        by = self.since(lease.at)
        if not by:
            return lease
        return lease._replace(start=lease.start + by, deadline=lease.deadline + by, at=self.all[-1].at)

    def shown_at(self, stamp: int) -> int:
        """A date that the wall clock had reached when the last record got this timestamp."""
        return self.all[-1].date if self.all and stamp <= self.all[-1].stamp else stamp

    def load(self, active: GenerationRows) -> None:
        """Remember what is kept, and nothing else."""
        kept = active.get(STEPS, db=active.meta)
        self._is_kept = True
        try:
            self.all = [] if kept is None else [Stepped(*step) for step in msgpack.unpackb(kept)]
        except (ValueError, TypeError) as e:
            raise StoreDamaged(f"{active.file.path}: the steps of the clock are not readable: {e}") from e

    def keep(self, active: GenerationRows) -> None:
        """Write what has changed; a commit follows."""
        if not self._is_kept:
            self._is_kept = True
            active.delete(STEPS, db=active.meta)  # first: see JournalState._queue
            active.put(STEPS, msgpack.packb(self.all), db=active.meta)

    def move_to(self, rows: GenerationRows) -> None:
        """Go on in another active generation."""
        self._is_kept = not self.all
        self.keep(rows)


class SteppedHost(WritingHost, Protocol):
    """A journal whose dates follow the clock."""

    def flush(self) -> None: ...
    def rebuild_order(self) -> None: ...
    def looks_again(self) -> None: ...


class ClockOffset:
    """By which offset of the clock the dates of a journal's leases are. Under the lock."""

    def __init__(self, host: SteppedHost, log: LogWriter, state: JournalState, time: EngineTime) -> None:
        self.seen = time.offset
        """The last offset of the clock that was looked at; `follow` must be called when it has another one."""
        self._offset = time.offset
        self._host, self._log, self._state, self._time = host, log, state, time

    def stamp(self) -> int:
        """The timestamp that a record would have now, and none after it less. A clock that cannot be used stops nothing here."""
        log = self._log
        with suppress(Invalid):
            log.stamp = max(log.stamp, self._time.now())
        return log.stamp

    def resume(self) -> None:
        """
        The rows are loaded and the log is replayed: which offset of the clock are its dates by?

        A clock that is behind what it showed was set back meanwhile: nothing has passed since, for all that is known. For one that is
        ahead, time has passed.
        """
        behind = self._state.steps.shown_at(self._log.stamp) - self._time.now()
        self._offset = self.seen = self._time.offset + max(0, behind) * 1_000_000

    def follow(self, offset: int) -> None:
        """The wall clock differs from the steady one by another offset than the journal's: move its durations."""
        by = (offset - self._offset) // 1_000_000
        if abs(by) <= FOLLOW_MS:
            self.seen = offset  # `_offset` stays, so that small differences add up to a step
            return
        host, state = self._host, self._state
        now = (self._time.steady() + offset) // 1_000_000
        step = fx.StepEffect(by, now, max(now, self._log.stamp))
        host.flush()
        try:
            host.write_unawaited(step, 1, now)
        except StoreFull as e:
            # It counts all the same, and is written with the next one; after a crash before that, leases are off by so much.
            log.warning("clock_step_not_written journal=%s by_ms=%d error=%s", host.name, by, e)
            state.step(step, self._log.next_offset)
        if by < 0:
            host.rebuild_order()  # claims have passed over entries that had expired, and now have not
        self._offset = self.seen = offset
        host.looks_again()
        if abs(by) > FLAG_MS:
            message = f"the clock was set {'forward' if by > 0 else 'back'} by {abs(by) / 1000:.0f} s: dates follow it, leases do not"
            try:
                host.write_unawaited(fx.Raise(FLAG, message, now), 1, now)
            except StoreFull as e:
                log.warning("flag_not_raised journal=%s error=%s", host.name, e)
