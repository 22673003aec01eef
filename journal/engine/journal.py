"""
A journal as programs use it: the producing and the consuming side, reading, and durability.

Reading shows nothing that could still vanish: a reader that meets a row whose writer still waits for its sync waits for it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from journal.core.buckets import Range
from journal.core.entry import effects as fx
from journal.core.entry.keys import UserKey, key_bytes
from journal.core.entry.rows import Row
from journal.core.limits import FLAG_BYTES_MAX
from journal.core.log.cursor import Cursor, base_of, cursor_of
from journal.core.schema.schema import Schema
from journal.core.settings import Settings
from journal.core.times import DateLike
from journal.core.values import PAUSED, Entry, entry_of
from journal.engine.arguments import consumer_name, date_range, name_text, reason_text, status_of
from journal.engine.backend import Ground
from journal.engine.loads.load import Loading
from journal.engine.loads.staging import Staging
from journal.engine.merged.states import OWN, Namespaces
from journal.engine.pipeline import Pipeline
from journal.engine.read.burials import Burials
from journal.engine.read.feeds import Following
from journal.engine.read.generations import Rotating
from journal.engine.read.queries import Reading
from journal.engine.read.scan import Reads
from journal.engine.readonly import Look
from journal.engine.runtime.clock_drift import FLAG as DRIFT
from journal.engine.runtime.clock_drift import Peers
from journal.engine.state.flags import pause_in
from journal.engine.work.key_claim import Picking
from journal.engine.work.lease import Lease
from journal.engine.work.outlook import oldest_due
from journal.engine.work.put import Producing
from journal.engine.work.timers import Timers
from journal.engine.work.worker import Working
from journal.errors import Invalid, NotFound, Refused
from journal.shield import exposed, shield_down, shield_up, shielded


@shielded
class Journal(Producing, Loading, Picking, Working, Burials, Reading, Following, Rotating):
    """A named table of entries. Made by `Store.journal`; safe to use from many threads."""

    _served: Any = None
    """What a daemon that serves it keeps of it."""

    def __init__(self, pipeline: Pipeline, peers: Peers | None = None, staging: Staging | None = None) -> None:
        super().__init__(pipeline)
        self._staging = staging
        self._timers = Timers(pipeline)
        self._reads = Reads(pipeline)
        self._peers = Peers() if peers is None else peers

    @property
    def settings(self) -> Settings:
        """How this journal behaves."""
        return self._p.settings

    def _use(self, settings: Settings) -> None:
        """Go on with other settings."""
        with self._p.lock:
            self._p.settings = settings
            if not settings.merged:
                self._p.log.limit(segment_bytes=settings.segment_bytes_max)
                self._p.checkpoints.look_at_settings()
            self._p.generations.schedule()
            self._p.look_at_settings()
            self._p.retention.hold()

    def now(self) -> int:
        """The engine's time, by which entries fall due and leases end; in ms since the epoch."""
        if self._p.trouble is not None:
            raise self._p.trouble
        return self._p.time.now()

    def _ground(self) -> Ground:
        """What a role stands on (journal.api.backend)."""
        return Ground(self)

    def __repr__(self) -> str:
        return f"<Journal {self.name}>"

    # -- reading ------------------------------------------------------------------------------------------------------

    @exposed
    def get(self, key: UserKey) -> Entry | None:
        """The entry with this key, or None."""
        raw = key_bytes(key)
        is_up = shield_up()
        try:
            found = self._row(key, raw)
        finally:
            if is_up:
                shield_down()
        return None if found is None else entry_of(*found)

    def _row(self, key: UserKey, raw: bytes) -> tuple[Row, str, int] | None:
        """The entry with this key as it is stored, its status, and when its lease began."""
        p = self._p
        with p.lock:
            now = p.enter()
            found = p.state.find(key, raw)
            row = found.row
            if row is None or (row.expiration and row.expiration <= now and not found.is_processing):
                return None
            held = p.state.leases.by_primary.get(row.primary)
            must_settle = p.must_settle(row.at)
        if must_settle:
            p.settle(row.at)
        return (row, "W", 0) if held is None else (row, "P", held.start)

    def scan(
        self, *, status: str | None = None, since: DateLike | None = None, until: DateLike | None = None
    ) -> Iterator[Entry]:
        """
        All entries in the order of work, with `since <= process date < until`; with the status "buried" those, in the order of burial.

        Read in pages, so a scan does not block other callers; what changes meanwhile is seen or not.
        """
        return self._reads.scan(status_of(status), *date_range(since, until))

    def count(
        self,
        *,
        status: str | None = None,
        since: DateLike | None = None,
        until: DateLike | None = None,
        owner: str | None = None,
        consumer: str | None = None,
        buckets: Range | None = None,
    ) -> int:
        """How many entries there are, with `since <= process date < until`, or "buried" ones; see `select` for what else can be asked."""
        return self._reads.count(self._filter(status, since, until, owner, consumer, buckets))

    def leases(self, *, consumer: str | None = None) -> list[Lease]:
        """The active leases, of one consumer or of all, by deadline: a consumer that restarts finds its own here."""
        if consumer is not None:
            consumer_name(consumer)
        p = self._p
        with p.lock:
            now = p.enter()
            leases = p.state.leases
            found = leases.by_token.values() if consumer is None else leases.of(consumer)
            held = [each for each in found if each.deadline > now]
            held.sort(key=lambda h: (h.deadline, h.token))
            return [self._made(self, h, p.state.entry(h.primary)) for h in held]

    # -- what people must look at -------------------------------------------------------------------------------------

    def raise_flag(self, name: str, message: str, *, durability: str | None = None) -> None:
        """Raise a flag for the operator, or raise it once more; `store.flags()` shows it until it is lowered."""
        name_text(name, "name", FLAG_BYTES_MAX)
        if name == PAUSED:
            raise Invalid(f"the flag {PAUSED!r} says that a journal is paused: use pause")
        self._raise(name, reason_text(message), durability)

    def _raise(self, name: str, message: str, durability: str | None) -> None:
        p = self._p
        level = p.level_of(durability, p.level)

        def make() -> tuple[None, int]:
            now = p.enter()
            effect = fx.Raise(name, message, now)
            return None, p.write(effect, 1, now, level, partial(p.state.apply, effect), is_essential=True)

        p.change(level, make)

    def pause(self, reason: str = "", *, durability: str | None = None) -> None:
        """
        Hand nothing out until `resume`, over restarts too; a journal that is paused already gets another reason.

        Claims find nothing and workers sleep. Puts, done, extend and release go on, and so do timers. The flag "paused" says
        why and since when, and so does `statistics()`; it goes with `resume` and cannot be lowered.
        """
        self._raise(PAUSED, reason_text(reason), durability)

    def resume(self, *, durability: str | None = None) -> bool:
        """Hand out again what is due, and wake sleeping workers; False when the journal was not paused."""
        p = self._p
        level = p.level_of(durability, p.level)

        def make() -> tuple[bool, int]:
            now = p.enter()
            if not p.state.is_paused:
                return False, -1
            effect = fx.Lower(PAUSED)
            at = p.write(effect, 1, now, level, partial(p.state.apply, effect), is_essential=True)
            p.due.notify_all()
            return True, at

        return p.change(level, make)

    def measure_drift(self, peer: str, t0: float, t1: float, t2: float, t3: float) -> bool:
        """
        Take a round trip between the engine and a producer or consumer into `store.drifts`; whether that one's clock is off.

        t0 and t3 are the engine's time (`now()`) before the question and after the answer, t1 and t2 the peer's when it got the
        one and gave the other, in ms. A peer whose clock is off raises the flag "drift" here.
        """
        message = self._peers.measure(peer, t0, t1, t2, t3)
        if message is not None and self._p.is_writable:
            self.raise_flag(DRIFT, message)
        with self._peers.lock:
            return peer in self._peers.drifts.flagged

    @property
    def schema(self) -> Schema | None:
        """All fields that the data may have: the union over the generations that are left."""
        return self._p.generations.union()

    @property
    def shows_all(self) -> bool:
        """
        Whether reading shows all that has happened. A store that was opened with readonly=True shows what its owner has committed:
        that is all when the owner closed the journal, and no process has opened it since.
        """
        p = getattr(self._p, "shared", self._p)  # a merged journal's files are those of all
        return p.shows_all() if isinstance(p, Look) else True

    # -- durability ---------------------------------------------------------------------------------------------------

    @property
    def durable_cursor(self) -> Cursor:
        """The last change that is on disk."""
        log = self._p.log  # a rotation may come in between
        return Cursor(cursor_of(log.base).order, log.synced - log.base)

    def wait_durable(self, cursor: Cursor) -> None:
        """Return when the change at this cursor, and all before it, are on disk."""
        if not isinstance(cursor, Cursor):
            raise Invalid(f"wait_durable takes a journal.Cursor, not {cursor!r}")
        p = self._p
        with p.lock:
            p.enter()
            at = base_of(cursor.order) + cursor.offset
            if cursor.order < 1 or at >= p.log.next_offset:
                last = Cursor(p.order, p.log.end.offset - 1)
                raise Invalid(f"{cursor} is not a change of journal {self.name}: the last is {last}")
        if p.log.synced < at:
            p.settle(at)

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes, cheap to read; docs/OPERATIONS.md has each field."""
        p = self._p
        with p.lock:
            now = p.enter()
            state = p.state
            if not p.is_writable:
                state.rebuild_order()  # a look has none: nothing is claimed there
            oldest = oldest_due(p, now)
            pause = pause_in(state.active)
            return {
                "entries": state.size(),
                "processing": len(state.leases),
                "waiting": state.size() - len(state.leases),
                "buried": state.size(b"buried"),
                "successors": state.size(b"successors"),
                "order": p.order,
                "generations": len(state.generations),
                "next_offset": p.log.next_offset - p.log.base,
                "durable_offset": p.log.synced - p.log.base,
                "log_bytes": p.log.bytes_written,
                "rows_bytes": sum(rows.file.used_bytes() for rows in state.generations),
                "syncs": p.commit.syncs,
                "compactions": p.compaction.passes,
                "compacted_records": p.compaction.records_removed,
                "compacted_bytes": p.compaction.bytes_saved,
                "checkpoints": p.checkpoints.count,
                "checkpoint_ms_last": round(p.checkpoints.pause_ms_last, 3),
                "checkpoint_ms_max": round(p.checkpoints.pause_ms_max, 3),
                "leases_lost": p.tally.timer["leases_lost"],
                "buried_by_timeouts": p.tally.timer["buried"],
                "expired": p.tally.timer["expired"],
                "next_due": state.next_due(now),
                "timers_behind_ms": max(0, now - p.timer_at),
                "oldest_due": oldest,
                "oldest_due_ms": None if oldest is None else now - oldest,
                "verbs": p.tally.verbs(),
                "lateness": p.tally.lateness.view(),
                "processing_time": p.tally.processing.view(),
                "put_time": p.tally.put_times.view(),
                "sync_time": p.commit.sync_times.view(),
                "paused": None if pause is None else {"reason": pause[0], "since": pause[1]},
            }


def lower(p: Pipeline, name: str) -> None:
    """Take a flag of a journal down."""

    def make() -> tuple[None, int]:
        now = p.enter()
        state = p.state.state_of(OWN) if isinstance(p.state, Namespaces) else p.state
        if not any(flag == name.encode() for flag, _ in state.rows(b"flags")):
            raise NotFound(f"there is no flag {name!r} on journal {p.name}")
        if name == PAUSED:
            raise Refused(f"the journal {p.name} is paused, and its flag says so: resume it, and the flag goes")
        effect = fx.Lower(name)
        return None, p.write(effect, 1, now, p.level, partial(p.state.apply, effect), is_essential=True)

    p.change(p.level, make)
