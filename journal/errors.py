"""
Every error that Journal raises, grouped by the occasion.

    JournalError
      Invalid          the caller's argument is wrong (also a ValueError)
      Refused          the call is well-formed, but the state forbids it; nothing was changed
      StorageError     the store cannot do it: locked, full, damaged, closed, forked

A message says what was found, what is allowed and what to do. "Nothing to claim" is None, not an error.
"""

from __future__ import annotations


class JournalError(Exception):
    """The root of all errors of this package."""


class Invalid(JournalError, ValueError):
    """An argument is not acceptable, whatever the state of the store."""


class Refused(JournalError):
    """The state forbids the call. Nothing was changed."""


class LeaseLost(Refused):
    """The lease that the token names is no longer active: its deadline passed, or it was ended by somebody else."""


class KeyExists(Refused):
    """`create` or `retry` found an entry with this key."""


class NotFound(Refused):
    """There is no such entry, journal or flag."""


class NotOwner(Refused):
    """The entry belongs to another producer group."""


class VersionMismatch(Refused):
    """The entry has changed since the caller read it."""


class Leased(Refused):
    """An active lease is a contract: the entry cannot be moved or deleted under it."""


class NotDue(Refused):
    """`claim_key` found an entry that waits for a later date."""


class Unacknowledged(Refused):
    """A feed delivers no more before something that it delivered is acknowledged."""


class StorageError(JournalError):
    """The store cannot do what was asked."""


class StoreLocked(StorageError):
    """Another process owns the store."""


class StoreFull(StorageError):
    """No room for this change, on the disk or in the map. Nothing was changed; it works again when there is room."""


class StoreFailed(StorageError):
    """A write or a sync failed. What was under way has an unknown outcome; nothing is acknowledged until a reopen."""


class StoreDamaged(StorageError):
    """A file of the store does not hold what was written to it."""


class LogDamaged(StoreDamaged):
    """The log is damaged before its end; the message names the segment and the offset."""


class StoreClosed(StorageError):
    """The store was closed."""


class ForkedStore(StorageError):
    """The store was opened by the parent of this process; open it again here, or use a daemon."""


class ReadOnly(StorageError):
    """The store was opened with readonly=True."""


class CursorUnavailable(StorageError):
    """The cursor is no place in the log, or what comes after it is gone; the message names the oldest that is available."""
