"""
Journal: an embedded, durable journal of work to do.

Rows with a priority and a date, handed to backends under a lease, in order, at the right millisecond.
"""

from journal._open import open
from journal.core.buckets import Range
from journal.core.cursor import Cursor
from journal.core.events import Event
from journal.core.priority import IMPORTANT, NEW_PAGE, NOW, RESET, REVIEW, SLOW, TIME_ALLOWS, UPDATES
from journal.core.schema import Schema
from journal.core.schema_field import Field
from journal.core.views import Buried, Entry, Flag, Put, PutResult
from journal.engine.consumers import FeedView
from journal.engine.feed import Feed
from journal.engine.journal import Journal
from journal.engine.lease import Lease
from journal.engine.merged_journals import MergedJournals
from journal.engine.store import Store
from journal.errors import (
    CursorUnavailable,
    ForkedStore,
    Invalid,
    JournalError,
    KeyExists,
    Leased,
    LeaseLost,
    LogDamaged,
    NotFound,
    NotOwner,
    ReadOnly,
    Refused,
    StorageError,
    StoreClosed,
    StoreDamaged,
    StoreFailed,
    StoreFull,
    StoreLocked,
    Unacknowledged,
    VersionMismatch,
)
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
    "Buried",
    "Cursor",
    "CursorUnavailable",
    "Entry",
    "Event",
    "Feed",
    "FeedView",
    "Field",
    "Flag",
    "ForkedStore",
    "Invalid",
    "Journal",
    "JournalError",
    "KeyExists",
    "Lease",
    "LeaseLost",
    "Leased",
    "LogDamaged",
    "MergedJournals",
    "NotFound",
    "NotOwner",
    "Producer",
    "Published",
    "Put",
    "PutResult",
    "Range",
    "ReadOnly",
    "Refused",
    "Schema",
    "StorageError",
    "Store",
    "StoreClosed",
    "StoreDamaged",
    "StoreFailed",
    "StoreFull",
    "StoreLocked",
    "Unacknowledged",
    "VersionMismatch",
    "open",
]
