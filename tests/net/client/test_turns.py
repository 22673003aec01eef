"""Order within a millisecond, through the daemon."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

import journal
from journal.net.client.connect import connect
from tests.api.claims.test_turns import TEN, WAYS, one_by_one, put_each, taken


@pytest.mark.parametrize("take", [taken, one_by_one])
@pytest.mark.parametrize("put", WAYS)
def test_one_millisecond(
    far_pages: journal.Journal, put: Callable[[Any, list[str]], None], take: Callable[..., list[Any]]
) -> None:
    """Ten entries of one millisecond come in the order in which a client put them."""
    put(far_pages, TEN)
    assert [entry.key for entry in far_pages.scan()] == TEN
    assert take(far_pages) == TEN


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


def test_buried_entries_are_in_the_order_of_burial(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """In parts as the daemon sends them, as in the library."""
    keys = [f"k{n}" for n in range(300)]
    put_each(pages, keys)
    order = random.Random(3).sample(keys, 300)
    leases = {lease.key: lease for lease in pages.claim_many(300)}
    for key in order:
        leases[key].bury("no")
    assert [each.entry.key for each in far_pages.buried()] == order
    assert [each.entry.key for each in pages.buried()] == order
