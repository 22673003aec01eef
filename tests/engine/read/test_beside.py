"""Readers beside the owner: whatever it does meanwhile, they see one moment over all generations."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb
import pytest

import journal
from journal.engine import readonly as looking
from journal.engine.files.lmdb import LmdbFile
from journal.engine.read.scan import Reads
from journal.engine.readonly import Look

KEYS = [f"key-{n}" for n in range(40)]

OWNER = """
import sys, journal
with journal.open(sys.argv[1], durability="interval") as store:
    is_merged = sys.argv[2] == "merged"
    pages = store.journal("pages", **({"merged": True} if is_merged else {"generations_max": 2}))
    rotating = store.merged(generations_max=2) if is_merged else pages
    keys = [f"key-{n}" for n in range(40)]
    pages.put_many([journal.Put(key, key, delay="1h") for key in keys])
    store.checkpoint()
    print("ready", flush=True)
    n = 0
    import threading
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
    while not is_over.is_set():
        n += 1
        pages.put(keys[n % 40], n, delay="1h")
        pages.put("passing", n)
        pages.done_many(pages.claim_many(2))
        if n % 7 == 0:
            rotating.rotate()
        if n % 3 == 0:
            store.checkpoint()
    print(n, pages.statistics()["order"], flush=True)
"""


@contextmanager
def owner(path: Path, kind: str) -> Iterator[None]:
    """A process that puts, rotates, moves survivors and makes checkpoints all the time."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, path, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield
            process.stdin.close()
            rounds, order = map(int, process.stdout.readline().split())
            assert rounds > 10 and order > 2
            assert process.wait(100) == 0
        finally:
            process.kill()


def named(entries: Iterator[journal.Entry]) -> list[str]:
    """The keys that are always there, as they were met."""
    return sorted(str(entry.key) for entry in entries if entry.key != "passing")


@pytest.mark.parametrize("kind", ["alone", "merged"])
def test_readers_see_one_moment(tmp_path: Path, kind: str) -> None:
    """Scans, counts and look-ups find each of 40 keys that are never deleted, once, and each open succeeds."""
    with owner(tmp_path / "s", kind):
        for _ in range(20):
            with journal.open(tmp_path / "s", readonly=True) as store:
                pages = store.journal("pages")
                for n in range(15):
                    assert named(pages.scan()) == sorted(KEYS)
                    assert pages.get(KEYS[n]) is not None
                    assert None not in pages.get_many(KEYS)
                    assert 40 <= pages.count() <= 41
                    assert 40 <= len(pages.select(limit=100).entries) <= 41
                assert store.check() == []


STEPS = """
import sys, journal
with journal.open(sys.argv[1]) as store:
    pages = store.journal("pages", generations_max=8)
    pages.put_many([journal.Put(f"key-{n}", 0, delay="1h") for n in range(40)])
    store.checkpoint()
    print("done", flush=True)
    for n, line in enumerate(sys.stdin):
        eval(line)
        print("done", flush=True)
"""
TOUCH = 'pages.put("key-7", n, delay="2h"), store.checkpoint()'
"""Moves an entry of an older generation to the active one."""
ROTATE = "pages.rotate()"
EMPTY = """[pages.put(f"key-{n}", n, delay="2h") for n in range(40)], pages.rotate(), store.checkpoint()"""
"""Older generations have nothing left, and go."""


