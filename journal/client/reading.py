"""The verbs of readers as calls. What they do says journal.Journal; see journal.client.call."""

from __future__ import annotations

from journal.client.call import Call, call
from journal.core.keys import UserKey, key_bytes
from journal.core.views import Entry
from journal.net.values import entry_from


def get(journal: str, key: UserKey) -> Call[Entry | None]:
    """The entry with this key, or None."""
    key_bytes(key)
    return call("GET", journal, lambda value: None if value is None else entry_from(value), key=key)
