"""Where a journal's files are: its own directory, or what merged journals share when tests run with `--merged`."""

from __future__ import annotations

from journal.core.settings import MERGED

is_merged = False
"""Set by pytest's option."""


def top(name: str = "pages") -> str:
    """The directory in the store."""
    return MERGED if is_merged else name
