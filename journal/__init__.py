"""
Journal: an embedded, durable journal of work to do.

Rows with a priority and a date, handed to backends under a lease, in order, at the right millisecond.

Modules are imported when a name of them is first used: programs that only connect to a daemon (`journal.connect`) do not need lmdb.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from journal.core.entry.priority import IMPORTANT, NEW_PAGE, NOW, RESET, REVIEW, SLOW, TIME_ALLOWS, UPDATES
from journal.errors import (
    AccessDenied,
    Busy,
    ConnectionLost,
    CursorUnavailable,
    ForkedStore,
    FrameError,
    Invalid,
    JournalError,
    KeyExists,
    Leased,
    LeaseLost,
    LineError,
    LogDamaged,
    NotDue,
    NotFound,
    NotOwner,
    Paused,
    ProtocolError,
    ReadOnly,
    Refused,
    RemoteError,
    Stopping,
    StorageError,
    StoreClosed,
    StoreDamaged,
    StoreFailed,
    StoreFull,
    StoreLocked,
    TimedOut,
    Unacknowledged,
    UnknownCommand,
    VersionMismatch,
    VersionUnsupported,
)

if TYPE_CHECKING:
    from journal._open import open
    from journal.api.backend import Feed, Snapshot, SnapshotPart, Subscription
    from journal.api.journal import Journal
    from journal.api.lease import Lease
    from journal.api.log import MergedJournals
    from journal.api.store import Store
    from journal.core.buckets import Range
    from journal.core.forecast.forecast import Forecast
    from journal.core.log.cursor import Cursor
    from journal.core.log.events import Event
    from journal.core.retry import Retry
    from journal.core.schema.field import Field
    from journal.core.schema.schema import Schema
    from journal.core.snapshot_blocks import Block
    from journal.core.values import (
        Backup,
        Buried,
        BuriedPage,
        Compacted,
        Delete,
        Entry,
        FeedView,
        Flag,
        Loaded,
        Move,
        Page,
        Put,
        PutResult,
        Rejected,
    )
    from journal.engine.log.read_log import LogRecord, read_log
    from journal.engine.restore import restore
    from journal.net.client.connect import connect
    from journal.roles.consumer import Consumer
    from journal.roles.producer import Producer, Published

__version__ = "0.1.0"

__all__ = [
    "IMPORTANT",
    "NEW_PAGE",
    "NOW",
    "RESET",
    "REVIEW",
    "SLOW",
    "TIME_ALLOWS",
    "UPDATES",
    "AccessDenied",
    "Backup",
    "Block",
    "Buried",
    "BuriedPage",
    "Busy",
    "Compacted",
    "ConnectionLost",
    "Consumer",
    "Cursor",
    "CursorUnavailable",
    "Delete",
    "Entry",
    "Event",
    "Feed",
    "FeedView",
    "Field",
    "Flag",
    "Forecast",
    "ForkedStore",
    "FrameError",
    "Invalid",
    "Journal",
    "JournalError",
    "KeyExists",
    "Lease",
    "LeaseLost",
    "Leased",
    "LineError",
    "Loaded",
    "LogDamaged",
    "LogRecord",
    "MergedJournals",
    "Move",
    "NotDue",
    "NotFound",
    "NotOwner",
    "Page",
    "Paused",
    "Producer",
    "ProtocolError",
    "Published",
    "Put",
    "PutResult",
    "Range",
    "ReadOnly",
    "Refused",
    "Rejected",
    "RemoteError",
    "Retry",
    "Schema",
    "Snapshot",
    "SnapshotPart",
    "Stopping",
    "StorageError",
    "Store",
    "StoreClosed",
    "StoreDamaged",
    "StoreFailed",
    "StoreFull",
    "StoreLocked",
    "Subscription",
    "TimedOut",
    "Unacknowledged",
    "UnknownCommand",
    "VersionMismatch",
    "VersionUnsupported",
    "connect",
    "open",
    "read_log",
    "restore",
]

_PLACES = {
    "journal._open": "open",
    "journal.api.backend": "Feed Snapshot SnapshotPart Subscription",
    "journal.api.journal": "Journal",
    "journal.api.lease": "Lease",
    "journal.api.log": "MergedJournals",
    "journal.api.store": "Store",
    "journal.core.buckets": "Range",
    "journal.core.forecast.forecast": "Forecast",
    "journal.core.log.cursor": "Cursor",
    "journal.core.log.events": "Event",
    "journal.core.retry": "Retry",
    "journal.core.schema.field": "Field",
    "journal.core.schema.schema": "Schema",
    "journal.core.snapshot_blocks": "Block",
    "journal.core.values": "Backup Buried BuriedPage Compacted Delete Entry FeedView Flag Loaded Move Page Put PutResult Rejected",
    "journal.engine.log.read_log": "LogRecord read_log",
    "journal.engine.restore": "restore",
    "journal.net.client.connect": "connect",
    "journal.roles.consumer": "Consumer",
    "journal.roles.producer": "Producer Published",
}
"""What is imported when it is first used: the names of each module."""
_LATER = {name: module for module, names in _PLACES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """See _PLACES."""
    if name not in _LATER:
        raise AttributeError(f"module 'journal' has no attribute {name!r}")
    try:
        found = getattr(import_module(_LATER[name]), name)
    except ModuleNotFoundError as e:
        if e.name != "lmdb":
            raise
        raise ImportError(
            f"journal.{name} needs lmdb, which is not installed: pip install lmdb. "
            "Without it there is journal.connect, to a daemon that has it"
        ) from e
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
