"""
How the files of journals are made, checked and opened: one by one, or those that merged journals share.

    <journal>/000001/…     a journal that has its files for itself
    _merged/000001/…       what all merged journals of the store share
    _gone-<number>[-wipe]/ what is left of a journal that was dropped; removed when the store is opened

O1  A journal is named in the catalog when all its files are durable, and is not named there any more before they go.
O2  A token comes once for a name, also when its journal is dropped and another one declared in the same opening of the store, with
    files of its own or merged: tokens begin above those of all that were dropped.
O3  A merged journal that is being dropped is listed as such until none of its rows is left, as of a durable checkpoint:
    a crash in between is gone on with at the next open, and its name is not given to another one before.
"""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from journal.core.settings import MERGED, Settings, changed, changed_for_all
from journal.engine.catalog import Catalog, Listed
from journal.engine.files.disposal import SPARE, remove_left
from journal.engine.files.layout import GONE
from journal.engine.files.posix import check_own, durable_names, make_directory
from journal.engine.generations.files import make_files
from journal.engine.generations.schemas import declared
from journal.engine.loads.staging import sweep_loads
from journal.engine.log.generation_record import GenerationRecord
from journal.engine.merged.sequence import Member, MergedLook, Merging, Sequence
from journal.engine.own_pipeline import OwnPipeline
from journal.engine.pipeline import Pipeline
from journal.engine.readonly import Look
from journal.engine.runtime.background import Keeper
from journal.engine.runtime.clock import EngineTime
from journal.engine.snapshots.directories import sweep as sweep_snapshots
from journal.errors import NotFound, ReadOnly, StorageError, StoreClosed, StoreDamaged, StoreFailed

log = logging.getLogger("journal.store")

_WIPE = "-wipe"
_LEFT = re.compile(r"next|[0-9]{6,}((-log|-rows|-[0-9]{20})?\.gone)?")
"""What a crash in the middle of a rotation or a disposal may leave."""


