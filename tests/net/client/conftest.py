"""A small daemon and a client of it, for what breaks; the real daemon and a client of it, for all else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import journal
from journal.net.client.connect import connect
from journal.net.server.server import Server
from tests.net.client.daemon import TinyDaemon
from tests.net.client.small import Small


@pytest.fixture
def small() -> Small:
    return Small()


@pytest.fixture
def tiny(tmp_path: Path, small: Small) -> Iterator[TinyDaemon]:
    with TinyDaemon(tmp_path / "socket", small) as daemon:
        yield daemon


@pytest.fixture
def remote(tiny: TinyDaemon) -> Iterator[journal.Store]:
    """A client of the small daemon."""
    with connect(tiny.address) as store:
        yield store


@pytest.fixture
def server(store: journal.Store) -> Iterator[Server]:
    """The real daemon, on the store that the test has too."""
    with store.serve(tcp=[("127.0.0.1", 0)], trust_loopback=True) as server:
        yield server


@pytest.fixture
def far(server: Server, store: journal.Store) -> Iterator[journal.Store]:
    """A client of the real daemon."""
    with connect(store.path) as remote:
        yield remote


@pytest.fixture
def far_pages(far: journal.Store, pages: journal.Journal) -> journal.Journal:
    """The journal `pages` from afar."""
    return far.journal("pages")
