"""The client's sockets: looking for a moment before sleeping, as long as it pays."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from journal.net.client.connection import sockets
from journal.net.client.connection.sockets import AGAIN, LOOKING_NS, PATIENCE, Wire


@pytest.fixture
def ends() -> Iterator[tuple[Wire, socket.socket]]:
    here, there = socket.socketpair()
    wire = Wire(here)
    yield wire, there
    wire.close()
    there.close()


def test_what_is_there_is_taken(ends: tuple[Wire, socket.socket]) -> None:
    """At once, and the end too."""
    wire, there = ends
    there.send(b"abc")
    assert wire.receive() == b"abc"
    there.close()
    assert wire.receive() == b""


class Looks:
    """A clock on which a look takes as long as it is told, and a poll that finds nothing; they are counted."""

    def __init__(self, wire: Wire, monkeypatch: pytest.MonkeyPatch, takes_ns: int) -> None:
        self.number = 0
        self.takes_ns = takes_ns
        self._now = 0
        self._real = wire._poll
        self._wire = wire
        monkeypatch.setattr(sockets, "monotonic_ns", lambda: self._now)
        wire._poll = self.nothing  # type: ignore[assignment]

    def nothing(self, timeout: float | None) -> list[tuple[int, int]]:
        assert timeout == 0
        self.number += 1
        self._now += self.takes_ns
        return []

    def all_in_time(self) -> None:
        self._wire._poll = self._real


def test_late_answers_end_the_looking(ends: tuple[Wire, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is answered late sleeps at once, and tries again only after many answers: nobody burns a processor in vain."""
    wire, there = ends
    looks = Looks(wire, monkeypatch, LOOKING_NS // 100)

    def answered() -> None:
        there.send(b"late")
        assert wire.receive() == b"late"

    for _ in range(AGAIN - 1):
        answered()
    assert looks.number == PATIENCE * 100
    answered()
    assert looks.number == (PATIENCE + 1) * 100
    looks.all_in_time()
    for _ in range(AGAIN):
        answered()
    wire._poll = looks.nothing  # type: ignore[assignment]
    answered()
    assert looks.number == (PATIENCE + 2) * 100  # an answer in time has made it look again


def test_who_is_kept_from_looking_is_late(ends: tuple[Wire, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    """Others had the processor for longer than it looks: it looks once, and sleeps."""
    wire, there = ends
    looks = Looks(wire, monkeypatch, 10 * LOOKING_NS)
    there.send(b"late")
    assert wire.receive() == b"late"
    assert looks.number == 1
