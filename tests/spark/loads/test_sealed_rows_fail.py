"""A load of ready rows that is cut short: it is made wholly or not at all."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.engine.state.apply import JournalState
from journal.testing import ManualClock
from tests.engine.helpers import Failing
from tests.engine.loads.blocks import log_size

pa = pytest.importorskip("pyarrow", reason="pip install 'journal[spark]'")

from tests.spark.ready import Parts, some  # noqa: E402 - needs pyarrow

Copy = Callable[[journal.Store], Path]


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    """For tests that load parts."""
    return Parts(tmp_path, monkeypatch)


MUCH = [(start, 20_000) for start in range(0, 80_000, 20_000)]


def test_a_full_disk(
    monkeypatch: pytest.MonkeyPatch, store: journal.Store, pages: journal.Journal, parts: Parts
) -> None:
    """There is no room for the record: nothing is changed, and no room is kept."""
    pages.put("before")
    before = log_size(store)
    disk = Failing(monkeypatch, "posix_fallocate", errno.ENOSPC)
    with pytest.raises(journal.StoreFull):
        pages.load([parts.sealed(*(some(n, start) for start, n in MUCH))], once=("n", 1))
    assert (disk.calls, log_size(store)) == (1, before)
    disk.error = None
    assert [entry.key for entry in pages.scan()] == ["before"]
    assert pages.load([parts.sealed(some(20_000))], once=("n", 1)).inserted == 20_000
    assert pages.count() == 20_001 and store.check() == []


def test_a_write_fails_in_the_middle(
    monkeypatch: pytest.MonkeyPatch, store: journal.Store, pages: journal.Journal, parts: Parts, crashed: Copy
) -> None:
    """Some of the record was written and applied: nothing is left of it, and the journal goes on."""
    pages.put("before")
    disk = Failing(monkeypatch, "pwrite", errno.ENOSPC, after=3)
    with pytest.raises(journal.StoreFull):
        pages.load([parts.sealed(*(some(n, start) for start, n in MUCH))], once=("n", 1))
    disk.error = None
    copies = [crashed(store)]
    assert [entry.key for entry in pages.scan()] == ["before"]
    pages.put("after")
    copies.append(crashed(store))
    assert pages.load([parts.sealed(some(20_000))], once=("n", 1)).inserted == 20_000
    assert pages.count() == 20_002 and store.check() == []
    for number, copy in enumerate(copies):
        with journal.open(copy) as again:
            assert again.journal("pages").count() == 1 + number
            assert again.check() == []


def test_a_crash_in_the_middle(
    monkeypatch: pytest.MonkeyPatch, store: journal.Store, pages: journal.Journal, parts: Parts, tmp_path: Path
) -> None:
    """Of a record that was cut nothing is there."""
    pages.put("before")
    insert: Any = JournalState.insert_entries
    copies: list[Path] = []

    def watched(state: JournalState, *args: Any, **more: Any) -> None:
        copies.append(tmp_path / f"copy-{len(copies)}")
        shutil.copytree(store.path, copies[-1], ignore=shutil.ignore_patterns("SOCKET"))
        insert(state, *args, **more)

    monkeypatch.setattr(JournalState, "insert_entries", watched)
    pages.load([parts.sealed(*(some(n, start) for start, n in MUCH))])
    assert len(copies) == 5
    for copy in copies:
        with journal.open(copy) as again:
            assert again.journal("pages").count() == 1 and again.check() == []


@pytest.mark.parametrize("calls", [1, 2])
def test_an_interrupt_in_the_middle(
    monkeypatch: pytest.MonkeyPatch, store: journal.Store, pages: journal.Journal, parts: Parts, calls: int
) -> None:
    """It is made wholly or not at all, whatever was applied then."""
    insert, count = JournalState.insert_entries, 0

    def interrupted(state: JournalState, *args: Any, **more: Any) -> None:
        nonlocal count
        count += 1
        if count == calls:
            raise KeyboardInterrupt
        insert(state, *args, **more)

    monkeypatch.setattr(JournalState, "insert_entries", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pages.load([parts.sealed(some(20_000), some(20_000, 20_000))])
    monkeypatch.undo()
    assert pages.count() in (0, 40_000)
    pages.put("after")
    assert store.check() == []


def test_an_interrupt_at_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, parts: Parts, clock: ManualClock
) -> None:
    """The record is whole, and stands; what is put next stands behind it."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        pages = store.journal("pages")

        def interrupted(*args: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(JournalState, "insert_keys", interrupted)
            with pytest.raises(KeyboardInterrupt):
                pages.load([parts.sealed(some(20_000))])
        pages.put("after")
        assert pages.count() == 20_001 and store.check() == []
    with journal.open(tmp_path / "s", clock=clock) as again:
        assert again.journal("pages").count() == 20_001
