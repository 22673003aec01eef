"""
A store: a directory that one process owns, with its journals.

    work.journal/
      LOCK                       flock; pid and start time of the owner
      catalog/catalog.mdb        what journals there are
      pages/000001/rows.mdb      a journal's generation: its rows …
      pages/000001/log/*.log     … and its log
      pages/offsets/*.log        what its feed consumers have acknowledged, if there are any

B1  One process owns a store. A forked child owns nothing: its calls are refused and harm nothing.
B2  A journal that the catalog does not name does not exist; what is left of one that was never finished is removed.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import threading
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import msgpack

from journal.core.settings import NAME, Settings, changed, check_name
from journal.core.times import DurationLike, duration_ms
from journal.core.views import Flag
from journal.engine import check as checks
from journal.engine import lmdbfile
from journal.engine.catalog import Catalog, Listed
from journal.engine.clock import EngineTime, as_clock
from journal.engine.disposal import SPARE, remove_left
from journal.engine.files import OwnerLock, check_own, make_directory, remove_tree, storage_error
from journal.engine.generations import Kept, declared
from journal.engine.journal import Journal
from journal.engine.keeper import Keeper
from journal.engine.levels import FULL, LEVELS, OS
from journal.engine.log import Log
from journal.engine.look import Look
from journal.engine.pipeline import Pipeline
from journal.engine.rowsfile import DATABASES
from journal.errors import ForkedStore, Invalid, NotFound, ReadOnly, StorageError, StoreClosed, StoreDamaged

log = logging.getLogger("journal.store")

VERIFY = ("auto", "full")
_LEFT = re.compile(r"next|[0-9]{6,}((-log|-rows)?\.gone)?")
"""What a crash in the middle of a rotation or a disposal may leave."""
_open_stores: set[Store] = set()
"""Kept alive until closed: LMDB must not be cleaned up by the garbage collector, on any thread, under the keeper."""


def open_store(
    path: str | os.PathLike[str],
    *,
    durability: str = "full",
    sync_interval: DurationLike = "50ms",
    claims: str = "os",
    clock: object | None = None,
    readonly: bool = False,
    verify: str = "auto",
    map_bytes: int = lmdbfile.MAP_BYTES,
) -> Store:
    """Make or open a store and own it, or look at one."""
    if type(durability) is not str or durability not in LEVELS:
        raise Invalid(f"durability is {durability!r}: it must be one of {', '.join(LEVELS)}")
    if claims not in ("os", "full"):
        raise Invalid(f"claims is {claims!r}: it must be 'os' (a power cut may forget a claim) or 'full'")
    if verify not in VERIFY:
        raise Invalid(f"verify is {verify!r}: it must be one of {', '.join(VERIFY)}")
    if type(map_bytes) is not int or map_bytes < 1 << 20:
        raise Invalid(f"map_bytes is {map_bytes!r}: it must be an int of at least {1 << 20}")
    level = LEVELS[durability]
    interval = duration_ms(sync_interval, "sync_interval")
    return Store(
        Path(path).absolute(),
        level=level,
        claim_level=FULL if claims == "full" else min(level, OS),
        sync_s=max(interval, 1) / 1000,
        time=EngineTime(as_clock(clock)),
        is_deep=verify == "full",
        is_readonly=readonly,
        map_bytes=map_bytes,
    )


class Store:
    """An open store; a context manager. Made by `journal.open`."""

    def __init__(
        self,
        path: Path,
        *,
        level: int,
        claim_level: int,
        sync_s: float,
        time: EngineTime,
        is_deep: bool,
        is_readonly: bool,
        map_bytes: int,
    ) -> None:
        self.path = path
        self._is_readonly = is_readonly
        self._level = level
        self._claim_level = claim_level
        self._sync_s = sync_s
        self._time = time
        self._is_deep = is_deep
        self._map_bytes = map_bytes
        self._lock = threading.RLock()
        self._trouble: StorageError | None = None
        self._journals: dict[str, Journal] = {}
        self._owner: OwnerLock | None = None
        if not is_readonly:
            _prepare(path)
            self._owner = OwnerLock(path)
        self._keeper = Keeper(path.name)
        try:
            self._catalog = self._keeper.call(lambda: Catalog(path, readonly=is_readonly))
        except BaseException as e:
            self._keeper.close()
            self._give_up()
            if isinstance(e, OSError):
                raise storage_error(e, f"cannot open {path}") from e
            raise
        self._end_advance = time.on_advance(self._on_advance)
        _open_stores.add(self)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.path}>"

    # -- journals -----------------------------------------------------------------------------------------------------

    def journal(self, name: str, **settings: Any) -> Journal:
        """Open a journal, or declare it. Settings are kept; those given here change what may be changed."""
        check_name(name)
        with self._lock:
            self._check()
            journal = self._journals.get(name)
            if journal is not None:
                if settings:
                    journal._use(self._keeper.call(lambda: self._change(name, settings)))
                    self._keeper.call(journal._p.generations.use_schema)
                return journal
            try:
                pipeline = self._keeper.call(lambda: self._open(name, settings))
            except OSError as e:
                raise storage_error(e, f"cannot open journal {name} in {self.path}") from e
            journal = self._journals[name] = Journal(pipeline)
            with pipeline.lock:
                pipeline.enter()
            if settings and not self._is_readonly:
                self._keeper.call(pipeline.generations.use_schema)
            return journal

    def journals(self) -> list[str]:
        """The names of all journals."""
        with self._lock:
            self._check()
            return self._keeper.call(self._catalog.journals)

    def _change(self, name: str, given: dict[str, Any]) -> Settings:
        if self._is_readonly:
            raise ReadOnly("the store was opened with readonly=True: settings cannot be changed")
        listed = self._listed(name)
        settings = changed(listed.settings, given)
        if settings != listed.settings:
            self._catalog.set(name, listed._replace(settings=settings))
        return settings

    def _listed(self, name: str) -> Listed:
        listed = self._catalog.get(name)
        assert listed is not None
        return listed

    def _look(self, name: str) -> list[Kept]:
        """For one who looks: the generations that there are now. On the keeper."""
        self._catalog.renew()
        return self._listed(name).generations

    def _open(self, name: str, given: dict[str, Any]) -> Pipeline:
        """On the keeper."""
        listed = self._catalog.get(name)
        top = self.path / name
        if self._is_readonly:
            if listed is None:
                raise NotFound(f"there is no journal {name!r} in {self.path}: it has {self._catalog.journals()}")
            if given:
                raise ReadOnly("the store was opened with readonly=True: settings cannot be changed")
            return Look(
                top, name, listed.settings, keeper=self._keeper, time=self._time, generations=partial(self._look, name)
            )
        if listed is None:
            settings = changed(None, given)
            listed = Listed(settings, [Kept(1, self._time.now(), None, True, True, declared(settings))], {})
            self._create(name, listed)
        else:
            listed = listed._replace(settings=changed(listed.settings, given))
        _check_generations(top, name, listed)
        pipeline = Pipeline(
            top, name, listed.settings, kept=listed.generations, keeper=self._keeper, time=self._time,
            opening=self._catalog.opening, level=self._level, claim_level=self._claim_level, sync_s=self._sync_s,
            map_bytes=self._map_bytes,
        )  # fmt: skip
        pipeline.generations.record = partial(self._record, name)
        pipeline.open(listed.digests, is_deep=self._is_deep)
        try:
            # The rows will change: their digests are taken back before they do (catalog A2).
            self._catalog.set(name, listed._replace(digests={}))
        except BaseException:
            pipeline.close()
            raise
        return pipeline

    def _record(self, name: str, kept: list[Kept]) -> None:
        self._catalog.set(name, self._listed(name)._replace(generations=kept))

    def _create(self, name: str, listed: Listed) -> None:
        """Make the files of a new journal, then name it (B2, catalog A2)."""
        top = self.path / name
        if not make_directory(top):
            log.warning("orphan_removed path=%s", top)
            remove_tree(top)
            make_directory(top)
        directory = top / "000001"
        make_directory(directory)
        make_directory(directory / "log")
        lmdbfile.create(directory / "rows.mdb", DATABASES)
        first = Log(directory / "log", name.encode(), listed.settings.segment_bytes_max)
        first.create()
        first.close()
        self._catalog.set(name, listed)

    # -- the whole store ----------------------------------------------------------------------------------------------

    def flags(self) -> list[Flag]:
        """What a person must look at."""
        found = []
        for name in self.journals():
            p = self.journal(name)._p
            with p.lock:
                p.enter()
                for flag, value in p.state.rows(b"flags"):
                    found.append(Flag(name, flag.decode(), *msgpack.unpackb(value)))
        return found

    def lower(self, flag: Flag) -> None:
        """A person has looked: take a flag down."""
        self.journal(flag.journal)._lower(flag.name)

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes of the store and of its journals."""
        return {
            "path": str(self.path),
            "pid": os.getpid(),
            "opening": self._catalog.opening,
            "clock_steps": self._time.steps,
            "now": self._time.now(),
            "journals": {name: self.journal(name).statistics() for name in self.journals()},
        }

    def checkpoint(self) -> None:
        """Commit everything to LMDB now, so that readers outside of this process see it."""
        with self._lock:
            self._check()
            if self._is_readonly:
                raise ReadOnly("the store was opened with readonly=True: only its owner makes checkpoints")
            journals = list(self._journals.values())
        for journal in journals:
            self._keeper.call(journal._p.checkpoints.run)

    def check(self, *, deep: bool = False) -> list[str]:
        """Recompute every index, counter and invariant from the entries and the log; what differs, in words."""
        found = []
        for name in self.journals():
            found += checks.check(self.journal(name)._p, is_deep=deep)
        return found

    def close(self) -> None:
        """Finish what is under way, commit, and give the store up. Closing twice is fine."""
        with self._lock:
            if self._trouble is not None:
                return
            self._trouble = StoreClosed(f"the store {self.path} is closed")
            _open_stores.discard(self)
            self._end_advance()
            try:
                self._keeper.call(self._close_journals)
            finally:
                self._keeper.close()
                self._give_up()

    def _give_up(self) -> None:
        if self._owner is not None:
            self._owner.close()

    def _close_journals(self) -> None:
        for name, journal in self._journals.items():
            digests = journal._p.close()
            journal._p.generations.disposal.close()
            if digests:
                self._catalog.set(name, self._listed(name)._replace(digests=digests))
        self._catalog.close()

    def _check(self) -> None:
        if self._trouble is not None:
            raise self._trouble

    def _on_advance(self) -> None:
        for journal in list(self._journals.values()):
            p = journal._p
            with p.lock:
                if p.trouble is None:
                    p.enter()
                    p.due.notify_all()

    def _after_fork_in_child(self) -> None:
        """Refuse everything here; the parent's files and lock stay as they are (B1)."""
        self._trouble = ForkedStore(
            f"the store {self.path} was opened by process {os.getppid()}, the parent of this one ({os.getpid()}): a "
            "forked child must open the store itself after the parent has closed it, or work through the parent"
        )
        self._lock = threading.RLock()
        for journal in self._journals.values():
            journal._p.abandon_after_fork(self._trouble)
        self._give_up()
        _forked.append(self)


