"""A look without owning the store: what the last checkpoint committed, nothing written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import journal
from journal import Put
from journal.testing import ManualClock


@pytest.fixture
def path(tmp_path: Path, clock: ManualClock) -> Path:
    """A closed store: one waiting, one processing, one buried, one flag."""
    with journal.open(tmp_path / "s", clock=clock) as opened:
        pages = opened.journal("pages", timeouts_max=0)
        pages.put("lost")
        assert pages.claim(lease=1) is not None
        clock.advance(1)
        pages.put("leased", 1, priority=1)
        assert pages.claim(consumer="c") is not None
        pages.put("waiting", 2)
    return tmp_path / "s"


@pytest.fixture
def look(path: Path, clock: ManualClock) -> Iterator[journal.Store]:
    """A look at it."""
    with journal.open(path, readonly=True, clock=clock) as opened:
        yield opened


def test_a_look_sees_everything(look: journal.Store) -> None:
    """Entries, leases, buried ones, flags, numbers, and that it is sound."""
    pages = look.journal("pages")
    assert look.journals() == ["pages"]
    assert [(e.key, e.data, e.status) for e in pages.scan()] == [("leased", 1, "P"), ("waiting", 2, "W")]
    assert (pages.count(), pages.count(status="P")) == (2, 1)
    entry = pages.get("leased")
    assert entry is not None and entry.status == "P"
    assert [(x.key, x.consumer) for x in pages.leases()] == [("leased", "c")]
    assert [b.entry.key for b in pages.buried()] == ["lost"]
    assert [f.count for f in look.flags()] == [1]
    assert look.statistics()["journals"]["pages"]["entries"] == 2
    assert look.check() == []


def test_a_look_writes_nothing(look: journal.Store, path: Path) -> None:
    """Every verb that would is refused with ReadOnly, and the files keep their bytes."""
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file() and not p.name.endswith("-lock")}
    pages = look.journal("pages")
    lease = pages.leases()[0]
    calls: list[Callable[[], object]] = [
        lambda: pages.put("x"), lambda: pages.create("x"), lambda: pages.put_many([Put("x")]), pages.claim,
        lambda: pages.claim_many(2), lease.done, lambda: pages.done_many([lease]), lease.extend, lease.release, lease.bury,
        lambda: pages.retry("lost"), lambda: pages.discard("lost"), lambda: pages.delete("waiting"),
        lambda: pages.delete("nothing"), lambda: pages.move("waiting", priority=1), lambda: look.lower(look.flags()[0]),
        look.checkpoint, lambda: look.journal("pages", timeouts_max=1), lambda: next(pages.work()),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(journal.ReadOnly):
            call()
    look.close()
    assert {p: p.read_bytes() for p in before} == before


def test_a_look_makes_no_journal_and_no_store(look: journal.Store, path: Path, tmp_path: Path) -> None:
    """NotFound names what there is."""
    with pytest.raises(journal.NotFound, match="pages"):
        look.journal("other")
    assert not (path / "other").exists()
    with pytest.raises(journal.JournalError):
        journal.open(tmp_path / "missing", readonly=True)
    assert not (tmp_path / "missing").exists()


def test_a_look_fires_no_timer(look: journal.Store, clock: ManualClock) -> None:
    """Time passes: leases that ran out are the owner's business."""
    clock.advance(10**9)
    assert look.journal("pages").count() == 2
    assert look.check() == []


def test_a_closed_look_is_closed(look: journal.Store) -> None:
    """StoreClosed, and closing it again is fine."""
    pages = look.journal("pages")
    look.close()
    look.close()
    with pytest.raises(journal.StoreClosed):
        pages.get("waiting")


LOOK = """
import sys, journal
with journal.open(sys.argv[1], readonly=True) as look:
    pages = look.journal("pages")
    for line in sys.stdin:
        print(sorted(str(e.key) for e in pages.scan()), look.check(), flush=True)
"""


def test_a_look_follows_the_checkpoints_of_the_owner(tmp_path: Path) -> None:
    """Another process looks while the owner works: each checkpoint is seen by the next read, nothing before it."""
    with journal.open(tmp_path / "s") as opened:
        pages = opened.journal("pages")
        pages.put("a")
        opened.checkpoint()
        looker = subprocess.Popen(
            [sys.executable, "-c", LOOK, tmp_path / "s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert looker.stdin is not None and looker.stdout is not None

        def seen() -> str:
            looker.stdin.write("look\n")  # type: ignore[union-attr]
            looker.stdin.flush()  # type: ignore[union-attr]
            return looker.stdout.readline().strip()  # type: ignore[union-attr]

        assert seen() == "['a'] []"
        pages.put("b")
        opened.checkpoint()
        assert seen() == "['a', 'b'] []"
        for n in range(20):
            pages.put_many([Put(f"{n}-{i}") for i in range(200)])
            pages.done_many(pages.claim_many(200))
        opened.checkpoint()
        lines = seen()
        assert lines.endswith(" []")
        looker.stdin.close()
        assert looker.wait(100) == 0
        looker.stdout.close()
        assert opened.check() == []
