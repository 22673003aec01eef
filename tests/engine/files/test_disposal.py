"""Files that are kept for a coming generation, and those that go: with `wipe` nothing of their bytes is left."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import journal
from journal.engine.files import disposal
from tests.top import top


def test_a_spare_that_comes_meanwhile_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one spare file is made fresh, the disposal of another generation puts its own there."""
    (tmp_path / "next").mkdir()
    spare, fresh = tmp_path / disposal.SPARE, tmp_path / "next" / "rows.mdb"
    spare.write_bytes(b"old" * 1000)
    fresh.write_bytes(b"fresh")
    for path in (spare, fresh):
        path.chmod(0o600)
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        real(fd)
        (tmp_path / "other").write_bytes(b"another one")
        os.rename(tmp_path / "other", spare)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    disposal.reuse_spare(tmp_path, fresh, "reset")
    assert fresh.read_bytes() == b"fresh" + (b"old" * 1000)[5:]
    assert spare.read_bytes() == b"another one"
    assert sorted(os.listdir(tmp_path / "next")) == ["rows.mdb"]


def test_without_a_spare_the_fresh_file_stays(tmp_path: Path) -> None:
    """Nothing is there to be reused."""
    fresh = tmp_path / "rows.mdb"
    fresh.write_bytes(b"fresh")
    disposal.reuse_spare(tmp_path, fresh, "truncate")
    assert fresh.read_bytes() == b"fresh"


def unlinked_bytes(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """What was in each file when it was unlinked."""
    seen: dict[str, bytes] = {}
    real = os.unlink

    def unlink(path: Path) -> None:
        seen["/".join(Path(path).parts[-2:])] = Path(path).read_bytes()
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)
    return seen


@pytest.mark.parametrize("wipe", [False, True])
def test_what_a_crash_left_is_wiped_before_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wipe: bool
) -> None:
    """A disposal that was cut short, before or in the middle of a wipe, is completed by the next open."""
    path = tmp_path / "s"
    with journal.open(path) as store:
        pages = store.journal("pages", wipe=wipe)
        pages.put_many([journal.Put(f"k{i}", b"secret" * 50) for i in range(100)])
    own = path / top()
    for order in ("000007.gone", "000008-rows.gone"):
        shutil.copytree(own / "000001", own / order)
    segment = "000001-00000000000000000042.gone"
    shutil.copy(own / "000001/log/00000000000000000000.log", own / segment)
    with (own / "000008-rows.gone/rows.mdb").open("r+b") as file:
        file.write(bytes(8192))
    seen = unlinked_bytes(monkeypatch)
    with journal.open(path) as store:
        assert store.journal("pages").count() == 100
    assert sorted(os.listdir(own)) == ["000001"]
    wanted = ["000007.gone/rows.mdb", "000008-rows.gone/rows.mdb", "log/00000000000000000000.log", f"{top()}/{segment}"]
    assert all((b"secret" in seen[name]) is not wipe for name in wanted)


SECRET = b"secret" * 200
SMALL = {"segment_bytes_max": 1 << 16}


def fill(store: journal.Store, pages: journal.Journal, *, held: bool) -> dict[str, int]:
    """Write some segments; descriptors of those that nobody writes to any more, by name."""
    if held:
        pages.feed(consumer="audit", live=False).close()
    for n in range(12):
        pages.put_many([journal.Put(f"{n}-{i}", SECRET) for i in range(100)])
        pages.done_many(pages.claim_many(100))
        store.checkpoint()
    log = store.path / top() / "000001/log"
    return {path.name: os.open(path, os.O_RDONLY) for path in sorted(log.iterdir())[:-4]}


def left(opened: dict[str, int]) -> list[str]:
    """Of these files, those that are gone and still have their bytes; the descriptors are closed."""
    found = []
    for name, fd in opened.items():
        stat = os.fstat(fd)
        if stat.st_nlink == 0 and b"secret" in os.pread(fd, stat.st_size, 0):
            found.append(name)
        os.close(fd)
    return found


