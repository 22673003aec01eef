"""Consumers of a daemon that is killed, again and again: what was put is finished, once, without anybody's help."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.net.client.connect import connect
from tests.net.client.working import WAIT_S, never_polls
from tests.net.server.serving import Daemon

ROUNDS = 3
EACH = 30
"""Entries of a round; the daemon is killed when a third of them is finished."""
Source = Callable[[journal.Journal], Iterator[journal.Lease]]


def by_push(pages: journal.Journal) -> Iterator[journal.Lease]:
    """As they are pushed."""
    with pages.subscribe(consumer="one", lease="1s", credit=4) as leases:
        yield from leases


def by_listening(pages: journal.Journal) -> Iterator[journal.Lease]:
    """Claimed when a datagram says that something is due."""
    return pages.work(consumer="one", lease="1s")


class Finishing:
    """Finishes whatever comes, on a thread of its own; `keys` has what was acknowledged as finished."""

    def __init__(self, pages: journal.Journal, source: Source) -> None:
        self.keys: queue.Queue[Any] = queue.Queue()
        self._leases = source(pages)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for lease in self._leases:
                try:
                    lease.done()
                except journal.LeaseLost:
                    continue  # its time passed while there was no daemon: it comes again
                self.keys.put(lease.key)
        except Exception as e:  # noqa: BLE001 - the test meets it in the place of a key
            self.keys.put(e)

    def take(self, number: int) -> list[str]:
        """The next keys that are finished."""
        found = [self.keys.get(timeout=WAIT_S) for _ in range(number)]
        assert all(type(key) is str for key in found), found
        return found

    def join(self) -> None:
        """It ends with its connection."""
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("source", [by_push, by_listening])
def test_a_consumer_outlives_a_daemon_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Source
) -> None:
    """Everything that was acknowledged is finished once; who sleeps is told of new work by each next daemon."""
    never_polls(monkeypatch)
    path = tmp_path / "work.journal"
    daemon = Daemon(path)
    try:
        with connect(path) as far, connect(path) as producer:
            finishing = Finishing(far.journal("pages"), source)
            pages = producer.journal("pages")
            finished: list[str] = []
            for n in range(ROUNDS):
                pages.put_many([journal.Put(f"{n}-{i:02}") for i in range(EACH)])
                finished += finishing.take(EACH // 3)
                daemon.kill()
                daemon = Daemon(path)
                finished += finishing.take(EACH - EACH // 3)
                assert pages.count() == 0
            assert sorted(finished) == [f"{n}-{i:02}" for n in range(ROUNDS) for i in range(EACH)]
            assert producer.check() == []
        finishing.join()
        assert finishing.keys.empty()
    finally:
        daemon.kill()
