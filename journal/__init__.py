"""
Journal: an embedded, durable journal of work to do.

Rows with a priority and a date, handed to backends under a lease, in order, at the right millisecond.
"""

from journal._open import open
from journal.client.store import connect
from journal.core.buckets import Range
from journal.core.cursor import Cursor
from journal.core.events import Event
from journal.core.forecast import Forecast
from journal.core.priority import IMPORTANT, NEW_PAGE, NOW, RESET, REVIEW, SLOW, TIME_ALLOWS, UPDATES
from journal.core.retry import Retry
from journal.core.schema import Schema
from journal.core.schema_field import Field
from journal.core.views import (
    Buried,
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
from journal.engine.feed import Feed
from journal.engine.journal import Journal
from journal.engine.lease import Lease
from journal.engine.merged_journals import MergedJournals
from journal.engine.store import Store
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
    "Buried",
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
    "MergedJournals",
    "Move",
    "NotDue",
    "NotFound",
    "NotOwner",
    "Page",
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
    "Stopping",
    "StorageError",
    "Store",
    "StoreClosed",
    "StoreDamaged",
    "StoreFailed",
    "StoreFull",
    "StoreLocked",
    "TimedOut",
    "Unacknowledged",
    "UnknownCommand",
    "VersionMismatch",
    "VersionUnsupported",
    "connect",
    "open",
]
