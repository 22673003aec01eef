"""
litequeue.

As shipped it sets WAL with synchronous=NORMAL: SQLite then syncs only when it moves the WAL into the database, about
every 1,000 pages. A power cut takes what was put since; the file stays consistent. So as shipped it is *not* durable.
`FULL` on its connection makes each call durable, `OFF` is the fastest.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from benchmarks.peers.peer import Setting


class _LiteQueue:
    def __init__(self, directory: Path, synchronous: str | None) -> None:
        from litequeue import LiteQueue

        self._queue = LiteQueue(str(directory / "lite.db"))
        if synchronous is not None:
            self._queue.conn.execute(f"PRAGMA synchronous={synchronous}")

    def put(self, data: bytes) -> None:
        self._queue.put(data.decode("ascii"))

    def get(self) -> Any:
        return self._queue.pop().message_id

    def ack(self, token: Any) -> None:
        self._queue.done(token)

    def tidy(self) -> None:
        self._queue.prune()

    def close(self) -> None:
        self._queue.close()


def _missing() -> str | None:
    return None if importlib.util.find_spec("litequeue") else "not installed"


SETTINGS = (
    Setting("litequeue, synchronous=FULL", "synced at each call", True, lambda d: _LiteQueue(d, "FULL"), _missing),
    Setting("litequeue as shipped", "synced every ~1000 pages", False, lambda d: _LiteQueue(d, None), _missing),
    Setting("litequeue, synchronous=OFF", "never synced", False, lambda d: _LiteQueue(d, "OFF"), _missing),
)
