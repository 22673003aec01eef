"""The public face over both backends: each test runs on a store in this process, and through a daemon that serves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import journal
from journal.testing import ManualClock
from tests.conftest import copy_live

BACKENDS = ("embedded", "connected")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that has a store has it in each of these ways."""
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", BACKENDS)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that are marked so run on a store in this process alone."""
    out = [
        item
        for item in items
        if isinstance(item, pytest.Function)
        and item.get_closest_marker("embedded")
        and item.callspec.params.get("backend") == "connected"
    ]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


@pytest.fixture
def opened(tmp_path: Path, clock: ManualClock) -> Iterator[journal.Store]:
    """The store in the process that has it open; whatever the test did, every index and invariant must hold at its end."""
    with journal.open(tmp_path / "work.journal", clock=clock) as made:
        yield made
        assert made.check() == []


@pytest.fixture
def store(opened: journal.Store, backend: str) -> Iterator[journal.Store]:
    """The same store as the test uses it: as it is, or over a connection."""
    if backend == "embedded":
        yield opened
        return
    with opened.serve(), journal.connect(opened.path) as far:
        yield far


@pytest.fixture
def crashed(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[journal.Store], Path]:
    """Copies a store as a kill -9 of its owner would leave it."""
    numbers = iter(range(1000))

    def copy(store: journal.Store) -> Path:
        target = tmp_path / f"crashed-{next(numbers)}"
        copy_live(request.getfixturevalue("opened") if store.is_remote else store, target)
        return target

    return copy
