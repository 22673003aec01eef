"""
Merged journals: many small ones that share one sequence of generations, one log and its syncs.

    Sequence   the pipeline of all of them: log, group commit, checkpoints, generations, consumers
    Member     what one journal sees of it: its own rows, order, leases, timers, settings and schema

A Member is a Pipeline, as that of a journal with files of its own: verbs work through both alike.

G1  One lock and one log: the changes of all members are in one order, and one sync makes those of many durable.
G2  A member's record has the member's name as its namespace; replay gives it back to that member.
G3  Timers: `timer_at` of the sequence is not later than that of any member in use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgpack

from journal.core.entry.effects import Effect, Packed
from journal.core.limits import NEVER
from journal.core.log.record import Encoder, encoder
from journal.core.settings import Settings
from journal.engine.files.lmdb import LmdbError
from journal.engine.log.durability import OS
from journal.engine.log.generation_record import GenerationRecord
from journal.engine.log.group_commit import ChangeKind
from journal.engine.log.reader import RecordPlace
from journal.engine.merged.member import MemberConsumers, MemberGenerations, MergedGenerations
from journal.engine.merged.states import OWN, Namespaces
from journal.engine.own_pipeline import OwnPipeline
from journal.engine.pipeline import Pipeline
from journal.engine.readonly import Look
from journal.engine.runtime.timed_steps import MEMBERS, STEP
from journal.engine.runtime.wakeups import Due
from journal.engine.state.apply import JournalState
from journal.engine.state.file import GenerationRows
from journal.errors import LogDamaged, StorageError, StoreClosed

R = TypeVar("R")


class Merging(OwnPipeline):
    """What members find in what they share, whether it is owned or only looked at."""

    only = b""
    state: Namespaces
    generations: MergedGenerations
    kind_of_generations = MergedGenerations

    def __init__(self, top: Path, name: str, settings: Settings, *, known: Iterable[bytes], **options: Any) -> None:
        """`known`: the names of all journals."""
        self.members: dict[bytes, Member] = {}
        """Those in use."""
        self.known = set(known)
        self.packer = msgpack.Packer(autoreset=True)
        self._timers: list[tuple[int, int, Member]] = []
        self._numbers = count()
        super().__init__(top, name, settings, **options)
        self.tick = self._tick

    def _new_state(self) -> JournalState:
        return Namespaces([], used=self.members)

    def new_encoder(self, packer: msgpack.Packer | None = None) -> Encoder:
        """What makes records that belong to no member."""
        return encoder(OWN, self.packer)

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

    def _replay(self) -> tuple[RecordPlace, RecordPlace]:
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

    def write_for(self, name: bytes, effect: Effect, count: int, now: int) -> None:
        """Append and apply a record of a member that may not be in use; no caller waits for it."""
        state = self.state.state_of(name)
        self.state.touched[name] = state
        level = min(self.level, OS)
        offset = self.append(effect, count, now, level, is_essential=True, encode=encoder(name, self.packer))
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
            member.lock, member.due = self.lock, Due(self.lock)


class Member(Pipeline):
    """One merged journal."""

    generations: MemberGenerations
    only: bytes

    def __init__(
        self, shared: Merging, name: str, settings: Settings, steps: list[GenerationRecord],
        record: Callable[[list[GenerationRecord]], None],
    ) -> None:  # fmt: skip
        """`record` writes the steps of the schema to the catalog, durable on return."""
        super().__init__(
            shared.top, name, settings, lock=shared.lock, log=shared.log, followers=shared.followers, commit=shared.commit,
            snapshots=shared.snapshots, keeper=shared.keeper, time=shared.time, level=shared.level, claim_level=shared.claim_level,
            is_writable=shared.is_writable,
        )  # fmt: skip
        self.shared = shared
        self.only = name.encode()
        self.checkpoints, self.retention, self.compaction = shared.checkpoints, shared.retention, shared.compaction
        self.pin_rows, self.unpin_rows = shared.pin_rows, shared.unpin_rows
        self.timer_at = NEVER
        self._dropped: StorageError | None = None
        self._epoch = -1
        self.consumers = MemberConsumers(self, shared.consumers, name)
        self.generations = MemberGenerations(self, shared.generations, steps, record)
        with shared.lock:
            self._refresh()
        self.look_at_settings()

    @property
    def trouble(self) -> StorageError | None:
        """Why nothing more is done here."""
        return self._dropped or self.shared.trouble

    @trouble.setter
    def trouble(self, error: StorageError | None) -> None:
        self._dropped = error

    @property
    def order(self) -> int:
        """Of the active generation."""
        return self.shared.order

    @order.setter
    def order(self, order: int) -> None:
        self.shared.order = order

    @property
    def is_broken(self) -> bool:
        """What is in memory may not be what the log says."""
        return self.shared.is_broken

    @is_broken.setter
    def is_broken(self, is_broken: bool) -> None:
        self.shared.is_broken = is_broken

    @property
    def next_token(self) -> int:
        """No token comes twice in what members share."""
        return self.shared.next_token

    @next_token.setter
    def next_token(self, token: int) -> None:
        self.shared.next_token = token

    @property
    def full_requested(self) -> int:
        """The last offset that a caller wants durable."""
        return self.shared.full_requested

    @full_requested.setter
    def full_requested(self, offset: int) -> None:
        self.shared.full_requested = offset

    def new_encoder(self, packer: msgpack.Packer | None = None) -> Encoder:
        """What makes the journal's records, as its settings say."""
        return super().new_encoder(self.shared.packer)

    def begin(self) -> None:
        """The journal is complete: its timers begin. Under the lock."""
        self.shared.members[self.only] = self
        if self.is_writable:
            self.timer_soon(0)

    def drop(self) -> None:
        """Refuse everything from now on: the journal was dropped. Under the lock."""
        self.trouble = StoreClosed(f"the journal {self.name} was dropped")
        self.shared.members.pop(self.only, None)
        self.due.notify_all()
        self.followers.tell()

    def _refresh(self) -> None:
        """Look at the transactions of now (states M3)."""
        states = self.shared.state
        self.state = states.state_of(self.only)
        self.state.on_expiration = self.timer_soon
        self._epoch = states.epoch
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

    def append(
        self, effect: Effect | Packed, count: int, now: int, level: int, *, is_essential: bool = False,
        encode: Encoder | None = None,
    ) -> int:  # fmt: skip
        """Append a record of this member (G2)."""
        shared = self.shared
        if not self.is_writable:
            shared.check_writable()
        shared.state.touched[self.only] = self.state
        return shared.append(effect, count, now, level, is_essential=is_essential, encode=self.encode)

    def applied(self, offset: int, count: int, now: int, level: int) -> None:
        """A record was applied."""
        self.shared.applied(offset, count, now, level)
        if self.sleeping:
            self.rouse(now)

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

    def rows_now(self) -> list[GenerationRows]:
        """The generations of now."""
        with self.lock:
            self._refresh()
            return self.state.generations

    def change(
        self, level: int, make: Callable[..., tuple[R, int]], *args: Any, kind: ChangeKind = ChangeKind.ANY
    ) -> R:
        """Make a change; puts of several members are no single record, but have one sync."""
        return super().change(level, make, *args, kind=ChangeKind.SHORT if kind is ChangeKind.PUT else kind)

    def settle(self, offset: int) -> None:
        """Return when an offset is durable."""
        self.shared.settle(offset)

    def level_of(self, durability: str | None, default: int) -> int:
        """The level that a call asked for."""
        return self.shared.level_of(durability, default)

    def wipes(self) -> bool:
        """Whether files are overwritten before they go: that is said for what members share."""
        return self.shared.wipes()
