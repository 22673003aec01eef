"""
A store: a directory that one process owns, with its journals.

    work.journal/
      LOCK                       flock; pid and start time of the owner
      SOCKET                     the daemon's, while the owner is one
      _tokens                    the identities that a daemon knows, if there are any
      _snapshots/…               copies of entries, while a snapshot uses them
      catalog/catalog.mdb        what journals there are
      pages/000001/rows.mdb      a journal's generation: its rows …
      pages/000001/log/*.log     … and its log
      pages/offsets/*.log        what its feed consumers have acknowledged, if there are any
      _merged/000001/…           the same, of all merged journals together
      _loads/<id>/<part>         parts of loads that are not committed yet (staging)

B1  One process owns a store. A forked child owns nothing: its calls are refused and harm nothing.
B2  A journal that the catalog does not name does not exist; what is left of one that was never finished is removed.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgpack

from journal.core.clock_drift import Drifts
from journal.core.requests import operate
from journal.core.requests.request import Request
from journal.core.settings import MERGED
from journal.core.values import Backup, Flag
from journal.engine import check as checks
from journal.engine.backend import EngineJournal
from journal.engine.backups.backup import make_backup
from journal.engine.catalog import Catalog
from journal.engine.files.layout import prepare
from journal.engine.files.lmdb import MAP_BYTES
from journal.engine.files.posix import OwnerLock, storage_error
from journal.engine.loads.staging import StagedLoads
from journal.engine.log.durability import FULL, OS
from journal.engine.merged.backend import EngineMerged
from journal.engine.merged.drop import clear_step, finish
from journal.engine.merged.member import MemberConsumers
from journal.engine.merged.sequence import Member, Sequence
from journal.engine.merged.states import OWN
from journal.engine.own_pipeline import OwnPipeline
from journal.engine.recovery import StoreOpening
from journal.engine.runtime.background import Keeper
from journal.engine.runtime.clock import EngineTime
from journal.engine.runtime.clock_drift import Peers
from journal.engine.runtime.timed_steps import catch_up
from journal.engine.work.flags import lower
from journal.errors import ForkedStore, NotFound, ReadOnly, StorageError, StoreClosed
from journal.shield import shielded

if TYPE_CHECKING:
    from journal.net.server.server import Server

log = logging.getLogger("journal.store")
R = TypeVar("R")

_open_stores: set[EngineStore] = set()
"""Kept alive until closed: LMDB must not be cleaned up by the garbage collector, on any thread, under the keeper."""


@shielded
class EngineStore:
    """An open store (journal.api.backend.StoreBackend). Made by `journal.open`."""

    is_remote = False
    frame_bytes_max = 1 << 20
    """What a frame may have of a daemon that serves the store."""

    def __init__(
        self, path: Path, *, time: EngineTime, level: int = FULL, claim_level: int = OS, sync_s: float = 0.05, is_deep: bool = False,
        is_readonly: bool = False, map_bytes: int = MAP_BYTES,
    ) -> None:  # fmt: skip
        self.path, self.is_readonly, self.time = path, is_readonly, time
        self._lock = threading.RLock()
        self.trouble: StorageError | None = None
        self.opened: dict[str, EngineJournal] = {}
        """The journals that are open, by name."""
        self._merged: EngineMerged | None = None
        self.peers = Peers()
        self.servers: set[Any] = set()
        """The daemons that serve this store: they end before it does."""
        self._epochs = 0
        self._owner: OwnerLock | None = None
        self._give_up: Callable[[], None] = lambda: None
        if not is_readonly:
            prepare(path)
            self._owner = OwnerLock(path)
            self._give_up = self._owner.close
        try:
            self.keeper = Keeper(path.name)
        except BaseException:
            self._give_up()
            raise
        self._staging = StagedLoads(path, time.now, self.keeper)
        try:
            self.catalog = self.keeper.call(lambda: Catalog(path, readonly=is_readonly))
            self._opening = StoreOpening(
                path=path, catalog=self.catalog, keeper=self.keeper, time=time, level=level, claim_level=claim_level,
                sync_s=sync_s, map_bytes=map_bytes, is_deep=is_deep, is_readonly=is_readonly,
            )  # fmt: skip
            if not is_readonly:
                self._opening.sweep()
        except BaseException as e:
            self.keeper.close()
            self._give_up()
            if isinstance(e, OSError):
                raise storage_error(e, f"cannot open {path}") from e
            raise
        time.open(self._on_advance)
        _open_stores.add(self)

    def __repr__(self) -> str:
        return str(self.path)

    def call(self, request: Request[R], /) -> R:
        """What a request for the store comes to."""
        result: R = HANDLERS[type(request)](self, request)
        return result

    def within(self, timeout_ms: int | None) -> EngineStore:
        """Itself: no network is waited for."""
        return self

    # -- journals -----------------------------------------------------------------------------------------------------

    def journal(self, name: str, settings: dict[str, Any]) -> EngineJournal:
        """Open a journal, or declare it. Settings are kept; those given here change what may be changed."""
        with self._lock:
            self._check()
            journal = self.opened.get(name)
            if journal is not None:
                if settings:
                    journal.use(self.keeper.call(lambda: self._opening.change(name, settings)))
                    self.keeper.call(journal.p.generations.use_schema)
                return journal
            if name in self.keeper.call(self.catalog.dropping):
                self.merged({})
            try:
                pipeline = self.keeper.call(lambda: self._opening.journal(name, settings))
            except OSError as e:
                raise storage_error(e, f"cannot open journal {name} in {self.path}") from e
            journal = self.opened[name] = EngineJournal(pipeline, self.peers, self._staging)
            with pipeline.lock:
                if isinstance(pipeline, Member):
                    pipeline.begin()
                pipeline.enter()
            if isinstance(pipeline, Member):
                self.merged({})
            if settings and not self.is_readonly:
                self.keeper.call(pipeline.generations.use_schema)
            for server in list(self.servers):
                server.declared(name)
            return journal

    def journals(self) -> list[str]:
        """The names of all journals."""
        with self._lock:
            self._check()
            return self.keeper.call(self.catalog.journals)

    def merged(self, settings: dict[str, Any]) -> EngineMerged:
        """What all merged journals have together: settings of their files, generations, and a feed of all changes."""
        with self._lock:
            self._check()
            if self._merged is None:
                try:
                    sequence = self.keeper.call(self._opening.merged)
                except OSError as e:
                    raise storage_error(e, f"cannot open the merged journals in {self.path}") from e
                self._merged = EngineMerged(sequence)
                for name in [] if self.is_readonly else self.keeper.call(self.catalog.dropping):
                    self._finish_drop(name)
            if settings:
                self._merged.use(self.keeper.call(lambda: self._opening.change(MERGED, settings)))
            return self._merged

    def existing_merged(self) -> EngineMerged:
        """The same, if there are any."""
        if not self.has_merged():
            raise NotFound(f"no journal of {self.path} is merged: it has {', '.join(self.journals()) or 'none'}")
        return self.merged({})

    def drop(self, name: str) -> None:
        """Delete a journal with all that is in it."""
        with self._lock:
            self._check_owned("drops journals")
            if name not in self.journals():
                raise NotFound(f"there is no journal {name!r} in {self.path}: it has {self.journals()}")
            p = self.journal(name, {}).p
            self._staging.drop(name)
            if isinstance(p, Member):
                # The mark is on disk at once: nothing that was changed before it may vanish any more, at any level.
                p.commit.sync_now()
                self.keeper.call(lambda: self.catalog.set_dropping(name, is_dropping=True))
                with p.lock:
                    p.drop()
                del self.opened[name]
                self._finish_drop(name)
                return
            assert isinstance(p, OwnPipeline)
            with p.lock:
                p.enter()
            self.keeper.call(p.snapshots.close)
            try:
                gone = self.keeper.call(lambda: self._opening.forget(p))
            except OSError as e:
                raise StorageError(f"journal {name} is dropped; its files go when it is declared again: {e}") from e
            finally:
                if p.trouble is not None:
                    del self.opened[name]
            disposal = p.generations.disposal
            disposal.take(gone, "delete", p.wipes())
            disposal.close()

    def _finish_drop(self, name: str) -> None:
        """Remove the rows of a merged journal that is listed as being dropped, then its name (recovery O3)."""
        sequence = self.merged({}).p
        assert isinstance(sequence, Sequence)
        MemberConsumers(sequence, sequence.consumers, name).remove_all()
        while clear_step(sequence, name.encode()):
            pass
        self.keeper.call(lambda: finish(sequence))
        self.keeper.call(lambda: self.catalog.remove(name))
        sequence.known.discard(name.encode())

    @contextmanager
    def still(self) -> Iterator[list[OwnPipeline]]:
        """No journal is declared or dropped within; the pipelines of all of them, those of merged ones in one."""
        with self._lock:
            self._check()
            yield [self.own(name) for name in self._with_files()]

    def own(self, name: str) -> OwnPipeline:
        """The pipeline of the files of a journal, or under the name MERGED of all merged ones."""
        p = self.merged({}).p if name == MERGED else self.journal(name, {}).p
        assert isinstance(p, OwnPipeline)
        return p

    # -- the whole store ----------------------------------------------------------------------------------------------

    def flags(self) -> list[Flag]:
        """The raised flags: what the operator must look at."""
        found = []
        with self.still() as pipelines:
            for p in pipelines:
                with p.lock:
                    p.enter()
                    rows = list(p.state.rows(b"flags"))
                for key, value in rows:
                    whose, _, flag = key.partition(b":") if p.only is not None else (p.name.encode(), b"", key)
                    found.append(Flag(whose.decode(), flag.decode(), *msgpack.unpackb(value)))
        return found

    @property
    def drifts(self) -> Drifts:
        """How far the clocks of producers and consumers are off, as they were measured (`Journal.measure_drift`)."""
        return self.peers.drifts

    def alone(self) -> list[str]:
        """The journals that have their files for themselves."""
        with self._lock:
            self._check()
            return self.keeper.call(lambda: [n for n in self.catalog.journals() if not self._opening.is_merged(n)])

    def _with_files(self) -> list[str]:
        return [*self.alone(), *([MERGED] if self.has_merged() else [])]

    def has_merged(self) -> bool:
        """Whether there are merged journals."""
        return self.keeper.call(lambda: self.catalog.has(MERGED.encode()))

    def lower(self, journal: str, name: str) -> None:
        """Lower a flag that the operator has looked at."""
        if journal == MERGED:
            shared = self.merged({}).p
            lower(shared, shared.state.state_of(OWN), name)
        else:
            p = self.journal(journal, {}).p
            lower(p, p.state, name)

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes of the store and of its journals."""
        return {
            "path": str(self.path),
            "pid": os.getpid(),
            "opening": self.catalog.opening,
            "clock_steps": self.time.steps,
            "clock": self.time.statistics(),
            "now": self.time.now(),
            "drift": self.peers.statistics(),
            "journals": {
                name: self.journal(name, {}).statistics() for name in dict.fromkeys([*self.alone(), *self.opened])
            },
            "merged": self.merged({}).statistics() | {"counts": self.merged({}).counts()}
            if self.has_merged()
            else None,
        }

    def checkpoint(self) -> None:
        """Commit everything to LMDB now, so that readers outside of this process see it."""
        with self._lock:
            self._check_owned("makes checkpoints")
            checkpoints = {journal.p.checkpoints for journal in self.opened.values()}
            if self._merged is not None:
                checkpoints.add(self._merged.p.checkpoints)
        for each in checkpoints:
            self.keeper.call(each.run)

    def check(self, *, deep: bool = False) -> list[str]:
        """Recompute every index, counter and invariant from the entries and the log; what differs, in words."""
        found = [line for name in self._with_files() for line in self.check_of(name, deep=deep)]
        return found + self.keeper.call(self.catalog.check)

    def check_of(self, name: str, *, deep: bool = False) -> list[str]:
        """The same of one journal, or under the name MERGED of all merged ones."""
        return checks.check(self.own(name), is_deep=deep)

    def backup(self, dest: str | os.PathLike[str], progress: Callable[[int, int], None] | None) -> Backup:
        """Copy the store to a directory while callers go on working (journal.engine.backups.backup)."""
        self._check_owned("makes backups")
        return make_backup(self, dest, progress)

    def serve(self, options: dict[str, Any]) -> Server:
        """Serve this store to other processes, on a thread of its own."""
        from journal.net.server.server import Server  # lazily: the daemon is a layer above the engine, and optional

        self._check_owned("serves it")
        return Server(self, **options).start()

    def close(self) -> None:
        """Finish what is under way, commit, and give the store up. Closing twice is fine."""
        for server in list(self.servers):
            server.stop()
            server.join()
        with self._lock:
            if self.trouble is not None:
                return
            self.trouble = StoreClosed(f"the store {self.path} is closed")
            _open_stores.discard(self)
            self.time.close()
            try:
                self.keeper.call(self._close_journals)
            finally:
                self.keeper.close()
                self._staging.close()
                self._give_up()

    def _close_journals(self) -> None:
        for p in self._opening.pipelines.values():
            p.snapshots.close()
            digests = p.close()
            p.generations.disposal.close()
            self._opening.closed(p.name, digests)
        self.catalog.close()

    def announce(self, server: object, addresses: list[str]) -> None:
        """A daemon listens here, or no longer: for programs that find the store owned."""
        if self._owner is not None:
            self._owner.announce(server, addresses)

    def next_epoch(self) -> int:
        """A number that no daemon of this store had before."""
        with self._lock:
            self._check()
            self._epochs += 1
            return int(self.catalog.opening << 16) + self._epochs

    def _check(self) -> None:
        if (trouble := self.trouble or self.catalog.failed) is not None:
            raise trouble

    def _check_owned(self, what: str) -> None:
        self._check()
        if self.is_readonly:
            raise ReadOnly(f"the store was opened with readonly=True: only its owner {what}")

    def _on_advance(self) -> None:
        for journal in list(self.opened.values()):
            look = partial(catch_up, journal.p)
            look() if self.time.is_manual else self.keeper.after(0, look)

    def _after_fork_in_child(self) -> None:
        """Refuse everything here; the parent's files and lock stay as they are (B1)."""
        self.trouble = ForkedStore(
            f"the store {self.path} was opened by process {os.getppid()}, the parent of this one ({os.getpid()}): a "
            "forked child must open the store itself after the parent has closed it, or work through the parent"
        )
        self._lock = threading.RLock()
        for server in self.servers:
            server.abandon_after_fork()
        self.servers.clear()
        self.peers.lock = threading.Lock()
        for journal in self.opened.values():
            if isinstance(journal.p, OwnPipeline):
                journal.p.abandon_after_fork(self.trouble)
        if self._opening.sequence is not None:
            self._opening.sequence.abandon_after_fork(self.trouble)
        self._give_up()
        _forked.append(self)


_forked: list[EngineStore] = []
"""Stores inherited by a forked child, kept alive: LMDB must not run its clean-up under the parent's transaction."""


def _after_fork() -> None:
    for store in list(_open_stores):
        store._after_fork_in_child()
    _open_stores.clear()


def _at_exit() -> None:
    for store in list(_open_stores):
        try:
            store.close()
        except (StorageError, NotFound) as e:
            log.error("close_at_exit_failed path=%s error=%s", store.path, e)


HANDLERS: dict[type[Request[Any]], Callable[[EngineStore, Any], Any]] = {
    operate.JournalsRequest: lambda store, asked: store.journals(),
    operate.FlagsRequest: lambda store, asked: store.flags(),
    operate.LowerRequest: lambda store, asked: store.lower(asked.journal, asked.name),
    operate.StoreStatisticsRequest: lambda store, asked: store.statistics(),
    operate.CheckpointRequest: lambda store, asked: store.checkpoint(),
    operate.CheckRequest: lambda store, asked: store.check(deep=asked.deep),
}
"""What carries out each request of the store."""

os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
