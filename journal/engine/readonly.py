"""
A look at a journal without owning its store: what the last checkpoint committed, read in short transactions.

It has the shape of a Pipeline, so that a Journal can read through it; everything that would write is refused.

S1  What is read under the lock, after `enter`, is of one moment over all generations (commit_parts Q2), not older than that call.
S2  What is read within `moment` is of one moment, however often the lock is taken there: other threads cannot take it.
S3  Transactions end when no read has come for REST_S: as long as they last the owner's files cannot use pages again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from time import monotonic
from typing import Any, cast

from journal.core.entry.effects import Effect
from journal.core.limits import NEVER
from journal.core.log.cursor import base_of
from journal.core.settings import Settings
from journal.engine.files.lmdb import MAP_BYTES, LmdbFile, check_before_open
from journal.engine.files.posix import storage_error
from journal.engine.log.durability import NONE
from journal.engine.log.generation_record import GenerationRecord
from journal.engine.own_pipeline import OwnPipeline
from journal.engine.runtime.background import Keeper
from journal.engine.runtime.clock import EngineTime
from journal.engine.state import commit_parts
from journal.engine.state.file import DATABASES, GenerationRows
from journal.errors import ReadOnly, StorageError, StoreClosed

LOOK_S = 10.0
"""So long a look tries to begin transactions of one moment; an owner is in the middle of a checkpoint for some ms."""
PAUSE_S = 0.001
REST_S = 1.0


class Look(OwnPipeline):
    """Reads the rows of a journal's generations as they were committed last."""

    def __init__(
        self, top: Path, name: str, settings: Settings, *, keeper: Keeper, time: EngineTime,
        generations: Callable[[], list[GenerationRecord]], was_closed: Callable[[], bool], **options: Any,
    ) -> None:  # fmt: skip
        """`generations` and `was_closed` look into the catalog, on the keeper."""
        lock = cast(threading.Lock, threading.RLock())  # taken again within a moment (S2)
        super().__init__(
            top, name, settings, kept=keeper.call(generations), keeper=keeper, time=time, next_token=0, level=NONE,
            claim_level=NONE, sync_s=0, map_bytes=MAP_BYTES, record=_refuse, lock=lock, is_writable=False, **options,
        )  # fmt: skip
        self.timer_at = NEVER
        self._look = generations
        self._was_closed = was_closed
        self._opened: dict[int, GenerationRows] = {}
        self._gone: list[GenerationRows] = []
        """Those that the catalog does not name any more, and that are to be closed."""
        self._moments = 0
        self._seen_at = 0.0
        self._is_seen = False
        """The transactions are of one moment, and memory is as they say."""
        self._is_rest_due = False
        try:
            self._see()
        except BaseException:
            for rows in [*self._opened.values(), *self._gone]:
                rows.file.abandon()
            raise

    # -- one moment ---------------------------------------------------------------------------------------------------

    @contextmanager
    def moment(self) -> Iterator[None]:
        """See what is committed now, until the end (S2)."""
        with self.lock:
            self.enter()
            self._moments += 1
            try:
                yield
            finally:
                self._moments -= 1

    def enter(self) -> int:
        """Look at what is committed now (S1)."""
        if self.trouble is not None:
            raise self.trouble
        if not self._moments:
            self._see()
        return self.time.now()

    def _see(self) -> None:
        """Begin transactions of one moment, anew until they are: the owner may be in the middle of a checkpoint, or a rotation."""
        deadline = 0.0
        while True:
            kept = self.keeper.call(self._look)
            try:
                found = self._begin(kept)
            except (StorageError, OSError) as e:
                # A generation may have gone since the look at the catalog, which names it no more then.
                if self.keeper.call(self._look) == kept:
                    if isinstance(e, OSError):
                        raise storage_error(e, f"cannot read {e.filename or self.top}") from e
                    raise
                found = str(e)
            if found is None:
                break
            deadline = deadline or monotonic() + LOOK_S
            if monotonic() >= deadline:
                raise StorageError(
                    f"the rows of journal {self.name} have been in the middle of a checkpoint for {LOOK_S:.0f} s: {found}. Their owner "
                    "is very busy, or has crashed there. Try again; if no process owns the store, open it once without readonly"
                )
            threading.Event().wait(PAUSE_S)
        self._seen_at = monotonic()
        if not self._is_rest_due:
            self._is_rest_due = True
            self.keeper.after(REST_S, self._rest)

    def _begin(self, kept: list[GenerationRecord]) -> str | None:
        """Have transactions on what is committed now; why they are not of one moment, None when they are."""
        self._use(kept)
        files = [rows.file for rows in self.state.generations]
        if self._is_seen and all(file.last_commit() == file.txn.id() for file in files):
            return None  # nothing was committed since the last look
        self._is_seen = False
        for file in files:
            file.renew()
        found = commit_parts.difference([commit_parts.file_of(rows) for rows in self.state.generations])
        if found is None:
            self.state.use()
            applied = self.state.load()
            self.log.look_at(self.directory(self.order) / "log", base_of(self.order), applied.offset)
            self._is_seen = True
        return found

    def _use(self, kept: list[GenerationRecord]) -> None:
        """Open what has come, close what has gone."""
        generations, state = self.generations, self.state
        if self._opened and kept == generations.kept:
            return
        self._is_seen = False
        orders = [each.order for each in kept if each.has_rows]
        self._gone += [self._opened.pop(order) for order in self._opened.keys() - orders]
        while self._gone and not generations.is_pinned:  # else a snapshot copies them
            self._gone.pop().file.abandon()
        for order in orders:
            if order not in self._opened:
                path = self.directory(order) / "rows.mdb"
                check_before_open(path, None, is_live=True)
                self._opened[order] = GenerationRows(LmdbFile(path, DATABASES, readonly=True), order)
        generations.kept = kept
        generations.look_at_schema()
        state.use([self._opened[order] for order in orders])
        self.order = kept[-1].order

    def _rest(self) -> None:
        """End the transactions when no read has come for REST_S (S3). On the keeper, which callers with the lock may wait for."""
        is_free = self.lock.acquire(blocking=False)
        try:
            if not is_free or monotonic() < self._seen_at + REST_S:
                self.keeper.after(REST_S, self._rest)
            elif self.trouble is None:
                self._is_seen = self._is_rest_due = False
                for rows in self.state.generations:
                    rows.file.rest()
        finally:
            if is_free:
                self.lock.release()

    def shows_all(self) -> bool:
        """Whether all that has happened is committed: the last owner closed the journal, and no process has opened it since."""
        return self.keeper.call(self._was_closed)

    # -- refused ------------------------------------------------------------------------------------------------------

    def look_at_settings(self) -> None:
        """There is no short way for a put: all ask for their level, and are refused."""
        self.plain_bytes_max = 0

    def level_of(self, durability: str | None, default: int) -> int:
        """Asked by every verb that would write: refused."""
        raise _refusal()

    def write(
        self, effect: Effect, count: int, now: int, level: int, apply: Callable[[int], None] | None = None, *,
        is_essential: bool = False,
    ) -> int:  # fmt: skip
        """Refused."""
        raise _refusal()

    def close(self) -> dict[int, int | None]:
        """End the look."""
        with self.lock:
            if self.trouble is None:
                self.trouble = StoreClosed(f"the journal {self.name} is closed: its store was closed")
                for rows in [*self._opened.values(), *self._gone]:
                    rows.file.abandon()
        return {}


def moment_of(p: object) -> AbstractContextManager[None]:
    """
    What is read within is of one moment, in a store opened with readonly=True (S2). An owner's reads are of one moment for as long
    as they hold the lock at a time.
    """
    shared = getattr(p, "shared", p)  # a merged journal's files are those of all
    return shared.moment() if isinstance(shared, Look) else nullcontext()


def _refuse(_: object) -> None:
    raise _refusal()


def _refusal() -> ReadOnly:
    return ReadOnly("the store was opened with readonly=True: open it without, or work through its owner")
