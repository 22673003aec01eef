"""The verbs of operators: of a journal, and of the store. See journal.core.requests.request."""

from typing import Any

from journal.core.requests.fields import (
    Bool,
    BuriedAfter,
    Flagged,
    JournalName,
    Key,
    Keys,
    Level,
    Limit,
    Map,
    Prefix,
    Reason,
    Text,
)
from journal.core.requests.request import ADMIN, KNOWN, PRODUCE_OR_CONSUME, Request, RetryRule, Scope, request
from journal.core.values import PAUSED, BuriedPage, Compacted, Flag, Generation, PutResult
from journal.errors import Invalid, JournalError

_DAEMON = Scope.DAEMON


@request(
    "OWNERS",
    ADMIN,
    RetryRule.ALWAYS,
    "{owners: [[text, int]], after: bytes or null}",
    is_slow=True,
    is_long=True,
    in_parts=True,
)
class OwnersRequest(Request[dict[str, int]]):
    """The producer groups that have entries, and how many."""


@request("RAISE_FLAG", PRODUCE_OR_CONSUME, RetryRule.REQUEST, "null")
class RaiseFlagRequest(Request[None]):
    """Has a person look at something: raises a flag, or raises it once more."""

    name: Flagged
    message: Reason
    durability: Level | None = None

    def __post_init__(self) -> None:
        if self.name == PAUSED:
            raise Invalid(f"the flag {PAUSED!r} says that a journal is paused: use pause")


@request("PAUSE", ADMIN, RetryRule.ALWAYS, "null")
class PauseRequest(Request[None]):
    """Nothing is handed out until RESUME, by claims, pushes or LISTEN; all else goes on. Asked again it has another reason."""

    reason: Reason = ""
    durability: Level | None = None


@request("RESUME", ADMIN, RetryRule.REQUEST, "bool")
class ResumeRequest(Request[bool]):
    """What is due is handed out again; false when the journal was not paused."""

    durability: Level | None = None


@request("BURIED", ADMIN, RetryRule.ALWAYS, "{buried: [buried], after: bytes or null}", is_slow=True)
class BuriedRequest(Request[BuriedPage]):
    """The entries that were given up on, in the order of burial; those whose key begins so, and whose reason has this text."""

    prefix: Prefix | None = None
    reason: Reason | None = None
    after: BuriedAfter | None = None
    limit: Limit | None = None


@request("RETRY", ADMIN, RetryRule.REQUEST, "result")
class RetryRequest(Request[PutResult]):
    """Lets a buried entry wait again."""

    key: Key
    durability: Level | None = None


@request("RETRY_MANY", ADMIN, RetryRule.REQUEST, "[result or error]")
class RetryManyRequest(Request[list[PutResult | JournalError]]):
    """Lets many wait again: one record, one sync."""

    keys: Keys
    durability: Level | None = None


@request("DISCARD", ADMIN, RetryRule.REQUEST, "null")
class DiscardRequest(Request[None]):
    """Deletes a buried entry."""

    key: Key
    durability: Level | None = None


@request("ROTATE", ADMIN, RetryRule.REQUEST, "generation", is_slow=True, is_long=True, is_of_log=True)
class RotateRequest(Request[Generation]):
    """Begins a new generation."""


@request("COMPACT", ADMIN, RetryRule.REQUEST, "compacted", is_slow=True, is_long=True, is_of_log=True)
class CompactRequest(Request[Compacted]):
    """Compacts the log now."""


@request("DECLARE", ADMIN, RetryRule.ALWAYS, "map", is_slow=True, is_long=True)
class DeclareRequest(Request[dict[str, Any]]):
    """Declares a journal, or changes its settings; answers all of them."""

    settings: Map | None = None


@request("DROP", ADMIN, RetryRule.REQUEST, "null", is_slow=True, is_long=True)
class DropRequest(Request[None]):
    """Deletes a journal with all that is in it."""


@request(
    "JOURNALS",
    KNOWN,
    RetryRule.ALWAYS,
    "{journals: [text], after: bytes or null}",
    scope=_DAEMON,
    is_slow=True,
    in_parts=True,
)
class JournalsRequest(Request[list[str]]):
    """The journals that the identity may see."""


@request("MERGED", ADMIN, RetryRule.ALWAYS, "map", scope=_DAEMON, is_slow=True, is_long=True)
class MergedRequest(Request[dict[str, Any]]):
    """The settings that merged journals have together, after changing those that are given; for identities that may see `_merged`."""

    settings: Map | None = None


@request("FLAGS", ADMIN, RetryRule.ALWAYS, "[flag]", scope=_DAEMON, is_slow=True)
class FlagsRequest(Request[list[Flag]]):
    """What a person must look at, on the journals that the identity may see."""


@request("LOWER", ADMIN, RetryRule.REQUEST, "null", scope=_DAEMON, is_slow=True)
class LowerRequest(Request[None]):
    """A person has looked: takes a flag down."""

    journal: JournalName
    name: Flagged


@request("STORE_STATISTICS", ADMIN, RetryRule.ALWAYS, "map", scope=_DAEMON, is_slow=True, is_long=True)
class StoreStatisticsRequest(Request[dict[str, Any]]):
    """Counters and sizes of the store, and of the journals that the identity may see."""


@request("CHECKPOINT", ADMIN, RetryRule.ALWAYS, "null", scope=_DAEMON, is_slow=True, is_long=True)
class CheckpointRequest(Request[None]):
    """Commits everything for readers outside."""


@request("BACKUP", ADMIN, RetryRule.REQUEST, "null", scope=_DAEMON)
class BackupRequest(Request[None]):
    """Begins a backup in a directory of the daemon's machine, by its absolute path; for identities that may see all journals.
    One at a time."""

    path: Text


@request("BACKUP_STATE", ADMIN, RetryRule.ALWAYS, "{done, total, backup: backup or null}", scope=_DAEMON)
class BackupStateRequest(Request[Any]):
    """How many bytes of how many are done of the last backup, and what it came to: an error, or null while it is made."""


@request("CHECK", ADMIN, RetryRule.ALWAYS, "[text]", scope=_DAEMON, is_slow=True, is_long=True)
class CheckRequest(Request[list[str]]):
    """Recomputes every index and counter of the journals that the identity may see; what differs, in words."""

    deep: Bool = False
