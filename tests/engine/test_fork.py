"""A forked child inherits an open store: a clear error on use, and no harm to the parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import journal

PROGRAM = """
import faulthandler, os, sys, threading
import journal

path, how, durability = sys.argv[1:]
store = journal.open(path, durability=durability)
pages = store.journal("pages")
for i in range(20):
    pages.put(f"before{i}")
lease = pages.claim()
busy = threading.Event()
stop = threading.Event()

def produce():
    i = 0
    while not stop.is_set():
        pages.put(f"thread{i}")
        i += 1
        if i == 20:
            busy.set()

threads = [threading.Thread(target=produce) for _ in range(2)] if how.startswith("busy") else []
for thread in threads:
    thread.start()
if threads:
    assert busy.wait(100)
pid = os.fork()
if pid == 0:
    faulthandler.dump_traceback_later(20, exit=True)  # a hang names its place
    bad = []
    calls = [
        lambda: pages.put("child"), lambda: pages.put_many([journal.Put("child")]), lambda: pages.get("before0"),
        lambda: list(pages.scan()), pages.count, pages.claim, lease.done, lease.extend, lease.release, pages.leases,
        pages.buried, pages.statistics, lambda: next(pages.work()), lambda: pages.delete("before1"),
        lambda: pages.move("before1", priority=1), lambda: pages.wait_durable(journal.Cursor(1, 0)),
        lambda: store.journal("pages"), lambda: store.journal("other"), store.journals, store.checkpoint, store.check,
        store.flags, store.statistics, pages.snapshot, lambda: pages.oldest_cursor,
        lambda: pages.changes(journal.Cursor(1, -1), journal.Cursor(1, 0)),
    ]
    for n, call in enumerate(calls):
        try:
            call()
            bad.append(f"{n} returned")
        except journal.ForkedStore as e:
            if str(os.getpid()) not in str(e):
                bad.append(f"{n} does not name the child: {e}")
        except BaseException as e:
            bad.append(f"{n} {e!r}")
    store.close()  # harmless
    try:
        journal.open(path)
        bad.append("the child could open the parent's store")
    except journal.StoreLocked:
        pass
    except BaseException as e:
        bad.append(f"open {e!r}")
    for line in bad:
        print(line, file=sys.stderr, flush=True)
    if "gc" in how:
        import gc
        del store, pages, lease, calls, call
        gc.collect()
    if "exit" in how:
        os._exit(len(bad))
    sys.exit(len(bad))
_, status = os.waitpid(pid, 0)
stop.set()
for thread in threads:
    thread.join()
assert os.waitstatus_to_exitcode(status) == 0, status
for i in range(20):
    pages.put(f"after{i}")
lease.done()
store.checkpoint()
assert store.check() == [], store.check()
store.close()
print("parent is well")
"""


@pytest.mark.parametrize("durability", ["full", "none"])
@pytest.mark.parametrize("how", ["sys", "_exit", "gc-sys", "busy-sys", "busy-_exit"])
def test_a_child_is_refused_and_the_parent_goes_on(tmp_path: Path, how: str, durability: str) -> None:
    """Every verb of the child gets ForkedStore; however it ends, idle or with threads at work, the parent's store is whole."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "s", how, durability],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "parent is well\n"), ended.stderr[-3000:]
    with journal.open(tmp_path / "s") as again:
        keys = {str(e.key) for e in again.journal("pages").scan()}
        assert "child" not in keys
        assert len([k for k in keys if k.startswith(("before", "after"))]) == 39
        assert again.check() == []


INHERIT = """
import os, sys
import journal

store = journal.open(sys.argv[1])
store.journal("pages").put("a")
is_up, tell = os.pipe()
pid = os.fork()
if pid == 0:
    os.write(tell, b"!")
    os.read(int(sys.argv[2]), 1)  # outlives the parent
    os._exit(0)
os.read(is_up, 1)  # it runs: what it inherited it has let go
os._exit(0)
"""


def test_a_child_that_outlives_its_parent_holds_no_lock(tmp_path: Path) -> None:
    """The parent dies without closing; its child lives on; the store can be opened."""
    read, write = os.pipe()
    try:
        subprocess.run(
            [sys.executable, "-c", INHERIT, tmp_path / "s", str(read)], pass_fds=[read], check=True, timeout=300
        )
        with journal.open(tmp_path / "s") as again:
            assert again.journal("pages").count() == 1
            assert again.check() == []
    finally:
        os.close(write)
        os.close(read)


OPENS = """
import os, sys
import journal

store = journal.open(sys.argv[1])
store.journal("pages").put("parent")
store.close()
pid = os.fork()
if pid == 0:
    with journal.open(sys.argv[1]) as own:
        own.journal("pages").put("child")
    sys.exit(0)
_, status = os.waitpid(pid, 0)
assert status == 0
with journal.open(sys.argv[1]) as again:
    assert again.journal("pages").count() == 2
    assert again.check() == []
"""


def test_a_child_may_open_what_the_parent_closed(tmp_path: Path) -> None:
    """A store that was closed before the fork is nobody's: the child opens it as any process does."""
    ended = subprocess.run(
        [sys.executable, "-c", OPENS, tmp_path / "s"], capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
