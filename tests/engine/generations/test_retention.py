"""Retention: how long records stay in an open segment, who is warned, and what goes when nothing happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Cursor
from journal.engine.log.reader import list_segments
from journal.testing import ManualClock
from tests.engine.feed.following import SMALL, caught_up, fill_segments, keys
from tests.engine.helpers import poll

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def messages(store: journal.Store) -> list[str]:
    return [flag.message for flag in store.flags() if flag.name == "feed"]


def segments(pages: journal.Journal) -> list[int]:
    return list_segments(pages._backend.p.log.directory)


@pytest.fixture
def held(store: journal.Store) -> journal.Journal:
    """A log of many segments that a consumer holds; nothing more is put."""
    pages = store.journal("pages", **SMALL)
    pages.feed(consumer="slow").close()
    fill_segments(pages, store, 24)
    assert len(segments(pages)) > 10
    return pages


def test_records_of_a_quiet_journal_go_by_age(store: journal.Store, clock: ManualClock) -> None:
    """They do not stay for being in a segment that never fills; who loses them was warned before."""
    pages = store.journal("pages", log_age_max="1d")
    pages.feed(consumer="slow").close()
    said: list[str] = []
    for day in range(10):
        pages.put(f"day-{day}")
        clock.advance(DAY_MS)
        store.checkpoint()
        said += messages(store)
    assert "about to lose" in said[0] and "have lost" in said[-1]
    left = [event.key for event in caught_up(pages) if event.verb == "put"]
    assert left[0] in ("day-6", "day-7", "day-8") and left[-1] == "day-9"


def test_what_was_lost_under_a_limit_is_told_by_its_flag(store: journal.Store, clock: ManualClock) -> None:
    """It is no damage, also when the journal has no limit any more."""
    pages = store.journal("pages", log_age_max="1d")
    pages.feed(consumer="slow").close()
    for day in range(10):
        pages.put(f"day-{day}")
        clock.advance(DAY_MS)
        store.checkpoint()
    store.journal("pages", log_age_max=None)
    assert "have lost" in messages(store)[-1]
    assert store.check() == []


def test_records_go_when_nothing_comes_any_more(store: journal.Store, clock: ManualClock) -> None:
    """A checkpoint is enough: no later record is needed to know how old they are."""
    pages = store.journal("pages", log_age_max="1d", compact=True)
    pages.put("a")
    for _ in range(8):
        clock.advance(6 * HOUR_MS)
        store.checkpoint()
    assert keys(caught_up(pages)) == []
    assert messages(store) == []


@pytest.mark.parametrize("hours", [1, 20])
def test_nothing_goes_before_its_age(store: journal.Store, clock: ManualClock, hours: int) -> None:
    """Whenever its segment was closed."""
    pages = store.journal("pages", log_age_max="1d")
    pages.feed(consumer="slow").close()
    for hour in range(0, 24, hours):
        pages.put(f"hour-{hour}")
        clock.advance(hours * HOUR_MS - 1000)
        store.checkpoint()
    expected = [f"hour-{hour}" for hour in range(0, 24, hours)]
    assert [event.key for event in caught_up(pages, consumer="slow") if event.verb == "put"] == expected


def test_what_nobody_waits_for_closes_no_segment(store: journal.Store, clock: ManualClock) -> None:
    """Of a journal whose consumers are quick the log stays in one file."""
    pages = store.journal("pages", log_age_max="1d")
    with caught_up(pages, consumer="quick") as feed:
        for day in range(5):
            pages.put(f"day-{day}")
            feed.ack(list(feed))
            pages._backend.p.consumers.flush()
            clock.advance(DAY_MS)
            store.checkpoint()
    assert len(segments(pages)) == 1


def test_a_file_that_is_used_again_makes_nothing_old(store: journal.Store, clock: ManualClock) -> None:
    """It still has the records of a month ago where the first one will be."""
    pages = store.journal("pages", log_age_max="1d", **SMALL)
    fill_segments(pages, store)
    clock.advance(30 * DAY_MS)
    pages.feed(consumer="slow", start="END").close()
    pages.put("young")
    clock.advance(7 * HOUR_MS)
    for _ in range(3):
        store.checkpoint()
    log = pages._backend.p.log
    assert log.position == 0 and log.allocated and any((log.directory / f"{log.first:020d}.log").read_bytes())
    pages._backend.p.retention._rolled = (-1, 1 << 63)  # as after a restart
    store.checkpoint()
    assert keys(caught_up(pages, consumer="slow")) == ["young"]
    assert messages(store) == []


def test_the_warning_comes_before_the_loss(store: journal.Store) -> None:
    """Also when one segment is as much as may be kept."""
    pages = store.journal("pages", log_bytes_max=256 << 10, **SMALL)
    pages.feed(consumer="slow").close()
    said: list[str] = []
    while not any("have lost the" in each for each in said):
        pages.put(f"k{len(said)}", b"x" * 20_000)
        store.checkpoint()
        said += messages(store) or [""]
    first = next(each for each in said if each)
    assert "about to lose" in first


def test_a_removed_consumer_frees_its_log_at_once(held: journal.Journal) -> None:
    """Nothing needs to be put before; what is left is for the next records."""
    held.remove_feed("slow")
    assert len(segments(held)) <= 4


def test_a_marked_consumer_frees_its_log_at_once(held: journal.Journal) -> None:
    """Up to where it was marked."""
    held.mark_feed("slow", Cursor(1, 20))
    assert len(segments(held)) <= 7
    assert held.feeds()[0].lag == 3
    assert [event.cursor.offset for event in caught_up(held, consumer="slow")] == [21, 22, 23]


def test_old_generations_of_a_removed_consumer_go_at_once(store: journal.Store, held: journal.Journal) -> None:
    """Their logs, whole."""
    held.rotate()
    held.remove_feed("slow")
    assert not (held._backend.p.directory(1) / "log").exists()


def test_a_full_disk_does_not_keep_the_log(held: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who removes a consumer for want of room gets it, although no checkpoint can be made."""

    def full() -> None:
        raise journal.StoreFull("there is no room")

    with monkeypatch.context() as patched:
        patched.setattr(held._backend.p.checkpoints, "run", full)
        held.remove_feed("slow")
    assert len(segments(held)) <= 5


def test_acknowledged_segments_go_while_nothing_is_put(held: journal.Journal) -> None:
    """Soon after the acknowledgements are written."""
    feed = caught_up(held, consumer="slow", flush="1ms")
    feed.ack(list(feed))
    poll(lambda: len(segments(held)) <= 4, "the segments do not go")
    feed.close()


def test_what_a_crash_left_goes_after_the_next_open(
    held: journal.Journal,
    store: journal.Store,
    crashed: Callable[[journal.Store], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The consumer was removed, and nothing more happened."""
    with monkeypatch.context() as patched:
        patched.setattr(held._backend.p.retention, "free", lambda: None)
        held.remove_feed("slow")
    assert len(segments(held)) > 10
    with journal.open(crashed(store)) as again:
        pages = again.journal("pages")
        poll(lambda: len(segments(pages)) <= 4, "the segments do not go")
        assert again.check() == []
