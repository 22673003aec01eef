"""Buried entries, versions and priorities from afar: the same answers."""

from __future__ import annotations

import pytest

import journal
import journal.aio
from journal import Put
from journal.net.client.connection.call import Call
from journal.net.client.connection.link import Link
from tests.net.server.asking import ask, grant


@pytest.fixture
def pages(pages: journal.Journal) -> journal.Journal:
    """k0 … k4 are buried, in this order."""
    for n in range(5):
        pages.put(f"k{n}", n, owner="us" if n == 4 else None)
        pages.claim_key(f"k{n}").bury("odd" if n % 2 else "even")
    return pages


def test_a_scan_shows_what_may_be_read(store: journal.Store, pages: journal.Journal) -> None:
    """In parts, and without what belongs to others."""
    seen = ask(store, "SCAN", status="buried", by=grant("them", "produce"), limit=3)
    assert [entry[0] for entry in seen["entries"]] == ["k0", "k1", "k2"]
    rest = ask(store, "SCAN", status="buried", by=grant("them", "produce"), after=seen["after"])
    assert [entry[0] for entry in rest["entries"]] == ["k3"] and rest["after"] is None


def test_a_put_for_a_version_is_not_repeated_blindly(remote: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has put would refuse it: only the daemon that remembers it is asked again."""
    pages = remote.journal("pages")
    sent: list[Call] = []
    ask = Link.ask
    monkeypatch.setattr(Link, "ask", lambda link, call, ms: sent.append(call) or ask(link, call, ms))
    pages.put("a", 1, priority=3)
    pages.put("a", 1, version=1)
    pages.put_many([Put("a", 1)])
    pages.put_many([Put("a", 1), Put("b", 1, version=0)])
    assert [call.command.retry for call in sent] == ["key", "request", "key", "request"]


def test_retrying_is_for_admins(store: journal.Store, pages: journal.Journal) -> None:
    """Consumers and producers cannot."""
    with pytest.raises(journal.AccessDenied):
        ask(store, "RETRY_MANY", by=grant("us", "consume", "produce"), keys=["k1"])
