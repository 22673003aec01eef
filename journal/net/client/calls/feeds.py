"""The verbs about the log of a journal, as calls. What they do says journal.Journal; see journal.net.client.calls.call."""

from __future__ import annotations

from typing import Any, NamedTuple

from journal.core.arguments import consumer_name
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.quoting import shown
from journal.core.values import Compacted, FeedView, Generation
from journal.errors import FrameError, Invalid
from journal.net.client.calls.call import Call, Steps, as_it_is, call, nothing, part_of_list
from journal.net.wire.values import compacted_from, cursor_from, cursor_to, event_from, feed_from, generation_from


def feeds(journal: str) -> Steps[list[FeedView]]:
    """The feed consumers of this journal, by name."""
    found: list[FeedView] = []
    after: bytes | None = None
    while True:
        answer = yield call("FEEDS", journal, as_it_is, after=after)
        rows, after = part_of_list(answer, "feeds")
        found += map(feed_from, rows)
        if after is None:
            return found


def remove_feed(journal: str, consumer: str) -> Call[None]:
    """Forget a feed consumer; what only it held of the log may go."""
    return call("FEED_REMOVE", journal, nothing, consumer=feed_name(consumer))


def mark_feed(journal: str, consumer: str, cursor: Cursor) -> Call[None]:
    """Set a feed consumer's position: all up to the cursor counts as acknowledged, nothing after it does."""
    return call("FEED_MARK", journal, nothing, consumer=feed_name(consumer), cursor=cursor_of(cursor))


def skip_feed(journal: str, consumer: str, cursor: Cursor) -> Call[bool]:
    """Acknowledge one change for a feed consumer without delivering it; False when it was acknowledged before."""
    return call("FEED_SKIP", journal, as_it_is, consumer=feed_name(consumer), cursor=cursor_of(cursor))


def generations(journal: str) -> Call[list[Generation]]:
    """The periods, oldest first, with what keeps each."""
    return call("GENERATIONS", journal, lambda rows: [generation_from(row) for row in rows])


def rotate(journal: str) -> Call[Generation]:
    """Begin a new generation now; the active one."""
    return call("ROTATE", journal, generation_from)


def compact(journal: str) -> Call[Compacted]:
    """Compact the log now, up to what feed consumers hold, instead of when there is more to gain."""
    return call("COMPACT", journal, compacted_from)


def distance(journal: str, a: Cursor, b: Cursor) -> Call[int]:
    """How many changes come after `a`, up to `b`; negative when `b` is before `a`. Gone generations count too."""
    return call("DISTANCE", journal, as_it_is, a=cursor_of(a), b=cursor_of(b))


def shift(journal: str, cursor: Cursor, n: int) -> Call[Cursor]:
    """The cursor `n` changes later, or earlier when `n` is negative."""
    if type(n) is not int:
        raise Invalid(f"n is {n!r}: it must be an int")
    return call("SHIFT", journal, cursor_from, cursor=cursor_of(cursor), n=n)


def lag(journal: str, cursor: Cursor) -> Call[int]:
    """How many changes come after a cursor."""
    return call("LAG", journal, as_it_is, cursor=cursor_of(cursor))


class Part(NamedTuple):
    """Some of the changes between two cursors."""

    events: list[Event]
    after: Cursor | None
    """Where to go on; None: that was all."""


def changes(journal: str, after: Cursor, until: Cursor) -> Call[Part]:
    """The changes after one cursor, up to and with that of another; as many as the daemon gives at once."""
    return call("CHANGES", journal, _part, after=cursor_of(after), until=cursor_of(until))


def _part(value: Any) -> Part:
    match value:
        case {"events": list(events), "after": after, "blank": None | dict() as blank}:
            found = [event_from(event, blank) for event in events]
            if after is not None and not found:
                raise FrameError("CHANGES was answered with nothing, and not as the end")
            return Part(found, None if after is None else cursor_from(after))
    raise FrameError(f"{shown(value)} is no answer to CHANGES: it has events, after and blank")


def oldest_cursor(journal: str) -> Call[Cursor]:
    """The oldest cursor from which all changes can be read; the one before the first that is left."""
    return call("OLDEST_CURSOR", journal, cursor_from)


def durable_cursor(journal: str) -> Call[Cursor]:
    """The last change that is on disk."""
    return call("DURABLE_CURSOR", journal, cursor_from)


def wait_durable(journal: str, cursor: Cursor) -> Call[None]:
    """Return when the change at this cursor, and all before it, are on disk."""
    if not isinstance(cursor, Cursor):
        raise Invalid(f"wait_durable takes a journal.Cursor, not {cursor!r}")
    return call("WAIT_DURABLE", journal, nothing, cursor=cursor_of(cursor))


def cursor_of(cursor: Any) -> list[int]:
    """A cursor that a caller gave, on the wire."""
    if not isinstance(cursor, Cursor):
        raise Invalid(f"{cursor!r} is no journal.Cursor")
    return cursor_to(cursor)


def feed_name(consumer: str) -> str:
    """A feed consumer's name."""
    if not consumer_name(consumer):
        raise Invalid("a feed consumer has a name of at least one character")
    return consumer
