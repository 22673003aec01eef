"""
Loads: very many rows as one change.

A load is one record, as a group of puts is (put_many), with its number under its name in it when it is to be made once. What can
be done before the lock is taken is done before (prepare); then all callers wait until the rows are in the log and in LMDB,
and the checkpoint that follows writes LMDB's pages.

How it is made is in journal.engine.loads.apply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from journal.core.requests.load import LoadCommitRequest
from journal.core.schema.schema import Schema
from journal.core.values import Loaded
from journal.engine.arguments import SchemaChanged
from journal.engine.caller import Bounds, Caller
from journal.engine.checkpoints import BYTES_MAX, CHANGES_MIN
from journal.engine.loads.apply import RULES, LoadOptions, OneLoad, repeated
from journal.engine.loads.apply_sealed import ReadyLoad
from journal.engine.loads.path import LoadPath
from journal.engine.loads.prepare import Part, Preparation
from journal.engine.loads.staging import StagedLoads
from journal.engine.log.durability import FULL
from journal.loads import SealedPart
from journal.shield import SHIELD


class Loads:
    """The loads of one journal: rows by the million."""

    def __init__(self, pipeline: LoadPath, staging: StagedLoads | None) -> None:
        self._p = pipeline
        self._staging = staging
        """Where parts wait; the store's."""

    def load(self, parts: Sequence[Part], how: LoadCommitRequest, caller: Caller) -> Loaded:
        """Load parts, in memory or in files, as one change."""
        options = options_of(self._p, how)
        with SHIELD:
            return self._load_checked(parts, options, caller)

    def _load_checked(self, parts: Sequence[Part], options: LoadOptions, caller: Caller) -> Loaded:
        while True:
            before = repeated_load(self._p, options)
            if before is not None:
                return before
            try:
                return self._load(parts, options, caller)
            except SchemaChanged:
                pass  # they are checked once more

    # -- in parts from many hands -----------------------------------------------------------------------------------

    def begin(self) -> str:
        """Begin a load whose parts come one by one; its id."""
        return self._staged().begin(self._p.name)

    def piece(self, load: str, name: str, at: int, piece: bytes) -> int:
        """Add a piece to a part; how many bytes it has now."""
        with SHIELD:
            return self._staged().take(self._p.name, load, name, at, piece)

    def commit(self, asked: LoadCommitRequest, caller: Caller) -> Loaded:
        """Load the parts of these names as one change, and forget the load."""
        staging, name = self._staged(), self._p.name
        options = options_of(self._p, asked)
        known = staging.committed(name, asked.load)
        if known is not None:
            return known
        before = repeated_load(self._p, options)
        if before is not None:
            staging.abort(name, asked.load)
            return before
        return staging.commit(name, asked.load, asked.parts, lambda paths: self._load_checked(paths, options, caller))

    def abort(self, load: str) -> bool:
        """Give a load up: its parts go; False when there is none."""
        return self._staged().abort(self._p.name, load)

    def _staged(self) -> StagedLoads:
        p = self._p
        p.check_open()
        p.level_of(None, p.level)  # a store opened with readonly=True refuses
        assert self._staging is not None
        return self._staging

    # -- one change -----------------------------------------------------------------------------------------------------

    def _load(self, parts: Sequence[Part], options: LoadOptions, caller: Caller) -> Loaded:
        p = self._p
        schema = p.schema
        limit = p.settings.entry_bytes_max
        began = p.now()
        if schema is None and caller.bounds == Bounds():
            made = self._load_ready(parts, options, limit, began)
            if made is not None:
                return made
        prepared = Preparation(schema, limit, caller.bounds, began, is_listing=options.is_listing).read(parts)
        loaded = self._make(
            len(prepared.items), prepared.bytes, schema, options, lambda now: OneLoad(p, prepared, options, now).make()
        )
        assert loaded is not None
        return loaded

    def _load_ready(
        self, parts: Sequence[Part], options: LoadOptions, entry_bytes_max: int, began: int
    ) -> Loaded | None:
        """
        Load rows that need no check and have different keys; None when there are others, or when numpy and pyarrow, which put them in
        order, are not installed.
        """
        if not all(isinstance(part, SealedPart) for part in parts):
            return None
        try:
            from journal.engine.loads.sealed_rows import ready_rows
        except ImportError:
            return None
        ready = ready_rows(parts, entry_bytes_max, began)
        if ready is None or not ready.sort():
            return None
        load = partial(ReadyLoad, self._p, ready, options)
        return self._make(ready.count, ready.bytes, None, options, lambda now: load(now).make())

    def _make(
        self,
        rows: int,
        size: int,
        schema: Schema | None,
        options: LoadOptions,
        make: Callable[[int], tuple[Loaded, int] | None],
    ) -> Loaded | None:
        """Make a load under the lock, and have it durable; None when it must be made in another way."""
        p = self._p
        is_large = rows >= CHANGES_MIN or size >= BYTES_MAX
        checkpoints = p.checkpoints
        if is_large and p.changes:
            checkpoints.hold()  # so that the map has all its room
        with p.lock:
            now = p.enter()
            if p.schema is not schema:
                raise SchemaChanged
            made = repeated(p, options) or make(now)
            if made is None:
                return None
            _count(p, made[0])
        loaded, offset = made
        if options.level == FULL:
            p.settle(offset)
        if is_large:
            checkpoints.hold()
        return loaded


def _count(p: LoadPath, loaded: Loaded) -> None:
    counts = p.tally.load
    counts["repeated" if loaded.is_repeated else "loads"] += 1
    counts["rows"] += loaded.inserted + loaded.merged + loaded.replaced + loaded.queued
    counts["rejected"] += len(loaded.rejected)


def options_of(p: LoadPath, how: LoadCommitRequest) -> LoadOptions:
    """How a load shall be made."""
    return LoadOptions(RULES[how.on_conflict], how.once, how.on_reject == "list", p.level_of(how.durability, p.level))


def repeated_load(p: LoadPath, options: LoadOptions) -> Loaded | None:
    """What a load comes to that was made before (apply Q3); None when it was not."""
    if options.once is None:
        return None
    with p.lock:
        p.enter()
        found = repeated(p, options)
    if found is None:
        return None
    if options.level == FULL:
        p.settle(found[1])
    return found[0]
