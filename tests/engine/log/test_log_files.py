"""The log's files: segments of the size that was set, gone or recycled after checkpoints, without a hole."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import journal
from tests.top import top


def segments(opened: journal.Store) -> list[Path]:
    return sorted((opened.path / top() / "000001" / "log").iterdir())


def work(pages: journal.Journal, n: int, size: int = 500) -> None:
    for i in range(n):
        pages.put(f"k{i}", bytes(size), durability="none")


def test_segments_that_checkpoints_passed_go(store: journal.Store) -> None:
    """A plain queue does not grow: many rounds later the log has a few files, and check reads them all."""
    pages = store.journal("pages", segment_bytes_max=1 << 16)
    sizes = []
    for _ in range(6):
        work(pages, 1000)
        store.checkpoint()
        store.checkpoint()
        store.checkpoint()
        sizes.append(sum(path.stat().st_size for path in segments(store)))
        assert store.check() == []
    assert max(sizes[2:]) <= 2 * max(sizes[:2])
    assert len(segments(store)) <= 8


def test_segment_limit_is_kept(store: journal.Store) -> None:
    """A segment takes no more than its setting says."""
    pages = store.journal("pages", segment_bytes_max=1 << 16)
    work(pages, 400)
    firsts = [int(path.stem) for path in segments(store)]
    assert len(firsts) >= 3
    # 500 bytes of data and under 200 of overhead: no segment holds more records than fit into its limit.
    assert max(b - a for a, b in pairwise(firsts)) <= (1 << 16) // 500


def test_reopen_over_many_segments(store: journal.Store, tmp_path: Path, crashed: object) -> None:
    """Records are replayed over segment borders, in order, without a gap."""
    pages = store.journal("pages", segment_bytes_max=1 << 16)
    work(pages, 600)
    pages.put("last")
    with journal.open(crashed(store)) as again:  # type: ignore[operator]
        assert again.journal("pages").count() == 601
        assert again.check() == []
