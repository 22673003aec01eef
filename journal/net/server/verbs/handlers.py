"""
The commands of the daemon, and what does each of them.

H1  A fast one does a bounded amount of work and waits for nothing but locks that are held for a moment: it is run on the daemon's own
    thread. What it must wait for on the disk is collected there (journal.engine.log.deferred_syncs).
H2  A slow one may read much, or wait for the keeper: it is run on a thread apart.
H3  A fast one that would take long this once says so (TakesLong) before it has done anything; its slow form does it then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from journal.engine.store import Store
from journal.net.server.verbs import changes, claims, lists, loads, operations, puts, queries
from journal.net.server.verbs.claims import TakesLong
from journal.net.server.verbs.served_journal import Served, known, served_of
from journal.net.wire.auth import Grant

__all__ = [
    "FAST", "NAMED_SLOW", "SLOW", "STORE_FAST", "STORE_SLOW", "Handler", "NamedHandler", "Served", "StoreHandler", "TakesLong",
    "known", "served_of",
]  # fmt: skip

Handler = Callable[[Served, dict[str, Any], Grant], Any]
"""From a journal, the parameters as journal.net has checked them, and the caller's grant to the value of the reply."""
StoreHandler = Callable[[Store, dict[str, Any], Grant], Any]

NamedHandler = Callable[[Store, str, dict[str, Any], Grant], Any]
"""Of a store and the name of a journal, which may not exist yet, or not any more."""

FAST: dict[str, Handler] = {
    "PUT": puts.put,
    "PUT_MANY": puts.put_many,
    "CREATE": puts.create,
    "CREATE_MANY": puts.create_many,
    "MOVE": puts.move,
    "MOVE_MANY": puts.move_many,
    "DELETE": puts.delete,
    "DELETE_MANY": puts.delete_many,
    "CLAIM": claims.claim,
    "CLAIM_MANY": claims.claim_many,
    "CLAIM_KEY": claims.claim_key,
    "DONE": claims.done,
    "DONE_MANY": claims.done_many,
    "EXTEND": claims.extend,
    "RELEASE": claims.release,
    "BURY": claims.bury,
    "LEASE": claims.lease,
    "GET": queries.get,
    "GET_MANY": queries.get_many,
    "SETTINGS": queries.settings,
    "DISTANCE": queries.distance,
    "SHIFT": queries.shift,
    "LAG": queries.lag,
    "OLDEST_CURSOR": queries.oldest_cursor,
    "DURABLE_CURSOR": queries.durable_cursor,
    "WAIT_DURABLE": queries.wait_durable,
    "RAISE_FLAG": operations.raise_flag,
    "PAUSE": operations.pause,
    "RESUME": operations.resume,
    "RETRY": operations.retry,
    "RETRY_MANY": operations.retry_many,
    "DISCARD": operations.discard,
}
SLOW: dict[str, Handler] = {
    "CLAIM": claims.claim_slowly,
    "CLAIM_MANY": claims.claim_many_slowly,
    "LOAD_BEGIN": loads.begin,
    "LOAD_PART": loads.part,
    "LOAD_COMMIT": loads.commit,
    "LOAD_ABORT": loads.abort,
    "LEASES": lists.leases,
    "ENTRIES_OF": queries.entries_of,
    "COUNT_OF": queries.count_of,
    "SELECT": queries.select,
    "SCAN": queries.scan,
    "COUNT": queries.count,
    "FORECAST": queries.forecast,
    "STATISTICS": queries.statistics,
    "GENERATIONS": queries.generations,
    "CHANGES": changes.changes,
    "FEEDS": lists.feeds,
    "FEED_REMOVE": operations.feed_remove,
    "FEED_MARK": operations.feed_mark,
    "FEED_SKIP": operations.feed_skip,
    "OWNERS": lists.owners,
    "BURIED": lists.buried,
    "ROTATE": operations.rotate,
    "COMPACT": operations.compact,
}
NAMED_SLOW: dict[str, NamedHandler] = {
    "DECLARE": operations.declare,
    "DROP": operations.drop,
}
STORE_FAST: dict[str, StoreHandler] = {}
STORE_SLOW: dict[str, StoreHandler] = {
    "JOURNALS": lists.journals,
    "MERGED": operations.merged,
    "FLAGS": operations.flags,
    "LOWER": operations.lower,
    "STORE_STATISTICS": operations.statistics,
    "CHECKPOINT": operations.checkpoint,
    "CHECK": operations.check,
}
