"""The verbs of consumers. See journal.core.requests.request."""

from typing import Annotated, Any

from journal.core.requests.fields import (
    Bool,
    Buckets,
    Consumer,
    Count,
    Credit,
    Date,
    Duration,
    Key,
    LeaseTime,
    Level,
    Priority,
    Reason,
    Subscription,
    Token,
    Tokens,
    Version,
)
from journal.core.requests.produce import PUT_ITEM, PutItem, check_dates
from journal.core.requests.request import CONSUME, Request, RetryRule, request
from journal.core.requests.types import list_of, or_null
from journal.core.values import Put, PutResult
from journal.errors import JournalError

Nexts = Annotated[list[Put | None], list_of(or_null(PUT_ITEM))]


@request("CLAIM", CONSUME, RetryRule.REQUEST, "{lease: lease or null, next_due}", lends=True)
class ClaimRequest(Request[Any]):
    """Takes the next entry that is due. `next_due` says when to ask again, when there is none."""

    consumer: Consumer = ""
    lease: LeaseTime | None = None
    durability: Level | None = None
    buckets: Buckets | None = None


@request("CLAIM_MANY", CONSUME, RetryRule.REQUEST, "{leases: [lease], next_due}", lends=True)
class ClaimManyRequest(Request[Any]):
    """Takes up to n entries; fewer when a frame holds no more."""

    n: Count
    consumer: Consumer = ""
    lease: LeaseTime | None = None
    durability: Level | None = None
    buckets: Buckets | None = None


@request("CLAIM_KEY", CONSUME, RetryRule.REQUEST, "lease", lends=True)
class ClaimKeyRequest(Request[Any]):
    """Takes the entry with this key, whatever comes before it; `not_found`, `leased`, `version_mismatch` or `not_due`."""

    key: Key
    version: Version | None = None
    consumer: Consumer = ""
    lease: LeaseTime | None = None
    durability: Level | None = None


@request("DONE", CONSUME, RetryRule.TOKEN, "null, or result with `next`", is_of_holder=True)
class DoneRequest(Request[PutResult | None]):
    """The work is finished: the entry goes, and `next`, a map with the parameters of PUT, is put, both or none; that needs the role
    produce too. Repeating it is harmless: the outcome is `repeated`."""

    token: Token
    next: PutItem | None = None
    durability: Level | None = None


@request("DONE_MANY", CONSUME, RetryRule.TOKEN, "[result, error or null]", is_of_holder=True)
class DoneManyRequest(Request[list[PutResult | JournalError | None]]):
    """Finishes many with one record. `nexts`: for each token the map of the put that comes next, or null."""

    tokens: Tokens
    nexts: Nexts | None = None
    durability: Level | None = None


@request("EXTEND", CONSUME, RetryRule.TOKEN, "{deadline, version}", is_of_holder=True)
class ExtendRequest(Request[tuple[int, int]]):
    """More time, from now on; never less than it has."""

    token: Token
    lease: LeaseTime | None = None


@request("RELEASE", CONSUME, RetryRule.REQUEST, "null", is_of_holder=True)
class ReleaseRequest(Request[None]):
    """Gives the entry back: it waits again, now or later, with its priority or another one. `failed`: an attempt that counts."""

    token: Token
    delay: Duration | None = None
    process_date: Date | None = None
    priority: Priority | None = None
    failed: Bool = False
    durability: Level | None = None

    def __post_init__(self) -> None:
        check_dates(self)


@request("BURY", CONSUME, RetryRule.REQUEST, "null", is_of_holder=True)
class BuryRequest(Request[None]):
    """Gives the entry up; it is kept apart."""

    token: Token
    reason: Reason = ""
    durability: Level | None = None


@request("LEASE", CONSUME, RetryRule.ALWAYS, "lease")
class LeaseRequest(Request[Any]):
    """The active lease of a token, as it is now; `lease_lost` when there is none any more."""

    token: Token


@request("LEASES", CONSUME, RetryRule.ALWAYS, "{leases: [lease], after: bytes or null}", is_slow=True, in_parts=True)
class LeasesRequest(Request[list[Any]]):
    """The active leases of a consumer: after a restart it finds its own here. Of all: admin."""

    consumer: Consumer | None = None


@request("SUBSCRIBE", CONSUME, RetryRule.CONNECTION, "{subscription}")
class SubscribeRequest(Request[int]):
    """Leases are pushed as entries fall due, as many as there is credit for."""

    consumer: Consumer = ""
    lease: LeaseTime | None = None
    buckets: Buckets | None = None
    credit: Credit | None = None


@request("UNSUBSCRIBE", CONSUME, RetryRule.CONNECTION, "null")
class UnsubscribeRequest(Request[None]):
    """No more leases are pushed; what was pushed is still leased."""

    subscription: Subscription
