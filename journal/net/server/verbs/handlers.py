"""
The commands of the daemon, and what does each of them.

H1  Most commands of a journal come to a request of the engine (Command.from_wire), and its result is encoded by what the command
    declares as its reply. SPECIAL has those that need more: parts of lists, rights, room, or fewer steps (PUT, CLAIM, DONE).
H2  A command that is slow (Command.is_slow) may read much, or wait for the keeper: it is run on a thread apart. Any other does a bounded
    amount of work and waits for nothing but locks that are held for a moment: it is run on the daemon's own thread. What it must wait for
    on the disk is collected there (journal.engine.log.deferred_syncs).
H3  One that would take long this once says so (TakesLong) before it has done anything; `make_slowly` does it then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from journal.core.limits import LIST_MAX
from journal.core.requests.registry import COMMANDS
from journal.core.requests.request import Command, Scope
from journal.engine.read.queries import LIMIT
from journal.engine.store import EngineStore
from journal.net.server.verbs import changes, claims, lists, operations, puts
from journal.net.server.verbs.claims import TakesLong
from journal.net.server.verbs.frame_sizes import CUTS
from journal.net.server.verbs.pages import Item, first_part
from journal.net.server.verbs.served_journal import Served, room_of
from journal.net.wire.auth import Grant
from journal.net.wire.codecs import codec_of, part_codec

Handler = Callable[[Served, dict[str, Any], Grant], Any]
"""From a journal, the parameters as journal.net has checked them, and the caller's grant to the value of the reply."""
StoreHandler = Callable[[EngineStore, dict[str, Any], Grant], Any]
NamedHandler = Callable[[EngineStore, str, dict[str, Any], Grant], Any]
"""Of a store and the name of a journal, which may not exist yet, or not any more."""


def _in_parts(
    command: str, walk: Callable[[Served, dict[str, Any], Grant], Iterable[Item]], usual: int = LIST_MAX
) -> Handler:
    """What does a command whose reply is a part of a list; `usual`: so many, when the request does not say."""
    part = part_codec(COMMANDS[command].reply)
    assert part is not None
    name, _ = part
    return lambda served, given, grant: first_part(
        walk(served, given, grant), name, served.room, given.get("limit") or usual
    )


SPECIAL: dict[str, Handler] = {
    "PUT": puts.put,
    "CLAIM": claims.claim,
    "CLAIM_MANY": claims.claim_many,
    "CLAIM_KEY": claims.claim_key,
    "DONE": claims.done,
    "LEASES": _in_parts("LEASES", lists.leases),
    "GET": lists.get,
    "GET_MANY": lists.get_many,
    "ENTRIES_OF": _in_parts("ENTRIES_OF", lists.entries_of, LIMIT),
    "SELECT": _in_parts("SELECT", lists.select, LIMIT),
    "SCAN": _in_parts("SCAN", lists.scan),
    "CHANGES": changes.changes,
    "FEEDS": _in_parts("FEEDS", lists.feeds),
    "OWNERS": _in_parts("OWNERS", lists.owners),
    "BURIED": _in_parts("BURIED", lists.buried),
}
NAMED: dict[str, NamedHandler] = {
    "DECLARE": operations.declare,
    "DROP": operations.drop,
}
STORE: dict[str, StoreHandler] = {
    "JOURNALS": lambda store, given, grant: first_part(
        lists.journals(store, given, grant), "journals", room_of(store), given.get("limit")
    ),
    "MERGED": operations.merged,
    "FLAGS": operations.flags,
    "LOWER": operations.lower,
    "STORE_STATISTICS": operations.statistics,
    "CHECKPOINT": operations.checkpoint,
    "CHECK": operations.check,
}


def _usual(command: Command) -> Handler:
    """What does a command that needs nothing special (H1)."""
    encode, cut = codec_of(command.reply).to, CUTS.get(command.reply)

    def handle(served: Served, given: dict[str, Any], grant: Grant) -> Any:
        wire = encode(served.journal.call(command.from_wire(given), served.caller(grant)))
        return wire if cut is None else cut(wire, served.room)

    return handle


ELSEWHERE = frozenset({
    "SUBSCRIBE", "UNSUBSCRIBE", "FEED_OPEN", "FEED_NEXT", "FEED_ACK", "FEED_FAIL", "FEED_CLOSE",
    "SNAPSHOT_OPEN", "SNAPSHOT_SPLIT", "SNAPSHOT_READ", "SNAPSHOT_CLOSE",
})  # fmt: skip
"""Commands of a journal that belong to a connection or to the daemon itself, and are done where these are."""
HANDLERS: dict[str, Handler] = {
    name: SPECIAL.get(name) or _usual(command)
    for name, command in COMMANDS.items()
    if command.scope is Scope.JOURNAL and name not in NAMED.keys() | ELSEWHERE
}
"""The commands of a journal that is open."""


def make_slowly(handler: Handler, served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """On a thread that may wait: what a command comes to (H3)."""
    try:
        return handler(served, given, grant)
    except TakesLong as e:
        served.journal.claims.index(e.buckets)
        return handler(served, given, grant)
