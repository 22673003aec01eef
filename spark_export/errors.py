"""
Errors for users of Spark, with a stable code in front of the text.

Spark passes nothing of a Python error on but its text (inside an AnalysisException or a PythonException), so programs recognise ours
by the code: `[JOURNAL_OPTION_UNKNOWN] …`. The codes are part of the interface; docs/SPARK.md lists them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from journal.errors import (
    AccessDenied,
    ConnectionLost,
    CursorUnavailable,
    Invalid,
    JournalError,
    NotFound,
    StorageError,
    StoreLocked,
)

E = TypeVar("E", bound=JournalError)

OPTION_UNKNOWN = "JOURNAL_OPTION_UNKNOWN"
OPTION_MISSING = "JOURNAL_OPTION_MISSING"
OPTION_INVALID = "JOURNAL_OPTION_INVALID"
STORE_NOT_FOUND = "JOURNAL_STORE_NOT_FOUND"
STORE_LOCKED = "JOURNAL_STORE_LOCKED"
STORE_UNREACHABLE = "JOURNAL_STORE_UNREACHABLE"
NOT_FOUND = "JOURNAL_NOT_FOUND"
COLUMN_UNKNOWN = "JOURNAL_COLUMN_UNKNOWN"
COLUMN_TYPE = "JOURNAL_COLUMN_TYPE"
SCHEMA_GIVEN = "JOURNAL_SCHEMA_GIVEN"
SNAPSHOT_GONE = "JOURNAL_SNAPSHOT_GONE"
SNAPSHOT_NOT_VISIBLE = "JOURNAL_SNAPSHOT_NOT_VISIBLE"
CURSOR_UNAVAILABLE = "JOURNAL_CURSOR_UNAVAILABLE"
DATE_RANGE = "JOURNAL_DATE_RANGE"
TIMELINE = "JOURNAL_TIMELINE"
LEFT_OUT = "JOURNAL_LEFT_OUT"
TARGET_EXISTS = "JOURNAL_TARGET_EXISTS"
TARGET_INVALID = "JOURNAL_TARGET_INVALID"
TARGET_BUSY = "JOURNAL_TARGET_BUSY"
TARGET_FAILED = "JOURNAL_TARGET_FAILED"
MODE = "JOURNAL_MODE"
ROWS_REJECTED = "JOURNAL_ROWS_REJECTED"
KEY_EXISTS = "JOURNAL_KEY_EXISTS"
LOAD_REFUSED = "JOURNAL_LOAD_REFUSED"
STAGING = "JOURNAL_STAGING"
STORAGE = "JOURNAL_STORAGE"
FILE_INVALID = "JOURNAL_FILE_INVALID"
SPARK_MISSING = "JOURNAL_SPARK_MISSING"
JAVA_MISSING = "JOURNAL_JAVA_MISSING"
OTHER = "JOURNAL_ERROR"


def problem(kind: type[E], code: str, text: str) -> E:
    """An error of ours with its code."""
    return kind(f"[{code}] {text}")


def invalid(code: str, text: str) -> Invalid:
    """An error about what the caller has given, with its code."""
    return problem(Invalid, code, text)


_CODES: tuple[tuple[type[JournalError], str], ...] = (
    (NotFound, NOT_FOUND),
    (CursorUnavailable, CURSOR_UNAVAILABLE),
    (StoreLocked, STORE_LOCKED),
    (ConnectionLost, STORE_UNREACHABLE),
    (AccessDenied, STORE_UNREACHABLE),
    (Invalid, OPTION_INVALID),
)


def coded(error: JournalError, code: str | None = None) -> JournalError:
    """The same error with a code in front of its text; one that has a code already keeps it."""
    text = str(error)
    if text.startswith("[JOURNAL_"):
        return error
    found = code or next((each for kind, each in _CODES if isinstance(error, kind)), OTHER)
    return type(error)(f"[{found}] {text}")


@contextmanager
def told() -> Iterator[None]:
    """Errors of journal's leave with a code."""
    try:
        yield
    except JournalError as e:
        raise coded(e) from e


@contextmanager
def spark_at(where: str) -> Iterator[None]:
    """What Spark says when it fails at a target becomes one line with a code; one of ours that came through Spark has its own."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as e:
        if (ours := coded_in(e)) is not None:
            raise JournalError(ours) from e
        raise problem(StorageError, TARGET_FAILED, f"Spark failed at {where}: {_reason(e)}") from e


def coded_in(error: Exception) -> str | None:
    """The text of an error of ours, with its code, that Spark has wrapped into this one; None: there is none."""
    found = re.search(r"\[JOURNAL_[A-Z_]+\] [^\n]*", str(error))
    return None if found is None else found[0]


def _reason(error: Any) -> str:
    """The first line of Spark's message, and that of the root cause; the error itself has the rest."""
    thrown = getattr(error, "java_exception", None)
    if thrown is None:
        return _line(str(error))
    first = thrown
    while (cause := thrown.getCause()) is not None:
        thrown = cause
    said = _line(str(first.getMessage() or first.toString()))
    below = _line(str(thrown.getMessage() or thrown.toString()))
    return said if below in said else f"{said} ({below})"


def _line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason")
