"""A full or failing disk: refused calls change nothing, reads and done go on, a failed sync ends acknowledgements."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from tests.engine.helpers import Failing

Copy = Callable[[journal.Store], Path]


def fill(pages: journal.Journal, n: int, size: int) -> None:
    """Put until it is refused, n times at most."""
    for i in range(n):
        pages.put(f"k{i:02}", bytes(size))


def test_put_on_a_full_disk_changes_nothing(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """StoreFull, reads go on, and the next put works when there is room."""
    pages.put("a", 1)
    disk = Failing(monkeypatch, "pwrite", errno.ENOSPC)
    with pytest.raises(journal.StoreFull):
        pages.put("b", 2)
    assert pages.get("b") is None
    entry = pages.get("a")
    assert entry is not None and entry.data == 1
    disk.error = None
    assert pages.put("b", 3).outcome == "inserted"
    assert pages.count() == 2


def test_done_uses_the_reserve(store: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the log cannot grow any more, puts are refused and claims and dones still find room."""
    pages = store.journal("pages")
    real = os.pwrite
    grown = 256 << 10

    def pwrite(fd: int, data: bytes, position: int) -> int:
        if position + len(data) > grown:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data, position)

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(journal.StoreFull):
        fill(pages, 10_000, 1000)
    stored = pages.count()
    assert {e.key for e in pages.scan()} == {f"k{i:02}" for i in range(stored)}
    assert stored > 50
    for _ in range(20):
        lease = pages.claim()
        assert lease is not None
        lease.done()
    assert pages.count() == stored - 20
    monkeypatch.setattr(os, "pwrite", real)
    assert pages.put("room again").outcome == "inserted"


def test_nothing_is_acknowledged_after_a_failed_sync(
    tmp_path: Path, crashed: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One failed fdatasync: that call and all later ones get StoreFailed, until a reopen, which has what was acknowledged."""
    opened = journal.open(tmp_path / "s")
    pages = opened.journal("pages")
    pages.put("a")
    disk = Failing(monkeypatch, "fdatasync", errno.EIO)
    with pytest.raises(journal.StoreFailed):
        pages.put("b")
    disk.error = None
    for call in (lambda: pages.put("c"), pages.claim):
        with pytest.raises(journal.StoreFailed):
            call()
    opened.close()
    with journal.open(tmp_path / "s") as again:
        assert {e.key for e in again.journal("pages").scan()} in ({"a"}, {"a", "b"})
        assert again.journal("pages").put("c").outcome == "inserted"
        assert again.check() == []


def test_a_failed_sync_while_the_log_grows_is_a_failed_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sync of new log space covers earlier records too: when it fails, nothing may be acknowledged any more."""
    real = os.fdatasync
    failed = False

    def fdatasync(fd: int) -> None:
        nonlocal failed
        if not failed and "_extend" in (sys._getframe(1).f_code.co_name, sys._getframe(2).f_code.co_name):
            failed = True
            raise OSError(errno.EIO, "Input/output error")
        real(fd)

    opened = journal.open(tmp_path / "s", durability="interval")
    pages = opened.journal("pages")
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    with pytest.raises(journal.StorageError):
        fill(pages, 5000, 1000)
    assert failed
    with pytest.raises(journal.StoreFailed):
        pages.put("after")
    opened.close()


def test_a_full_map_refuses_puts_and_nothing_else(tmp_path: Path) -> None:
    """When the rows fill their map: StoreFull; reads and done go on, then there is room again, also after a reopen."""
    opened = journal.open(tmp_path / "s", map_bytes=1 << 20)
    pages = opened.journal("pages")
    with pytest.raises(journal.StoreFull):
        fill(pages, 50, 100_000)
    stored = pages.count()
    assert {e.key for e in pages.scan()} == {f"k{i:02}" for i in range(stored)}
    assert stored >= 3
    assert pages.get(f"k{stored:02}") is None
    lease = pages.claim()
    assert lease is not None
    lease.done()
    assert opened.check() == []
    opened.close()
    with journal.open(tmp_path / "s", map_bytes=1 << 20) as again:
        assert again.journal("pages").count() == stored - 1
        assert again.check() == []


def test_a_rotation_without_room_changes_nothing(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused before anything was touched; with room again it goes on."""
    pages.put("a", 1)
    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", no_room)
        with pytest.raises(journal.StoreFull):
            pages.rotate()
    assert [g.state for g in pages.generations()] == ["active"]
    assert pages.rotate().order == 2
    entry = pages.get("a")
    assert entry is not None and entry.data == 1


@pytest.mark.parametrize("after", [1, 2])
def test_a_rotation_that_runs_out_of_room_halfway_is_undone(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Whichever file finds no room, the next rotation works."""
    pages.put("a", 1)
    real, calls = os.posix_fallocate, iter(range(100))

    def allocate(fd: int, offset: int, length: int) -> None:
        no_room() if next(calls) >= after - 1 else real(fd, offset, length)

    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", allocate)
        with pytest.raises(journal.StoreFull):
            pages.rotate()
    assert [g.state for g in pages.generations()] == ["active"]
    assert pages.put("b").cursor.order == 1
    assert pages.rotate().order == 2
    assert pages.count() == 2


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
