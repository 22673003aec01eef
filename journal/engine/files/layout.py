"""
The store's directory: made, or checked that all that lies in it is a part of a store, and ours.

P1  A directory with other files does not become a store, and nothing in it is touched.
"""

from __future__ import annotations

import os
from pathlib import Path

from journal.core.settings import MERGED, NAME
from journal.engine.files.posix import (
    SNAPSHOTS,
    SOCKET,
    TOKENS,
    TOKENS_NEW,
    check_own,
    check_own_socket,
    make_directory,
)
from journal.errors import Invalid, StoreDamaged

LOADS = "_loads"
"""In the store's directory. No journal can have this name."""
GONE = "_gone-"
"""What the directory of a dropped journal begins with, until it is deleted."""


def prepare(path: Path) -> None:
    """The store's directory: made, or checked that it is one of ours."""
    if not make_directory(path):
        names = set(os.listdir(path))
        if names and not names & {"LOCK", "catalog"}:
            raise Invalid(f"{path} is not a store and not empty: choose another path")
        os.chmod(path, 0o700)
        for name in names:
            try:
                _check_part(path, name)
            except FileNotFoundError:
                pass  # an owner that is just ending removed it: the lock, taken next, decides which process owns the store


def _check_part(path: Path, name: str) -> None:
    """What lies in a store's directory is a part of it, and ours."""
    if name == SOCKET:
        check_own_socket(path / name)  # a dead daemon's is replaced by the next one; until then it does no harm
    elif name in ("LOCK", TOKENS, TOKENS_NEW):
        check_own(path / name, is_directory=False)
    elif name in ("catalog", MERGED, SNAPSHOTS, LOADS) or NAME.fullmatch(name) is not None or name.startswith(GONE):
        check_own(path / name, is_directory=True)
    else:
        raise StoreDamaged(f"{path / name} is not a part of a store: move it out of {path}")
