"""
The commands of the daemon, and what does each of them.

H1  A fast one does a bounded amount of work and waits for nothing but locks that are held for a moment: it is run on the daemon's own
    thread. What it must wait for on the disk is collected there (journal.engine.deferred).
H2  A slow one may read much, or wait for the keeper: it is run on a thread apart.
H3  A fast one that would take long this once says so (TakesLong) before it has done anything; its slow form does it then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from journal.daemon import changing, consuming, keeping, lists, loading, producing, reading
from journal.daemon.consuming import TakesLong
from journal.daemon.served import Served, known, served_of
from journal.engine.store import Store
from journal.net.auth import Grant

__all__ = [
    "FAST", "NAMED_SLOW", "OF_LOGS", "SLOW", "STORE_FAST", "STORE_SLOW", "Handler", "NamedHandler", "Served", "StoreHandler", "TakesLong",
    "known", "served_of",
]  # fmt: skip

Handler = Callable[[Served, dict[str, Any], Grant], Any]
"""Of a journal, the parameters as journal.net has checked them, and who asks: the value of the reply."""
StoreHandler = Callable[[Store, dict[str, Any], Grant], Any]

NamedHandler = Callable[[Store, str, dict[str, Any], Grant], Any]
"""Of a store and the name of a journal, which may not exist yet, or not any more."""

FAST: dict[str, Handler] = {
    "PUT": producing.put,
    "PUT_MANY": producing.put_many,
    "CREATE": producing.create,
    "CREATE_MANY": producing.create_many,
    "MOVE": producing.move,
    "MOVE_MANY": producing.move_many,
    "DELETE": producing.delete,
    "DELETE_MANY": producing.delete_many,
    "CLAIM": consuming.claim,
    "CLAIM_MANY": consuming.claim_many,
    "CLAIM_KEY": consuming.claim_key,
    "DONE": consuming.done,
    "DONE_MANY": consuming.done_many,
    "EXTEND": consuming.extend,
    "RELEASE": consuming.release,
    "BURY": consuming.bury,
    "LEASE": consuming.lease,
    "GET": reading.get,
    "GET_MANY": reading.get_many,
    "SETTINGS": reading.settings,
    "DISTANCE": reading.distance,
    "SHIFT": reading.shift,
    "LAG": reading.lag,
    "OLDEST_CURSOR": reading.oldest_cursor,
    "DURABLE_CURSOR": reading.durable_cursor,
    "WAIT_DURABLE": reading.wait_durable,
    "RAISE_FLAG": keeping.raise_flag,
    "PAUSE": keeping.pause,
    "RESUME": keeping.resume,
    "RETRY": keeping.retry,
    "RETRY_MANY": keeping.retry_many,
    "DISCARD": keeping.discard,
}
SLOW: dict[str, Handler] = {
    "CLAIM": consuming.claim_slowly,
    "CLAIM_MANY": consuming.claim_many_slowly,
    "LOAD_BEGIN": loading.begin,
    "LOAD_PART": loading.part,
    "LOAD_COMMIT": loading.commit,
    "LOAD_ABORT": loading.abort,
    "LEASES": lists.leases,
    "ENTRIES_OF": reading.entries_of,
    "COUNT_OF": reading.count_of,
    "SELECT": reading.select,
    "SCAN": reading.scan,
    "COUNT": reading.count,
    "FORECAST": reading.forecast,
    "STATISTICS": reading.statistics,
    "GENERATIONS": reading.generations,
    "CHANGES": changing.changes,
    "FEEDS": lists.feeds,
    "FEED_REMOVE": keeping.feed_remove,
    "FEED_MARK": keeping.feed_mark,
    "FEED_SKIP": keeping.feed_skip,
    "OWNERS": lists.owners,
    "BURIED": lists.buried,
    "ROTATE": keeping.rotate,
    "COMPACT": keeping.compact,
}
NAMED_SLOW: dict[str, NamedHandler] = {
    "DECLARE": keeping.declare,
    "DROP": keeping.drop,
}
OF_LOGS = frozenset({
    "GENERATIONS", "ROTATE", "COMPACT", "DISTANCE", "SHIFT", "LAG", "FEEDS", "FEED_REMOVE", "FEED_MARK", "FEED_SKIP", "FEED_OPEN",
    "FEED_NEXT", "FEED_ACK", "FEED_FAIL", "FEED_CLOSE", "CHANGES", "OLDEST_CURSOR",
})  # fmt: skip
"""What can be asked of all merged journals together."""
STORE_FAST: dict[str, StoreHandler] = {}
STORE_SLOW: dict[str, StoreHandler] = {
    "JOURNALS": lists.journals,
    "MERGED": keeping.merged,
    "FLAGS": keeping.flags,
    "LOWER": keeping.lower,
    "STORE_STATISTICS": keeping.statistics,
    "CHECKPOINT": keeping.checkpoint,
    "CHECK": keeping.check,
}
