"""
BACKUP: a backup of the daemon's store in a directory of its machine, on a thread of its own.

Q1  One at a time. The outcome of the last one is kept, and can be queried on any connection.
Q2  It has all journals: it is for identities that may see all of them.
Q3  It ends with the daemon: what was made of it by then goes, an older backup stays.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from journal.core.quoting import shown, told
from journal.core.values import Backup
from journal.errors import AccessDenied, Busy, Invalid, JournalError, NotFound, Stopping
from journal.net.server.connection import Peer
from journal.threads import begin

if TYPE_CHECKING:
    from journal.net.server.dispatcher import Hub

log = logging.getLogger("journal.daemon")


class Backing:
    """The backups that a daemon makes. Asked on its thread."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._thread: threading.Thread | None = None
        self._done = self._total = 0
        self._made: Backup | None = None
        self._error: JournalError | None = None
        self._is_closed = False
        hub.own |= {"BACKUP": self._begin, "BACKUP_STATE": self._state}

    def _begin(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        self._check(peer)
        path = parameters["path"]
        if not os.path.isabs(path):
            raise Invalid(f"{shown(path)} is not an absolute path: it is one of the daemon's machine")
        if self._thread is not None and self._thread.is_alive():
            raise Busy("a backup is being made already: ask for BACKUP_STATE, and again when it is done")  # Q1
        self._done = self._total = 0
        self._made = self._error = None
        self._thread = begin(
            threading.Thread(target=self._make, args=(path,), name="journal-daemon-backup", daemon=True)
        )
        return None

    def _state(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        self._check(peer)
        if self._thread is None:
            raise NotFound("this daemon has made no backup: BACKUP begins one")
        made, error = self._made, self._error
        if error is not None:
            raise error
        return {"done": self._done, "total": self._total, "backup": None if made is None else list(made)}

    def _check(self, peer: Peer) -> None:
        grant = peer.connection.grant
        if "*" not in grant.journals:
            raise AccessDenied(
                f"{shown(grant.identity)} may not see all journals: a backup needs * among its token's journals"
            )  # Q2

    def _make(self, path: str) -> None:
        try:
            self._made = self._hub.store.backup(path, progress=self._progress)
            log.info("backup_made path=%s", path)
        except JournalError as e:
            log.warning("backup_failed path=%s error=%s", path, told(e))
            self._error = e
        except Exception as e:
            log.exception("backup_failed path=%s", path)
            self._error = JournalError(f"the backup failed: {e!r}")

    def _progress(self, done: int, total: int) -> None:
        if self._is_closed:
            raise Stopping("the daemon ends: the backup was given up, an older one is there as it was")  # Q3
        self._done, self._total = done, total

    def close(self) -> None:
        """The daemon ends."""
        self._is_closed = True
        if self._thread is not None:
            self._thread.join()
