"""
huey: SqliteStorage, the storage under SqliteHuey.

Its dequeue deletes the row at once: there is no lease and no ack, a worker that dies loses the task. So its cycle is
one call shorter than those of the others, and is compared all the same. `fsync=True` is synchronous=FULL, `fsync=False`
is OFF; the default leaves SQLite's FULL.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from benchmarks.peers.peer import Setting


class _Storage:
    def __init__(self, directory: Path, fsync: bool) -> None:
        from huey.storage import SqliteStorage

        self._storage = SqliteStorage(filename=str(directory / "huey.db"), fsync=fsync)

    def put(self, data: bytes) -> None:
        self._storage.enqueue(data)

    def get(self) -> bytes:
        data: bytes = self._storage.dequeue()
        return data

    def ack(self, token: bytes) -> None:
        """Nothing to do: the dequeue was the end of it."""

    def tidy(self) -> None:
        """Nothing is left behind."""

    def close(self) -> None:
        self._storage.close()


def _missing() -> str | None:
    return None if importlib.util.find_spec("huey") else "not installed"


SETTINGS = (
    Setting("huey, fsync", "synced at each call; no ack", True, lambda d: _Storage(d, True), _missing, False),
    Setting("huey, no fsync", "never synced; no ack", False, lambda d: _Storage(d, False), _missing, False),
)
