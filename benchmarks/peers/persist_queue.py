"""
persist-queue: SQLiteAckQueue.

It opens SQLite in WAL mode and leaves `synchronous` at SQLite's FULL: every commit (put, get, ack) syncs the WAL.
There is no setting for less; users that want speed set the pragma on its connection, which is what the second
setting does.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, cast

from benchmarks.peers.peer import Setting


class _AckQueue:
    def __init__(self, directory: Path, synchronous: str | None) -> None:
        import persistqueue

        self._queue = cast(Any, persistqueue.SQLiteAckQueue(str(directory)))
        if synchronous is not None:
            self._queue._putter.execute(f"PRAGMA synchronous={synchronous}")

    def put(self, data: bytes) -> None:
        self._queue.put(data)

    def get(self) -> int:
        taken: dict[str, Any] = self._queue.get(block=False, raw=True)
        return int(taken["pqid"])

    def ack(self, token: int) -> None:
        self._queue.ack(id=token)

    def tidy(self) -> None:
        self._queue.clear_acked_data(max_delete=1_000_000, keep_latest=0)

    def close(self) -> None:
        self._queue.close()


def _missing() -> str | None:
    return None if importlib.util.find_spec("persistqueue") else "not installed"


SETTINGS = (
    Setting("persist-queue", "synced at each call", True, lambda d: _AckQueue(d, None), _missing),
    Setting("persist-queue, synchronous=OFF", "never synced", False, lambda d: _AckQueue(d, "OFF"), _missing),
)
