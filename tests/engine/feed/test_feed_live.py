"""Live feeds: they wait without polling, and end when they are told to."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import journal
from tests.engine.feed.following import Follower, at, caught_up, put, wait_following
from tests.engine.helpers import must_end


@pytest.mark.parametrize("durability", ["full", "interval", "none"])
@pytest.mark.parametrize("consumer", [None, "audit"])
def test_a_live_feed_waits_for_more(tmp_path: Path, durability: str, consumer: str | None) -> None:
    """Woken by the put, at every level; closing it from another thread ends the loop."""
    with journal.open(tmp_path / "s", durability=durability, sync_interval="1ms") as store:
        pages = store.journal("pages")
        follower = Follower(pages.feed(consumer=consumer))
        for turn in range(3):
            wait_following(pages)
            put(pages, f"a{turn}", f"b{turn}")
            follower.wait(2)
        wait_following(pages)
        follower.feed.close()
        follower.end()
        assert follower.keys == ["a0", "b0", "a1", "b1", "a2", "b2"]
        assert follower.error is None
        assert pages._backend.p.followers.latches == ()
        assert store.check() == []


@pytest.mark.parametrize("consumer", [None, "audit"])
def test_a_live_feed_ends_when_the_store_closes(tmp_path: Path, consumer: str | None) -> None:
    """Without an error, and what it has acknowledged is kept."""
    store = journal.open(tmp_path / "s")
    pages = store.journal("pages")
    put(pages, "a", "b")
    follower = Follower(pages.feed(consumer=consumer))
    follower.wait(2)
    wait_following(pages)
    must_end(store.close)
    follower.end()
    assert follower.error is None
    with journal.open(tmp_path / "s") as store:
        views = store.journal("pages").feeds()
        assert [(v.name, v.position, v.lag) for v in views] == ([] if consumer is None else [("audit", at(1), 0)])


def test_a_feed_that_waits_for_acknowledgements_ends_too(tmp_path: Path) -> None:
    """Whatever it waits for when the store closes."""
    store = journal.open(tmp_path / "s")
    pages = store.journal("pages")
    put(pages, "a", "b")
    feed = pages.feed(consumer="audit", unacked_max=1, wait_acks=True)
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.extend(event.key for event in feed), daemon=True)
    thread.start()
    looked = threading.Event()
    for _ in range(5000):
        if feed.unacked == 1:
            break
        looked.wait(0.001)
    must_end(store.close)
    thread.join(100)
    assert not thread.is_alive()
    assert seen == ["a"]


def test_a_feed_of_a_closed_store_says_so(tmp_path: Path) -> None:
    """One that is not live must not look as if it had delivered everything."""
    store = journal.open(tmp_path / "s")
    pages = store.journal("pages")
    feed = caught_up(pages, consumer="audit")
    store.close()
    with pytest.raises(journal.StoreClosed):
        next(feed)
    with pytest.raises(journal.StoreClosed):
        feed.ack(at(0))
    with pytest.raises(journal.StoreClosed):
        pages.feeds()
    feed.close()


def test_many_writers_and_a_follower(tmp_path: Path) -> None:
    """Each change once and in order, while threads write."""
    with journal.open(tmp_path / "s", sync_interval="1ms") as store:
        pages = store.journal("pages")
        follower = Follower(pages.feed(consumer="audit"))

        def write(name: int) -> None:
            for n in range(50):
                pages.put(f"{name}-{n}", n, durability=("full", "interval", "none")[n % 3])

        threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        follower.wait(200)
        follower.feed.close()
        follower.end()
        assert sorted(follower.keys) == sorted(f"{name}-{n}" for name in range(4) for n in range(50))
        assert [event.key for event in caught_up(pages)] == follower.keys
        assert store.check() == []
