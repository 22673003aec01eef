"""A journal that is dropped and declared again: its name goes on counting, so a cursor is never taken for one of another life."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

import journal
from journal import Cursor, CursorUnavailable
from journal.engine import former_names
from journal.engine.catalog import Catalog
from journal.engine.former_names import Life
from journal.testing import ManualClock

Copy = Callable[[journal.Store], Path]


def filled(store: journal.Store, name: str = "pages", count: int = 5, *, merged: bool = False) -> journal.Journal:
    """A journal whose log is kept, with some entries."""
    pages = store.journal(name, merged=merged)
    pages.feed(consumer="hold", start="BEGIN", live=False).close()
    pages.put_many([journal.Put(f"{name}-{n}", n) for n in range(count)])
    return pages


def changed(pages: journal.Journal, after: Cursor) -> list[tuple[str, object]]:
    return [(event.op, event.key) for event in pages.changes(after, pages.durable_cursor)]


def refused(pages: journal.Journal, cursor: Cursor) -> None:
    """No way to go on after it; the error names one that works."""
    told = f"oldest cursor that is available is {pages.oldest_cursor}"
    with pytest.raises(CursorUnavailable, match=told):
        pages.changes(cursor, pages.durable_cursor)
    with pytest.raises(CursorUnavailable, match=told):
        pages.feed(start=cursor, live=False)
    with pytest.raises(CursorUnavailable, match=told):
        pages.feed(consumer="late", start=cursor, live=False)
    with pytest.raises(CursorUnavailable, match=told):
        pages.mark_feed("hold", cursor)
    assert [feed.name for feed in pages.feeds()] == ["hold"]


def test_cursors_of_a_former_life_are_gone(store: journal.Store) -> None:
    """All of them, the very end and the beginning too, however many changes the new one has; what is new can be followed."""
    pages = filled(store)
    pages.rotate()
    pages.put("last", 1)
    former = [Cursor(1, -1), Cursor(1, 2), Cursor(1, 4), Cursor(2, -1), Cursor(2, 0)]
    assert pages.durable_cursor == former[-1]
    store.drop("pages")
    again = filled(store, count=9)
    assert again.oldest_cursor == Cursor(3, -1)
    for cursor in former:
        refused(again, cursor)
        with pytest.raises(CursorUnavailable):
            again.distance(cursor, again.durable_cursor)
    assert len(changed(again, again.oldest_cursor)) == 9
    assert [generation.order for generation in again.generations()] == [3]
    assert store.check() == []


def test_a_crash_between_drop_and_declaration(store: journal.Store, crashed: Copy, clock: ManualClock) -> None:
    """The drop itself has written it; also when it was closed in between, and when it is dropped again without a change."""
    filled(store)
    store.drop("pages")
    with journal.open(crashed(store), clock=clock) as copy:
        assert filled(copy).oldest_cursor == Cursor(2, -1)
        copy.drop("pages")
        copy.journal("pages", merged=False)
        copy.drop("pages")
        path = copy.path
    with journal.open(path, clock=clock) as copy:
        assert filled(copy).oldest_cursor == Cursor(4, -1) and copy.check() == []
    with journal.open(path, clock=clock) as copy:  # and it is opened as any other
        assert copy.journal("pages").count() == 5 and copy.check(deep=True) == []


@pytest.mark.parametrize(
    ("was", "becomes"), list(product([False, True], repeat=2)), ids=lambda each: "merged" if each else "alone"
)
def test_nothing_is_missed_whatever_it_becomes(store: journal.Store, was: bool, becomes: bool) -> None:
    """Merged journals share generations with others, whose log is kept here: a cursor is refused, or what follows it is complete."""
    other = filled(store, "other", 3, merged=True)
    pages = filled(store, merged=was)
    middle, end = pages.oldest_cursor, pages.durable_cursor
    middle = pages.shift(middle, pages.distance(middle, end) - 2)
    store.drop("pages")
    other.put("meanwhile")
    again = filled(store, "pages", 2, merged=becomes)
    if was and becomes:
        found = changed(again, end)
        assert sorted(found[:5]) == [("delete", f"pages-{n}") for n in range(5)]
        assert found[5:] == [("insert", "pages-0"), ("insert", "pages-1")]
        assert changed(again, middle)[:2] == [("insert", "pages-3"), ("insert", "pages-4")]
    else:
        refused(again, end)
        refused(again, middle)
    assert changed(again, again.oldest_cursor)[-2:] == [("insert", "pages-0"), ("insert", "pages-1")]
    assert {key for _, key in changed(other, Cursor(1, -1))} >= {"other-0", "meanwhile"}
    assert store.check() == []


def test_merged_journals_pass_over_generations_that_a_name_has_used(
    store: journal.Store, clock: ManualClock, crashed: Copy
) -> None:
    """One with many generations becomes a merged one: those that it shares now have higher numbers than it ever had."""
    other = filled(store, "other", 3, merged=True)
    pages = filled(store)
    for n in range(4):
        pages.rotate()
        pages.put(f"more-{n}")
    end = pages.durable_cursor
    assert end.order == 5
    store.drop("pages")
    again = filled(store, merged=True)
    refused(again, end)
    assert again.durable_cursor.order == 6 == other.durable_cursor.order
    assert again.oldest_cursor == Cursor(6, -1)
    assert {key for _, key in changed(other, Cursor(1, -1))} == {"other-0", "other-1", "other-2"}  # over the gap
    assert [event.key for event in other.feed(consumer="hold", live=False)] == ["other-0", "other-1", "other-2"]
    store.drop("pages")
    assert filled(store).oldest_cursor == Cursor(7, -1)
    with journal.open(crashed(store), clock=clock) as copy:
        assert copy.journal("other").count() == 3 and copy.check() == []


def test_one_that_follows_from_the_beginning_sees_all_of_a_merged_journal(store: journal.Store) -> None:
    """The journals it shares its log with may be much older: its own beginning is where it was declared."""
    other = filled(store, "other", merged=True)
    other.rotate()
    pages = filled(store, merged=True)
    assert pages.oldest_cursor == Cursor(2, -1) and len(changed(pages, pages.oldest_cursor)) == 5
    assert [event.key for event in pages.feed(live=False)] == [f"pages-{n}" for n in range(5)]
    assert other.oldest_cursor == Cursor(1, -1)


def test_names_that_are_forgotten_leave_a_bound(store: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not more than so many are remembered; all others begin above the highest of those that are not."""
    monkeypatch.setattr(former_names, "NAMES_MAX", 2)
    for name, generations in (("a", 3), ("b", 1), ("c", 2), ("d", 1)):
        pages = store.journal(name, merged=False)
        for n in range(generations):
            if n:
                pages.rotate()
            pages.put(str(n))
        store.drop(name)
    first = {name: store.journal(name, merged=False).generations()[0].order for name in ("a", "b", "c", "d", "never")}
    assert first == {"a": 4, "b": 4, "c": 3, "d": 5, "never": 4}
    assert store.check() == []


