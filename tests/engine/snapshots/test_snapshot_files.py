"""The files of snapshots: where they lie, when they go, and what damage does."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.engine.files.lmdb import LmdbFile
from journal.engine.snapshots import take
from journal.engine.snapshots.directories import Room, sweep
from tests.api.reads.test_snapshot import leases_of, rows_of, shown


def test_closing_removes_the_files(pages: journal.Journal, store: journal.Store) -> None:
    """Then its parts are gone, and say so (N4)."""
    pages.put("a")
    shot = pages.snapshot()
    (part,) = shot.parts(1)
    (room,) = (store.path / "_snapshots").iterdir()
    assert {p.stat().st_mode & 0o777 for p in (room, *room.iterdir())} == {0o700, 0o600}
    shot.close()
    shot.close()
    assert not (store.path / "_snapshots").exists()
    with pytest.raises(journal.NotFound, match="closed"):
        list(part.read())
    with pytest.raises(journal.NotFound, match="closed"):
        shot.parts(1)


def test_a_directory_of_the_callers(tmp_path: Path) -> None:
    """Is made if need be; what else is in it stays, and the store may be closed meanwhile."""
    out = tmp_path / "new" / "out"
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        pages.put("a", 1)
        shot = pages.snapshot(directory=out)
        (out / "mine").write_text("x")
        assert not (store.path / "_snapshots").exists()
        with pytest.raises(journal.StorageError, match="mine"):
            pages.snapshot(directory=out / "mine")
    assert shown(shot.parts(1)) == {"a": 1}
    shot.close()
    assert [p.name for p in out.iterdir()] == ["mine"]


def test_the_store_closes_what_lies_in_it(tmp_path: Path) -> None:
    """Nothing is left of a snapshot that nobody closed."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        pages.put("a")
        shot = pages.snapshot()
        other = pages.snapshot()
        other.close()
        assert len(list((tmp_path / "s" / "_snapshots").iterdir())) == 1
    assert shot.is_closed and not (tmp_path / "s" / "_snapshots").exists()


def test_a_crash_leaves_nothing(store: journal.Store, pages: journal.Journal, crashed: Callable[[Any], Path]) -> None:
    """The next open removes what nobody holds; those that are in use stay when another one is taken (directories R1)."""
    pages.put("a", 1)
    with pages.snapshot() as shot:
        path = crashed(store)
        assert list((path / "_snapshots").iterdir())
        with journal.open(path) as again:
            assert not (path / "_snapshots").exists()
            assert again.check() == []
        with pages.snapshot():
            assert shown(shot.parts(1)) == {"a": 1}


def test_what_a_look_left_goes_with_the_next_snapshot(store: journal.Store, pages: journal.Journal) -> None:
    """A crash of who looks must not wait for the owner's next open."""
    left = store.path / "_snapshots" / "1-dead-wipe"
    left.mkdir(parents=True)
    (left / "000001.mdb").write_bytes(b"x" * 9000)
    pages.put("a", 1)
    with pages.snapshot() as shot:
        assert not left.exists() and shown(shot.parts(1)) == {"a": 1}


