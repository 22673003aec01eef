"""
Syncs that are collected and waited for together: set by journal.aio and by the daemon, each on a thread of its own.
"""

from __future__ import annotations

import threading
from typing import Any


class Deferred(threading.local):
    """What this thread will wait for later: the last offset of each pipeline. None: it waits at once."""

    waits: dict[Any, int] | None = None
    has_company: bool = False
    """
    Whether other changes share the awaited sync, so that records may stay in the log's buffer for the one write of that sync. Handing
    each of them to the disk at once, which lets the disk begin with a lone one, takes 30 µs of processor time.
    """


deferred = Deferred()