@dataclass(kw_only=True)
class StoreOpening:
    """What a store opens its journals with. All methods on the keeper."""

    path: Path
    catalog: Catalog
    keeper: Keeper
    time: EngineTime
    level: int
    claim_level: int
    sync_s: float
    map_bytes: int
    is_deep: bool
    is_readonly: bool
    sequence: Merging | None = None
    """What merged journals share, when one of them is open."""
    pipelines: dict[str, OwnPipeline] = field(default_factory=dict)
    """Of the journals in use that have their files for themselves, and what merged journals share."""
    token_floor: int = 0
    """No journal that was dropped in this opening of the store has handed out a token from here on (O2)."""

    def __post_init__(self) -> None:
        self.catalog.on_failure = self._failed

    def _failed(self, error: StoreFailed) -> None:
        """All journals rest on the catalog (catalog A4)."""
        for p in self.pipelines.values():
            p.commit.fail(error)

    def closed(self, name: str, digests: dict[int, int | None]) -> None:
        """The rows of a journal are as a clean close left them (catalog A2); without digests the next open looks for itself."""
        try:
            if digests:
                self.catalog.set(name, self.listed(name)._replace(digests=digests))
        except StorageError as e:
            log.error("close_without_digests journal=%s error=%s", name, e)

    # -- settings -----------------------------------------------------------------------------------------------------

    def change(self, name: str, given: dict[str, Any]) -> Settings:
        """Settings that may be changed, kept."""
        if self.is_readonly:
            raise ReadOnly("the store was opened with readonly=True: settings cannot be changed")
        listed = self.listed(name)
        settings = changed_for_all(listed.settings, given) if name == MERGED else changed(listed.settings, given)
        if settings != listed.settings:
            self.catalog.set(name, listed._replace(settings=settings))
        return settings

    def listed(self, name: str) -> Listed:
        """What the catalog says of a journal that is open."""
        listed = self.catalog.get(name)
        assert listed is not None
        return listed

    def _record(self, name: str, kept: list[GenerationRecord]) -> None:
        self.catalog.set(name, self.listed(name)._replace(generations=kept))

    def _look(self, name: str) -> list[GenerationRecord]:
        """For readonly=True: the generations that there are now."""
        self.catalog.renew()
        listed = self.catalog.get(name)
        if listed is None:
            raise StoreClosed(f"the journal {name} is not there any more: it was dropped")
        return listed.generations

    def _was_closed(self, name: str) -> bool:
        """For readonly=True: whether the rows are as a clean close left them (catalog A2)."""
        self.catalog.renew()
        return bool(self.listed(name).digests)

    def is_merged(self, name: str) -> bool:
        """Whether a journal of the catalog is a merged one."""
        return self.listed(name).settings.merged

    # -- opening ------------------------------------------------------------------------------------------------------

    def journal(self, name: str, given: dict[str, Any]) -> Pipeline:
        """Open a journal, or make it."""
        listed = self.catalog.get(name)
        if self.is_readonly:
            if listed is None:
                raise NotFound(f"there is no journal {name!r} in {self.path}: it has {self.catalog.journals()}")
            if given:
                raise ReadOnly("the store was opened with readonly=True: settings cannot be changed")
        settings = changed(None if listed is None else listed.settings, given)
        if settings.merged:
            return self._member(name, settings, listed)
        return self._alone(name, settings, listed)

    def _alone(self, name: str, settings: Settings, listed: Listed | None) -> OwnPipeline:
        """A journal that has its files for itself, or what merged journals share."""
        top = self.path / name
        if self.is_readonly:
            look = partial(
                Look if name != MERGED else partial(MergedLook, known=self.catalog.names()), top, name, settings, keeper=self.keeper,
                time=self.time, generations=partial(self._look, name), was_closed=partial(self._was_closed, name),
            )  # fmt: skip
            self.pipelines[name] = look()
            return self.pipelines[name]
        if listed is None:
            first = self.catalog.former(name).order + 1  # former_names N1
            listed = Listed(
                settings, [GenerationRecord(first, self.time.now(), None, True, True, declared(settings))], {}
            )
            try:
                self._create(name, listed)
            except StoreFailed as e:
                self.catalog.fail(e)  # the name is one of those in the store's own directory
                raise
        else:
            listed = listed._replace(settings=settings)
        left = _check_generations(top, name, listed)
        made = partial(Sequence, known=self.catalog.names()) if name == MERGED else OwnPipeline
        pipeline = made(
            top, name, listed.settings, kept=listed.generations, keeper=self.keeper, time=self.time,
            next_token=max(self.catalog.opening << 40, self._token_floor()), level=self.level, claim_level=self.claim_level,
            sync_s=self.sync_s, map_bytes=self.map_bytes, record=partial(self._record, name),
        )  # fmt: skip
        pipeline.open(listed.digests, is_deep=self.is_deep)
        try:
            for path in left:
                log.warning("orphan_removed path=%s", path)
                remove_left(path, listed.settings.wipe)
            # The rows will change: their digests are taken back before they do (catalog A2).
            self.catalog.set(name, listed._replace(digests={}))
        except BaseException as e:
            # Their digests may still be listed, so they are left as they are.
            pipeline.commit.fail(StoreFailed(f"journal {name} could not be opened: {e}"))
            pipeline.close()
            raise
        self.pipelines[name] = pipeline
        return pipeline

    def _token_floor(self) -> int:
        """From where on a journal's tokens begin (O2): merged ones that were dropped had theirs of the shared sequence."""
        return self.token_floor if self.sequence is None else max(self.token_floor, self.sequence.next_token)

    def merged(self) -> Merging:
        """What merged journals share, opened or made."""
        if self.sequence is None:
            listed = self.catalog.get(MERGED)
            if listed is None and self.is_readonly:
                raise NotFound(f"there are no merged journals in {self.path}: it has {self.catalog.journals()}")
            pipeline = self._alone(MERGED, Settings() if listed is None else listed.settings, listed)
            assert isinstance(pipeline, Merging)
            self.sequence = pipeline
        return self.sequence

    def _member(self, name: str, settings: Settings, listed: Listed | None) -> Member:
        shared = self.merged()
        if listed is None:
            if shared.order <= (used := self.catalog.former(name).alone):  # former_names N2
                shared.generations.rotate_beyond(used)
            listed = Listed(
                settings, [GenerationRecord(shared.order, self.time.now(), None, True, True, declared(settings))], {}
            )
            self.catalog.set(name, listed)
            shared.known.add(name.encode())
        elif settings != listed.settings:
            self.catalog.set(name, listed._replace(settings=settings))
        return Member(shared, name, settings, listed.generations, partial(self._record, name))

    def _create(self, name: str, listed: Listed) -> None:
        """Make the files of a new journal, then name it (O1, catalog A2)."""
        top = self.path / name
        if not make_directory(top):
            log.warning("orphan_removed path=%s", top)
            # Left by a declaration, then there is little of it; or by a drop that was cut short before `forget` gave it
            # its name: whether that journal wanted it wiped is recorded nowhere any more.
            remove_left(top, wipe=True)
            make_directory(top)
        directory = top / f"{listed.generations[0].order:06d}"
        make_files(directory, name)
        self.catalog.set(name, listed)

    # -- dropping -----------------------------------------------------------------------------------------------------

    def forget(self, p: OwnPipeline) -> Path:
        """
        Close a journal that has its files for itself, and is no more: where its files are now (O1), under a name that says how
        they go (disposal N3).
        """
        try:
            with durable_names(self.path):
                p.close()
                return self._forget(p)
        except StoreFailed as e:
            self.catalog.fail(e)  # names in the store's own directory are those of all journals
            raise

    def _forget(self, p: OwnPipeline) -> Path:
        self.token_floor = max(self.token_floor, p.next_token)
        if self.sequence is not None:
            with self.sequence.lock:
                self.sequence.skip_tokens(self.token_floor)
        self.catalog.remove(p.name)
        del self.pipelines[p.name]
        number = 0
        while (gone := self.path / f"{GONE}{number}{_WIPE if p.settings.wipe else ''}").exists():
            number += 1
        os.rename(self.path / p.name, gone)
        return gone

    def sweep(self) -> None:
        """Remove what is left of journals that were dropped, of snapshots, and of loads that were not committed."""
        sweep_snapshots(self.path)
        sweep_loads(self.path)
        for found in sorted(self.path.iterdir()):
            if found.name.startswith(GONE):
                remove_left(found, wipe=found.name.endswith(_WIPE))


