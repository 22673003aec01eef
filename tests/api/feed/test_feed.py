"""The feed: every change in order, from where it starts, and nothing that could vanish."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

import journal
from journal import Cursor, CursorUnavailable, Invalid
from journal.testing import ManualClock
from tests.engine.feed.following import SMALL, at, caught_up, fill_segments, keys, put
from tests.top import top


def test_every_change_comes_in_order(pages: journal.Journal, clock: ManualClock) -> None:
    """Whatever the verb: op, key, timestamp, namespace, and cursors without a gap."""
    result = pages.put("a", {"n": 1})
    pages.put("a", {"n": 2})
    pages.put_many([journal.Put("b", 1), journal.Put("c", 2)])
    clock.advance(5)
    lease = pages.claim(consumer="w")
    assert lease is not None
    pages.put("a", {"n": 3})
    lease.done()
    pages.delete("b")
    events = list(caught_up(pages))
    assert [(e.op, e.verb, e.key, e.data) for e in events] == [
        ("insert", "put", "a", {"n": 1}),
        ("update", "replace", "a", {"n": 2}),
        ("insert", "put", "b", 1),
        ("insert", "put", "c", 2),
        ("update", "claim", "a", None),
        ("update", "queue", "a", {"n": 3}),
        ("update", "done", "a", {"n": 3}),
        ("delete", "delete", "b", None),
    ]
    assert [e.cursor for e in events] == [at(n) for n in range(8)]
    assert events[0].cursor == result.cursor
    assert {(e.namespace, e.mode) for e in events} == {("pages", "sync")}
    assert events[4].timestamp == events[0].timestamp + 5
    assert (events[4].consumer, events[4].token) == ("w", lease.token)


def test_it_goes_over_segments(store: journal.Store, opened: journal.Store) -> None:
    """In pages, with records that are larger than a page."""
    pages = store.journal("pages", **SMALL)
    with pages.feed(consumer="hold"):
        expected = []
        for n in range(60):
            size = 300_000 if n % 20 == 7 else 9_000
            pages.put(f"k{n}", b"x" * size)
            expected.append((f"k{n}", size))
            if n % 10 == 0:
                store.checkpoint()
        assert len(list((opened.path / top() / "000001" / "log").iterdir())) > 3
        assert [(e.key, len(e.data)) for e in caught_up(pages)] == expected


def test_a_group_can_be_entered_in_the_middle(pages: journal.Journal) -> None:
    """A record of many changes: each has its cursor, and one can begin behind any of them."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(10)])
    assert keys(caught_up(pages, start=at(6))) == ["k7", "k8", "k9"]


@pytest.mark.parametrize(
    ("start", "expected"),
    [("BEGIN", ["a", "b", "c"]), ("END", []), (at(0), ["b", "c"]), (at(-1), ["a", "b", "c"]), (at(2), [])],
)
def test_where_it_starts(pages: journal.Journal, start: Any, expected: list[str]) -> None:
    """After the cursor: its change itself does not come."""
    put(pages, "a", "b", "c")
    assert keys(caught_up(pages, start=start)) == expected
    feed = caught_up(pages, start=start, consumer="audit")
    assert keys(feed) == expected
    feed.close()


@pytest.mark.parametrize("start", ["begin", "001-0001-000000000000000000", 3, None, (1, 0)])
def test_a_start_that_is_none_is_refused(pages: journal.Journal, start: Any) -> None:
    """With what is allowed."""
    with pytest.raises(Invalid, match="BEGIN"):
        pages.feed(start=start)


def test_a_start_that_is_not_there_is_unavailable(pages: journal.Journal) -> None:
    """Beyond the end, or in a generation that never was; no consumer is made."""
    put(pages, "a")
    for start in (at(1), Cursor(2, 0)):
        with pytest.raises(CursorUnavailable):
            pages.feed(start=start, consumer="audit")
    assert pages.feeds() == []


def test_a_start_that_is_gone_names_the_oldest(store: journal.Store) -> None:
    """A plain queue lets its log go; BEGIN is what is there."""
    pages = store.journal("pages", **SMALL)
    fill_segments(pages, store)
    oldest = next(iter(caught_up(pages))).cursor
    assert oldest.offset > 0
    with pytest.raises(CursorUnavailable, match=str(Cursor(1, oldest.offset - 1))):
        pages.feed(start=at(-1))
    assert [e.cursor.offset for e in caught_up(pages)][-1] == 7


def test_more_can_be_asked_for_after_the_end(pages: journal.Journal) -> None:
    """live=False ends when all was delivered; the same feed goes on when there is more."""
    feed = caught_up(pages)
    put(pages, "a")
    assert keys(feed) == ["a"]
    put(pages, "b")
    assert keys(feed) == ["b"]
    assert keys(feed) == []


@pytest.mark.embedded(reason="it holds the sync up by hand")
def test_nothing_is_shown_that_could_vanish(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A put whose sync is under way is not delivered before it is durable."""
    is_syncing, may_end = threading.Event(), threading.Event()
    real = os.fdatasync

    def slow(fd: int) -> None:
        is_syncing.set()
        assert may_end.wait(100)
        real(fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", slow)
        thread = threading.Thread(target=put, args=(pages, "a"), daemon=True)
        thread.start()
        assert is_syncing.wait(100)
        assert keys(caught_up(pages)) == []
        may_end.set()
        thread.join(100)
    assert keys(caught_up(pages)) == ["a"]


def test_what_is_not_synced_by_request_is_shown(tmp_path: Path) -> None:
    """At interval and none it comes when the OS has it."""
    with journal.open(tmp_path / "s", durability="interval", sync_interval="1h") as store:
        pages = store.journal("pages")
        put(pages, "a")
        assert keys(caught_up(pages)) == ["a"]
