"""Feeds that are asked instead of waited for: what is there, and a call when there may be more."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import journal
from journal import Cursor
from journal.core.log.events import Event
from journal.engine.feed import feed as feeds
from journal.engine.feed.feed import EngineFeed
from tests.engine.feed.following import SMALL, fill_segments, put
from tests.engine.helpers import must_end
from tests.engine.loads.blocks import many

ROOM = 1 << 20


def one(event: Event) -> int:
    return 1


class Asker:
    """A polled feed, and how often it called."""

    def __init__(self, feed: EngineFeed) -> None:
        self.calls = 0
        self.feed = feed
        feed.poll(self._called)

    def _called(self) -> None:
        self.calls += 1

    def keys(self, n: int = 100) -> list[object]:
        return [event.key for event in self.feed.take(n, ROOM, one)]


def test_it_takes_what_is_there_and_is_called_for_more(pages: journal.Journal) -> None:
    """Nothing is there: nothing comes, at once. A change calls, once, until somebody asks again."""
    asker = Asker(pages.feed())
    assert asker.keys() == [] and asker.calls == 0
    put(pages, "a", "b")
    assert asker.calls == 1
    assert asker.keys(1) == ["a"] and asker.keys(1) == ["b"] and asker.keys(1) == []
    assert not asker.feed.is_over
    put(pages, "c")
    assert asker.calls == 2 and asker.keys() == ["c"]
    asker.feed.close()
    assert asker.keys() == [] and asker.feed.is_over and pages._backend.p.followers.latches == ()


def test_one_that_is_not_live_ends(pages: journal.Journal) -> None:
    """All that there was, and that this was all."""
    put(pages, "a", "b", "c")
    asker = Asker(pages.feed(live=False))
    assert asker.keys(2) == ["a", "b"] and not asker.feed.is_over
    assert asker.keys(2) == ["c"] and asker.feed.is_over
    asker.feed.close()


def test_unacknowledged_changes_hold_it(pages: journal.Journal) -> None:
    """Up to unacked_max are given, then it refuses until something is acknowledged; nothing is skipped or given twice."""
    put(pages, *"abcde")
    asker = Asker(pages.feed(consumer="c", unacked_max=2))
    events = asker.feed.take(10, ROOM, one)
    assert [event.key for event in events] == ["a", "b"]
    with pytest.raises(journal.Unacknowledged):
        asker.keys()
    asker.feed.ack(events[0])
    assert asker.keys() == ["c"]
    asker.feed.ack(events[1])
    assert asker.keys() == ["d"]
    asker.feed.close()


def test_after_a_failure_one_at_a_time(pages: journal.Journal) -> None:
    """What was given and not acknowledged comes again, each when the one before it is acknowledged, then the rest."""
    put(pages, *"abcd")
    asker = Asker(pages.feed(consumer="c"))
    events = asker.feed.take(3, ROOM, one)
    asker.feed.ack(events[1])
    calls = asker.calls
    asker.feed.fail()
    assert asker.calls == calls + 1
    assert asker.keys() == ["a"]
    with pytest.raises(journal.Unacknowledged):
        asker.keys()
    asker.feed.ack(events[0])
    assert asker.keys() == ["c"]
    asker.feed.ack(events[2])
    assert asker.keys() == ["d"]
    asker.feed.close()


def test_only_what_has_room_is_delivered(pages: journal.Journal) -> None:
    """What did not fit is not delivered: it cannot be acknowledged yet, and comes with the next one."""
    put(pages, *"abcd")
    asker = Asker(pages.feed(consumer="c"))
    assert [event.key for event in asker.feed.take(10, 25, lambda event: 10)] == ["a", "b"]
    with pytest.raises(journal.Invalid, match="never delivered"):
        asker.feed.ack(Cursor(1, 2))
    assert asker.feed.unacked == 2
    with pytest.raises(journal.Invalid, match="'c', has 10 bytes, and 9"):
        asker.feed.take(10, 9, lambda event: 10)
    assert [event.key for event in asker.feed.take(10, 20, lambda event: 10)] == ["c", "d"]
    asker.feed.close()


def test_a_copy_comes_first(pages: journal.Journal) -> None:
    """The entries that there are, the end of the copy, then what has changed since."""
    put(pages, *"abc")
    asker = Asker(pages.feed(consumer="c", copy=True))
    put(pages, "d")
    events = asker.feed.take(10, ROOM, one)
    assert [event.mode for event in events] == [*["copy"] * 3, "complete", "sync"]
    assert {event.key for event in events[:3]} == {"a", "b", "c"} and events[4].key == "d"
    asker.feed.ack(events)
    asker.feed.close()
    assert pages.feeds()[0].lag == 0


def test_it_goes_through_segments_and_generations(store: journal.Store) -> None:
    """As an iteration does."""
    pages = store.journal("pages", **SMALL)
    asker = Asker(pages.feed(consumer="c"))
    fill_segments(pages, store)
    pages.rotate()
    put(pages, "last")
    found: list[object] = []
    while (keys := asker.keys(3)) != []:
        found += keys
    assert found == [*(f"big-{turn}" for turn in range(8)), "last"]
    asker.feed.close()


def test_others_records_are_read_by_and_by(store: journal.Store) -> None:
    """In a log that many share it reads a part at a time, and has itself called for the next."""
    pages, others = store.journal("pages", merged=True), store.journal("others", merged=True)
    for turn in range(6):
        others.put(f"big-{turn}", b"x" * 200_000)
    put(pages, "a")
    asker = Asker(pages.feed())
    asks = 1
    while (keys := asker.keys()) == []:
        assert asker.calls == asks
        asks += 1
    assert keys == ["a"] and asks > 2
    asker.feed.close()


def test_closing_the_store_ends_it(tmp_path: Path) -> None:
    """A live one is called, and is over."""
    with journal.open(tmp_path / "w.journal") as store:
        pages = store.journal("pages")
        askers = [Asker(pages.feed()), Asker(pages.feed(consumer="c"))]
    for asker in askers:
        assert asker.calls and asker.keys() == [] and asker.feed.is_over
        asker.feed.close()


def test_a_sync_calls(tmp_path: Path) -> None:
    """A change that is to last is shown when it is on disk, and the call comes then, from whatever thread."""
    called = threading.Event()
    with journal.open(tmp_path / "w.journal") as store:
        pages = store.journal("pages")
        polled = pages.feed()
        polled.poll(called.set)
        assert polled.take(1, ROOM, one) == []
        pages.put("a", b"", durability="full")
        must_end(called.wait)
        assert [event.key for event in polled.take(1, ROOM, one)] == ["a"]
        polled.close()


def test_a_large_record_is_left_for_who_has_time(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load is not read by who cannot wait; when somebody has read it, it is delivered as all else."""
    monkeypatch.setattr(feeds, "LARGE_BYTES", 300_000)
    put(pages, "a")
    pages.load([many(4000)], once=("n", 1))
    put(pages, "z")
    asker = Asker(pages.feed(live=False))
    assert asker.keys() == ["a"] and asker.feed.is_large and not asker.feed.is_over
    assert asker.keys() == [] and asker.feed.is_large and asker.calls == 0
    must_end(asker.feed.read_large)
    found = asker.keys(5000)
    assert not asker.feed.is_large and {*found} == {*(f"k{i}" for i in range(4000)), "z"} and len(found) == 4001
    assert asker.keys() == [] and asker.feed.is_over
    asker.feed.close()


def test_a_large_record_that_cannot_be_read_is_told(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By who asks, not by who reads ahead."""
    monkeypatch.setattr(feeds, "LARGE_BYTES", 300_000)
    pages.load([many(4000)])
    asker = Asker(pages.feed())
    assert asker.keys() == [] and asker.feed.is_large
    real = asker.feed._tail._decode
    monkeypatch.setattr(asker.feed._tail, "_decode", lambda buffer: 0)
    asker.feed.read_large()  # it looks for another file first
    with pytest.raises(journal.LogDamaged):
        asker.feed.read_large()
    with pytest.raises(journal.LogDamaged):
        asker.keys()
    monkeypatch.setattr(asker.feed._tail, "_decode", real)
    asker.feed.close()
