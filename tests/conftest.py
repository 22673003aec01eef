"""Fixtures: a clock that tests move, a store on it that is checked after each test, and copies as a crash leaves them."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import journal
from journal.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock(1_700_000_000_000)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[journal.Store]:
    """An open store; whatever the test did, every index and invariant must hold at its end."""
    with journal.open(tmp_path / "work.journal", clock=clock) as opened:
        yield opened
        assert opened.check() == []


@pytest.fixture
def pages(store: journal.Store) -> journal.Journal:
    """A journal with the default settings."""
    return store.journal("pages")


def copy_live(store: journal.Store, target: Path) -> None:
    """Copy an open store between two writes. A copy that saw a file come or go is no state that ever was: once more."""
    pipelines = [pages._p for pages in store._journals.values()]
    with contextlib.ExitStack() as held:
        for p in pipelines:
            held.enter_context(p.commit.io)
            held.enter_context(p.lock)
        while True:
            try:
                shutil.copytree(store.path, target)
                return
            except shutil.Error:
                shutil.rmtree(target)


@pytest.fixture
def crashed(tmp_path: Path) -> Callable[[journal.Store], Path]:
    """Copies an open store as a kill -9 would leave it: what the OS has, and nothing of what the process held."""
    numbers = iter(range(1000))

    def copy(opened: journal.Store) -> Path:
        target = tmp_path / f"crashed-{next(numbers)}"
        copy_live(opened, target)
        return target

    return copy
