"""The check reads every log that is kept, also those that no recovery needs any more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Cursor
from tests.engine.feed.following import SMALL, caught_up
from tests.top import top


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A store with a log of several segments in a closed generation, which a consumer holds."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages", **SMALL)
        pages.feed(consumer="audit").close()
        for number in range(8):
            pages.put(f"k{number}", f"data of {number} " + "x" * 40_000)
        pages.rotate()
        pages.put("later")
    return tmp_path / "s"


def flip(segments: list[Path]) -> None:
    data = bytearray(segments[2].read_bytes())
    data[data.index(b"data of") + 20] ^= 1
    segments[2].write_bytes(data)


def cut(segments: list[Path]) -> None:
    segments[2].write_bytes(segments[2].read_bytes()[:1000])


def remove_one(segments: list[Path]) -> None:
    segments[2].unlink()


def remove_last(segments: list[Path]) -> None:
    segments[-1].unlink()


def clear_last(segments: list[Path]) -> None:
    segments[-1].write_bytes(bytes(segments[-1].stat().st_size))


def remove_all(segments: list[Path]) -> None:
    for path in segments:
        path.unlink()


@pytest.mark.parametrize("harm", [flip, cut, remove_one, remove_last, clear_last, remove_all])
@pytest.mark.parametrize("settings", [{}, {"compact": True}])
def test_damage_in_the_log_of_a_closed_generation_is_found(
    kept: Path, harm: Callable[[list[Path]], None], settings: dict[str, bool]
) -> None:
    """Not only by who reads the feed; by whoever owns the store or looks at it, and said once."""
    if settings:
        with journal.open(kept) as store:
            store.journal("pages", **settings)
    with journal.open(kept) as store:
        assert store.check() == store.check(deep=True) == []
    harm(sorted((kept / top() / "000001" / "log").iterdir()))
    for options in ({}, {"readonly": True}):
        with journal.open(kept, **options) as store:
            for found in (store.check(), store.check(deep=True)):
                assert len([line for line in found if "log:" in line and "offset log" not in line]) == 1, found


def test_a_log_that_was_let_go_is_not_missed(kept: Path) -> None:
    """The consumer has what it wanted; what is left is checked."""
    with journal.open(kept) as store:
        pages = store.journal("pages")
        with caught_up(pages, consumer="audit") as feed:
            feed.ack(event for event in feed if event.cursor < Cursor(2, 0))
        store.checkpoint()
        assert pages.generations()[0].kept_by == ("entries",)
        assert store.check() == []
