"""
Merged journals: many small ones that share one sequence of generations, one log and its syncs.

    Sequence   the pipeline of all of them: log, group commit, checkpoints, generations, consumers
    Member     what one journal sees of it: its own rows, order, leases, timers, settings and schema

A Member has the shape of a Pipeline, so that a Journal works through it as through one of its own.

G1  One lock and one log: the changes of all members are in one order, and one sync makes those of many durable.
G2  A member's record has the member's name as its namespace; replay gives it back to that member.
G3  Timers: `timer_at` of the sequence is not later than that of any member in use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVar

import msgpack

from journal.core.counters import Tally
from journal.core.entry.effects import Effect, Packed
from journal.core.limits import NEVER
from journal.core.log.record import encoder
from journal.core.settings import Settings
from journal.engine.files.lmdb import LmdbError
from journal.engine.generations.generations import Kept
from journal.engine.log.durability import OS
from journal.engine.log.group_commit import Kind
from journal.engine.log.reader import Place
from journal.engine.merged.member import MemberConsumers, MemberGenerations, MergedGenerations
from journal.engine.merged.states import OWN, Namespaces
from journal.engine.pipeline import Pipeline
from journal.engine.readonly import Look
from journal.engine.runtime.timed_steps import MEMBERS, STEP
from journal.engine.runtime.wakeups import Due
from journal.engine.state.apply import State
from journal.engine.state.file import Rows
from journal.engine.state.old_values import encoder_of
from journal.errors import LogDamaged, StorageError, StoreClosed

R = TypeVar("R")


class Merging(Pipeline):
    """What members find in what they share, whether it is owned or only looked at."""

    only = b""
    state: Namespaces
    generations: MergedGenerations

    def __init__(self, *args: Any, **options: Any) -> None:
        self.members: dict[bytes, Member] = {}
        """Those in use."""
        self.known: set[bytes] = set()
        """The names of all journals, set by recovery."""
        super().__init__(*args, **options)
        self.generations = MergedGenerations(self, self.generations.kept)
        self.packer = msgpack.Packer(autoreset=True)
        self._encode = encoder(OWN, self.packer)
        self._timers: list[tuple[int, int, Member]] = []
        self._numbers = count()
        self.tick = self._tick

    def _state_over(self, generations: list[Rows]) -> State:
        state = Namespaces(generations)
        state.used = self.members
        return state

    def timer_of(self, member: Member, date: int) -> None:
        """A member's timer is due at this date (G3)."""
        heappush(self._timers, (date, next(self._numbers), member))
        self.timer_soon(date)

    def looks_again(self) -> None:
        """The clock was set: all members look at the dates anew."""
        super().looks_again()
        self._timers.clear()
        for member in self.members.values():
            member.timer_at = NEVER
            member.timer_soon(0)
            member.due.notify_all()

    def _tick(self, now: int) -> int:
        """Do steps of what is due for members, until they are as much as one step may be (timers Y2); under the lock."""
        timers = self._timers
        taken = looked = 0
        while timers and timers[0][0] <= now and taken < STEP and looked < MEMBERS:
            member = heappop(timers)[2]
            if member.timer_at <= now and member.trouble is None:
                taken += member.tick_now(now)
                looked += 1
        if now >= self.generations.rotate_at:
            self.generations.due()
        self.timer_at = min(timers[0][0] if timers else NEVER, self.generations.rotate_at)
        self.arm()
        return taken


class MergedLook(Merging, Look):
    """What members find when they are only looked at."""


class Sequence(Merging):
    """The pipeline that all merged journals of a store share."""

    def _redo(self, namespace: bytes, effect: Effect, at: int) -> None:
        if namespace != OWN and namespace not in self.known:
            raise LogDamaged(f"{self.log.directory}: a record of {namespace!r}, which is no journal of this store")
        self.state.apply_to(namespace, effect, at)

    def _replay(self) -> tuple[Place, Place]:
        places = super()._replay()
        self._timers.clear()
        for member in self.members.values():
            member.timer_at = 0
            self.timer_of(member, 0)
        return places

    def enter(self) -> int:
        """May we work? LMDB has all entries of all members when this returns."""
        now = self.enter_unflushed()
        if self.state.touched:
            self.flush()
        return now

    def append(self, effect: Effect | Packed, count: int, now: int, level: int, *, is_essential: bool = False) -> int:
        """Append a record that belongs to no member."""
        self.log.encode = self._encode
        return super().append(effect, count, now, level, is_essential=is_essential)

    def write_for(self, name: bytes, effect: Effect, count: int, now: int) -> None:
        """Append and apply a record of a member that may not be in use; no caller waits for it."""
        state = self.state.state_of(name)
        self.state.touched[name] = state
        self.log.encode = encoder(name, self.packer)
        level = min(self.level, OS)
        offset = super().append(effect, count, now, level, is_essential=True)
        try:
            state.apply(effect, offset)
        except LmdbError as e:
            raise self.misapplied(e) from e
        self.applied(offset, count, now, level)

    def _tick_later(self) -> None:
        super()._tick_later()
        if self.trouble is not None:
            with self.lock:
                for member in self.members.values():
                    member.due.notify_all()

    def close(self) -> dict[int, int | None]:
        """Commit everything and close; workers of all members end."""
        digests = super().close()
        with self.lock:
            for member in self.members.values():
                member.due.notify_all()
        return digests

    def abandon_after_fork(self, error: StorageError) -> None:
        """In a forked child."""
        super().abandon_after_fork(error)
        for member in self.members.values():
            member.due = Due(self.lock)


