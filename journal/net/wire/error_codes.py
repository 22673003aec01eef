"""
Errors on the wire: each class of journal.errors has one code, and each code one class.

    [code, message, fields]      fields: what the class keeps beside its message, by name

C1  One to one, and for ever: a code is never given to another class, and never goes.
C2  A client that receives a code that it does not know raises RemoteError, which keeps the code: a newer daemon may have more.
C3  An error that is none of ours becomes `internal`, without its text: it may hold confidential data.
"""

from __future__ import annotations

from typing import Any

from journal import errors
from journal.errors import JournalError, RemoteError

CODES: dict[str, type[JournalError]] = {
    "error": errors.JournalError,
    "invalid": errors.Invalid,
    "refused": errors.Refused,
    "lease_lost": errors.LeaseLost,
    "key_exists": errors.KeyExists,
    "not_found": errors.NotFound,
    "not_owner": errors.NotOwner,
    "version_mismatch": errors.VersionMismatch,
    "leased": errors.Leased,
    "not_due": errors.NotDue,
    "paused": errors.Paused,
    "unacknowledged": errors.Unacknowledged,
    "storage": errors.StorageError,
    "store_locked": errors.StoreLocked,
    "store_full": errors.StoreFull,
    "store_failed": errors.StoreFailed,
    "store_damaged": errors.StoreDamaged,
    "log_damaged": errors.LogDamaged,
    "store_closed": errors.StoreClosed,
    "forked_store": errors.ForkedStore,
    "read_only": errors.ReadOnly,
    "cursor_unavailable": errors.CursorUnavailable,
    "unknown_command": errors.UnknownCommand,
    "access_denied": errors.AccessDenied,
    "busy": errors.Busy,
    "stopping": errors.Stopping,
    "protocol": errors.ProtocolError,
    "line": errors.LineError,
    "frame": errors.FrameError,
    "version_unsupported": errors.VersionUnsupported,
    "timed_out": errors.TimedOut,
    "connection_lost": errors.ConnectionLost,
    "remote": errors.RemoteError,
}
FIELDS: dict[str, dict[str, type]] = {"line": {"position": int, "reason": str}, "remote": {"code": str}}
"""What else an error keeps."""
INTERNAL = "internal"
MESSAGE_BYTES_MAX = 2048
"""A message fits into a frame before the other side is known, too."""
_CODE_OF = {kind: code for code, kind in CODES.items()}

Wire = tuple[str, str, dict[str, Any]]


def code_of(error: type[BaseException]) -> str:
    """The code of an error's class, or of the nearest class above it that has one."""
    return next((_CODE_OF[kind] for kind in error.__mro__ if kind in _CODE_OF), INTERNAL)


def to_wire(error: BaseException) -> Wire:
    """An error as it is sent (C3)."""
    code = code_of(type(error))
    if code == INTERNAL:
        return code, f"the daemon failed ({type(error).__name__}): its log has the reason", {}
    text = str(error).encode("utf-8", "replace")[:MESSAGE_BYTES_MAX].decode("utf-8", "ignore")
    return code, text, {name: getattr(error, name) for name in FIELDS.get(code, ())}


def from_wire(code: str, message: str, kept: dict[str, Any]) -> JournalError:
    """The error that was sent (C2)."""
    kind = CODES.get(code)
    if kind is None:
        return RemoteError(message, code=code)
    fields = {name: kept[name] for name, expected in FIELDS.get(code, {}).items() if type(kept.get(name)) is expected}
    return kind(message, **fields)