_forked: list[Store] = []
"""Stores inherited by a forked child, kept alive: LMDB must not run its clean-up under the parent's transaction."""


def _prepare(path: Path) -> None:
    """The store's directory: made, or checked that it is one of ours."""
    if not make_directory(path):
        names = set(os.listdir(path))
        if names and not names & {"LOCK", "catalog"}:
            raise Invalid(f"{path} is not a store and not empty: choose another path")
        os.chmod(path, 0o700)
        for name in names:
            if name not in ("LOCK", "catalog") and NAME.fullmatch(name) is None:
                raise StoreDamaged(f"{path / name} is not a part of a store: move it out of {path}")
            check_own(path / name, is_directory=name != "LOCK")


def _check_generations(top: Path, name: str, listed: Listed) -> None:
    """All files that the catalog names are there and ours; what a crash left of others is removed (generations U2)."""
    if not top.is_dir():
        raise StorageError(f"{top} is missing: the catalog names journal {name}; restore it from a copy")
    check_own(top, is_directory=True)
    wipe = listed.settings.wipe
    wanted = {f"{kept.order:06d}": kept for kept in listed.generations if kept.has_rows or kept.has_log}
    for found in os.listdir(top):
        if found in wanted or found in (SPARE, SPARE + "-lock", "offsets"):
            continue
        if _LEFT.fullmatch(found) is None:
            raise StoreDamaged(f"{top / found} is not a part of a store: move it out of the store")
        log.warning("orphan_removed path=%s", top / found)
        remove_left(top / found, wipe)
    for directory, kept in ((top / order, kept) for order, kept in wanted.items()):
        for part in [directory, directory / "log"] if kept.has_log else [directory]:
            if not part.is_dir():
                raise StorageError(f"{part} is missing: the catalog names journal {name}; restore it from a copy")
            check_own(part, is_directory=True)
        _refuse_foreign(directory, {"log", "rows.mdb", "rows.mdb-lock"})
        if not kept.has_log:
            remove_left(directory / "log", wipe)
        if not kept.has_rows:
            for left in ("rows.mdb", "rows.mdb-lock"):
                remove_left(directory / left, wipe)


def _refuse_foreign(directory: Path, known: set[str]) -> None:
    for name in os.listdir(directory):
        if name not in known:
            raise StoreDamaged(f"{directory / name} is not a part of a store: move it out of the store")


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


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
