"""Limits of the process and of the system: who meets one is told which, nothing is lost, and work goes on when there is room."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import journal
from tests import top
from tests.engine.helpers import Failing


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """This process can open so many files more, and no other."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + count, hard))
    taken = []
    try:
        while True:
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        for _ in range(count):
            os.close(taken.pop())
        yield
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def file_bytes_max(count: int) -> Iterator[None]:
    """Files of this process cannot grow beyond this; Python ignores the signal that comes with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def rotate(store: journal.Store, pages: journal.Journal) -> None:
    pages.rotate()


def declare(store: journal.Store, pages: journal.Journal) -> None:
    store.journal("new").put("there")


def roll(store: journal.Store, pages: journal.Journal) -> None:
    """Records enough for several segments, with checkpoints between them."""
    for n in range(6):
        pages.put(f"large-{n}", bytes(60_000))
        store.checkpoint()


def follow(store: journal.Store, pages: journal.Journal) -> None:
    with pages.feed(consumer="audit", live=False, start="BEGIN") as feed:
        feed.ack(next(feed))
    pages._backend.p.consumers.flush()


def drop(store: journal.Store, pages: journal.Journal) -> None:
    store.drop("other")


@pytest.mark.parametrize("act", [rotate, declare, roll, follow, drop])
def test_too_many_open_files_for_a_moment(
    tmp_path: Path, act: Callable[[journal.Store, journal.Journal], None]
) -> None:
    """However many can still be opened: refused with the limit's name, or done; never failed, and later it works."""
    refusals = []
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages", segment_bytes_max=1 << 16)
        pages.put("a", 1)
        assert pages.claim() is not None
        for left in range(16):
            store.journal("other").put("b")
            with descriptors_left(left):
                try:
                    act(store, pages)
                except journal.StoreFull as e:
                    refusals.append(str(e))
            assert pages.put(f"k{left}").outcome in ("inserted", "merged")
            assert [lease.key for lease in pages.leases()] == ["a"]
        store.journal("other")
        act(store, pages)
        expected = {entry.key for entry in pages.scan()}
        assert expected >= {f"k{left}" for left in range(16)}
        assert all("ulimit -n" in told for told in refusals)
        assert refusals or (top.is_merged and act in (declare, drop))  # a merged journal has no files of its own
        assert store.check() == []
    with journal.open(tmp_path / "s") as store:
        assert {entry.key for entry in store.journal("pages").scan()} == expected
        assert store.check() == []


@pytest.mark.parametrize("limit", [260 << 10, 300 << 10, 700 << 10])
def test_files_that_may_not_grow_for_a_moment(tmp_path: Path, limit: int) -> None:
    """EFBIG when space is prepared: StoreFull, and the store goes on when the limit is raised."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        stored = 0
        for _ in range(3):
            with file_bytes_max(limit), pytest.raises(journal.StoreFull):  # noqa: PT012 - until it is refused
                for _ in range(100):
                    pages.put(f"k{stored}", bytes(50_000))
                    stored += 1
                store.checkpoint()
            assert pages.count() == stored
            assert pages.put(f"k{stored}").outcome == "inserted"
            stored += 1
        store.checkpoint()
        assert store.check() == []
    with journal.open(tmp_path / "s") as store:
        assert {entry.key for entry in store.journal("pages").scan()} == {f"k{n}" for n in range(stored)}
        assert store.check() == []


@pytest.mark.parametrize("code", [errno.ENFILE, errno.EMFILE, errno.ENOMEM, errno.EDQUOT, errno.ENOSPC])
@pytest.mark.parametrize("after", range(8))
def test_a_rotation_that_meets_a_limit_is_undone(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch, code: int, after: int
) -> None:
    """At whatever file it opens."""
    pages.put("a")
    files = Failing(monkeypatch, "open", code, after)
    with pytest.raises(journal.StoreFull):
        pages.rotate()
    files.error = None
    assert pages.put("b").outcome == "inserted"
    assert pages.rotate().order == 2