@pytest.fixture
def step(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """An owner in another process, which does what it is told, line by line."""
    with subprocess.Popen(
        [sys.executable, "-c", STEPS, tmp_path / "s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def do(line: str) -> None:
            stdin.write(line + "\n")
            stdin.flush()
            assert stdout.readline() == "done\n"

        try:
            assert stdout.readline() == "done\n"
            yield do
            stdin.close()
            assert process.wait(100) == 0
        finally:
            process.kill()


def between(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, number: int, do: Callable[[], None]) -> None:
    """Do something in front of the so-manieth call of a function."""
    function = getattr(owner, name)
    calls = iter(range(1, 1 << 30))

    def stepping(*args: Any, **options: Any) -> Any:
        if next(calls) == number:
            do()
        return function(*args, **options)

    monkeypatch.setattr(owner, name, stepping)


@pytest.mark.parametrize("line", [TOUCH, ROTATE, EMPTY])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_step_between_two_transactions(
    tmp_path: Path, step: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, number: int, line: str
) -> None:
    """An owner that commits between the beginnings of two read transactions is not seen by half."""
    step(ROTATE)
    step('pages.put("key-0", 1, delay="2h")')
    step(ROTATE)
    with journal.open(tmp_path / "s", readonly=True) as store:
        pages = store.journal("pages")
        step(TOUCH)
        between(monkeypatch, LmdbFile, "renew", number, lambda: step(line))
        assert named(pages.scan()) == sorted(KEYS)
        assert pages.count() == 40


@pytest.mark.parametrize("number", [1, 2])
def test_a_generation_goes_while_it_is_opened(
    tmp_path: Path, step: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A file that the catalog named a moment ago, and that is gone, is looked for no more."""
    step(ROTATE)
    between(monkeypatch, looking, "check_before_open", number, lambda: step(EMPTY))
    with journal.open(tmp_path / "s", readonly=True) as store:
        assert named(store.journal("pages").scan()) == sorted(KEYS)


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    """When the catalog still names it there is nothing to wait for: an error with its name, at once."""
    with journal.open(tmp_path / "s") as store:
        store.journal("pages").put("a")
    next((tmp_path / "s").rglob("rows.mdb")).unlink()
    with journal.open(tmp_path / "s", readonly=True) as store, pytest.raises(journal.StorageError, match=r"rows\.mdb"):
        store.journal("pages")


def test_a_journal_that_is_dropped_meanwhile_is_told(tmp_path: Path, step: Callable[[str], None]) -> None:
    """Reading it says so."""
    with journal.open(tmp_path / "s", readonly=True) as store:
        pages = store.journal("pages")
        step('store.drop("pages")')
        with pytest.raises(journal.StoreClosed, match="dropped"):
            pages.count()


READS: list[Callable[[journal.Journal], object]] = [
    lambda pages: len(list(pages.scan())),
    lambda pages: pages.count(since=1),
    lambda pages: len(pages.select(limit=5000).entries),
    lambda pages: sum(entry is not None for entry in pages.get_many([f"many-{n}" for n in range(5000)])),
]


@pytest.mark.parametrize("read", READS)
def test_a_call_reads_one_moment(
    tmp_path: Path,
    step: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    read: Callable[[journal.Journal], object],
) -> None:
    """A read of many pages is not of several moments: what comes and goes between its pages is not seen."""
    monkeypatch.setattr("journal.engine.read.scan.LOOK_S", 60.0)
    step('pages.put_many([journal.Put(f"many-{n}", n, delay="3h") for n in range(5000)])')
    step('[pages.delete(f"key-{n}") for n in range(40)]')
    step("store.checkpoint()")
    with journal.open(tmp_path / "s", readonly=True) as store:
        pages = store.journal("pages")
        change = '(pages.delete("many-17"), pages.put("many-17", 1, priority=200), pages.delete("many-4000"), store.checkpoint())'
        between(monkeypatch, Look, "enter", 3, lambda: step(change))
        assert read(pages) == 5000
        assert pages.get("many-4000") is None


def test_a_scan_that_takes_long_goes_on_later(
    tmp_path: Path, step: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After half a second a scan goes on at a later moment: an entry that stays where it is is met once all the same."""
    monkeypatch.setattr("journal.engine.read.scan.LOOK_BYTES", 1)
    step('pages.put_many([journal.Put(f"many-{n}", n, delay="3h") for n in range(1000)])')
    step("store.checkpoint()")
    with journal.open(tmp_path / "s", readonly=True) as store:
        between(monkeypatch, Reads, "_page", 3, lambda: step(EMPTY))
        found = named(store.journal("pages").scan())
    assert [key for key in found if key.startswith("many")] == sorted(f"many-{n}" for n in range(1000))


def test_idle_readers_pin_no_pages(
    tmp_path: Path, step: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that nobody uses ends its transactions; the next read begins others."""
    monkeypatch.setattr(looking, "REST_S", 0.0)
    with journal.open(tmp_path / "s", readonly=True) as store:
        pages = store.journal("pages")
        assert pages.count() == 40
        store._backend.keeper.call(lambda: None)
        store._backend.keeper.call(pages._backend.p._rest)  # type: ignore[attr-defined]
        with pytest.raises(lmdb.Error):
            pages._backend.p.state.size()
        step("pages.put('a'), store.checkpoint()")
        assert (pages.count(), pages.get("a") is not None) == (41, True)
        store._backend.keeper.call(pages._backend.p._rest)  # type: ignore[attr-defined]