def test_the_check_knows(store: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that counts anew is told."""
    filled(store)
    store.drop("pages")
    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "former", lambda self, name: Life())
        filled(store)
    (told,) = store.check()
    store.drop("pages")
    assert told.startswith("pages: its first generation is 1, but a journal that was dropped had Life(order=1, alone=1")


@pytest.mark.parametrize(("was_merged", "is_merged"), list(product((False, True), repeat=2)))
def test_a_lease_of_a_former_life_is_no_lease_of_the_next(
    store: journal.Store, was_merged: bool, is_merged: bool
) -> None:
    """Tokens go on counting too: a late holder is refused, whoever has the key now."""
    store.journal("other", merged=True).put("x")  # what merged journals share is open
    pages = store.journal("pages", merged=was_merged)
    pages.put_many([journal.Put(f"k{n}") for n in range(3)])
    late = [lease.token for lease in pages.claim_many(3, consumer="late")]
    store.drop("pages")
    again = store.journal("pages", merged=is_merged)
    again.put_many([journal.Put(f"k{n}") for n in range(3)])
    new = [lease.token for lease in again.claim_many(3, consumer="new")]
    assert not set(new) & set(late)
    for token in late:
        with pytest.raises(journal.LeaseLost):
            again.done(token)
    assert len(again.leases()) == 3
