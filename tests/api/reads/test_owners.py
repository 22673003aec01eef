"""The owners index, read: the entries of a producer group, their number, and all groups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Producer, Put
from journal.engine.read import queries, selection
from journal.testing import ManualClock


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "KEYS", 4)
    monkeypatch.setattr(queries, "KEYS", 4)


def everything_of(pages: journal.Journal, owner: str) -> list[object]:
    page = pages.entries_of(owner, limit=3)
    found = [entry.key for entry in page]
    while page.has_more:
        page = pages.entries_of(owner, limit=3, after=page.after)
        found += [entry.key for entry in page]
    return found


def test_the_entries_of_a_group(pages: journal.Journal, clock: ManualClock) -> None:
    """In the order of work, over generations, processing ones too; no other's, however alike the names are."""
    pages.put_many([Put(f"{owner}{n}", priority=20 - n, owner=owner) for n in range(6) for owner in ("g", "gg", "h")])
    pages.put("nobodys")
    pages.rotate()
    pages.put_many([Put(f"g{n}", priority=20 - n, owner="g") for n in range(6, 10)])
    pages.claim_key("g3")
    assert everything_of(pages, "g") == [f"g{n}" for n in range(9, -1, -1)]
    assert (pages.count_of("g"), pages.count_of("gg"), pages.count_of("none")) == (10, 6, 0)
    assert pages.owners() == {"g": 10, "gg": 6, "h": 6}
    assert pages.entries_of("none") == journal.Page([], False, None)


def test_what_happens_to_entries_happens_to_the_index(
    store: journal.Store, pages: journal.Journal, clock: ManualClock, crashed: Callable[[journal.Store], Path]
) -> None:
    """Done, deleted, moved, released, buried, expired, merged, carried over, replayed."""
    pages.put_many([Put(f"k{n}", owner="g", expiration=clock.now() + 9 if n == 8 else None) for n in range(9)])
    assert pages.owners() == {"g": 9}
    pages.claim_key("k0").done()
    pages.delete("k1", owner="g")
    pages.move("k2", priority=1, owner="g")
    pages.claim_key("k3").release(delay="1s")
    pages.claim_key("k4").bury()
    pages.put("k5", 2, owner="g")
    clock.advance(9)
    assert pages.owners() == {"g": 5}
    pages.retry("k4")
    store.checkpoint()
    lease = pages.claim_key("k6")
    pages.put("k6", 3, owner="g")  # a successor is no entry yet
    assert pages.count_of("g") == 6
    with journal.open(crashed(store), clock=clock) as opened:
        again = opened.journal("pages")
        assert again.owners() == {"g": 6}
        assert everything_of(again, "g") == everything_of(pages, "g")
    lease.done()
    assert sorted(map(str, everything_of(pages, "g"))) == ["k2", "k3", "k4", "k5", "k6", "k7"]
    pages.rotate()
    pages.rotate()
    assert pages.count_of("g") == 6


def test_groups_by_name(pages: journal.Journal) -> None:
    """All of them, whatever their names are."""
    names = ["a", "ab", "b", "ü", "x" * 255, "\x00", "~"]
    pages.put_many([Put(f"{n}-{name[:9]}", owner=name) for name in names for n in range(len(name) % 7 + 1)])
    assert pages.owners() == {name: len(name) % 7 + 1 for name in sorted(names)}
    assert list(pages.owners()) == sorted(names)


def test_journals_have_their_own(store: journal.Store, pages: journal.Journal) -> None:
    """The same group in two journals, which may share their files."""
    other = store.journal("pages2")
    pages.put("a", owner="g")
    other.put_many([Put(key, owner="g") for key in "abc"])
    assert (pages.owners(), other.owners()) == ({"g": 1}, {"g": 3})
    assert (everything_of(pages, "g"), pages.count_of("g")) == (["a"], 1)


@pytest.mark.parametrize("owner", [None, "", 7, "x" * 256])
def test_wrong_owners(pages: journal.Journal, owner: object) -> None:
    """A text of 1 to 255 bytes."""
    with pytest.raises(journal.Invalid):
        pages.entries_of(owner)  # type: ignore[arg-type]
    with pytest.raises(journal.Invalid):
        pages.count_of(owner)  # type: ignore[arg-type]


def test_a_producer_lists_its_own(pages: journal.Journal, clock: ManualClock) -> None:
    """By status and date, in pages, and counts them."""
    billing, mail = Producer(pages, group="billing"), Producer(pages, group="mail")
    for n in range(5):
        billing.publish(n, key=f"b{n}", delay=n)
        mail.publish(n, key=f"m{n}")
    clock.advance(1)
    pages.claim_key("b0")
    page = billing.list(limit=2)
    assert [entry.key for entry in page] == ["b0", "b1"] and page.has_more
    assert [entry.key for entry in billing.list(limit=9, after=page.after)] == ["b2", "b3", "b4"]
    assert [entry.key for entry in billing.list(status="available")] == ["b1"]
    assert [entry.key for entry in billing.list(since=clock.now() + 1, until=clock.now() + 3)] == ["b2", "b3"]
    assert (billing.count(), billing.count(status="processing"), billing.count(since=clock.now() + 2)) == (5, 1, 2)
    assert (mail.count(), Producer(pages, group="new").count()) == (5, 0)
