"""Places for stores that live for a moment: memory when there is room, else the temporary directory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM_BYTES = 512 << 20


def fast_parent() -> Path:
    """Where files cost least: a memory file system with room, where a sync is free."""
    try:
        if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES:
            return MEMORY
    except OSError:
        pass
    return Path(tempfile.gettempdir())


@contextmanager
def scratch(name: str, *, is_fast: bool = True) -> Iterator[Path]:
    """A directory of one's own that goes when the block ends."""
    parent = fast_parent() if is_fast else Path(tempfile.gettempdir())
    path = Path(tempfile.mkdtemp(prefix=f"crash-{name}-", dir=parent)).resolve()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def empty(path: Path) -> Path:
    """Remove what is there, so that a state can be written."""
    shutil.rmtree(path, ignore_errors=True)
    return path
