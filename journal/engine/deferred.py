"""
Syncs that are collected and waited for together: set by journal.aio on its own thread.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from journal.engine.pipeline import Pipeline


class Deferred(threading.local):
    """What this thread will wait for later: the last offset of each pipeline. None: it waits at once."""

    waits: dict[Pipeline, int] | None = None


deferred = Deferred()
