"""
Entries that no frame can hold, of one journal: the program that has the store can put them, and it alone can claim them.

L1  They wait where they are, in their place in the order of work. A claim over the wire gets what comes behind them.
L2  Each is reported to the operator once: with a line in the log, and the flag TOO_LARGE.
"""

from __future__ import annotations

import logging

from journal.core.entry.keys import UserKey
from journal.core.entry.rows import ENTRY_HEAD, Row
from journal.core.limits import CONSUMER_BYTES_MAX
from journal.core.quoting import shown
from journal.core.requests.operate import RaiseFlagRequest
from journal.engine.backend import EngineJournal
from journal.errors import JournalError
from journal.net.server.verbs.frame_sizes import LEASE_BYTES, text_bytes

log = logging.getLogger("journal.daemon")

TOO_LARGE = "too_large"
TOLD_MAX = 1 << 16
"""Reported entries that are remembered."""


class Large:
    """
    What is known of them, and what of due entries a frame can hold (journal.engine.caller.Fits). `passed_over` under the journal's lock,
    the rest on any thread.
    """

    def __init__(self, room: int) -> None:
        self.is_ahead = False
        """Whether the last claim passed over some."""
        self.room = room
        self.value_max = room - LEASE_BYTES - CONSUMER_BYTES_MAX + ENTRY_HEAD
        self._told: set[bytes] = set()
        self._news: list[tuple[UserKey, int]] = []

    def size(self, row: Row) -> int:
        """What a lease on this entry takes in a frame, at most."""
        return LEASE_BYTES + CONSUMER_BYTES_MAX + len(row.data) + len(row.owner) + text_bytes(row.key)

    def is_new(self, primary: bytes) -> bool:
        """Whether the entry at this primary key has not been reported."""
        return primary not in self._told

    def passed_over(self, found: list[tuple[bytes, Row | None]]) -> None:
        """A claim passed over these; the new ones are to be reported."""
        self.is_ahead = bool(found)
        for primary, row in found:
            if row is not None:
                if len(self._told) >= TOLD_MAX:
                    self._told.clear()
                self._told.add(primary)
                self._news.append((row.key, len(row.data)))

    def tell(self, journal: EngineJournal) -> None:
        """Report the new ones (L2); not under the lock."""
        if not self._news:
            return
        news, self._news = self._news, []
        key, size = news[0]
        more = f", and {len(news) - 1} more" if len(news) > 1 else ""
        log.warning(
            "entry_too_large journal=%s key=%s bytes=%d room=%d more=%d",
            journal.name, shown(key), size, self.room, len(news) - 1,
        )  # fmt: skip
        message = (
            f"the entry {shown(key)} has {size} bytes{more}, and a frame has room for {self.room}: clients do not get it. Claim "
            "it in the process that has the store, or let the daemon and its clients have larger frames (--frame-bytes-max)"
        )
        try:
            journal.call(RaiseFlagRequest(name=TOO_LARGE, message=message, durability="interval"))
        except JournalError as e:  # what was claimed is handed out all the same
            log.warning("flag_not_raised journal=%s error=%s", journal.name, shown(str(e)))
