"""A journal that is paused, from afar: claims, pushes, sleeping workers."""

from __future__ import annotations

import threading

import pytest

import journal
import journal.aio
from journal import Put
from journal.net.server.server import Server
from tests.engine.helpers import poll
from tests.net.client.working import WAIT_S
from tests.net.server.asking import ask, grant


def test_nothing_is_due_meanwhile(store: journal.Store, pages: journal.Journal) -> None:
    """So nobody is told to ask again."""
    pages.put("a")
    ask(store, "PAUSE", reason="why not")
    assert ask(store, "CLAIM") == {"lease": None, "next_due": None}
    assert ask(store, "CLAIM_MANY", n=2) == {"leases": [], "next_due": None}
    for roles in (["produce", "consume"], ["consume"]):
        for command in ("PAUSE", "RESUME"):
            with pytest.raises(journal.AccessDenied):
                ask(store, command, by=grant("us", *roles))
    assert ask(store, "RESUME", by=grant("root", "admin")) is True


@pytest.mark.parametrize("how", ["work", "subscribe"])
def test_who_waits_for_work_is_woken_by_resume(
    server: Server, store: journal.Store, far_pages: journal.Journal, how: str
) -> None:
    """Workers that sleep on LISTEN, and subscriptions that are pushed to."""
    far_pages.pause()
    found: list[object] = []
    is_found = threading.Event()

    def work() -> None:
        with journal.connect(store.path) as far:
            there = far.journal("pages")
            leases = there.work() if how == "work" else there.subscribe()
            lease = next(iter(leases))
            found.append(lease.key)
            lease.done()
            is_found.set()

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    poll(lambda: server.watching.listeners_count + server.pushing.count > 0, "nobody waits for work")
    far_pages.put_many([Put("a"), Put("b")])
    assert far_pages.count(status="processing") == 0 and not is_found.is_set()
    far_pages.resume()
    assert is_found.wait(WAIT_S)
    worker.join(WAIT_S)
    assert found and found[0] in ("a", "b")
