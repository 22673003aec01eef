"""Backups through a daemon: made there, asked for from here."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import journal
import journal.aio
from journal.core.requests.operate import BackupRequest, BackupStateRequest
from journal.engine.backups import backup
from journal.net.client import store as asking
from journal.net.client.connect import connect
from journal.net.server.server import Server
from journal.testing import ManualClock

END_S = 100.0


def test_a_daemon_makes_it(
    far: journal.Store, far_pages: journal.Journal, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is that of the library, progress is told, and what was acknowledged to clients is in it."""
    monkeypatch.setattr(asking, "POLL_S", 0.001)
    far_pages.put_many([journal.Put(f"k{n}", n) for n in range(100)])
    told: list[tuple[int, int]] = []
    made = far.backup(tmp_path / "b", progress=lambda done, total: told.append((done, total)))
    assert isinstance(made, journal.Backup) and made.path == str(tmp_path / "b" / "backup-000001")
    assert told and all(done <= total for done, total in told)
    assert far.backup(tmp_path / "b").copied_files < made.files
    journal.restore(tmp_path / "b", tmp_path / "r", clock=clock)
    with journal.open(tmp_path / "r", clock=clock) as store:
        assert store.journal("pages").count() == 100 and store.check(deep=True) == []


def test_what_a_daemon_refuses(far: journal.Store, store: journal.Store, tmp_path: Path) -> None:
    """A relative path, a directory with other things; the error comes from there, and the next one works."""
    with pytest.raises(journal.NotFound):
        far._backend.call(BackupStateRequest())
    with pytest.raises(journal.Invalid, match="absolute"):
        far.backup("relative")
    with pytest.raises(journal.Invalid, match="absolute"):
        far._backend.call(BackupRequest(path="relative"))
    with pytest.raises(journal.Invalid, match="lie in each other"):
        far.backup(store.path / "b")
    far.backup(tmp_path / "b")


def test_one_at_a_time_and_callers_go_on(
    far: journal.Store, far_pages: journal.Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one is made another is Busy, puts are answered, and its end is told on any connection."""
    monkeypatch.setattr(asking, "POLL_S", 0.001)
    began, go_on = threading.Event(), threading.Event()
    real = backup._sync

    def held(path: Path) -> None:
        began.set()
        assert go_on.wait(END_S)
        real(path)

    monkeypatch.setattr(backup, "_sync", held)
    far._backend.call(BackupRequest(path=str(tmp_path / "b")))
    assert began.wait(END_S)
    with pytest.raises(journal.Busy):
        far.backup(tmp_path / "c")
    assert far_pages.put("meanwhile").outcome == "inserted"
    assert far._backend.call(BackupStateRequest())[2] is None
    go_on.set()
    while (found := far._backend.call(BackupStateRequest())[2]) is None:
        pass
    assert found.path == str(tmp_path / "b" / "backup-000001")


def test_a_daemon_that_stops_gives_it_up(
    server: Server, store: journal.Store, pages: journal.Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left of it, and the store closes."""
    pages.put("a")
    began, go_on = threading.Event(), threading.Event()
    real = backup._sync

    def held(path: Path) -> None:
        real(path)
        began.set()
        assert go_on.wait(END_S)

    monkeypatch.setattr(backup, "_sync", held)
    with connect(store.path) as far:
        far._backend.call(BackupRequest(path=str(tmp_path / "b")))
        assert began.wait(END_S)
    server.backing._is_closed = True
    go_on.set()
    server.stop()
    server.join()
    assert list((tmp_path / "b").iterdir()) == []


def test_it_needs_all_journals(store: journal.Store, pages: journal.Journal, tmp_path: Path) -> None:
    """An admin of some journals gets no copy of the others."""
    from journal.core.requests.request import Role
    from journal.net.server.backups import Backing
    from journal.net.server.connection import Peer
    from journal.net.wire.auth import Grant

    class Some:
        own: dict[str, object] = {}  # noqa: RUF012 - a stand-in

    class Connection:
        grant = Grant("one", frozenset({Role.ADMIN}), frozenset({"pages"}))

    peer = Peer.__new__(Peer)
    peer.connection = Connection()  # type: ignore[assignment]
    backing = Backing(Some())  # type: ignore[arg-type]
    with pytest.raises(journal.AccessDenied):
        backing._begin(peer, 1, "", {"path": str(tmp_path / "b")})
    with pytest.raises(journal.AccessDenied):
        backing._state(peer, 1, "", {})


async def _aio(path: Path, dest: Path) -> journal.Backup:
    async with await journal.aio.open(path) as store:
        pages = await store.journal("pages")
        await pages.put("a")
        return await store.backup(dest)


def test_with_asyncio(tmp_path: Path) -> None:
    """The same verb."""
    import asyncio

    made = asyncio.run(_aio(tmp_path / "s", tmp_path / "b"))
    assert made.journals.keys() == {"pages"}
