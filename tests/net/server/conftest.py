"""A store that is served, and clients of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import journal
from journal.net.server.server import Server
from tests.net.server.wire import Wire

Connect = Callable[..., Wire]


@pytest.fixture
def server(store: journal.Store, pages: journal.Journal) -> Iterator[Server]:
    """A daemon on a thread beside the test, on the store's socket and on loopback."""
    with store.serve(tcp=[("127.0.0.1", 0)], trust_loopback=True) as server:
        yield server


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Connections, to the server or to another address, that are closed at the end."""
    made: list[Wire] = []

    def connect(address: str | None = None, **options: Any) -> Wire:
        wire = Wire(address or request.getfixturevalue("server").addresses[0], **options)
        made.append(wire)
        return wire.welcome()

    yield connect
    for wire in made:
        wire.close()
