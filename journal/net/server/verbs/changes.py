"""
CHANGES: the changes between two cursors, in parts that fit into a frame.

W1  A part has a change at least, or was the last: a client that continues with `after` comes to the end.
W2  Where a part ended is remembered, so that the next one need not look for its place in the log; for the last GIVEN_MAX of a journal.
    A request whose place was forgotten gets the same changes, a little later.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import chain
from typing import Any

from journal.core.limits import LIST_MAX
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.engine.backend import EngineLog
from journal.net.server.verbs.open_feed import event_bytes
from journal.net.server.verbs.pages import too_large
from journal.net.server.verbs.served_journal import Served
from journal.net.wire.auth import Grant
from journal.net.wire.values import cursor_to, event_to

GIVEN_MAX = 16
_lock = threading.Lock()


def changes(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """CHANGES."""
    after, until = Cursor(*given["after"]), Cursor(*given["until"])
    events = _taken(served.journal, after, until) or served.journal.changes(after, until)
    limit, room = given.get("limit") or LIST_MAX, served.room
    found: list[Any] = []
    blank = served.p.generations.blank
    reply = {"events": found, "after": None, "blank": None if blank is None else dict(blank)}
    for event in events:
        size = event_bytes(event)
        if size > room or len(found) == limit:
            if not found:
                raise too_large(served.room, str(event.cursor), size)
            _keep(served.journal, after, until, chain((event,), events))  # W2
            return reply | {"after": cursor_to(after)}
        room -= size
        found.append(event_to(event))
        after = event.cursor
    return reply


def _taken(journal: EngineLog, after: Cursor, until: Cursor) -> Iterator[Event] | None:
    with _lock:
        kept: dict[tuple[Cursor, Cursor], Iterator[Event]] | None = journal.given
        return None if kept is None else kept.pop((after, until), None)


def _keep(journal: EngineLog, after: Cursor, until: Cursor, events: Iterator[Event]) -> None:
    with _lock:
        if journal.given is None:
            journal.given = {}
        kept: dict[tuple[Cursor, Cursor], Iterator[Event]] = journal.given
        kept[after, until] = events
        while len(kept) > GIVEN_MAX:
            del kept[next(iter(kept))]