def _check_generations(top: Path, name: str, listed: Listed) -> list[Path]:
    """
    All files that the catalog names are there and ours; what a crash left of others, to be removed (generations U2) when the journal is
    open: until then it may turn out that the catalog and the files do not belong together (commit_parts Q3), and a refusal changes nothing.
    """
    if not top.is_dir():
        raise StorageError(f"{top} is missing: the catalog names journal {name}; restore it from a copy")
    check_own(top, is_directory=True)
    left: list[Path] = []
    wanted = {f"{kept.order:06d}": kept for kept in listed.generations if kept.has_rows or kept.has_log}
    for found in os.listdir(top):
        if found in wanted or found in (SPARE, SPARE + "-lock", "offsets"):
            continue
        if _LEFT.fullmatch(found) is None:
            raise StoreDamaged(f"{top / found} is not a part of a store: move it out of the store")
        left.append(top / found)
    for directory, kept in ((top / order, kept) for order, kept in wanted.items()):
        for part in [directory, directory / "log"] if kept.has_log else [directory]:
            if not part.is_dir():
                raise StorageError(f"{part} is missing: the catalog names journal {name}; restore it from a copy")
            check_own(part, is_directory=True)
        _refuse_foreign(directory, {"log", "rows.mdb", "rows.mdb-lock"})
        parts = ["log"] * (not kept.has_log) + ["rows.mdb", "rows.mdb-lock"] * (not kept.has_rows)
        left += [directory / part for part in parts if os.path.lexists(directory / part)]
    return left


def _refuse_foreign(directory: Path, known: set[str]) -> None:
    for name in os.listdir(directory):
        if name not in known:
            raise StoreDamaged(f"{directory / name} is not a part of a store: move it out of the store")
