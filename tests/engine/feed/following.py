"""What the tests of feeds share: short words for a feed, a thread that follows, a log that changes segments."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import journal
from journal import Cursor

SMALL = {"segment_bytes_max": 1 << 16}


def put(pages: journal.Journal, *keys: str) -> None:
    for key in keys:
        pages.put(key, f"data of {key}")


def keys(feed: journal.Feed) -> list[Any]:
    """The keys of all that a feed delivers, nothing acknowledged."""
    return [event.key for event in feed]


def caught_up(pages: journal.Journal, **options: Any) -> journal.Feed:
    return pages.feed(live=False, **options)


def at(offset: int) -> Cursor:
    return Cursor(1, offset)


def fill_segments(pages: journal.Journal, store: journal.Store, rounds: int = 8) -> None:
    """So much that the log changes segments, with checkpoints that let old ones go."""
    for turn in range(rounds):
        pages.put(f"big-{turn}", b"x" * 40_000)
        store.checkpoint()


class Follower:
    """A thread that iterates a live feed."""

    def __init__(self, feed: journal.Feed) -> None:
        self.feed = feed
        self.keys: list[Any] = []
        self.error: BaseException | None = None
        self._arrived = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            for event in self.feed:
                self.keys.append(event.key)
                if self.feed.consumer is not None:
                    self.feed.ack(event)
                self._arrived.release()
        except BaseException as e:  # noqa: BLE001 - the test looks at it
            self.error = e

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self._arrived.acquire(timeout=300), self.error

    def end(self) -> None:
        self.thread.join(100)
        assert not self.thread.is_alive()


def wait_following(pages: journal.Journal) -> None:
    """Return when a follower sleeps."""
    looked = threading.Event()
    for _ in range(5000):
        with pages._backend.p.lock:
            if pages._backend.p.followers.latches:
                return
        looked.wait(0.001)
    pytest.fail("the follower does not sleep")
