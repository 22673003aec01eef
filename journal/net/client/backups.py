"""`store.backup` over a connection: the daemon makes it, in a directory of its machine, and is asked how far it is."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from journal.core.quoting import shown
from journal.core.values import Backup
from journal.errors import FrameError, Invalid
from journal.net.client.calls.call import Call, call, nothing
from journal.net.client.remote import Remote

POLL_S = 0.1


class State(NamedTuple):
    """How far a backup is."""

    done: int
    total: int
    backup: Backup | None


def begin(path: str) -> Call[None]:
    """Begin a backup."""
    return call("BACKUP", "", nothing, path=path)


def state() -> Call[State]:
    """How far the last one is."""
    return call("BACKUP_STATE", "", _read_state)


def _read_state(value: Any) -> State:
    match value:
        case {"done": int(done), "total": int(total), "backup": None}:
            return State(done, total, None)
        case {"done": int(done), "total": int(total), "backup": list(made)} if len(made) == len(Backup._fields):
            return State(done, total, Backup(*made))
    raise FrameError(f"{shown(value)} is no state of a backup: it has done, total and backup")


class RemoteBackups(Remote):
    """What a store does for its backups."""

    def backup(self, dest: str | os.PathLike[str], *, progress: Callable[[int, int], None] | None = None) -> Backup:
        """
        Have the daemon copy the store to a directory of its machine while clients go on working: each journal as of one change, with
        everything that was acknowledged before. For identities with the role admin that may see all journals.

        A directory that has an older backup of this store gets the files that have changed; that one goes when the new one is whole and
        verified. `journal.restore` makes a store of it.

        dest       an absolute path
        progress   called with the bytes that are done and the bytes in all
        """
        path = os.fspath(dest)
        if not os.path.isabs(path):
            raise Invalid(
                f"{path!r} is not an absolute path: the daemon makes the backup in a directory of its own machine"
            )
        self._ask(begin(path))
        pause = threading.Event()
        while True:
            found = self._ask(state())
            if progress is not None:
                progress(found.done, found.total)
            if found.backup is not None:
                return found.backup
            pause.wait(POLL_S)
