"""The client's sockets: looking for a moment before sleeping, as long as it pays."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from journal.client.sockets import AGAIN, LOOKS, PATIENCE, Wire


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


def test_late_answers_end_the_looking(ends: tuple[Wire, socket.socket]) -> None:
    """Who is answered late sleeps at once, and tries again only after many answers: nobody burns a processor in vain."""
    wire, there = ends
    looks = 0

    def nothing(timeout: int) -> list[tuple[int, int]]:
        nonlocal looks
        looks += 1
        assert timeout == 0
        return []

    def answered() -> None:
        there.send(b"late")
        assert wire.receive() == b"late"

    wire._poll = nothing
    for _ in range(AGAIN - 1):
        answered()
    assert looks == PATIENCE * LOOKS
    answered()
    assert looks == (PATIENCE + 1) * LOOKS
    wire._poll = lambda timeout: [(0, 1)]
    for _ in range(AGAIN):
        answered()
    wire._poll = nothing
    answered()
    assert looks == (PATIENCE + 2) * LOOKS  # an answer in time has made it look again
