"""Order within a millisecond, through the daemon."""

from __future__ import annotations

import threading

import journal
from journal.net.client.connect import connect
from tests.api.claims.test_turns import taken


def test_clients_side_by_side(store: journal.Store, far_pages: journal.Journal) -> None:
    """The order of work is that of the log, and each client's own order holds."""
    results: dict[str, journal.PutResult] = {}

    def put(name: int) -> None:
        with connect(store.path) as remote:
            pages = remote.journal("pages")
            for n in range(30):
                results[f"{name}-{n}"] = pages.put(f"{name}-{n}")

    threads = [threading.Thread(target=put, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 120
    assert taken(far_pages, 1000) == sorted(results, key=lambda key: results[key].cursor)
