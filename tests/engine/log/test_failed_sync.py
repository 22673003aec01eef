"""A sync that failed is final for all that rests on it, whichever file it was of; a reopen finds the state before or after."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

import journal
from journal.engine.catalog import Catalog
from journal.engine.files.lmdb import LmdbFile
from tests.engine.helpers import Failing, must_end
from tests.top import top

Copy = Callable[[journal.Store], Path]
CATALOG = "catalog.mdb"


class FailingSync:
    """LMDB's sync of chosen files: what was committed is in the cache, and the kernel says EIO once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, is_chosen: Callable[[LmdbFile], bool], after: int = 0) -> None:
        real = LmdbFile.sync
        self.left = after
        self.failures = 0

        def sync(file: LmdbFile) -> None:
            if is_chosen(file) and not self.failures:
                self.left -= 1
                if self.left < 0:
                    self.failures += 1
                    raise journal.StoreFailed(f"cannot sync {file.path}: Input/output error")
            real(file)

        monkeypatch.setattr(LmdbFile, "sync", sync)


def is_catalog(file: LmdbFile) -> bool:
    return file.path.name == CATALOG


def refused(pages: journal.Journal) -> None:
    """Nothing is answered any more."""
    for call in (lambda: pages.put("later"), pages.claim, lambda: pages.delete("a")):
        with pytest.raises(journal.StoreFailed):
            call()


def keys(store: journal.Store, name: str = "pages") -> set[str | bytes]:
    return {entry.key for entry in store.journal(name).scan()}


def lmdb_error(call: str, code: int) -> lmdb.Error:
    """An error as LMDB tells those of the system."""
    error = lmdb.Error(f"{call}: {os.strerror(code)}")
    error.code = code
    return error


class Environment:
    """An LMDB environment whose sync fails once; it cannot be patched itself."""

    def __init__(self, real: lmdb.Environment, code: int = errno.EIO) -> None:
        self._real = real
        self._code = code
        self.is_failing = True

    def sync(self, force: bool) -> None:
        if self.is_failing:
            self.is_failing = False
            raise lmdb_error("mdb_env_sync", self._code)
        self._real.sync(force)

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_every_failed_sync_of_rows_is_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Whatever its error says: pages may be gone, and the next sync would say nothing."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        pages.put("a")
        file = pages._backend.p.state.file
        environment = Environment(file.env, code)
        monkeypatch.setattr(file, "env", environment)
        with pytest.raises(journal.StoreFailed, match="may or may not"):
            store.checkpoint()
        assert not environment.is_failing
        refused(pages)
    with journal.open(tmp_path / "s") as store:
        assert keys(store) == {"a"} and store.check() == []


