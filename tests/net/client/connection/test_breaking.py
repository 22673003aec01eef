"""Connections that break all the time, under everything that a client does: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.net.client.connect import connect
from journal.net.client.connection.options import Backoff
from journal.net.server.server import Server
from tests.net.client.test_feed import cut
from tests.net.client.working import WAIT_S, Worker

QUICK = Backoff(first="1ms", most="5ms", total="60s")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[journal.Store]:
    """An open store with the system's clock, checked at its end."""
    with journal.open(tmp_path / "work.journal", durability="interval") as opened:
        yield opened
        assert opened.check() == []


class Cutter:
    """Cuts all connections of a daemon, each time somebody asks for it, at some moment of what follows."""

    def __init__(self, server: Server) -> None:
        self.cuts = 0
        self._server = server
        self._asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._asked.get():
            cut(self._server)
            self.cuts += 1

    def count(self, number: int) -> None:
        """Something was done: each few times there is a cut, so that there is progress on the slowest machine too."""
        if number % 4 == 0:
            self._asked.put(True)

    def __enter__(self) -> Cutter:
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.put(False)
        self._thread.join(WAIT_S)


def test_workers_and_producers(server: Server, store: journal.Store, pages: journal.Journal) -> None:
    """Every entry is created once and done once, whatever was under way."""
    done: queue.Queue[Any] = queue.Queue()
    with (
        connect(store.path, backoff=QUICK, poll="20ms") as near,
        connect(store.path, backoff=QUICK, poll="20ms") as other,
        Worker(near.journal("pages"), done, consumer="one", lease="1h"),
        Worker(other.journal("pages"), done, consumer="two", lease="1h"),
        Cutter(server) as cutter,
    ):
        far_pages = near.journal("pages")
        for n in range(150):
            cutter.count(n)
            assert far_pages.create(f"k{n}", n).outcome == "inserted"
        got = [done.get(timeout=WAIT_S) for _ in range(150)]
    assert cutter.cuts == 38
    assert sorted(got) == sorted(f"k{n}" for n in range(150)) and pages.count() == 0


def test_push(server: Server, store: journal.Store, pages: journal.Journal) -> None:
    """What is pushed is done once."""
    pages.put_many([journal.Put(f"k{n}") for n in range(200)])
    done: list[Any] = []
    with (
        connect(store.path, backoff=QUICK) as far,
        Cutter(server) as cutter,
        far.journal("pages").subscribe(consumer="one", lease="1h", credit=5) as leases,
    ):
        for n in range(200):
            cutter.count(n)
            lease = next(leases)
            lease.done()
            done.append(lease.key)
    assert sorted(done) == sorted(f"k{n}" for n in range(200)) and pages.count() == 0


def test_feeds(server: Server, store: journal.Store, pages: journal.Journal) -> None:
    """A named feed delivers every change that is not acknowledged, in order; one without a name each change once."""
    with (
        connect(store.path, backoff=QUICK) as far,
        Cutter(server) as cutter,
        far.journal("pages").feed(consumer="audit") as named,
        far.journal("pages").feed() as plain,
    ):
        far_pages = far.journal("pages")
        for n in range(100):
            cutter.count(n)
            far_pages.put(f"k{n}", n)
        seen: dict[Any, None] = {}
        while len(seen) < 100:
            event = next(named)
            cutter.count(len(seen))
            seen[event.key] = None
            named.ack(event)
        once = []
        for n in range(100):
            cutter.count(n)
            once.append(next(plain).key)
        assert list(seen) == once == [f"k{n}" for n in range(100)]
