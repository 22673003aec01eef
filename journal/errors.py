"""
Every error that Journal raises, grouped by the occasion.

    JournalError
      Invalid          the caller's argument is wrong (also a ValueError)
      Refused          the call is well-formed, but the state forbids it; nothing was changed
      StorageError     the store cannot do it: locked, full, damaged, closed, forked
      ProtocolError    what came over a connection cannot be understood, or did not come in time; the connection ends
      ConnectionLost   the connection ended before the answer came; a daemon may have done it or not
      RemoteError      a daemon answered with an error that this version does not know

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
    """The lease that the token names is no longer active: its deadline passed, or another call ended it."""


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


class Paused(Refused):
    """`claim_key` was asked of a journal that hands nothing out until it is resumed."""


class Unacknowledged(Refused):
    """A feed delivers no more before something that it delivered is acknowledged."""


class StorageError(JournalError):
    """The store cannot do what was asked."""


class StoreLocked(StorageError):
    """Another process owns the store."""


class StoreFull(StorageError):
    """No room for this change (disk, map, or a limit of the system). Nothing was changed; it works again when there is room."""


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


class UnknownCommand(Invalid):
    """The daemon has no such command; it may be of an older version."""


class AccessDenied(Refused):
    """The client could not prove its identity, or has no right to this command, journal or name."""


class Busy(Refused):
    """A limit of the daemon is reached: connections, requests, subscriptions or listeners. It works again when some end."""


class Stopping(Refused):
    """The daemon finishes what is under way and takes nothing new: connect again, to it or to its successor."""


class ProtocolError(JournalError):
    """What came over a connection breaks the protocol. The connection ends; other connections go on."""


class LineError(ProtocolError):
    """Bytes that are no message line. `position` is the first byte that cannot stand there."""

    def __init__(self, message: str, *, position: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.position = position
        self.reason = reason


class FrameError(ProtocolError):
    """Bytes that are no frame, or a frame that may not come now."""


class VersionUnsupported(ProtocolError):
    """The two sides have no version of the protocol in common; the message names what each speaks."""


class TimedOut(ProtocolError):
    """The other side fell silent, or took too long to finish what it began."""


class ConnectionLost(JournalError):
    """The connection ended before the answer came: whether it was done is unknown."""


class RemoteError(JournalError):
    """A daemon answered with an error code that this version does not know."""

    def __init__(self, message: str, *, code: str = "error") -> None:
        super().__init__(message)
        self.code = code