def test_a_failed_sync_of_older_rows_is_final(tmp_path: Path, crashed: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done in an older generation was acknowledged because the log has it: the log stays."""
    path = tmp_path / "s"
    with journal.open(path) as store:
        pages = store.journal("pages")
        pages.put_many([journal.Put(f"k{n}", n) for n in range(50)])
        pages.rotate()
        before = (path / top() / "000001/rows.mdb").read_bytes()
        for lease in pages.claim_many(50):
            lease.done()
        older = pages._backend.p.state.older[0].file
        environment = Environment(older.env)
        monkeypatch.setattr(older, "env", environment)
        with pytest.raises(journal.StoreFailed):
            store.checkpoint()
        assert not environment.is_failing
        refused(pages)
        with pytest.raises(journal.StoreFailed):
            store.checkpoint()
        copy = crashed(store)
    for found in (copy, path):
        # What a power cut leaves: the kernel has dropped the pages that it could not write.
        (found / top() / "000001/rows.mdb").write_bytes(before)
        with journal.open(found) as store:
            assert keys(store) == set() and store.check() == []


def test_a_failed_sync_in_a_commit_is_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMDB says EIO from the sync between its pages and its meta page, and there is room on the disk."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        pages.put("a")
        commit_fails(pages._backend.p.state.file, monkeypatch)
        with pytest.raises(journal.StoreFailed, match="may or may not"):
            store.checkpoint()
        refused(pages)
    with journal.open(tmp_path / "s") as store:
        assert keys(store) == {"a"} and store.check() == []


def test_a_commit_without_room_is_undone(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LMDB says EIO of a write that was cut short, too: the disk is asked, and the store goes on when there is room."""
    pages.put("a")
    commit_fails(pages._backend.p.state.file, monkeypatch)
    with monkeypatch.context() as full:
        Failing(full, "posix_fallocate", errno.ENOSPC)
        with pytest.raises(journal.StoreFull, match="Nothing was changed"):
            store.checkpoint()
    assert pages.put("b").outcome == "inserted"
    store.checkpoint()
    assert keys(store) == {"a", "b"}


def commit_fails(file: LmdbFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit of what is open fails with EIO, once."""

    class Transaction:
        def __init__(self, real: lmdb.Transaction) -> None:
            self._real = real

        def commit(self) -> None:
            self._real.abort()
            raise lmdb_error("mdb_txn_commit", errno.EIO)

        def abort(self) -> None:
            self._real.abort()

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

    file.txn = Transaction(file.txn)  # type: ignore[assignment]


def test_earlier_commits_are_durable_before_the_next_one(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sync of a commit that fails can then have lost pages of that commit only, which nothing refers to."""
    calls: list[str] = []
    real_commit, real_sync = LmdbFile.commit, LmdbFile.sync
    monkeypatch.setattr(LmdbFile, "sync", lambda file: (calls.append("sync"), real_sync(file)))

    def commit(file: LmdbFile, *room: int) -> None:
        calls.append("commit")
        real_commit(file, *room)

    monkeypatch.setattr(LmdbFile, "commit", commit)
    for n in range(3):
        pages.put(f"k{n}")
        store.checkpoint()
    assert calls == ["sync", "commit"] * 3


@pytest.mark.parametrize("after", [0, 1])
def test_a_failed_sync_of_the_catalog_in_a_rotation(
    tmp_path: Path, crashed: Copy, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """What the catalog may name stays, all journals have failed, and the store opens with one generation or two."""
    with journal.open(tmp_path / "s") as store:
        pages, other = store.journal("pages"), store.journal("other")
        pages.put("a")
        other.put("a")
        pages.rotate()
        lease = pages.claim()
        assert lease is not None
        pages.put("b")
        FailingSync(monkeypatch, is_catalog, after)
        for _ in range(after):
            pages.rotate()
        with pytest.raises(journal.StoreFailed):
            pages.rotate()
        copy = crashed(store)
        refused(pages)
        refused(other)
        for call in (store.journals, lambda: store.journal("new"), lambda: store.drop("other"), store.checkpoint):
            with pytest.raises(journal.StoreFailed):
                call()
    for found in (copy, tmp_path / "s"):
        with journal.open(found) as store:
            assert keys(store) == {"a", "b"} and keys(store, "other") == {"a"}
            assert [lease.key for lease in store.journal("pages").leases()] == ["a"]
            assert store.journal("pages").rotate().order >= 3
            assert store.check() == []


def test_a_rotation_whose_catalog_has_no_room_is_undone(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that was not made names nothing: its files go, and the next rotation works."""
    pages.put("a")
    commit_fails(store._backend.catalog._file, monkeypatch)
    with monkeypatch.context() as full:
        real = os.posix_fallocate

        def allocate(fd: int, offset: int, length: int) -> None:
            if length > 1 << 20:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(fd, offset, length)

        full.setattr(os, "posix_fallocate", allocate)
        with pytest.raises(journal.StoreFull):
            pages.rotate()
    assert sorted(os.listdir(store.path / top())) == ["000001"]
    assert pages.rotate().order == 2


@pytest.mark.parametrize("verb", ["drop", "declare", "settings"])
def test_a_failed_sync_of_the_catalog_says_what_is_known(
    tmp_path: Path, crashed: Copy, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Not that nothing was changed; and a reopen finds the journals as they were before or after."""
    with journal.open(tmp_path / "s") as store:
        for name in ("pages", "other"):
            store.journal(name).put("a")
        calls: dict[str, Callable[[], object]] = {
            "drop": lambda: store.drop("other"),
            "declare": lambda: store.journal("new"),
            "settings": lambda: store.journal("other", timeouts_max=9),
        }
        real = Catalog._write

        def write(catalog: Catalog, *args: object) -> None:
            environment = Environment(catalog._file.env)
            environment.is_failing = False
            real_commit = catalog._file.commit

            def commit(room: int = 0) -> None:
                real_commit()
                environment.is_failing = True

            monkeypatch.setattr(catalog._file, "env", environment)
            monkeypatch.setattr(catalog._file, "commit", commit)
            real(catalog, *args)  # type: ignore[arg-type]

        monkeypatch.setattr(Catalog, "_write", write)
        with pytest.raises(journal.StoreFailed, match="may or may not") as told:
            calls[verb]()
        assert "othing was changed" not in str(told.value)
        monkeypatch.undo()
        refused(journal.Journal(store._backend.opened["pages"]))
        with pytest.raises(journal.StoreFailed):
            store.journals()
        copy = crashed(store)
    for found in (copy, tmp_path / "s"):
        with journal.open(found) as store:
            assert store.journals() in (["other", "pages"], ["pages"], ["new", "other", "pages"])
            assert keys(store) == {"a"}
            assert store.journal("new").count() == 0 and store.journal("other").put("b").cursor.order >= 1
            assert store.check() == []


@pytest.mark.alone(reason="merged journals have no directory of their own")
@pytest.mark.parametrize("after", range(6))
def test_a_failed_sync_of_a_directory_while_a_journal_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """The store's own directory may be the one: nothing is acknowledged until a reopen, which makes it anew."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        pages.put("a")
        disk = Failing(monkeypatch, "fsync", errno.EIO, after)
        try:
            store.journal("new")
        except journal.StoreFailed:
            disk.error = None
            if after < 5:
                refused(pages)
            else:  # it is declared, and could not be opened: others do not rest on its files
                assert pages.put("a").outcome == "merged"
        else:
            pytest.fail("there are fewer syncs than that")
    with journal.open(tmp_path / "s") as store:
        assert store.journal("new").put("b").outcome == "inserted"
        assert keys(store) == {"a"} and store.check() == []


def test_a_failed_sync_of_the_stores_directory_in_a_drop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is not named any more, or still is; others wait for a reopen."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        pages.put("a")
        store.journal("other", merged=False).put("a")
        Failing(monkeypatch, "fsync", errno.EIO)
        with pytest.raises(journal.StoreFailed):
            store.drop("other")
        monkeypatch.undo()
        refused(pages)
    with journal.open(tmp_path / "s") as store:
        assert store.journals() == ["pages"] and keys(store) == {"a"}
        assert store.check() == []


def test_a_failed_sync_of_the_offset_log_is_final(
    tmp_path: Path, crashed: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acknowledgements may or may not be there: the log that they let go rests on them."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        pages.put_many([journal.Put(f"k{n}", n) for n in range(5)])
        with pages.feed(consumer="audit", live=False, start="BEGIN") as feed:
            feed.ack(next(feed))
        pages._backend.p.consumers.flush()
        with pages.feed(consumer="audit", live=False) as feed:
            feed.ack(next(feed))
            Failing(monkeypatch, "fdatasync", errno.EIO)
            with pytest.raises(journal.StoreFailed, match="may or may not"):
                pages._backend.p.consumers.flush()
            monkeypatch.undo()
        refused(pages)
        copy = crashed(store)
    for found in (copy, tmp_path / "s"):
        with journal.open(found) as store, store.journal("pages").feed(consumer="audit", live=False) as feed:
            assert next(feed).key in ("k1", "k2")
            assert store.check() == []


def test_who_sleeps_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that waits for something to fall due does not wait for ever in a store that has failed."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")

        def fail() -> None:
            store._backend.keeper.after(
                0.0, lambda: store._backend.catalog.fail(journal.StoreFailed("the catalog is gone"))
            )

        def work() -> str:
            try:
                fail()
                for _ in pages.work():
                    pass
            except journal.StoreFailed as e:
                return str(e)
            return "it ended"

        assert must_end(work) == "the catalog is gone"


def test_a_digest_that_could_not_be_taken_back_keeps_the_rows_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal that could not be opened for want of room opens later: nothing was written to its rows."""
    path = tmp_path / "s"
    with journal.open(path) as store:
        store.journal("pages").put("a")
    with journal.open(path) as store:

        def full(*_: object) -> None:
            raise journal.StoreFull("no room")

        with monkeypatch.context() as patch:
            patch.setattr(Catalog, "set", full)
            with pytest.raises(journal.StoreFull):
                store.journal("pages")
    with journal.open(path) as store:
        assert keys(store) == {"a"} and store.check() == []


def test_a_close_whose_catalog_fails_still_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything was committed; only the digests are not there, and the next open looks for itself."""
    store = journal.open(tmp_path / "s")
    for name in ("pages", "other"):
        store.journal(name).put("a")
    FailingSync(monkeypatch, is_catalog)
    store.close()
    monkeypatch.undo()
    with journal.open(tmp_path / "s") as store:
        assert keys(store) == keys(store, "other") == {"a"}
        assert store.check() == []


def test_meta_pages_that_the_cache_alone_may_have_are_written_again(
    tmp_path: Path, crashed: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed sync the cache calls them clean: the next open makes them durable before the log that they stand for goes."""
    with journal.open(tmp_path / "s") as store:
        store.journal("pages").put("a")
        store.checkpoint()
        copy = crashed(store)
    pages = 2 * os.sysconf("SC_PAGESIZE")
    assert renewed(copy, monkeypatch) == {CATALOG: pages, "rows.mdb": pages}
    assert renewed(tmp_path / "s", monkeypatch) == {CATALOG: pages}  # those of rows are durable after a clean close


def renewed(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The LMDB files whose beginning is written and synced when a store is opened, and how much of it."""
    written: dict[str, int] = {}
    synced: set[str] = set()
    pwrite, fdatasync = os.pwrite, os.fdatasync

    def name_of(fd: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{fd}")).name

    def write(fd: int, data: bytes, position: int) -> int:
        if position == 0:
            written[name_of(fd)] = len(data)
        return pwrite(fd, data, position)

    def sync(fd: int) -> None:
        synced.update({name_of(fd)} & written.keys())
        fdatasync(fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", write)
        patch.setattr(os, "fdatasync", sync)
        with journal.open(path) as store:
            assert keys(store) == {"a"}
    return {name: written[name] for name in synced if name.endswith(".mdb")}
