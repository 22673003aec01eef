"""Feeds of a connection: events as the log has them, in parts that fit into a frame."""

from __future__ import annotations

from typing import Any

import pytest

import journal
from journal import Cursor, Field, Schema
from journal.net.server.verbs.open_feed import OpenFeed, event_bytes
from journal.net.server.verbs.served_journal import served_of
from journal.net.wire.auth import EVERYTHING
from journal.net.wire.values import event_from
from tests.net.server.asking import FRAME, engine_of, pack


def opened(store: journal.Store, **given: Any) -> OpenFeed:
    return OpenFeed(served_of(engine_of(store), "pages"), given, EVERYTHING)


def everything(pages: journal.Journal) -> None:
    """Changes of every kind."""
    pages.put("a", {"n": 1}, owner="us")
    pages.put_many([journal.Put(f"{i}", i) for i in range(5)])
    first, second, third = pages.claim_many(3, consumer="c")
    first.done()
    second.release(delay=5, failed=True)
    third.bury("no use" * 600)
    pages.raise_flag("odd", "look")
    pages.put("x" * 1024, b"x" * 5000, expiration=pages.now() + 5)
    pages.move("x" * 1024, priority=3)
    pages.delete("x" * 1024)


def test_events_are_those_of_the_library(store: journal.Store, pages: journal.Journal) -> None:
    """Every change, with all that a follower can read of it."""
    everything(pages)
    feed = opened(store, live=False)
    assert feed.position == [1, -1] and feed.blank is None
    events, is_end = feed.next(1000)
    assert [event_from(event) for event in events] == list(pages.feed(live=False))
    assert is_end and feed._feed.is_over
    feed.close()


def test_the_size_of_an_event_is_not_underestimated(store: journal.Store) -> None:
    """What is reckoned is what is packed, or some more."""
    pages = store.journal("pages", log_old=True)
    everything(pages)
    served = OpenFeed(served_of(engine_of(store), "pages"), {"live": False}, EVERYTHING)
    wire, _ = served.next(1000)
    for event, sent in zip(pages.feed(live=False), wire, strict=True):
        assert len(pack(sent)) <= event_bytes(event) <= len(pack(sent)) + 200
    served.close()


def test_what_comes_at_once_fits_into_a_frame(store: journal.Store, pages: journal.Journal) -> None:
    """The rest comes when it is asked for; nothing is skipped."""
    for i in range(12):
        pages.put(f"{i}", b"x" * 300_000)
    feed = opened(store, live=False, consumer="f")
    got = []
    while not feed._feed.is_over:
        events, _ = feed.next(100)
        assert len(pack(events)) < FRAME - 128
        got.append([event_from(event).key for event in events])
    assert [key for keys in got for key in keys] == [f"{i}" for i in range(12)] and max(map(len, got)) == 3
    feed.close()


def test_acknowledging(store: journal.Store, pages: journal.Journal) -> None:
    """The position, and how many are not acknowledged; what was never delivered is refused."""
    for key in "abcd":
        pages.put(key, 1)
    feed = opened(store, consumer="f", start=[1, 0])
    events, is_end = feed.next(2)
    assert [event[4] for event in events] == [1, 2] and not is_end
    assert feed.ack([[1, 2]]) == {"position": [1, 0], "unacked": 1}
    assert feed.ack([[1, 1]]) == {"position": [1, 2], "unacked": 0}
    with pytest.raises(journal.Invalid, match="never delivered"):
        feed.ack([[1, 3]])
    feed.close()
    assert pages.feeds()[0].position == Cursor(1, 2)


def test_what_must_be_acknowledged_first(store: journal.Store, pages: journal.Journal) -> None:
    """Who asks is refused; who is pushed to gets nothing, and is called when it goes on."""
    for key in "abcd":
        pages.put(key, 1)
    feed = opened(store, consumer="f", unacked_max=2)
    calls: list[int] = []
    feed.on_news(lambda: calls.append(1))
    assert len(calls) == 1
    assert len(feed.ready(100)[0]) == 2
    with pytest.raises(journal.Unacknowledged):
        feed.next(1)
    assert feed.ready(1) == ([], False)
    before = len(calls)
    feed.ack([[1, 0]])
    assert len(calls) == before + 1
    assert [event[4] for event in feed.ready(100)[0]] == [2]
    feed.fail(None)
    assert len(calls) > before + 1
    assert [event[4] for event in feed.ready(100)[0]] == [1]
    feed.close()


def test_news(store: journal.Store, pages: journal.Journal) -> None:
    """A live feed that has given all calls when there is more, once, until it is asked again."""
    feed = opened(store)
    calls: list[int] = []
    feed.on_news(lambda: calls.append(1))
    assert feed.ready(10) == ([], False)
    pages.put("a", 1)
    pages.put("b", 1)
    assert len(calls) == 2
    assert [event[4] for event in feed.ready(10)[0]] == [0, 1]
    feed.close()
    pages.put("c", 1)
    assert feed.ready(10) == ([], True)
    feed.close()


def test_a_copy(store: journal.Store, pages: journal.Journal) -> None:
    """Is taken when the feed is opened."""
    pages.put("a", 1)
    feed = opened(store, consumer="f", copy=True)
    pages.put("b", 2)
    events = [event_from(event) for event in feed.next(100)[0]]
    assert [event.mode for event in events] == ["copy", "complete", "sync"]
    feed.close()


def test_one_that_cannot_be_opened(store: journal.Store, pages: journal.Journal) -> None:
    """The reason is the library's; the consumer is free then."""
    feed = opened(store, consumer="f")
    with pytest.raises(journal.Refused, match="open already"):
        opened(store, consumer="f")
    feed.close()
    opened(store, consumer="f").close()
    with pytest.raises(journal.CursorUnavailable):
        opened(store, start=[9, 9])
    with pytest.raises(journal.Invalid, match="copy needs"):
        opened(store, copy=True)


def test_fields_of_the_schemas(store: journal.Store) -> None:
    """A follower gets all fields, from what it was told when the feed was opened."""
    pages = store.journal("pages", compact=True, schema=Schema([Field("uri", "text")], key="uri"))
    pages.put(None, {"uri": "/a"})
    store.journal("pages", schema=Schema([Field("uri", "text"), Field("n", "int")], key="uri"))
    pages.rotate()
    feed = opened(store, live=False)
    (event,) = feed.next(10)[0]
    assert feed.blank == {"uri": None, "n": None}
    assert event_from(event, feed.blank).data == {"uri": "/a", "n": None} == next(iter(pages.feed(live=False))).data
    feed.close()


def test_a_change_that_fits_into_no_frame(store: journal.Store, pages: journal.Journal) -> None:
    """It is named, and not delivered; one that is passed over is left behind."""
    store.journal("pages", entry_bytes_max=1 << 22)
    pages.put("a", 1)
    pages.put("large", b"x" * FRAME)
    pages.put("b", 1)
    feed = opened(store, consumer="f")
    assert [event[4] for event in feed.next(10)[0]] == [0]
    for _ in range(2):
        with pytest.raises(journal.Invalid, match="'large'"):
            feed.next(10)
    feed.ack([[1, 0]])
    feed.close()
    pages.skip_feed("f", Cursor(1, 1))
    feed = opened(store, consumer="f")
    assert [event[4] for event in feed.next(10)[0]] == [2]
    feed.close()