@pytest.mark.parametrize("wipe", [False, True])
def test_segments_that_go_within_a_generation_are_wiped(tmp_path: Path, wipe: bool) -> None:
    """A consumer held them, and is removed: with `wipe` nothing of them is left on the disk."""
    with journal.open(tmp_path / "s", durability="interval") as store:
        pages = store.journal("pages", wipe=wipe, **SMALL)
        opened = fill(store, pages, held=True)
        pages.remove_feed("audit")
        for n in range(3):
            pages.put("a", n)
            store.checkpoint()
        log = store.path / top() / "000001/log"
        assert not set(os.listdir(log)) & set(list(opened)[:-2])  # all but two that are kept for reuse
        assert store.check() == []
    assert (left(opened) == []) is wipe
    with journal.open(tmp_path / "s") as store:
        assert store.journal("pages").count() == 1
        assert store.check() == []


def test_a_segment_that_was_about_to_be_wiped_is_wiped_by_the_next_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies after a segment left the log and before its bytes are overwritten."""
    monkeypatch.setattr(disposal.Disposal, "take", lambda *args, **options: None)
    with journal.open(tmp_path / "s", durability="interval") as store:
        pages = store.journal("pages", wipe=True, **SMALL)
        opened = fill(store, pages, held=False)
    monkeypatch.undo()
    own = tmp_path / "s" / top()
    assert [path.name for path in own.glob("*.gone")]
    with journal.open(tmp_path / "s") as store:
        assert store.journal("pages").count() == 0
        assert store.check() == []
    assert list(own.glob("*.gone")) == [] and left(opened) == []


@pytest.mark.parametrize("name", ["new.log", "compact.log"])
def test_what_a_crash_left_in_a_log_is_wiped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A segment that was about to be used again, or the copy that compaction was making."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages", wipe=True, compact=True, **SMALL)
        pages.put_many([journal.Put(f"{i}", SECRET) for i in range(100)])
    log = tmp_path / "s" / top() / "000001/log"
    (log / name).write_bytes(SECRET * 1000)
    (log / name).chmod(0o600)
    seen = unlinked_bytes(monkeypatch)
    with journal.open(tmp_path / "s", durability="interval") as store:
        pages = store.journal("pages")
        pages.put_many([journal.Put(f"{i}", SECRET) for i in range(100)])
        pages.compact()
    assert seen[f"log/{name}"] == bytes(len(SECRET) * 1000)


@pytest.mark.alone(reason="a merged journal has no files of its own")
@pytest.mark.parametrize("wipe", [False, True])
@pytest.mark.parametrize("is_named", [False, True])
def test_a_journal_that_was_about_to_be_dropped_is_wiped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wipe: bool, is_named: bool
) -> None:
    """
    The process dies when the catalog does not name it any more: before its directory says that it is gone, then the next
    journal of that name clears it away, or after that, then the next open does.
    """
    store = journal.open(tmp_path / "s")
    pages = store.journal("pages", wipe=wipe)
    pages.put_many([journal.Put(f"k{i}", SECRET) for i in range(100)])
    store.checkpoint()
    opened = {path.name: os.open(path, os.O_RDONLY) for path in (store.path / "pages/000001").rglob("*.[lm][od][gb]")}
    rename = os.rename

    def dying(source: Path, target: Path) -> None:
        if "_gone-" in str(target):
            raise OSError("killed")
        rename(source, target)

    if is_named:
        monkeypatch.setattr(disposal.Disposal, "take", lambda *args, **options: None)
        store.drop("pages")
    else:
        monkeypatch.setattr(os, "rename", dying)
        with pytest.raises(journal.StorageError):
            store.drop("pages")
    store.close()
    monkeypatch.undo()
    assert len(opened) == 2
    with journal.open(tmp_path / "s", durability="interval") as store:
        assert store.journals() == []
        assert store.journal("pages").count() == 0
        assert os.listdir(store.path / "pages") == ["000002"]  # the name goes on counting
        assert not list(store.path.glob("_gone-*"))
    assert (left(opened) == []) is (wipe or not is_named)
