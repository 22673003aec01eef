"""
The feed consumer that holds a journal's log from one export to the next.

D1  It is there before the snapshot is taken, and moves on only when the export has its name: as long as that can fail, the next
    export may have to start from the one before it.
D2  An export that fails removes the feed consumer that it made: no later export would move it on, and the log would be held for ever.
"""

from __future__ import annotations

import logging
import os

from journal.api.journal import Journal
from journal.api.store import Store
from journal.core.log.cursor import Cursor
from journal.errors import JournalError
from spark_export.options.common import JournalPlace
from spark_export.stores.open_store import opened_place

log = logging.getLogger("journal.export")


class LogHold:
    """One export's; without a name nothing is held."""

    def __init__(self, store: Store | str | os.PathLike[str], place: JournalPlace, name: str | None) -> None:
        self._store, self._place, self.name = store, place, name
        self._is_new = False

    def take(self, pages: Journal, start: Cursor | str = "END") -> None:
        """From this place on the log is held, unless the consumer is there already."""
        if self.name is not None and self.name not in {feed.name for feed in pages.feeds()}:
            pages.feed(consumer=self.name, start=start, live=False).close()
            self._is_new = True

    def move(self, cursor: Cursor) -> None:
        """The export is there (D1)."""
        if self.name is None:
            return
        try:
            with opened_place(self._store, self._place, is_written=True) as pages:
                pages.mark_feed(self.name, cursor)
        except JournalError as e:
            log.warning("hold_not_moved", extra={"consumer": self.name, "cursor": str(cursor), "reason": str(e)})

    def undo(self) -> None:
        """The export failed (D2)."""
        if self.name is None or not self._is_new:
            return
        try:
            with opened_place(self._store, self._place, is_written=True) as pages:
                pages.remove_feed(self.name)
            self._is_new = False
        except JournalError as e:
            log.warning("hold_not_removed", extra={"consumer": self.name, "reason": str(e)})
