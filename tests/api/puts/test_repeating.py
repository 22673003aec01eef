"""A create that may be repeated: the same data of the same owner exists, anything else is refused."""

from __future__ import annotations

from typing import Any

import pytest

import journal
from journal import Put
from journal.testing import ManualClock
from tests.engine.helpers import Failing


def test_the_same_again(pages: journal.Journal, clock: ManualClock) -> None:
    """It exists; nothing is changed, and the result tells what is there."""
    first = pages.create("a", {"x": 1, "y": [2]}, owner="g", priority=7, delay="1s", is_repeatable=True)
    before, cursor = pages.get("a"), pages.durable_cursor
    clock.advance(10)
    again = pages.create("a", {"y": [2], "x": 1}, owner="g", priority=9, is_repeatable=True)
    assert first.outcome == "inserted"
    assert again == first._replace(outcome="exists")
    assert (pages.get("a"), pages.durable_cursor) == (before, cursor)


@pytest.mark.parametrize("owner", [None, "g"])
def test_a_plain_create_refuses_it(pages: journal.Journal, owner: str | None) -> None:
    """Whoever does not ask for it is told of every entry that is there."""
    pages.create("a", 1, owner=owner)
    with pytest.raises(journal.KeyExists):
        pages.create("a", 1, owner=owner)


@pytest.mark.parametrize(
    ("data", "owner", "reason"),
    [(2, "g", "other data"), (True, "g", "other data"), (1, "h", "belong to 'h'"), (1, None, "a producer group")],
    ids=["data", "type", "owner", "nobody"],
)
def test_what_is_not_the_same(pages: journal.Journal, data: Any, owner: str | None, reason: str) -> None:
    """KeyExists, and the entry stays as it was."""
    pages.create("a", 1, owner="g")
    before = pages.get("a")
    with pytest.raises(journal.KeyExists, match=reason):
        pages.create("a", data, owner=owner, is_repeatable=True)
    assert pages.get("a") == before


def test_of_what_was_claimed_or_moved(pages: journal.Journal, clock: ManualClock) -> None:
    """The version and the cursor are those of its last change; nothing is queued behind a lease."""
    pages.create("a", 1, is_repeatable=True)
    moved = pages.move("a", priority=3)
    assert pages.create("a", 1, is_repeatable=True) == moved._replace(outcome="exists")
    lease = pages.claim()
    assert lease is not None
    again = pages.create("a", 1, is_repeatable=True)
    assert (again.outcome, again.version, again.cursor > moved.cursor) == ("exists", lease.version, True)
    lease.done()
    assert pages.count() == 0
    assert pages.create("a", 1, is_repeatable=True).outcome == "inserted"


def test_one_that_has_expired_is_gone(pages: journal.Journal, clock: ManualClock) -> None:
    """A repetition that comes after it is a new entry."""
    pages.create("a", 1, expiration=clock.now() + 5)
    clock.advance(5)
    assert pages.create("a", 1, is_repeatable=True).outcome == "inserted"


def test_it_is_answered_when_what_exists_is_durable(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier attempt that asked for less may not be on disk yet: "exists" at level full means that it is."""
    first = pages.create("a", 1, durability="none")
    assert pages.durable_cursor < first.cursor
    syncs = Failing(monkeypatch, "fdatasync")
    assert pages.create("a", 1, is_repeatable=True).outcome == "exists"
    assert syncs.calls == 1 and pages.durable_cursor >= first.cursor


def test_a_group_of_creates(pages: journal.Journal, clock: ManualClock) -> None:
    """A result or an error for each; those that are not refused stand together in one record."""
    pages.create("a", 1, owner="g")
    before = pages.get("a")
    puts = [Put("a", 1, owner="g"), Put("b", 2, priority=3), Put("b", 3), Put("c", owner="x" * 256), Put("d", delay=9)]
    refused, inserted, twice, invalid, later = pages.create_many(puts)
    assert isinstance(refused, journal.KeyExists)
    assert isinstance(twice, journal.KeyExists)
    assert isinstance(invalid, journal.Invalid)
    assert isinstance(inserted, journal.PutResult) and (inserted.outcome, inserted.priority) == ("inserted", 3)
    assert isinstance(later, journal.PutResult) and later.process_date == clock.now() + 9
    assert pages.distance(inserted.cursor, later.cursor) == 1
    assert pages.get("a") == before
    assert [(entry.key, entry.data) for entry in pages.scan()] == [("b", 2), ("a", 1), ("d", None)]


def test_a_group_of_creates_may_be_repeated(pages: journal.Journal) -> None:
    """Whole or in part: who got no answer asks again."""
    puts = [Put(f"k{n}", n, owner="g") for n in range(10)]
    first = pages.create_many(puts[:5], is_repeatable=True)
    again = pages.create_many([*puts, Put("k0", 1, owner="g")], is_repeatable=True)
    assert [r.outcome for r in again[:10] if isinstance(r, journal.PutResult)] == ["exists"] * 5 + ["inserted"] * 5
    assert isinstance(again[10], journal.KeyExists)
    assert [r._replace(outcome="inserted") for r in again[:5] if isinstance(r, journal.PutResult)] == first
    cursor = pages.durable_cursor
    assert {r.outcome for r in pages.create_many(puts, is_repeatable=True) if isinstance(r, journal.PutResult)} == {
        "exists"
    }
    assert pages.durable_cursor == cursor


def test_a_group_of_new_keys_is_one_sync(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """And all of them come back in order."""
    syncs = Failing(monkeypatch, "fdatasync")
    results = pages.create_many([Put(f"k{n}", n) for n in range(500)])
    assert syncs.calls == 1
    assert [r.cursor.offset for r in results if isinstance(r, journal.PutResult)] == list(range(500))
    assert pages.create_many([]) == []
