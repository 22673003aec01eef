"""Answers that wait for the disk: on a loop of their own, with a real journal and real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import journal
from journal.engine.log.deferred_syncs import deferred
from journal.engine.pipeline import Pipeline
from journal.errors import JournalError
from journal.net.server import durable_replies as module
from journal.net.server.durable_replies import Settling
from journal.net.server.runtime.event_loop import READ, Loop


class Puts:
    """A put for each byte that comes to one of two sockets; the first one makes the second one ready."""

    def __init__(self, pages: journal.Journal) -> None:
        self.pages = pages
        self.loop = Loop()
        self.settling = Settling(self.loop)
        self.answers: list[tuple[str, JournalError | None]] = []
        self.pairs = [socket.socketpair() for _ in range(2)]
        for number, (near, _) in enumerate(self.pairs):
            near.setblocking(False)
            self.loop.watch(near, READ, partial(self.put, number))

    def put(self, number: int, mask: int) -> None:
        self.pairs[number][0].recv(1)
        waits: dict[Pipeline, int] = {}
        deferred.waits = waits
        try:
            self.pages.put(f"page-{number}", b"x")
        finally:
            deferred.waits = None
        ((pipeline, offset),) = waits.items()
        self.settling.add(pipeline, offset, lambda error: self.answered(f"page-{number}", error))
        if number == 0:
            self.pairs[1][1].send(b"!")

    def answered(self, key: str, error: JournalError | None) -> None:
        self.answers.append((key, error))
        if len(self.answers) == 2:
            self.loop.end()

    def run(self) -> int:
        """Both puts; how many syncs they took."""
        before = self.pages.statistics()["syncs"]
        self.pairs[0][1].send(b"!")
        self.loop.run()
        self.settling.close()
        return int(self.pages.statistics()["syncs"] - before)


@pytest.fixture
def puts(tmp_path: Path) -> Iterator[Puts]:
    with journal.open(tmp_path / "store", durability="full") as store:
        puts = Puts(store.journal("pages"))
        yield puts
        for pair in puts.pairs:
            for each in pair:
                each.close()


def test_a_put_that_is_there_already_shares_the_sync_of_the_one_before_it(
    puts: Puts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PUT_OFF_MAX_S", 600.0)
    puts.settling._took_s = 600.0
    assert puts.run() == 1
    assert puts.answers == [("page-0", None), ("page-1", None)]


def test_nobody_waits_for_those_who_go_on_talking_longer_than_a_sync_takes(puts: Puts) -> None:
    talker, other = socket.socketpair()
    with talker, other:
        other.send(b"!")
        puts.loop.watch(talker, READ, lambda _: None)  # ready in every round: nobody reads it
        puts.settling._took_s = 600.0
        assert 1 <= puts.run() <= 2
    assert sorted(puts.answers) == [("page-0", None), ("page-1", None)]


def test_what_was_seen_before_a_round_is_served_in_it(puts: Puts) -> None:
    assert not puts.loop.has_more()
    puts.pairs[1][1].send(b"!")
    assert puts.loop.has_more()
    assert puts.loop.has_more()
    puts.run()
    assert {key for key, _ in puts.answers} == {"page-0", "page-1"}
