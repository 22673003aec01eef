"""A store: its journals with their settings, logs and feed consumers, flags, checks, and what merged journals have together."""

from __future__ import annotations

from datetime import timedelta

import pytest

import journal
from journal.testing import ManualClock


def test_journals_are_declared_changed_and_dropped(store: journal.Store) -> None:
    """With settings of each kind; those that are given later change what may be changed."""
    schema = journal.Schema([journal.Field("uri", "text")], key=["uri"])
    pages = store.journal("pages", processing_timeout="2m", postpone_max=timedelta(hours=1), schema=schema)
    assert (pages.settings.processing_timeout, pages.settings.postpone_max) == (120_000, 3_600_000)
    assert pages.schema == schema == store.journal("pages").schema
    assert pages.put(None, {"uri": "/home"}).outcome == "inserted"
    assert store.journal("pages", postpone_max="2h").settings.postpone_max == 7_200_000 == pages.settings.postpone_max
    store.journal("plain")
    assert store.journals() == ["pages", "plain"]
    store.drop("plain")
    assert store.journals() == ["pages"]
    with pytest.raises(journal.NotFound):
        store.drop("plain")
    with pytest.raises(journal.Invalid, match="unknown setting"):
        store.journal("other", colour="blue")


def test_the_log(store: journal.Store) -> None:
    """Generations, cursors, durability, compaction."""
    pages = store.journal("pages", compact=True)
    first = pages.put("a", 1).cursor
    pages.wait_durable(first)
    assert pages.durable_cursor == first and pages.oldest_cursor < first
    assert pages.rotate().order == 2 and [each.order for each in pages.generations()] == [1, 2]
    last = pages.put("b", 1).cursor
    assert pages.distance(first, last) == 1 == -pages.distance(last, first)
    assert pages.shift(first, 1) == last and pages.lag(first) == 1
    assert isinstance(pages.compact(), journal.Compacted)
    assert [event.key for event in pages.changes(first, last)] == ["b"]
    with pytest.raises(journal.Invalid):
        pages.wait_durable(journal.Cursor(9, 9))


def test_feed_consumers_are_kept(pages: journal.Journal) -> None:
    """Listed, marked, skipped and removed."""
    pages.feed(consumer="audit").close()
    cursors = [pages.put(f"k{i}", i).cursor for i in range(3)]
    (view,) = pages.feeds()
    assert (view.name, view.lag, view.is_open) == ("audit", 3, False)
    pages.mark_feed("audit", cursors[0])
    assert pages.skip_feed("audit", cursors[2]) is True and pages.skip_feed("audit", cursors[2]) is False
    assert pages.feeds()[0].position == cursors[0]
    pages.remove_feed("audit")
    assert pages.feeds() == []


def test_flags_statistics_and_checks(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """What an operator looks at."""
    pages.raise_flag("look", "here")
    (flag,) = store.flags()
    assert (flag.journal, flag.name, flag.message) == ("pages", "look", "here")
    store.lower(flag)
    assert store.flags() == []
    store.checkpoint()
    assert store.check() == [] == store.check(deep=True)
    pages.put("a")
    assert pages.statistics()["entries"] == 1 and pages.now() == clock.now()
    assert store.statistics()["now"] == clock.now()


def test_merged_journals(store: journal.Store) -> None:
    """What they have together; without any there is nothing to look at."""
    if "pages" not in store.journals():
        with pytest.raises(journal.NotFound):
            store.existing_merged().generations()
    store.journal("one", merged=True).put("a", 1)
    merged = store.merged(generations_max=4)
    assert merged.settings.generations_max == 4 == store.existing_merged().settings.generations_max
    assert merged.counts() == {"one": 1} and merged.statistics()["entries"] == 1
    assert [each.order for each in merged.generations()] == [1]
    with merged.feed(live=False) as feed:
        assert [event.key for event in feed] == ["a"]


def test_where_it_is(store: journal.Store, opened: journal.Store, pages: journal.Journal, backend: str) -> None:
    """Its location leads to it, and what only its process has is refused elsewhere."""
    assert store.is_remote is pages.is_remote is (backend == "connected")
    assert (store.location == str(opened.path)) is not store.is_remote
    if store.is_remote:
        with journal.connect(store.location) as again:
            assert again.journals() == store.journals()
        for wrong in (lambda: store.path, lambda: store.drifts, lambda: store.serve()):
            with pytest.raises(journal.Invalid, match="daemon"):
                wrong()
    else:
        with pytest.raises(journal.Invalid, match="connection"):
            pages.subscribe()


def test_within_changes_nothing_but_the_time(store: journal.Store) -> None:
    """The same store and the same journal."""
    pages = store.within("5s").journal("pages").within(None)
    pages.put("a")
    assert store.journal("pages").get("a") is not None


def test_what_it_gives_is_of_the_face(store: journal.Store, pages: journal.Journal) -> None:
    """Programs that name the classes need not know which backend is behind them."""
    assert type(store) is journal.Store and type(pages) is journal.Journal
    assert type(store.journal("m", merged=True)) is journal.Journal and type(store.merged()) is journal.MergedJournals
    pages.put("a")
    lease = pages.claim(consumer="c")
    assert type(lease) is journal.Lease and repr(lease).startswith("<Lease ")
    assert next(iter(pages.leases())).token == lease.token
