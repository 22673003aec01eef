"""Buried entries, versions and priorities from afar: the same answers."""

from __future__ import annotations

import asyncio

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


def test_they_are_listed_counted_and_scanned(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """As by the library."""
    for which in ({}, {"prefix": "k1"}, {"reason": "even"}, {"limit": 2}, {"prefix": b"k"}):
        there, here = far_pages.buried(**which), pages.buried(**which)  # type: ignore[arg-type]
        assert there == here and there.after == here.after, which
    page = far_pages.buried(limit=2)
    assert far_pages.buried(limit=9, after=page.after) == pages.buried()[2:]
    assert far_pages.count(status="buried") == 5
    assert list(far_pages.scan(status="buried")) == list(pages.scan(status="buried"))
    with pytest.raises(journal.Invalid):
        far_pages.select(status="buried")


def test_a_scan_shows_what_may_be_read(store: journal.Store, pages: journal.Journal) -> None:
    """In parts, and without what belongs to others."""
    seen = ask(store, "SCAN", status="buried", by=grant("them", "produce"), limit=3)
    assert [entry[0] for entry in seen["entries"]] == ["k0", "k1", "k2"]
    rest = ask(store, "SCAN", status="buried", by=grant("them", "produce"), after=seen["after"])
    assert [entry[0] for entry in rest["entries"]] == ["k3"] and rest["after"] is None


def test_many_are_retried(far_pages: journal.Journal, pages: journal.Journal, store: journal.Store) -> None:
    """A result or an error for each; by an admin."""
    results = far_pages.retry_many(["k0", "x", "", "k3"])
    assert [getattr(r, "outcome", type(r)) for r in results] == [
        "retried", journal.NotFound, journal.Invalid, "retried",
    ]  # fmt: skip
    assert sorted(e.key for e in pages.scan()) == ["k0", "k3"]
    with pytest.raises(journal.AccessDenied):
        ask(store, "RETRY_MANY", by=grant("us", "consume", "produce"), keys=["k1"])


def test_versions_and_priorities(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """Refused or not, singly and in groups, as by the library."""
    first = far_pages.put("a", 1, version=0)
    with pytest.raises(journal.VersionMismatch):
        far_pages.put("a", 2, version=7)
    assert far_pages.put("a", 2, version=first.version).outcome == "merged"
    results = far_pages.put_many([Put("a", 3, version=1), Put("b", 1, version=0)])
    assert isinstance(results[0], journal.VersionMismatch) and getattr(results[1], "outcome", None) == "inserted"
    lease = far_pages.claim_key("b")
    lease.release(priority=7)
    assert pages.get("b").priority == 7  # type: ignore[union-attr]
    with pytest.raises(journal.Invalid):
        far_pages.release(lease.token, priority=-1)


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


def test_awaited(far_pages: journal.Journal, store: journal.Store, pages: journal.Journal) -> None:
    """The same names."""

    async def main() -> None:
        async with await journal.aio.connect(store.path) as far:
            there = await far.journal("pages")
            found = await there.buried(reason="odd", limit=1)
            assert [b.key for b in found] == ["k1"] and found.has_more
            assert len(await there.retry_many(["k1", "k3"])) == 2
            assert await there.count(status="buried") == 3

    asyncio.run(main())
