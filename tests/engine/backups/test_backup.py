"""Backups beside working threads, incremental ones, those that fail, and what is restored of them."""

from __future__ import annotations

import contextlib
import errno
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import journal
from journal.engine.backups import backup, manifest
from journal.testing import ManualClock

END_S = 100.0


def contents(path: Path) -> dict[str, bytes]:
    """All files below a directory."""
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


def keys_of(pages: journal.Journal) -> list[str]:
    """The keys of all entries."""
    return sorted(str(entry.key) for entry in pages.scan())


def restored(tmp_path: Path, clock: ManualClock) -> contextlib.AbstractContextManager[journal.Store]:
    """What a restore of the backup in `b` gives, opened."""
    target = tmp_path / f"restored-{sum(1 for _ in tmp_path.iterdir())}"
    journal.restore(tmp_path / "b", target, clock=clock)
    return journal.open(target, clock=clock)


def test_a_backup_has_everything(
    store: journal.Store, pages: journal.Journal, tmp_path: Path, clock: ManualClock
) -> None:
    """Entries of all generations, leases, buried ones, successors, flags, settings, merged journals, tokens, feed consumers."""
    merged = store.journal("merged", merged=True)
    merged.put("m", 1)
    pages.put_many([journal.Put(f"k{n:03}", n, delay="1h") for n in range(600)])
    feed = pages.feed(consumer="follower", start="BEGIN", live=False)
    for event in feed:
        feed.ack(event.cursor)
        if event.cursor.offset == 99:
            break
    feed.close()
    pages.rotate()
    pages.put("leased", 1)
    pages.put("buried", 2, priority=0)
    lease = pages.claim()
    assert lease is not None and lease.key == "buried"
    lease.bury("for the test")
    held = pages.claim(consumer="c")
    assert held is not None
    pages.put("leased", "later")
    pages.raise_flag("look", "at this")
    made = store.backup(tmp_path / "b")
    assert made.journals.keys() >= {"_merged"} and made.copied_files == made.files > 4
    with restored(tmp_path, clock) as other:
        copy = other.journal("pages")
        assert keys_of(copy) == keys_of(pages)
        assert [b.entry.key for b in copy.buried()] == ["buried"]
        assert [(x.key, x.consumer, x.token) for x in copy.leases()] == [("leased", "c", held.token)]
        assert [flag.name for flag in other.flags()] == ["look"]
        assert copy.settings == pages.settings
        assert other.journal("merged").get("m") is not None
        followed = copy.feed(consumer="follower", live=False)
        assert next(iter(followed)).cursor == journal.Cursor(pages.generations()[0].order, 100)
        followed.close()
        copy.done(held.token)
        entry = copy.get("leased")
        assert entry is not None and entry.data == "later"
        assert other.check(deep=True) == []


def test_what_was_acknowledged_before_is_in_it(store: journal.Store, tmp_path: Path, clock: ManualClock) -> None:
    """Threads put, claim and finish, generations come and go: each backup is of one moment, and misses nothing from before it."""
    pages = store.journal("pages", generations_max=2)
    stop = threading.Event()
    done: list[int] = [0, 0]

    def work(number: int) -> None:
        while not stop.is_set():
            n = done[number]
            # A pair in one record: half of it is never seen.
            pages.put_many(
                [journal.Put(f"{number}-{n}-a", n, delay="1h"), journal.Put(f"{number}-{n}-b", n, delay="1h")]
            )
            done[number] = n + 1
            if n % 20 == 0:
                pages.rotate()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            before = list(done)
            store.backup(tmp_path / "b")
            with restored(tmp_path, clock) as other:
                found = set(keys_of(other.journal("pages")))
                assert other.check(deep=True) == []
            assert {f"{number}-{n}-a" for number in range(2) for n in range(before[number])} <= found
            assert {key[:-1] + "b" for key in found} == {key[:-1] + "b" for key in found if key.endswith("a")}
            assert len(found) % 2 == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join(END_S)


def test_only_what_changed_is_copied(
    store: journal.Store, pages: journal.Journal, tmp_path: Path, clock: ManualClock
) -> None:
    """A second backup keeps the files of journals and generations that are as they were; the first one goes."""
    quiet = store.journal("quiet")
    quiet.put_many([journal.Put(f"q{n}", n, delay="1h") for n in range(100)])
    pages.put_many([journal.Put(f"k{n}", n, delay="1h") for n in range(100)])
    store.backup(tmp_path / "b")
    again = store.backup(tmp_path / "b")
    assert again.copied_files == 1  # the catalog
    pages.rotate()
    pages.put("more")
    third = store.backup(tmp_path / "b")
    assert 1 < third.copied_files < third.files
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["backup-000003"]
    assert {path.stat().st_nlink for path in (tmp_path / "b").rglob("*") if path.is_file()} == {1}
    with restored(tmp_path, clock) as other:
        assert other.journal("pages").count() == 101 and other.journal("quiet").count() == 100


