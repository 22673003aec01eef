"""
Restoring: a store made of a backup, elsewhere.

The store goes on as of the backup. What was changed afterwards is not there, and the store that the backup was made of may still be in
use. So that nothing of the one is taken for the other:

R1  The number of the opening goes up by JUMP at least, and by another one each time: no token comes that was given out after the
    backup, or by another store of the same backup.
R2  Each journal goes on in a new generation, as far ahead: no cursor names two changes, one in each store.
R3  The store has an identity of its own.
R4  A directory gets the store's name when all of it is verified and durable, and when the store was opened and checked.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from journal.core.settings import MERGED
from journal.core.values import Backup
from journal.engine.backups import manifest as manifests
from journal.engine.backups.manifest import STORE, BackupManifest, copy_bytes, is_whole
from journal.engine.catalog import Catalog
from journal.engine.files.posix import remove_tree, storage_error, sync_directory
from journal.engine.runtime.clock import EngineTime, as_clock
from journal.engine.store import EngineStore
from journal.errors import Invalid, StoreDamaged

JUMP = 1 << 16
"""So many openings, or generations, may come after the backup in the store that it was made of."""
LIMIT = 1 << 24
"""What a token, and the place of a change, have room for."""


def restore(
    backup: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    *,
    progress: Callable[[int, int], None] | None = None,
    clock: object | None = None,
) -> Backup:
    """
    Make a store of a backup, in a directory that is not there yet, or empty.

    backup     a directory of backups, of which the newest counts, or one of them
    progress   called with the bytes done and the bytes in all
    clock      for tests: journal.testing.ManualClock
    """
    try:
        return _restore(Path(backup).absolute(), Path(dest).absolute(), progress or (lambda done, total: None), clock)
    except OSError as e:
        raise storage_error(e, f"cannot restore {os.fspath(backup)} to {os.fspath(dest)}") from e


def _restore(backup: Path, dest: Path, progress: Callable[[int, int], None], clock: object | None) -> Backup:
    if dest.exists() and (not dest.is_dir() or any(dest.iterdir())):
        raise Invalid(f"{dest} is there already, and not empty: restore to another path")
    source = manifests.newest(backup)
    manifest = manifests.read(source)
    jump = JUMP + secrets.randbelow(JUMP)
    if manifest.opening + jump + JUMP >= LIMIT:
        raise Invalid(f"{source} is of opening {manifest.opening}: a store that was restored so often cannot be again")
    done, total = 0, 3 * manifest.bytes

    def tick(size: int) -> None:
        nonlocal done
        done += size
        progress(min(done, total), total)

    manifests.verify(source, manifest, tick)
    made = dest.with_name(f"{dest.name}.restore-{secrets.token_hex(8)}")
    os.makedirs(dest.parent, exist_ok=True)
    os.mkdir(made, 0o700)
    try:
        _copy(source, manifest, made, tick)
        catalog = Catalog(made)
        catalog.restored(jump, {name: {int(o): d for o, d in each.items()} for name, each in manifest.digests.items()})
        identity = catalog.identity
        catalog.close()
        _go_on(made, jump, clock)
        os.rename(made, dest)  # over an empty directory, too
        sync_directory(dest.parent)
    except BaseException:
        remove_tree(made)
        raise
    return manifest.report(dest, list(manifest.files))._replace(store=identity)


def _copy(source: Path, manifest: BackupManifest, made: Path, tick: Callable[[int], None]) -> None:
    """All files, read once more when they are durable."""
    directories = {made}
    for name, file in manifest.files.items():
        target = made / name
        os.makedirs(target.parent, mode=0o700, exist_ok=True)
        directories |= {each for each in target.parents if made in each.parents}
        copy_bytes(source / STORE / name, target, None, tick)
        fd = os.open(target, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        if not is_whole(target, file, tick):
            raise StoreDamaged(f"{target} is not as it was written: look at the disk, and try again")
    for directory in directories:
        os.chmod(directory, 0o700)
        sync_directory(directory)


def _go_on(made: Path, jump: int, clock: object | None) -> None:
    """Open the store, check all of it, and begin generations far ahead (R2, R4)."""
    with closing(EngineStore(made.absolute(), time=EngineTime(as_clock(clock)), is_deep=True)) as store:
        if found := store.check(deep=True):
            raise StoreDamaged(f"the restored store is not sound: {found[0]}. Use another backup")
        for name in store.alone():
            _rotate(store, name, jump)
        if store.has_merged():
            _rotate(store, MERGED, jump)


def _rotate(store: EngineStore, name: str, jump: int) -> None:
    p = store.own(name)
    if p.order + jump + JUMP >= LIMIT:
        raise Invalid(f"journal {p.name} has come to generation {p.order}: it was restored too often")
    generations = p.generations
    store.keeper.call(lambda: generations.rotate_beyond(p.order + jump))
