"""The verbs of readers. See journal.core.requests.request."""

from typing import Any, TypeVar

from journal.core.arguments import selectable
from journal.core.forecast.forecast import Forecast
from journal.core.log.cursor import Cursor
from journal.core.requests.fields import (
    After,
    Buckets,
    Consumer,
    CursorField,
    Date,
    Key,
    Keys,
    Limit,
    Owner,
    Span,
    Status,
    Steps,
)
from journal.core.requests.request import KNOWN, PRODUCE, PRODUCE_OR_CONSUME, Request, RetryRule, request
from journal.core.values import Entry, Generation, Page

R_co = TypeVar("R_co", covariant=True)
_ENTRIES = "{entries: [entry], after: bytes or null}"


@request("ENTRIES_OF", PRODUCE, RetryRule.ALWAYS, _ENTRIES, is_slow=True)
class EntriesOfRequest(Request[Page]):
    """The entries of a producer group in the order of work, processing ones too."""

    owner: Owner
    after: After | None = None
    limit: Limit | None = None


@request("COUNT_OF", PRODUCE, RetryRule.ALWAYS, "int", is_slow=True)
class CountOfRequest(Request[int]):
    """How many entries a producer group has."""

    owner: Owner


@request("GET", PRODUCE_OR_CONSUME, RetryRule.ALWAYS, "entry or null")
class GetRequest(Request[Entry | None]):
    """The entry with this key."""

    key: Key


@request("GET_MANY", PRODUCE_OR_CONSUME, RetryRule.ALWAYS, "[entry or null]")
class GetManyRequest(Request[list[Entry | None]]):
    """The entries with these keys, in order; fewer than keys when it is too much for one reply: ask for the rest."""

    keys: Keys


class _ScanFilter(Request[R_co]):
    """Which entries: of a status, of a range of dates."""

    status: Status | None = None
    since: Date | None = None
    until: Date | None = None


class _SelectFilter(_ScanFilter[R_co]):
    """Which entries: also of a producer group, of a consumer, of buckets."""

    owner: Owner | None = None
    consumer: Consumer | None = None
    buckets: Buckets | None = None


@request("SELECT", PRODUCE_OR_CONSUME, RetryRule.ALWAYS, _ENTRIES, is_slow=True)
class SelectRequest(_SelectFilter[Page]):
    """Entries in the order of work, of which all that is given holds."""

    after: After | None = None
    limit: Limit | None = None

    def __post_init__(self) -> None:
        selectable(self.status)


@request("SCAN", PRODUCE_OR_CONSUME, RetryRule.ALWAYS, _ENTRIES, is_slow=True)
class ScanRequest(_ScanFilter[Page]):
    """Entries in the order of work."""

    after: After | None = None
    limit: Limit | None = None


@request("COUNT", PRODUCE_OR_CONSUME, RetryRule.ALWAYS, "int", is_slow=True, is_long=True)
class CountRequest(_SelectFilter[int]):
    """How many entries there are, of which all that is given holds."""


@request("FORECAST", KNOWN, RetryRule.ALWAYS, "forecast", is_slow=True, is_long=True)
class ForecastRequest(Request[Forecast]):
    """How many entries fall due in each of the coming steps, by priority and status."""

    step: Span | None = None
    horizon: Span | None = None
    since: Date | None = None


@request("STATISTICS", KNOWN, RetryRule.ALWAYS, "map", is_slow=True, is_long=True)
class StatisticsRequest(Request[dict[str, Any]]):
    """Counters and sizes of a journal."""


@request("SETTINGS", KNOWN, RetryRule.ALWAYS, "map")
class SettingsRequest(Request[dict[str, Any]]):
    """How a journal behaves, with its schema; `union`: all fields that its data may have."""


@request("GENERATIONS", KNOWN, RetryRule.ALWAYS, "[generation]", is_slow=True, is_of_log=True)
class GenerationsRequest(Request[list[Generation]]):
    """The periods of a journal."""


@request("DISTANCE", KNOWN, RetryRule.ALWAYS, "int", is_of_log=True)
class DistanceRequest(Request[int]):
    """How many changes come after a, up to b."""

    a: CursorField
    b: CursorField


@request("SHIFT", KNOWN, RetryRule.ALWAYS, "cursor", is_of_log=True)
class ShiftRequest(Request[Cursor]):
    """The cursor n changes later, or earlier."""

    cursor: CursorField
    n: Steps


@request("LAG", KNOWN, RetryRule.ALWAYS, "int", is_of_log=True)
class LagRequest(Request[int]):
    """How many changes come after it."""

    cursor: CursorField


@request("OLDEST_CURSOR", KNOWN, RetryRule.ALWAYS, "cursor", is_of_log=True)
class OldestCursorRequest(Request[Cursor]):
    """The oldest cursor from which all changes can be read."""


@request("DURABLE_CURSOR", KNOWN, RetryRule.ALWAYS, "cursor")
class DurableCursorRequest(Request[Cursor]):
    """The last change that is on disk."""


@request("WAIT_DURABLE", KNOWN, RetryRule.ALWAYS, "null", is_long=True)
class WaitDurableRequest(Request[None]):
    """Answered when the change at this cursor, and all before it, are on disk."""

    cursor: CursorField
