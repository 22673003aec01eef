"""The verbs about snapshots. See journal.core.requests.request."""

from typing import Any

from journal.core.requests.fields import PartsCount, Ranges, SnapshotName
from journal.core.requests.request import CONSUME, Request, RetryRule, request
from journal.core.snapshot_blocks import Block, KeyRange


@request(
    "SNAPSHOT_OPEN",
    CONSUME,
    RetryRule.REQUEST,
    "{snapshot, cursor, taken, size, schema: map or null}",
    is_slow=True,
    is_long=True,
)
class SnapshotOpenRequest(Request[dict[str, Any]]):
    """Copies all entries as they are now. The copy goes when it is closed, or when it was not read for five minutes."""


@request("SNAPSHOT_SPLIT", CONSUME, RetryRule.ALWAYS, "{ranges, at: [bytes]}", is_slow=True, is_long=True)
class SnapshotSplitRequest(Request[tuple[list[KeyRange], list[bytes]]]):
    """Those of the ranges that have entries, and the primary keys between parts of about the same size."""

    snapshot: SnapshotName
    parts: PartsCount
    ranges: Ranges


@request("SNAPSHOT_READ", CONSUME, RetryRule.ALWAYS, "block", is_slow=True)
class SnapshotReadRequest(Request[Block]):
    """The first entries of the ranges, as many as fit into a frame. Ask for what comes after the last of them, until there is none."""

    snapshot: SnapshotName
    ranges: Ranges


@request("SNAPSHOT_CLOSE", CONSUME, RetryRule.ALWAYS, "null", is_slow=True)
class SnapshotCloseRequest(Request[None]):
    """Removes a copy; one that is gone already is no error."""

    snapshot: SnapshotName
