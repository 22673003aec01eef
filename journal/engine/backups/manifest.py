"""
A directory of backups: which one counts, what belongs to it, and whether that is as it was written.

    <directory>/backup-000001/MANIFEST     the SHA-256 of all that follows, a newline, then JSON (Manifest)
    <directory>/backup-000001/store/…      the files of a store, those that the manifest lists and no others
    <directory>/backup-000002.new/         one that is being made, or was cut short

K1  A backup gets its name when all of it is verified and durable. The highest number counts; older ones go when it has its name.
K2  Nothing is taken for a backup, or a part of one, that does not match the digests of its manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from journal.core.values import Backup
from journal.engine.files.posix import open_file, sync_directory, write_all
from journal.errors import NotFound, StoreDamaged

NAME = re.compile(r"backup-([0-9]{6,})")
NEW = ".new"
STORE = "store"
_MANIFEST = "MANIFEST"
_FORMAT = 1
_CHUNK = 1 << 20
Tick = Callable[[int], None]
"""Called with the number of bytes that were read or written."""


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file of a backup."""

    bytes: int
    sha256: str
    source: list[Any] = field(default_factory=list)
    """What names the content of the file that it is a copy of; a file of the store with the same needs no other copy. Empty: none does."""


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """What a backup holds."""

    store: str
    """The identity of the store."""
    path: str
    made: int
    opening: int
    journals: dict[str, str]
    """The last change of each journal that is in it, as a cursor."""
    digests: dict[str, dict[str, int | None]]
    """Of the rows, as a clean close leaves them in the catalog."""
    files: dict[str, CopiedFile]
    """By path."""

    @property
    def bytes(self) -> int:
        """What all files have together."""
        return sum(file.bytes for file in self.files.values())

    def report(self, path: Path, copied: list[str]) -> Backup:
        """The result for the caller; `copied`: the files that were not there before."""
        size = sum(self.files[name].bytes for name in copied)
        return Backup(
            str(path), self.store, self.made, dict(self.journals), len(self.files), self.bytes, len(copied), size
        )


def numbered(directory: Path) -> list[tuple[int, Path]]:
    """The backups in a directory, oldest first."""
    found = ((NAME.fullmatch(name), name) for name in os.listdir(directory))
    return sorted((int(match[1]), directory / name) for match, name in found if match is not None)


def newest(path: Path) -> Path:
    """The backup that counts in a directory, or the one that a path is."""
    if (path / _MANIFEST).is_file():
        return path
    found = numbered(path) if path.is_dir() else []
    if not found:
        raise NotFound(f"{path} has no backup: `journal backup STORE {path}` makes one there")
    return found[-1][1]


def write(backup: Path, manifest: BackupManifest) -> None:
    """Write the manifest, durable on return."""
    text = json.dumps({"format": _FORMAT, **asdict(manifest)}, indent=1, sort_keys=True).encode()
    fd = open_file(backup / _MANIFEST, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        write_all(fd, hashlib.sha256(text).hexdigest().encode() + b"\n" + text, 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_directory(backup)


def read(backup: Path) -> BackupManifest:
    """The manifest of a backup."""
    path = backup / _MANIFEST
    try:
        digest, _, text = path.read_bytes().partition(b"\n")
    except FileNotFoundError:
        raise NotFound(f"{backup} is not a backup: there is no {path}") from None
    if hashlib.sha256(text).hexdigest().encode() != digest:
        raise StoreDamaged(f"{path} does not match its digest: the backup is damaged; take another one")
    kept = json.loads(text)
    if kept.pop("format", None) != _FORMAT:
        raise StoreDamaged(f"{path} has a format that this version does not know: use the version that made the backup")
    return BackupManifest(**kept | {"files": {name: CopiedFile(**each) for name, each in kept["files"].items()}})


def is_whole(path: Path, file: CopiedFile, tick: Tick = lambda size: None) -> bool:
    """Whether a file is as the manifest says (K2)."""
    try:
        return os.stat(path).st_size == file.bytes and sha256_of(path, tick) == file.sha256
    except FileNotFoundError:
        return False


def verify(backup: Path, manifest: BackupManifest, tick: Tick = lambda size: None) -> None:
    """Refuse a backup of which a file is missing or has changed (K2)."""
    for name, file in manifest.files.items():
        path = backup / STORE / name
        if not is_whole(path, file, tick):
            raise StoreDamaged(f"{path} is missing, or not as it was written: the backup is damaged. Use another one")


def sha256_of(path: Path, tick: Tick = lambda size: None) -> str:
    """The digest of a file."""
    digest = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        while piece := os.read(fd, _CHUNK):
            digest.update(piece)
            tick(len(piece))
    finally:
        os.close(fd)
    return digest.hexdigest()


def copy_bytes(source: Path, target: Path, limit: int | None = None, tick: Tick = lambda size: None) -> None:
    """Write a new file with the first bytes of another one, or all of them; not synced."""
    left = os.stat(source).st_size if limit is None else limit
    fd = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        made = open_file(target, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            at = 0
            while at < left and (piece := os.pread(fd, min(_CHUNK, left - at), at)):
                write_all(made, piece, at)
                at += len(piece)
                tick(len(piece))
        finally:
            os.close(made)
    finally:
        os.close(fd)