def test_a_room_that_is_held_is_never_swept(tmp_path: Path) -> None:
    """Whoever makes, removes and sweeps at the same time (directories R2)."""
    failures: list[BaseException] = []

    def come_and_go() -> None:
        try:
            for _ in range(40):
                room = Room.make(tmp_path, None, wipe=False)
                (room.path / "000001.mdb").write_bytes(b"x")
                sweep(tmp_path)
                assert (room.path / "000001.mdb").exists()
                room.remove()
        except BaseException as e:  # noqa: BLE001 - the test looks at it
            failures.append(e)

    threads = [threading.Thread(target=come_and_go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == [] and not (tmp_path / "_snapshots").exists()


def test_copies_are_wiped_like_their_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that must not stay on the disk does not stay there as a copy (directories R3)."""
    wiped: list[int] = []
    monkeypatch.setattr("journal.engine.files.disposal.overwrite", lambda fd: wiped.append(os.fstat(fd).st_size))
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages", wipe=True)
        pages.put("a", 1)
        with pages.snapshot():
            (room,) = (tmp_path / "s" / "_snapshots").iterdir()
            assert room.name.endswith("-wipe")
        assert len(wiped) == 1


@pytest.mark.parametrize("how", ["flip", "cut", "grow"])
def test_a_damaged_copy_is_an_error(pages: journal.Journal, how: str) -> None:
    """Wherever it is damaged: never other data, never a crash of the process (reader C1)."""
    pages.put_many([journal.Put(f"k{n}", bytes(100)) for n in range(200)])
    with pages.snapshot() as shot:
        (part,) = shot.parts(1)
        path = Path(part.copies[0].path)
        whole = path.read_bytes()
        for at in range(7, len(whole), len(whole) // 50):
            broken = bytearray(whole)
            if how == "flip":
                broken[at] ^= 0x10
            elif how == "cut":
                del broken[at:]
            else:
                broken += b"x"
            path.write_bytes(broken)
            with pytest.raises(journal.StoreDamaged):
                list(part.read())
        path.write_bytes(whole)
        assert len(rows_of([part])) == 200


def test_an_entry_that_rotted_is_an_error(tmp_path: Path) -> None:
    """It is copied as it is, and named when it is read."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        pages.put("a", 1)
        pages.put("b", 1)
        with pages._backend.p.lock:
            pages._backend.p.enter()
            rows = pages._backend.p.state.active
            (primary, value), *_ = rows.all(rows.entries)
            rows.delete(primary, db=rows.entries)
            rows.put(primary, value[:-1] + b"\x07", db=rows.entries)
        with pages.snapshot() as shot, pytest.raises(journal.StoreDamaged, match=primary.hex()):
            rows_of(shot.parts(1))


def test_a_full_disk_is_an_error_and_leaves_nothing(
    pages: journal.Journal, store: journal.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal goes on."""
    pages.put("a", 1)

    def full(*args: object) -> None:
        raise journal.StoreFull("no room")

    with monkeypatch.context() as patched:
        patched.setattr(LmdbFile, "copy_to", full)
        patched.setattr(take, "write_copy", full)
        with pytest.raises(journal.StoreFull):
            pages.snapshot()
    assert not (store.path / "_snapshots").exists()
    pages.put("b", 2)
    with pages.snapshot() as shot:
        assert shot.size == 2


def test_a_disk_that_would_be_full_is_not_filled(
    pages: journal.Journal, store: journal.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of the journal needs it, too (H4)."""
    pages.put("a", 1)
    monkeypatch.setattr(take, "RESERVE_BYTES", 1 << 60)
    with pytest.raises(journal.StoreFull, match="another disk"):
        pages.snapshot()
    assert not (store.path / "_snapshots").exists()


# -- merged journals ----------------------------------------------------------------------------------------------------


def test_a_merged_journal_shows_its_own(store: journal.Store) -> None:
    """Without its name in front, and nothing of others that begin alike (H3)."""
    names = ("a", "ab", "b")
    for name in names:
        merged = store.journal(name, merged=True)
        merged.put_many([journal.Put(f"{name}{n}", n) for n in range(1500)])
        merged.claim(consumer=name)
    store.merged().rotate()
    for name in names:
        store.journal(name).put("late", name)
    empty = store.journal("aa", merged=True)
    with empty.snapshot() as shot:
        assert shot.size == 0 and [list(part.read()) for part in shot.parts(2)] == [[]]
    for name in names:
        with store.journal(name).snapshot() as shot:
            found = shown(shot.parts(3))
            assert found == {f"{name}{n}": n for n in range(1500)} | {"late": name}
            assert (shot.size, shot.name) == (1501, name)
            assert [row.consumer for row in leases_of(shot.parts(3)).values()] == [name]


def test_no_transaction_is_left_when_the_store_closes_in_that_moment(
    pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []
    end = take._Reader.end
    monkeypatch.setattr(take._Reader, "end", lambda reader: (ended.append(reader), end(reader)))
    pages._backend.p.snapshots._is_closed = True
    with pytest.raises(journal.StoreClosed):
        pages.snapshot()
    pages._backend.p.snapshots._is_closed = False
    assert len(ended) == 1
