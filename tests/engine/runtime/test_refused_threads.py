"""A thread that the system refuses to start: an error that says so, or the work is done without it; nobody hangs, and it works again."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

import journal
from tests.engine.helpers import must_end


class Refusing:
    """Threads of these names are not started, while `is_on`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.is_on = True
        self.refused: list[str] = []
        real = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            if self.is_on and thread.name.startswith(names):
                self.refused.append(thread.name)
                raise RuntimeError("can't start new thread")
            real(thread)

        monkeypatch.setattr(threading.Thread, "start", start)


def crowd(pages: journal.Journal, name: str) -> None:
    """Several threads put at once, each waiting for the disk."""

    def put(thread: int) -> None:
        for i in range(10):
            pages.put(f"{name}-{thread}-{i}", durability="full")

    threads = [threading.Thread(target=put, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_without_its_thread_callers_sync_themselves(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group commit is not had in mind before its thread runs; it is tried again by the next caller."""
    refusing = Refusing(monkeypatch, "journal-sync")
    commit = pages._backend.p.commit
    with commit.io:  # as while a sync is under way
        putting = threading.Thread(target=partial(pages.put, "first", durability="full"))
        putting.start()
    putting.join()
    must_end(partial(crowd, pages, "refused"))
    assert pages.count() == 41
    refusing.is_on = False
    assert commit._has_thread()
    must_end(partial(crowd, pages, "again"))
    assert pages.count() == 81
    assert store.check(deep=True) == []


def test_an_open_that_is_refused_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is free again at once."""
    refusing = Refusing(monkeypatch, "journal-keeper")
    with pytest.raises(journal.StoreFull, match="ulimit"):
        journal.open(tmp_path / "store")
    refusing.is_on = False
    with journal.open(tmp_path / "store") as store:
        store.journal("pages").put("x")


def test_files_go_without_a_thread(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is to be disposed of goes at the latest when the journal is closed."""
    refusing = Refusing(monkeypatch, "journal-disposal")
    pages.put("x")
    if store._backend._opening.is_merged("pages"):
        pytest.skip("a merged journal has no files of its own")
    store.drop("pages")
    assert refusing.refused and not (store.path / "pages").exists()


def test_a_consumer_without_a_thread_is_not_subscribed(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can subscribe again when there is room."""
    refusing = Refusing(monkeypatch, "journal-consumer-", "journal-consumers")
    done = threading.Event()
    with journal.Consumer(pages, name="c") as consumer:
        with pytest.raises(journal.StoreFull):
            consumer.subscribe(lambda lease: done.set())
        assert not consumer.is_subscribed
        refusing.is_on = False
        pages.put("x")
        consumer.subscribe(lambda lease: done.set())
        must_end(done.wait)


def test_leases_that_nobody_watches_are_told(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer whose leases cannot be looked after says so, and goes on when they can."""
    refusing = Refusing(monkeypatch, "journal-consumers")
    pages.put("x")
    with journal.Consumer(pages, name="c") as consumer:
        consumer.subscribe()
        with pytest.raises(journal.StoreFull):
            consumer.take()
        refusing.is_on = False
        lease = must_end(consumer.take)
        assert lease is not None and lease.key == "x"
        lease.done()


@pytest.mark.alone(reason="the tests' way to merged journals asks for a list, which needs a thread of the daemon")
def test_a_daemon_without_threads(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not half started; and one that gets no more threads answers, with an error where it needs one."""
    refusing = Refusing(monkeypatch, "journal-daemon")
    with pytest.raises(journal.StoreFull):
        store.serve()
    refusing.is_on = False
    with store.serve() as server:
        more = Refusing(monkeypatch, "journal-daemon-worker", "journal-settle", "journal-sync", "journal-heartbeat")
        with journal.connect(server.addresses[0]) as far:
            remote = far.journal("pages")
            assert must_end(partial(remote.put, "x", durability="full")).outcome == "inserted"
            with pytest.raises(journal.StoreFull):
                must_end(far.check)
            with pytest.raises(journal.StoreFull):
                must_end(lambda: remote.subscribe(consumer="c"))
            more.is_on = False
            assert must_end(far.check) == []
            with remote.subscribe(consumer="c") as leases:
                assert must_end(partial(next, leases)).key == "x"


LIMITED = """
import resource, sys, threading
import journal

store = journal.open(sys.argv[1])
pages = store.journal("pages")
begin = threading.Barrier(5)

def put(thread):
    begin.wait()
    for i in range(20):
        pages.put(f"{thread}-{i}")

threads = [threading.Thread(target=put, args=(i,), daemon=True) for i in range(4)]
for thread in threads:
    thread.start()
size = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize"))
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
threading.stack_size(1 << 30)
resource.setrlimit(resource.RLIMIT_AS, (size + (256 << 20), hard))
begin.wait()
for thread in threads:
    thread.join(100)
assert not any(thread.is_alive() for thread in threads), "hangs"
assert pages.count() == 80
assert pages._backend.p.commit._thread is None
try:
    store.serve()
except journal.StoreFull as e:
    print(e)
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
threading.stack_size(0)
assert pages._backend.p.commit._has_thread()
store.serve().stop()
assert store.check(deep=True) == []
store.close()
print("whole")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_at_a_real_limit(tmp_path: Path) -> None:
    """In a process whose memory has no room for one more thread."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "store")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "ulimit" in done.stdout and done.stdout.endswith("whole\n")