class _Shared:
    """An attribute that a member has from its sequence."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, member: Member, owner: type) -> Any:
        return getattr(member.shared, self._name)

    def __set__(self, member: Member, value: Any) -> None:
        setattr(member.shared, self._name, value)


class Member(Pipeline):
    """One merged journal."""

    lock: threading.Lock = _Shared()  # type: ignore[assignment]
    log: Any = _Shared()
    order: int = _Shared()  # type: ignore[assignment]
    is_broken: bool = _Shared()  # type: ignore[assignment]
    changes: int = _Shared()  # type: ignore[assignment]
    next_token: int = _Shared()  # type: ignore[assignment]
    full_requested: int = _Shared()  # type: ignore[assignment]
    generations: MemberGenerations

    def __init__(self, shared: Merging, name: str, settings: Settings, steps: list[Kept]) -> None:
        self.shared = shared
        self.name = name
        self.only = self.own = name.encode()
        self.top = shared.top
        self.settings = settings
        self.time = shared.time
        self.keeper = shared.keeper
        self.level, self.claim_level = shared.level, shared.claim_level
        self.is_writable = shared.is_writable
        self.checkpoints, self.commit = shared.checkpoints, shared.commit
        self.retention, self.compaction = shared.retention, shared.compaction
        self.map_bytes = shared.map_bytes
        self.followers = shared.followers
        self.due = Due(shared.lock)
        self.sleeping = self.due.sleeping
        self.timer_at = NEVER
        self.tick = lambda now: 0
        self.tally = Tally()
        self.plain_bytes_max = 0
        self._dropped: StorageError | None = None
        self._encode = encoder(self.own, shared.packer)
        self._epoch = -1
        self.generations = MemberGenerations(self, shared, steps)
        self.consumers = MemberConsumers(self, shared.consumers, name)
        with shared.lock:
            self._refresh()
        self.look_at_settings()

    def look_at_settings(self) -> None:
        """The settings or the schema changed."""
        super().look_at_settings()
        self._encode = encoder_of(self, self.own, self.shared.packer)

    def begin(self) -> None:
        """The journal is complete: its timers begin. Under the lock."""
        self.shared.members[self.own] = self
        if self.is_writable:
            self.timer_soon(0)

    @property
    def trouble(self) -> StorageError | None:  # type: ignore[override]
        """Why nothing more is done here."""
        return self._dropped or self.shared.trouble

    def drop(self) -> None:
        """Refuse everything from now on: the journal was dropped. Under the lock."""
        self._dropped = StoreClosed(f"the journal {self.name} was dropped")
        self.shared.members.pop(self.own, None)
        self.due.notify_all()
        self.followers.tell()

    def _refresh(self) -> None:
        """Look at the transactions of now (states M3)."""
        self.state = self.shared.state.state_of(self.own)
        self.state.on_expiration = self.timer_soon
        self._epoch = self.shared.state.epoch
        if self.generations.look_again():
            self.look_at_settings()

    # -- the path, under the lock -------------------------------------------------------------------------------------

    def enter_unflushed(self) -> int:
        """May we work? What time is it? Timers that are due have fired when this returns."""
        shared = self.shared
        if self.trouble is not None:
            raise self.trouble
        now = shared.enter_unflushed() if self.is_writable else shared.enter()
        if self._epoch != shared.state.epoch:
            self._refresh()
        return now

    def append(self, effect: Effect | Packed, count: int, now: int, level: int, *, is_essential: bool = False) -> int:
        """Append a record of this member (G2)."""
        shared = self.shared
        if not self.is_writable:
            shared.level_of(None, level)  # refuses
        shared.state.touched[self.own] = self.state
        shared.log.encode = self._encode
        return Pipeline.append(shared, effect, count, now, level, is_essential=is_essential)

    def applied(self, offset: int, count: int, now: int, level: int) -> None:
        """A record was applied."""
        Pipeline.applied(self.shared, offset, count, now, level)
        if self.sleeping:
            self._rouse(now)

    def timer_soon(self, date: int) -> None:
        """A timer is due at this date, or earlier."""
        if date < self.timer_at:
            self.timer_at = date
            self.shared.timer_of(self, date)

    def arm(self) -> None:
        """The next timer is due at `timer_at`."""
        if self.timer_at < NEVER:
            self.shared.timer_of(self, self.timer_at)

    def tick_now(self, now: int) -> int:
        """Do a step of what is due; how much it did."""
        if self._epoch != self.shared.state.epoch:
            self._refresh()
        self.flush()
        taken = self.tick(now)
        self.due.notify_all()
        return taken

    # -- outside of the lock ------------------------------------------------------------------------------------------

    def rows_now(self) -> list[Rows]:
        """The generations of now."""
        with self.lock:
            self._refresh()
            return self.state.generations

    def change(self, level: int, make: Callable[..., tuple[R, int]], *args: Any, kind: Kind = Kind.ANY) -> R:
        """Make a change; puts of several members are no single record, but have one sync."""
        return super().change(level, make, *args, kind=Kind.SHORT if kind is Kind.PUT else kind)

    def settle(self, offset: int) -> None:
        """Return when an offset is durable."""
        self.shared.settle(offset)

    def level_of(self, durability: str | None, default: int) -> int:
        """The level that a call asked for."""
        return self.shared.level_of(durability, default)

    def shown(self) -> int:
        """The last offset that a follower may see."""
        return self.shared.shown()
