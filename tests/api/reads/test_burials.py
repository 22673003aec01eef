"""Buried entries: selected, in pages, counted, scanned, and retried together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import journal
from journal import Put, Range
from journal.engine.read import burials
from journal.testing import ManualClock
from tests.engine.helpers import collide


@pytest.fixture
def pages(pages: journal.Journal, clock: ManualClock) -> journal.Journal:
    """mail-0 … mail-3 and b"mail" were buried one after the other, then log-0; two of them for another reason."""
    for n, key in enumerate(["mail-2", "mail-0", b"mail", "mail-3", "mail-1", "log-0"]):
        pages.put(key, n, owner="us" if n % 2 else None)
        pages.claim_key(key).bury("timed out 3 times" if n in (1, 4) else "unreadable: line 7")
        clock.advance(n % 2)
    return pages


def keys(found: Any) -> list[Any]:
    return [buried.key for buried in found]


def test_they_come_in_the_order_of_burial(pages: journal.Journal) -> None:
    """Each with its key; by what keys begin with, and by what reasons have."""
    assert keys(pages.buried()) == ["mail-2", "mail-0", b"mail", "mail-3", "mail-1", "log-0"]
    assert keys(pages.buried(prefix="mail-")) == ["mail-2", "mail-0", "mail-3", "mail-1"]
    assert keys(pages.buried(prefix=b"m")) == [b"mail"]
    assert keys(pages.buried(reason="timed out")) == ["mail-0", "mail-1"]
    assert keys(pages.buried(prefix="mail-", reason="line 7")) == ["mail-2", "mail-3"]
    assert pages.buried(prefix="x") == [] and not pages.buried(prefix="x").has_more
    assert pages.buried()[0].key == pages.buried()[0].entry.key


def test_in_pages(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once, however many fit; what is let go meanwhile is left out."""
    monkeypatch.setattr(burials, "ROWS", 2)
    first = pages.buried(prefix="mail-", limit=3)
    assert keys(first) == ["mail-2", "mail-0", "mail-3"] and first.has_more
    second = pages.buried(prefix="mail-", limit=3, after=first.after)
    assert keys(second) == ["mail-1"] and second.after is None
    assert keys(pages.buried(limit=6)) == keys(pages.buried()) and not pages.buried(limit=6).has_more
    pages.discard("mail-1")
    assert pages.buried(prefix="mail-", limit=3, after=first.after) == []
    for wrong in ("x", "00", 7):
        with pytest.raises(journal.Invalid):
            pages.buried(after=wrong)  # type: ignore[arg-type]
    for wrong in ({"limit": 0}, {"prefix": 7}, {"reason": 7}):
        with pytest.raises(journal.Invalid):
            pages.buried(**wrong)  # type: ignore[arg-type]


def test_they_are_counted_and_scanned(pages: journal.Journal, clock: ManualClock) -> None:
    """By the status "buried"; with dates, buckets and owner. All else does not see them."""
    assert pages.count(status="buried") == pages.count(status="B") == 6
    assert pages.count() == 0 and list(pages.scan()) == []
    assert [(e.key, e.status) for e in pages.scan(status="buried")] == [(key, "B") for key in keys(pages.buried())]
    assert pages.count(status="buried", owner="us") == 3
    assert pages.count(status="buried", consumer="x") == 0
    half = pages.count(status="buried", buckets=Range(0, 512))
    assert half + pages.count(status="buried", buckets=Range(512, 1024)) == 6
    last = pages.buried()[-1].entry.process_date
    assert pages.count(status="buried", since=last) == len(list(pages.scan(status="buried", since=last))) < 6
    with pytest.raises(journal.Invalid, match="buried"):
        pages.select(status="buried")


def test_many_are_retried_with_one_record(pages: journal.Journal, store: journal.Store) -> None:
    """A result or an error for each; what is refused stays."""
    pages.put("mail-3", "newer")
    before = pages.statistics()["syncs"]
    results = pages.retry_many(["mail-0", "mail-3", "nothing", "mail-1", "mail-0", ""])
    assert [getattr(r, "outcome", type(r)) for r in results] == [
        "retried", journal.KeyExists, journal.NotFound, "retried", journal.KeyExists, journal.Invalid,
    ]  # fmt: skip
    assert pages.statistics()["syncs"] - before == 1
    assert sorted((str(e.key), e.data) for e in pages.scan()) == [("mail-0", 1), ("mail-1", 4), ("mail-3", "newer")]
    assert keys(pages.buried()) == ["mail-2", b"mail", "mail-3", "log-0"]
    rest = pages.retry_many(keys(pages.buried(reason="unreadable")))
    assert [getattr(r, "outcome", None) for r in rest] == ["retried", "retried", None, "retried"]
    with pytest.raises(journal.Invalid):
        pages.retry_many(7)  # type: ignore[arg-type]


def test_a_key_that_was_buried_twice(pages: journal.Journal) -> None:
    """The last one waits again; the same key once more in the group finds it there."""
    pages.put("mail-0", "again")
    pages.claim_key("mail-0").bury("again")
    first, second = pages.retry_many(["mail-0", "mail-0"])
    assert getattr(first, "outcome", None) == "retried" and isinstance(second, journal.KeyExists)
    assert pages.get("mail-0").data == "again"  # type: ignore[union-attr]


def test_keys_that_collide_keep_apart(store: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a slot of its own when they come back together."""
    collide(monkeypatch, 1)
    pages = store.journal("colliding")
    pages.put_many([Put(key, key) for key in "abc"])
    for lease in pages.claim_many(3):
        lease.bury()
    assert all(isinstance(r, journal.PutResult) for r in pages.retry_many("abc"))
    assert sorted((e.key, e.data) for e in pages.scan()) == [("a", "a"), ("b", "b"), ("c", "c")]


def test_over_generations_and_reopens(tmp_path: Path) -> None:
    """Their order stays, wherever they are."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        for n in range(6):
            pages.put(f"k{n}")
            pages.claim_key(f"k{n}").bury(str(n))
            if n % 2:
                pages.rotate()
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        assert keys(pages.buried()) == [f"k{n}" for n in range(6)]
        page = pages.buried(limit=4)
        assert keys(pages.buried(limit=4, after=page.after)) == ["k4", "k5"]
        pages.retry_many(keys(page))
        assert pages.count(status="buried") == 2 and store.check() == []
