"""
What Spark's users are told: errors with a stable code in front of the text.

Spark passes nothing of a Python error on but its text (inside an AnalysisException or a PythonException), so programs recognise ours
by the code: `[JOURNAL_OPTION_UNKNOWN] …`. The codes are part of the interface; docs/SPARK.md lists them.
"""

from __future__ import annotations

from typing import TypeVar

from journal.errors import JournalError

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
TARGET_EXISTS = "JOURNAL_TARGET_EXISTS"
TARGET_INVALID = "JOURNAL_TARGET_INVALID"
SPARK_MISSING = "JOURNAL_SPARK_MISSING"
JAVA_MISSING = "JOURNAL_JAVA_MISSING"


def problem(kind: type[E], code: str, text: str) -> E:
    """An error of ours with its code."""
    return kind(f"[{code}] {text}")


def coded(error: JournalError, code: str) -> JournalError:
    """The same error with a code in front of its text; one that has a code already keeps it."""
    text = str(error)
    return error if text.startswith("[JOURNAL_") else type(error)(f"[{code}] {text}")
