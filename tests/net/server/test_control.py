"""The daemon and the clocks of its clients: what heartbeats tell is known, flagged, and forgotten with the last who told it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import journal
from journal.net.client.connect import connect as connected
from journal.net.client.connection import heartbeat
from journal.net.server.server import Server
from journal.testing import ManualClock
from tests.net.server.asking import engine_of
from tests.net.server.conftest import Connect

FAST_MS = 300_000


class Wall:
    """The clock of a client's machine, which it reads before the question and after the answer."""

    def __init__(self, clock: ManualClock, ahead_ms: float) -> None:
        self.ahead_ms = ahead_ms
        self.way_ms = 0.0
        """How long an answer takes, by this clock."""
        self._clock = clock
        self._readings = 0

    def __call__(self) -> float:
        self._readings += 1
        return self._clock.now() + self.ahead_ms + self.way_ms * ((self._readings - 1) % 2)


@pytest.fixture
def wall(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Wall:
    wall = Wall(clock, FAST_MS)
    monkeypatch.setattr(heartbeat, "wall_ms", wall)
    return wall


@pytest.fixture
def far(server: Server, store: journal.Store, wall: Wall) -> Iterator[journal.Store]:
    """A client whose clock is off. To connect is its first heartbeat."""
    with connected(store.path, name="w1") as remote:
        yield remote


def drift(store: journal.Store) -> dict[str, Any]:
    found: dict[str, Any] = store.statistics()["drift"]
    return found


def flags(store: journal.Store, far: journal.Store) -> list[tuple[str, str]]:
    """Which there are, when the daemon has done what it has begun: a worker writes them."""
    hub = next(iter(engine_of(store).servers)).hub
    turns = [threading.Event() for _ in range(hub._workers._most * 2)]
    for turn in turns:
        hub.loop.call(partial(hub._workers.submit, turn.set))
    assert all(turn.wait(100) for turn in turns)
    return [(flag.journal, flag.name) for flag in far.flags()]


def test_what_a_heartbeat_reckons_reaches_the_daemon(server: Server, store: journal.Store, wall: Wall) -> None:
    """The offset, seen from the other side, and half of the delay as its error; from the second PING on, which tells of the first."""
    wall.ahead_ms, wall.way_ms = 120.0, 40.0
    with connected(store.path, name="w1") as far:
        assert drift(store)["peers"] == 0
        far._backend.heart.beat()
        known = drift(store)["worst"]["backend w1"]
        # Sent at +120, received at 0, back at +160: the middle of the way is 140 ahead.
        assert (known["offset_ms"], known["error_ms"], known["samples"]) == (140.0, 20.0, 1)
        far._backend.heart.beat()
        assert drift(store)["worst"]["backend w1"]["samples"] == 2
        assert (drift(store)["flagged"], far.flags()) == (0, [])
        ours = far._backend.heart.clocks.statistics()
        assert (ours["offset_ms"], ours["error_ms"], ours["samples"]) == (-140.0, 20.0, 3)


def test_a_clock_that_is_off_is_flagged_on_the_journal_that_it_works_on(
    store: journal.Store, far: journal.Store, wall: Wall
) -> None:
    """As in one process; with the name under which it is known, once for as long as it stays so."""
    far.journal("mails")
    far.journal("pages").put("a")
    for _ in range(10):
        far._backend.heart.beat()
    assert flags(store, far) == [("pages", "drift")]
    (flag,) = far.flags()
    assert "'backend w1' is 300000 ms fast" in flag.message and flag.count == 1
    assert drift(store)["flagged"] == 1


def test_a_flag_waits_for_a_journal_to_stand_on(store: journal.Store, far: journal.Store, wall: Wall) -> None:
    """Who has only said hello is known to be off; the flag is raised when it is known where."""
    for _ in range(10):
        far._backend.heart.beat()
    assert (drift(store)["flagged"], flags(store, far)) == (1, [])
    far.journal("pages")
    far._backend.heart.beat()
    assert flags(store, far) == [("pages", "drift")]


def test_a_clock_is_known_until_the_last_of_its_name_leaves(
    store: journal.Store, server: Server, far: journal.Store, wall: Wall
) -> None:
    """One of two connections that goes takes nothing of the other with it."""
    with connected(store.path, name="w1") as second:
        far._backend.heart.beat()
        second._backend.heart.beat()
        assert drift(store)["worst"]["backend w1"]["samples"] == 2
    while len(server.hub.peers) > 1:
        far.journals()  # until the daemon has seen it go
    assert drift(store)["worst"]["backend w1"]["samples"] == 2
    with connected(store.path, name="w2") as other:
        far.close()
        while len(server.hub.peers) > 1:
            other.journals()
        assert drift(store)["peers"] == 0


def test_a_new_name_leaves_the_old_one(server: Server, store: journal.Store, connect: Connect) -> None:
    """It is the same clock: it is not counted twice."""
    wire = connect()
    wire.call("PING", offset=5, delay=1)
    wire.call("REGISTER", service="w1")
    wire.call("PING", offset=5, delay=1)
    assert list(drift(store)["worst"]) == ["backend w1"]


@pytest.mark.parametrize("told", [{"offset": 5}, {"delay": 5}, {"offset": 5, "delay": -1}], ids=str)
def test_what_is_no_measurement_is_not_counted(
    server: Server, store: journal.Store, connect: Connect, told: dict[str, float]
) -> None:
    """The heartbeat is answered all the same."""
    assert connect().call("PING", **told)["answered"] == engine_of(store).time.now()
    assert drift(store)["peers"] == 0
