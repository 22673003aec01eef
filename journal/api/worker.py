"""
A worker's loop: claim, hand over, sleep until something falls due. How a backend claims and sleeps is its own (backend.Turns).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from threading import Event
from typing import TYPE_CHECKING

from journal.api.backend import Turns
from journal.api.lease import Lease
from journal.errors import StoreClosed

if TYPE_CHECKING:
    from journal.api.journal import Journal


def work(journal: Journal, worker: AbstractContextManager[Turns], stop: Event | None) -> Iterator[Lease]:
    """Leases as they fall due; it ends when the store is closed, or the connection by this program."""
    try:
        with worker as turns:
            while stop is None or not stop.is_set():
                lent = turns.take()
                if lent is None:
                    turns.sleep(stop)
                else:
                    yield Lease(journal, *lent)
    except StoreClosed:
        return
