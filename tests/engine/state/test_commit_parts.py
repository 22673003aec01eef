"""Files of a store that belong together, and copies whose parts do not."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal.testing import ManualClock
from tests.engine.backups.test_backup import contents, keys_of
from tests.engine.read.test_beside import KEYS, named, owner

Copy = Callable[[journal.Store], Path]


@pytest.fixture
def two(store: journal.Store, crashed: Copy) -> tuple[Path, Path]:
    """Copies of two moments: in between an entry moved from an older generation to the active one."""
    pages = store.journal("pages", generations_max=8)
    pages.put_many([journal.Put(f"k{n}", n, delay="1h") for n in range(5)])
    feed = pages.feed(consumer="c", start="BEGIN", live=False)
    pages.rotate()
    pages.put("active", delay="1h")
    store.checkpoint()
    before = crashed(store)
    pages.put("k3", "moved", delay="2h")
    for event in feed:
        feed.ack(event.cursor)
    feed.close()
    pages._backend.p.consumers.flush()
    store.checkpoint()
    return before, crashed(store)


def top(path: Path) -> Path:
    """Where the files of the journal are."""
    found = path / "pages"
    return found if found.exists() else path / "_merged"


PARTS = ["000001/rows.mdb", "000002/rows.mdb", "000002/log/00000000000000000000.log", "offsets"]


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("is_newer", [False, True])
def test_parts_of_two_moments(two: tuple[Path, Path], clock: ManualClock, name: str, is_newer: bool) -> None:
    """A copy with one part of another moment is refused, or is right: what it has is what there was at one of both."""
    before, after = two
    base, other = (before, after) if is_newer else (after, before)
    target, source = top(base) / name, top(other) / name
    if source.is_dir():
        shutil.rmtree(target)
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
    try:
        with journal.open(base, clock=clock) as store:
            pages = store.journal("pages")
            entry = pages.get("k3")
            assert keys_of(pages) == ["active", "k0", "k1", "k2", "k3", "k4"]
            assert entry is not None and entry.data in (3, "moved")
            found = store.check(deep=True)
            if (name, is_newer) == ("offsets", False):
                assert (
                    found and "log begins after" in found[0]
                )  # it stands before what the log has: its feed says so, too
            else:
                assert found == []
    except journal.JournalError as e:
        assert "journal backup" in str(e)  # noqa: PT017 - both outcomes are right
        return
    assert (name, is_newer) not in {
        ("000001/rows.mdb", False), ("000002/log/00000000000000000000.log", False), ("offsets", True), ("000002/rows.mdb", True),
    }  # fmt: skip


@pytest.mark.parametrize("name", PARTS[:2])
def test_crash_states_are_none_of_these(two: tuple[Path, Path], clock: ManualClock, name: str) -> None:
    """An older file that is ahead, as a crash in the middle of a checkpoint leaves it, and both moments as they are: opened."""
    before, after = two
    if name == PARTS[0]:
        shutil.copy(top(after) / name, top(before) / name)
        shutil.copy(top(after) / PARTS[2], top(before) / PARTS[2])  # the log is synced first
    for path in two:
        with journal.open(path, clock=clock) as store:
            assert store.journal("pages").count() == 6
            assert store.check(deep=True) == []


def test_a_catalog_of_another_moment(store: journal.Store, crashed: Copy, clock: ManualClock) -> None:
    """One that gave a generation up, with rows from before; one from before a rotation, with rows from after it."""
    pages = store.journal("pages", generations_max=8)
    pages.feed(consumer="c", start="BEGIN", live=False).close()
    pages.put("a", delay="1h")
    pages.rotate()
    pages.put("b", delay="1h")
    store.checkpoint()
    first = crashed(store)
    pages.put("a", 2, delay="2h")
    store.checkpoint()
    store.checkpoint()
    second = crashed(store)
    pages.rotate()
    pages.put("b", 3, delay="2h")
    store.checkpoint()
    third = crashed(store)
    shutil.copy(second / "catalog" / "catalog.mdb", first / "catalog" / "catalog.mdb")
    shutil.copy(second / "catalog" / "catalog.mdb", third / "catalog" / "catalog.mdb")
    before = {path: contents(path) for path in (first, third)}
    for path in (first, third):
        with journal.open(path, clock=clock) as other, pytest.raises(journal.StoreDamaged, match="journal backup"):
            other.journal("pages")
        found = {name: content for name, content in contents(path).items() if not name.endswith("-lock")}
        assert {name for name in before[path] if not name.endswith("-lock")} <= found.keys()
        assert {name for name in found if found[name] != before[path].get(name)} <= {
            "catalog/catalog.mdb",
            "LOCK",
        }  # the opening


def test_copies_of_a_running_store_are_right_or_refused(tmp_path: Path) -> None:
    """`cp -r` beside an owner that works: what opens and is clean has all keys."""
    with owner(tmp_path / "s", "alone"):
        for number in range(25):
            copy = tmp_path / f"copy-{number}"
            subprocess.run(["cp", "-r", tmp_path / "s", copy], check=False, stderr=subprocess.DEVNULL)
            with contextlib.suppress(journal.JournalError), journal.open(copy) as store:
                pages = store.journal("pages")
                is_clean = store.check(deep=True) == []
                assert not is_clean or named(pages.scan()) == sorted(KEYS)
            shutil.rmtree(copy)
