"""Feeds from afar: what is pushed, acknowledged, failed, and what becomes of them when the connection breaks."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import journal
from journal.net.server.connection import steady_ms
from journal.net.server.server import Server


def cut(server: Server) -> None:
    """Cut all connections off, on the daemon's side."""
    done = threading.Event()

    def run() -> None:
        for peer in list(server.hub.peers.values()):
            peer._hear(b"", steady_ms())
            peer.close()
        done.set()

    server.loop.call(run)
    assert done.wait(100)


def test_a_live_feed_waits_for_changes(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """They come as they happen, and the iteration ends with close, from another thread."""
    feed = far_pages.feed(start="END")
    seen: list[Any] = []
    came = threading.Semaphore(0)

    def run() -> None:
        for event in feed:
            seen.append(event.key)
            came.release()

    thread = threading.Thread(target=run)
    thread.start()
    for i in range(3):
        pages.put(f"k{i}", i)
        assert came.acquire(timeout=300)
    feed.close()
    thread.join(100)
    assert not thread.is_alive() and seen == ["k0", "k1", "k2"]


def test_acknowledgements_are_kept(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """Exactly those that were given; what was not acknowledged comes again, one at a time."""
    for i in range(4):
        pages.put(f"k{i}", i)
    with far_pages.feed(consumer="audit") as feed:
        first, second, third = next(feed), next(feed), next(feed)
        assert feed.unacked == 3 and not feed.is_redelivering
        feed.ack(first.cursor)
        feed.ack([third])
        feed.ack(third)
        assert feed.position == first.cursor and feed.unacked == 1
        assert feed.consumer == "audit" and feed.lag == 2
    assert pages.feeds()[0].position == first.cursor
    with far_pages.feed(consumer="audit") as feed:
        again = next(feed)
        assert again.cursor == second.cursor and feed.is_redelivering
        with pytest.raises(journal.Unacknowledged):
            next(feed)
        feed.ack(again)
        last = next(feed)
        assert last.key == "k3"
        feed.ack(last)
        assert feed.position == last.cursor and feed.lag == 0


def test_unacknowledged_changes_are_limited(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """Who asks for more is refused; with wait_acks the iteration waits for another thread."""
    for i in range(5):
        pages.put(f"k{i}", i)
    with far_pages.feed(consumer="audit", unacked_max=2) as feed:
        events = [next(feed), next(feed)]
        with pytest.raises(journal.Unacknowledged):
            next(feed)
        feed.ack(events)
        assert next(feed).key == "k2"
    with far_pages.feed(consumer="other", unacked_max=1, wait_acks=True) as feed:
        event = next(feed)
        thread = threading.Timer(0.01, feed.ack, (event,))
        thread.start()
        assert next(feed).key == "k1"
        thread.join()


def test_a_failure_brings_back_what_is_not_acknowledged(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """One at a time, before anything new."""
    for i in range(3):
        pages.put(f"k{i}", i)
    with far_pages.feed(consumer="audit") as feed:
        first, second = next(feed), next(feed)
        feed.ack(first)
        feed.fail(second)
        assert next(feed).cursor == second.cursor and feed.is_redelivering
        with pytest.raises(journal.Unacknowledged):
            next(feed)
        feed.ack(second)
        third = next(feed)
        feed.ack(third)
        with pytest.raises(journal.Invalid, match="acknowledged"):
            feed.fail(third)


def test_a_copy_comes_first(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """All entries, then the event that ends the copy, then changes."""
    for i in range(3):
        pages.put(f"k{i}", i)
    with far_pages.feed(consumer="copy", copy=True) as feed:
        modes = []
        for event in feed:
            feed.ack(event)
            modes.append(event.mode)
            if event.mode == "complete":
                break
        pages.put("k9", 9)
        event = next(feed)
        assert modes == ["copy"] * 3 + ["complete"] and (event.key, event.mode) == ("k9", "sync")


def test_a_feed_survives_its_connection(far_pages: journal.Journal, pages: journal.Journal, server: Server) -> None:
    """It goes on behind what was delivered or acknowledged, and nothing is missing."""
    for i in range(3):
        pages.put(f"k{i}", i)
    with far_pages.feed() as plain, far_pages.feed(consumer="audit") as named:
        assert next(plain).key == "k0"
        first = next(named)
        named.ack(first)
        assert named.position == first.cursor
        cut(server)
        assert [next(plain).key for _ in range(2)] == ["k1", "k2"]
        keys = []
        for event in named:
            named.ack(event)
            keys.append(event.key)
            if event.key == "k2":
                break
        assert keys == ["k1", "k2"]
        pages.put("k3", 3)
        assert next(plain).key == "k3"
        assert next(named).key == "k3"


def test_the_data_of_old_generations_has_all_fields(far: journal.Store, store: journal.Store, server: Server) -> None:
    """A field that was declared later is None in what was written before."""
    store.journal("typed", schema=journal.Schema([journal.Field("a", "int")]))
    typed = store.journal("typed")
    typed.put("k", {"a": 1})
    store.journal(
        "typed", schema=journal.Schema([journal.Field("a", "int"), journal.Field("b", "int", required=False)])
    )
    typed.rotate()
    with far.journal("typed").feed(live=False) as feed, typed.feed(live=False) as near:
        assert [event.data for event in feed] == [event.data for event in near]


def test_closing_the_store_ends_the_feed(far: journal.Store, far_pages: journal.Journal) -> None:
    """As in the library: the iteration is over."""
    feed = far_pages.feed()
    thread = threading.Thread(target=lambda: list(feed))
    thread.start()
    far.close()
    thread.join(100)
    assert not thread.is_alive()
    feed.close()


def test_what_is_about_a_feed_is_never_asked_on_another_connection(
    far: journal.Store, far_pages: journal.Journal, pages: journal.Journal, server: Server
) -> None:
    """There its number is that of another feed, whose changes would count as acknowledged."""
    pages.put_many([journal.Put(f"k{i}", i) for i in range(4)])
    with far_pages.feed(consumer="one") as one, far_pages.feed(consumer="two") as two:
        events = [next(one) for _ in range(4)]
        assert next(two).key == "k0"
        old = one._inbox
        cut(server)
        far.journals()
        assert next(two) is not None  # open again, under the number that was the other's
        with pytest.raises(journal.ConnectionLost):
            far._backend.link.ask_once(one._followed.state(), None, inbox=old)
        with pytest.raises(journal.ConnectionLost):
            far._backend.link.post(one._followed.state(), lambda result, error: None, old)
        one.ack(events)  # said again when they come again
        pages.put("last")
        assert next(one).key == "last"
        one.ack(events)
        assert one.position == events[-1].cursor
        assert two.position < events[0].cursor


@pytest.mark.parametrize("consumer", [None, "audit"])
def test_a_feed_that_has_ended_goes_on_whatever_has_come(
    pages: journal.Journal, far_pages: journal.Journal, consumer: str | None
) -> None:
    """More than is sent at once, before and after its end; none of it is taken for the end, and none is waited for in vain."""
    with far_pages.feed(consumer=consumer, live=False) as feed:
        for turn in range(3):
            pages.put_many([journal.Put(f"{turn}-{n}") for n in range(600)])
            assert [event.key for event in feed] == [f"{turn}-{n}" for n in range(600)]
        assert list(feed) == []


def test_a_failure_after_the_end_of_what_was_there(pages: journal.Journal, far_pages: journal.Journal) -> None:
    """What was on its way comes again, one at a time, and then the end."""
    pages.put_many([journal.Put(key) for key in "abc"])
    with far_pages.feed(consumer="audit", live=False) as feed:
        first = next(feed)
        feed.fail(first)
        again = []
        for event in feed:
            again.append(event.key)
            feed.ack(event)
        assert again == ["a", "b", "c"] and not feed.is_redelivering