def test_a_damaged_file_of_the_last_backup_is_copied_anew(
    store: journal.Store, pages: journal.Journal, tmp_path: Path, clock: ManualClock
) -> None:
    """It is compared before it is kept."""
    pages.put("a")
    made = Path(store.backup(tmp_path / "b").path)
    rows = next((made / "store").rglob("rows.mdb"))
    content = bytearray(rows.read_bytes())
    content[-100] ^= 1
    rows.write_bytes(content)
    with pytest.raises(journal.StoreDamaged, match=r"rows\.mdb"):
        journal.restore(tmp_path / "b", tmp_path / "r")
    assert not (tmp_path / "r").exists() and not list(tmp_path.glob("r.restore*"))
    assert store.backup(tmp_path / "b").copied_files > 1
    with restored(tmp_path, clock) as other:
        assert other.journal("pages").count() == 1


@pytest.mark.parametrize("name", ["MANIFEST", "store/catalog/catalog.mdb"])
def test_a_backup_that_is_not_whole_is_refused(
    store: journal.Store, pages: journal.Journal, tmp_path: Path, name: str
) -> None:
    """A flipped bit, a missing file: restore names it and leaves nothing."""
    pages.put("a")
    path = Path(store.backup(tmp_path / "b").path) / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    with pytest.raises(journal.StoreDamaged, match=path.name):
        journal.restore(tmp_path / "b", tmp_path / "r")
    path.unlink()
    with pytest.raises(journal.JournalError):
        journal.restore(tmp_path / "b", tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_tokens_and_cursors_never_come_twice(
    store: journal.Store, pages: journal.Journal, tmp_path: Path, clock: ManualClock
) -> None:
    """Neither those that the store gave out after the backup, nor those of another store of the same backup."""
    for n in range(10):
        pages.put(f"k{n}", n)
    store.backup(tmp_path / "b")
    lease = pages.claim()
    assert lease is not None
    after = pages.put("after")
    tokens, cursors = {lease.token}, {after.cursor}
    for number in range(2):
        with restored(tmp_path, clock) as other:
            copy = other.journal("pages")
            mine = copy.claim()
            assert mine is not None
            tokens.add(mine.token)
            cursors.add(copy.put("after").cursor)
            with pytest.raises(journal.LeaseLost):
                copy.done(lease.token)
            with pytest.raises(journal.CursorUnavailable):
                list(copy.changes(after.cursor, copy.durable_cursor))
        assert len(tokens) == len(cursors) == number + 2
    identities = {manifest.read(manifest.newest(tmp_path / "b")).store}
    with restored(tmp_path, clock) as other:
        identities.add(other._backend.catalog.identity)
        with pytest.raises(journal.Invalid, match="another store"):
            other.backup(tmp_path / "b")
    assert len(identities) == 2


def test_destinations_that_are_not_taken(store: journal.Store, pages: journal.Journal, tmp_path: Path) -> None:
    """Nothing of somebody's is touched, and a store is not copied into itself."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").write_text("dear")
    for dest in (tmp_path / "full", store.path, store.path / "b", tmp_path):
        with pytest.raises(journal.Invalid):
            store.backup(dest)
    store.backup(tmp_path / "b")
    with pytest.raises(journal.Invalid, match="not empty"):
        journal.restore(tmp_path / "b", tmp_path / "full")
    with pytest.raises(journal.NotFound):
        journal.restore(tmp_path / "full", tmp_path / "r")
    assert contents(tmp_path / "full") == {"letter": b"dear"}
    (tmp_path / "empty").mkdir()
    journal.restore(tmp_path / "b", tmp_path / "empty")
    with journal.open(tmp_path / "empty", readonly=True) as look, pytest.raises(journal.ReadOnly):
        look.backup(tmp_path / "c")


class Held:
    """Stops a backup in the middle of its copies."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()
        calls = iter(range(1, 1 << 30))
        real = backup._sync

        def held(path: Path) -> None:
            real(path)
            if next(calls) == number:
                self.began.set()
                assert self.go_on.wait(END_S)

        monkeypatch.setattr(backup, "_sync", held)


def test_callers_go_on_meanwhile(
    store: journal.Store, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Puts, rotations, consumers that acknowledge, and a second backup elsewhere; what is being copied stays until it is."""
    pages = store.journal("pages", generations_max=2)
    pages.put_many([journal.Put(f"k{n}", n) for n in range(50)])
    feed = pages.feed(consumer="c", start="BEGIN", live=False)
    pages.rotate()
    held = Held(monkeypatch, 1)
    made: list[journal.Backup] = []
    thread = threading.Thread(target=lambda: made.append(store.backup(tmp_path / "b")))
    thread.start()
    assert held.began.wait(END_S)
    with pytest.raises(journal.Busy):
        store.backup(tmp_path / "b")
    for event in feed:
        feed.ack(event.cursor)
    feed.close()
    pages.done_many(pages.claim_many(50))
    for n in range(3):
        pages.put(f"later-{n}")
        pages.rotate()
        store.checkpoint()
    store.backup(tmp_path / "second")
    assert store.check() == []
    held.go_on.set()
    thread.join(END_S)
    assert len(made) == 1 and store.check() == []
    store.checkpoint()
    with restored(tmp_path, clock) as other:
        copy = other.journal("pages")
        assert copy.count() == 50
        assert len(list(copy.feed(consumer="c", live=False))) == 50


def test_closing_waits_for_a_backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
    """The store is not closed under the copies."""
    held = Held(monkeypatch, 1)
    with journal.open(tmp_path / "s", clock=clock) as store:
        store.journal("pages").put("a")
        thread = threading.Thread(target=lambda: store.backup(tmp_path / "b"))
        thread.start()
        assert held.began.wait(END_S)
        threading.Timer(0.05, held.go_on.set).start()
    thread.join(END_S)
    with restored(tmp_path, clock) as other:
        assert other.journal("pages").count() == 1


def failing(monkeypatch: pytest.MonkeyPatch, number: int, error: BaseException) -> None:
    """The so-manieth file cannot be synced."""
    calls = iter(range(1, 1 << 30))
    real = backup._sync

    def sync(path: Path) -> None:
        if next(calls) == number:
            raise error
        real(path)

    monkeypatch.setattr(backup, "_sync", sync)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_backup_that_fails_leaves_the_older_one(
    store: journal.Store,
    pages: journal.Journal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    error: BaseException,
) -> None:
    """A full disk or Ctrl-C in the middle: the directory is as it was, and the store works on."""
    pages.put("a")
    with monkeypatch.context() as patch:
        failing(patch, number, error)
        with pytest.raises(journal.StoreFull if isinstance(error, OSError) else KeyboardInterrupt):
            store.backup(tmp_path / "b")
    assert contents(tmp_path / "b") == {}
    store.backup(tmp_path / "b")
    before = contents(tmp_path / "b")
    pages.put("b")
    with monkeypatch.context() as patch:
        failing(patch, number, error)
        with pytest.raises(journal.StoreFull if isinstance(error, OSError) else KeyboardInterrupt):
            store.backup(tmp_path / "b")
    assert contents(tmp_path / "b") == before
    pages.put("c")
    assert store.check() == []


LIMITED = """
import resource, signal, sys, journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with journal.open(sys.argv[1]) as store:
    pages = store.journal("pages")
    pages.put_many([journal.Put(f"k{n}", bytes(1000), delay="1h") for n in range(2000)])
    store.checkpoint()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    try:
        store.backup(sys.argv[2])
        sys.exit(3)
    except journal.StoreFull:
        pass
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.backup(sys.argv[2])
    assert pages.put("more").outcome == "inserted" and store.check() == []
"""


def test_no_room_for_the_backup(tmp_path: Path, clock: ManualClock) -> None:
    """A file that cannot grow: StoreFull, nothing is left, the store is well, and the next one succeeds."""
    assert resource.RLIMIT_FSIZE is not None
    subprocess.run([sys.executable, "-c", LIMITED, tmp_path / "s", tmp_path / "b"], check=True, timeout=END_S)
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["backup-000001"]
    with restored(tmp_path, clock) as other:
        assert other.journal("pages").count() == 2000


KILLED = """
import os, sys, journal
from journal.engine.backups import backup
number = int(sys.argv[3])
calls = iter(range(1, 1 << 30))
real = backup.sync_directory
def step(path):
    real(path)
    if next(calls) == number:
        os.kill(os.getpid(), 9)
backup.sync_directory = step
sync = backup._sync
def synced(path):
    sync(path)
    if next(calls) == number:
        os.kill(os.getpid(), 9)
backup._sync = synced
with journal.open(sys.argv[1]) as store:
    store.journal("pages").put("new")
    store.backup(sys.argv[2])
    sys.exit(3)
"""


@pytest.mark.parametrize("number", [1, 3, 5, 8, 9])
def test_kill_during_a_backup(tmp_path: Path, clock: ManualClock, number: int) -> None:
    """At each step the older backup, or the new one, is there whole; the next one sweeps what was left."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        store.journal("pages").put("old")
        store.backup(tmp_path / "b")
    code = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "s", tmp_path / "b", str(number)], check=False, timeout=END_S
    ).returncode
    assert code in (-signal.SIGKILL, 3)
    with restored(tmp_path, clock) as other:
        assert keys_of(other.journal("pages")) in (["old"], ["new", "old"])
    with journal.open(tmp_path / "s", clock=clock) as store:
        store.backup(tmp_path / "b")
        assert store.check(deep=True) == []
    assert len(list((tmp_path / "b").iterdir())) == 1
    with restored(tmp_path, clock) as other:
        assert keys_of(other.journal("pages")) == ["new", "old"]
