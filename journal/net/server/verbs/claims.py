"""
The commands of consumers.

A claim is made under the name that was checked with the parameters; what is done with a lease is checked where it is looked up
(served_journal S2).

C1  `next_due` is in the reply when nothing was due, and read from memory: a date before which nothing falls due, null when nothing waits.
C2  An entry that no frame can hold is passed over by claims, and named by CLAIM_KEY, which refuses it: it waits where it was.
C3  Leases that were not delivered are given back at once.
"""

from __future__ import annotations

import logging
from typing import Any

from journal.core.buckets import Range
from journal.core.limits import CONSUMER_BYTES_MAX
from journal.core.quoting import shown, told
from journal.core.requests.consume import ClaimKeyRequest, DoneRequest, ReleaseRequest
from journal.core.requests.types import range_of
from journal.engine.arguments import part_of
from journal.engine.backend import EngineJournal
from journal.engine.state.order import Order
from journal.engine.state.range_orders import Ranges
from journal.engine.work.outlook import due_now
from journal.errors import Invalid, JournalError, LeaseLost
from journal.net.server.verbs.frame_sizes import lease_bytes, text_bytes
from journal.net.server.verbs.served_journal import Served
from journal.net.wire.auth import Grant
from journal.net.wire.values import lease_to, result_to

log = logging.getLogger("journal.daemon")


class TakesLong(Exception):
    """A fast command that takes long this once, since these buckets have no index yet; nothing was done."""

    def __init__(self, buckets: Range) -> None:
        super().__init__(buckets)
        self.buckets = buckets


def claim(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """CLAIM."""
    get = given.get
    if served.large.is_ahead:
        return _claim_behind(served, given, grant)
    buckets = get("buckets")
    if buckets is not None:
        buckets = _indexed(served, buckets)
    taken = served.journal.claims.one(get("consumer") or "", get("lease"), get("durability"), buckets)
    if taken is None:
        return {"lease": None, "next_due": next_due(served, buckets)}
    lease = lease_to(*taken)
    if len(lease[1]) > served.data_max and lease_bytes(lease) + CONSUMER_BYTES_MAX - text_bytes(lease[8]) > served.room:
        give_back(served.journal, [lease])
        return _claim_behind(served, given, grant)
    return {"lease": lease, "next_due": None}


def _claim_behind(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """CLAIM where an entry stands first that no frame can hold: the first one behind it (C2)."""
    reply = claim_many(served, {**given, "n": 1}, grant)
    leases = reply["leases"]
    return {"lease": leases[0] if leases else None, "next_due": reply["next_due"]}


def claim_many(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """CLAIM_MANY."""
    get = given.get
    buckets = get("buckets")
    if buckets is not None:
        buckets = _indexed(served, buckets)
    taken = served.journal.claims.many(
        given["n"], get("consumer") or "", get("lease"), get("durability"), buckets, served.large
    )
    served.large.tell(served.journal)
    if not taken:
        return {"leases": [], "next_due": next_due(served, buckets)}
    return {"leases": [lease_to(*each) for each in taken], "next_due": None}


def _indexed(served: Served, buckets: str) -> Range:
    """The range, when a claim by it can go ahead at once."""
    part = range_of(buckets)
    if not served.journal.claims.is_indexed and part_of(part, served.p.settings) is not None:
        raise TakesLong(part)
    return part


def next_due(served: Served, part: Range | None = None) -> int | None:
    """A date before which nothing falls due (C1)."""
    p = served.p
    if served.large.is_ahead:  # they are due, and no claim over the wire gets them
        with p.lock:
            return due_now(p, p.enter(), 1)[1]
    with p.lock:
        if p.state.is_paused:
            return None
        order: Order | None = p.state.order
        if part is not None and part_of(part, p.settings) is not None:
            order = p.state.order.get(part) if isinstance(p.state.order, Ranges) else None
        now = p.time.now()
        return now if order is None else order.next_due(now)


def _given_back(journal: EngineJournal, lease: list[Any], room: int) -> Invalid:
    """The reason why an entry cannot be handed out; its lease has ended (C2)."""
    journal.call(ReleaseRequest(token=lease[5]))
    return Invalid(
        f"the next entry, {shown(lease[0])}, has {len(lease[1])} bytes of data, and a frame has room for {room}: claim it "
        "in the process that has the store, or let the daemon have larger frames (frame_bytes_max)"
    )


def lent_by(command: str, result: Any) -> list[Any]:
    """The leases that were taken for an answer."""
    if command == "CLAIM_MANY":
        return list(result["leases"])
    lease = result if command == "CLAIM_KEY" else result["lease"]
    return [] if lease is None else [lease]


def give_back(journal: EngineJournal, leases: list[Any]) -> None:
    """End leases that were not delivered; their entries wait where they were."""
    for lease in leases:
        try:
            journal.call(ReleaseRequest(token=lease[5], durability="interval"))
        except LeaseLost:
            continue  # it is free already
        except JournalError as e:  # it will be when its time is over
            log.warning("not_given_back journal=%s error=%s", journal.name, told(e))


def claim_key(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """CLAIM_KEY."""
    lease = lease_to(*served.journal.call(ClaimKeyRequest.command.from_wire(given)))
    if len(lease[1]) > served.data_max and lease_bytes(lease) > served.room:
        raise _given_back(served.journal, lease, served.room)
    return lease


def done(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """DONE; without what comes next it makes no request object."""
    if given.get("next") is None:
        served.journal.finishes.one(given["token"], given.get("durability"), served.caller(grant))
        return None
    asked: Any = DoneRequest.command.from_wire(given)
    return result_to(served.journal.call(asked, served.caller(grant)))
