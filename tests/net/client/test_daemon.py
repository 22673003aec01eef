"""Every verb through the real daemon: what comes of it is what the library itself says."""

from __future__ import annotations

import journal
from journal.net.client.connect import connect
from journal.net.server.server import Server


def test_a_store_is_found_by_its_path_and_by_its_addresses(server: Server, store: journal.Store) -> None:
    """All ways lead to one daemon."""
    for address in (store.path, str(store.path), *server.addresses):
        with connect(address, name="backend-1") as remote:
            assert remote.journals() == store.journals()


def test_long_lists_come_in_parts(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """A page, a scan and a look-up of more than a frame holds are whole."""
    keys = [f"k{i:03}" for i in range(40)]
    pages.put_many([journal.Put(key, b"x" * 60_000, priority=i) for i, key in enumerate(keys)])
    assert [entry.key for entry in far_pages.scan()] == keys
    assert [entry.key for entry in far_pages.select(limit=40)] == keys
    assert [getattr(entry, "key", None) for entry in far_pages.get_many(keys)] == keys
