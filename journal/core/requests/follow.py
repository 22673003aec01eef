"""The verbs about the log and the consumers that follow it. See journal.core.requests.request."""

from typing import Any

from journal.core.requests.fields import (
    Bool,
    Count,
    Credit,
    CursorField,
    Cursors,
    Duration,
    FeedConsumer,
    Start,
    Subscription,
)
from journal.core.requests.request import ADMIN, CONSUME, KNOWN, Request, RetryRule, request
from journal.core.values import FeedView
from journal.errors import Invalid


@request(
    "CHANGES", CONSUME, RetryRule.ALWAYS, "{events: [event], after: cursor or null, blank: map or null}",
    is_slow=True, is_long=True, is_of_log=True,
)  # fmt: skip
class ChangesRequest(Request[Any]):
    """The changes after one cursor, up to and with that of another, without a feed."""

    after: CursorField
    until: CursorField
    limit: Count | None = None


@request(
    "FEED_OPEN", CONSUME, RetryRule.CONNECTION, "{subscription, position: cursor, again: cursor, blank: map or null}",
    is_slow=True, is_of_log=True,
)  # fmt: skip
class FeedOpenRequest(Request[dict[str, Any]]):
    """Opens a feed. With credit its events are pushed; without, FEED_NEXT asks for them. What comes up to `again` was delivered before:
    one at a time."""

    consumer: FeedConsumer | None = None
    start: Start | None = None
    live: Bool | None = None
    copy: Bool | None = None
    flush: Duration | None = None
    unacked_max: Count | None = None
    credit: Credit | None = None

    def __post_init__(self) -> None:
        if self.copy and (self.consumer is None or self.start not in (None, "BEGIN")):
            raise Invalid("a copy needs a consumer's name, and takes the entries that are there: leave start out")


@request("FEED_NEXT", CONSUME, RetryRule.CONNECTION, "{events: [event], is_end}", is_of_log=True)
class FeedNextRequest(Request[dict[str, Any]]):
    """The next events that are there, up to n; none is not the end of a live feed."""

    subscription: Subscription
    n: Count


@request("FEED_ACK", CONSUME, RetryRule.CONNECTION, "{position: cursor, unacked}", is_of_log=True)
class FeedAckRequest(Request[dict[str, Any]]):
    """Acknowledges changes."""

    subscription: Subscription
    cursors: Cursors


@request("FEED_FAIL", CONSUME, RetryRule.CONNECTION, "{again: cursor}", is_of_log=True)
class FeedFailRequest(Request[dict[str, Any]]):
    """What was not acknowledged comes again, one at a time, up to that cursor."""

    subscription: Subscription
    cursors: Cursors | None = None


@request("FEED_CLOSE", CONSUME, RetryRule.CONNECTION, "null", is_slow=True, is_of_log=True)
class FeedCloseRequest(Request[None]):
    """Ends a feed."""

    subscription: Subscription


@request(
    "FEEDS",
    KNOWN,
    RetryRule.ALWAYS,
    "{feeds: [feed], after: bytes or null}",
    is_slow=True,
    is_of_log=True,
    in_parts=True,
)
class FeedsRequest(Request[list[FeedView]]):
    """The feed consumers of a journal."""


@request("FEED_REMOVE", ADMIN, RetryRule.REQUEST, "null", is_slow=True, is_of_log=True)
class FeedRemoveRequest(Request[None]):
    """Forgets a feed consumer."""

    consumer: FeedConsumer


@request("FEED_MARK", ADMIN, RetryRule.ALWAYS, "null", is_slow=True, is_of_log=True)
class FeedMarkRequest(Request[None]):
    """Sets a feed consumer's position."""

    consumer: FeedConsumer
    cursor: CursorField


@request("FEED_SKIP", ADMIN, RetryRule.REQUEST, "bool", is_slow=True, is_of_log=True)
class FeedSkipRequest(Request[bool]):
    """Acknowledges one change for a feed consumer."""

    consumer: FeedConsumer
    cursor: CursorField
