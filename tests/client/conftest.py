"""A small daemon, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.client.store import RemoteStore, connect
from tests.client.daemon import TinyDaemon
from tests.client.small import Small


@pytest.fixture
def small() -> Small:
    return Small()


@pytest.fixture
def tiny(tmp_path: Path, small: Small) -> Iterator[TinyDaemon]:
    with TinyDaemon(tmp_path / "socket", small) as daemon:
        yield daemon


@pytest.fixture
def remote(tiny: TinyDaemon) -> Iterator[RemoteStore]:
    with connect(tiny.address) as store:
        yield store
