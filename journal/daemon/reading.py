"""
The commands of readers.

R1  Who may consume, or is an admin, reads every entry of a journal that it may see. Who may only produce reads those that nobody owns,
    and those of the groups that it may act under; others are not there for it. Numbers (COUNT, FORECAST, STATISTICS) are of all.
R2  A reply fits into a frame. What does not fit comes with the next one; an entry that fits into none is named.
"""

from __future__ import annotations

from typing import Any

from journal.core.keys import UserKey, key_bytes
from journal.core.rows import Row
from journal.daemon.columns import entry_columns
from journal.daemon.served import Served
from journal.net.auth import Grant
from journal.net.command import Role

_READERS = frozenset({Role.CONSUME, Role.ADMIN})


def may_read(grant: Grant, row: Row) -> bool:
    """Whether an identity may read an entry (R1)."""
    return not row.owner or not grant.roles.isdisjoint(_READERS) or grant.may_act_as(row.owner.decode())


def get(served: Served, given: dict[str, Any], grant: Grant) -> Any:
    """GET."""
    key: UserKey = given["key"]
    found = served.journal._row(key, key_bytes(key))
    if found is None or not may_read(grant, found[0]):
        return None
    return entry_columns(*found)
