"""Put, create, get, delete and move: what their results and their refusals say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import journal
from journal import Entry, PutResult
from journal.testing import ManualClock


def test_a_put_has_the_defaults_of_the_design(pages: journal.Journal, clock: ManualClock) -> None:
    """Priority 100, due now, never expiring, no data, no owner."""
    now = clock.now()
    result = pages.put("a")
    assert result == PutResult("inserted", result.cursor, 1, now, 100)
    assert pages.get("a") == Entry("a", None, 100, now, now, 0, "W", 0, None, 1)


def test_every_column_is_kept(pages: journal.Journal, clock: ManualClock) -> None:
    """What was given comes back."""
    now = clock.now()
    pages.put(
        b"\xff\0", {"x": [1, b"2", None]}, priority=journal.NEW_PAGE, process_date=now + 5, expiration=now + 9,
        insertion_date=now - 3, owner="group",
    )  # fmt: skip
    assert pages.get(b"\xff\0") == Entry(
        b"\xff\0", {"x": [1, b"2", None]}, 20, now + 5, now - 3, now + 9, "W", 0, "group", 1
    )


def test_dates_may_be_datetimes_and_durations(pages: journal.Journal, clock: ManualClock) -> None:
    """Inside there are only milliseconds."""
    now = clock.now()
    moment = datetime.fromtimestamp(now / 1000, UTC)
    assert pages.put("a", process_date=moment + timedelta(seconds=1)).process_date == now + 1000
    assert pages.put("b", delay=timedelta(seconds=2)).process_date == now + 2000
    assert pages.put("c", delay="3s").process_date == now + 3000
    assert pages.put("d", delay=4).process_date == now + 4


def test_a_process_date_that_has_passed_is_due_now(pages: journal.Journal, clock: ManualClock) -> None:
    """Without an insertion date of the caller's own it is not refused, and still no process date precedes an insertion."""
    pages.put("a", process_date=clock.now() - 1000)
    entry = pages.get("a")
    assert entry is not None and entry.insertion_date <= entry.process_date <= clock.now()
    assert pages.put("a", 2, process_date=clock.now() - 2000).outcome == "merged"
    assert pages.claim() is not None


def test_a_process_date_before_a_given_insertion_date_is_invalid(pages: journal.Journal, clock: ManualClock) -> None:
    """The caller contradicts itself: nothing is stored."""
    now = clock.now()
    with pytest.raises(journal.Invalid):
        pages.put("a", insertion_date=now, process_date=now - 1)
    with pytest.raises(journal.Invalid):
        pages.put("a", insertion_date=now + 10, process_date=now + 9)
    assert pages.put("b", insertion_date=now - 10, process_date=now - 10).process_date == now - 10
    assert pages.get("a") is None
    assert pages.count() == 1


def test_an_insertion_date_ahead_of_now_is_kept(pages: journal.Journal, clock: ManualClock) -> None:
    """A producer whose clock runs ahead; the process date follows it."""
    result = pages.put("a", insertion_date=clock.now() + 500)
    assert result.process_date == clock.now() + 500


def test_cursors_count_the_changes(pages: journal.Journal) -> None:
    """Each accepted change has the next offset of generation 1; a stale put has none of its own."""
    first, second = pages.put("a"), pages.put("b")
    assert (first.cursor.order, second.cursor.offset - first.cursor.offset) == (1, 1)
    stale = pages.put("a", insertion_date=1, process_date=5)
    assert (stale.outcome, stale.cursor) == ("ignored", first.cursor)
    assert pages.put("c").cursor.offset == second.cursor.offset + 1


def test_create_refuses_an_existing_key_and_changes_nothing(pages: journal.Journal) -> None:
    """Idempotent publishing: waiting, processing, or created before."""
    assert pages.create("a", 1, priority=5).outcome == "inserted"
    before = pages.get("a")
    with pytest.raises(journal.KeyExists):
        pages.create("a", 2, priority=0)
    assert pages.get("a") == before
    lease = pages.claim()
    assert lease is not None
    with pytest.raises(journal.KeyExists):
        pages.create("a", 3)
    lease.done()
    assert pages.get("a") is None
    assert pages.create("a", 4).outcome == "inserted"


def test_get_of_nothing_is_none(pages: journal.Journal) -> None:
    """Text and bytes are two keys."""
    pages.put("a")
    assert pages.get("b") is None
    assert pages.get(b"a") is None


def test_a_leased_entry_shows_its_status(pages: journal.Journal, clock: ManualClock) -> None:
    """P with its start; W again after the release."""
    pages.put("a")
    lease = pages.claim()
    assert lease is not None
    entry = pages.get("a")
    assert entry is not None and (entry.status, entry.start_date) == ("P", clock.now())
    lease.release()
    entry = pages.get("a")
    assert entry is not None and (entry.status, entry.start_date) == ("W", 0)


def test_delete_says_whether_there_was_one(pages: journal.Journal) -> None:
    """Once True, then False; others stay."""
    pages.put("a")
    pages.put("b")
    assert pages.delete("a") is True
    assert pages.delete("a") is False
    assert [e.key for e in pages.scan()] == ["b"]


def test_an_active_lease_protects_its_entry(pages: journal.Journal) -> None:
    """Neither delete nor move touches it; the holder can finish."""
    pages.put("a", 1)
    lease = pages.claim()
    assert lease is not None
    before = pages.get("a")
    with pytest.raises(journal.Refused):
        pages.delete("a")
    with pytest.raises(journal.Refused):
        pages.move("a", priority=1)
    assert pages.get("a") == before
    lease.done()


def test_move_gives_another_place_only(pages: journal.Journal, clock: ManualClock) -> None:
    """Date, delay or priority; earlier too; the rest stays."""
    now = clock.now()
    pages.put("a", 1, delay="1h", expiration=now + 7_200_000)
    moved = pages.move("a", process_date=now + 5)
    assert (moved.process_date, moved.priority, moved.version) == (now + 5, 100, 2)
    assert pages.move("a", priority=3).process_date == now + 5
    assert pages.move("a", delay="1s").process_date == now + 1000
    assert pages.get("a") == Entry("a", 1, 3, now + 1000, now, now + 7_200_000, "W", 0, None, 4)
    assert pages.claim() is None
    clock.advance(1000)
    assert pages.claim() is not None


def test_move_of_nothing_is_refused(pages: journal.Journal, clock: ManualClock) -> None:
    """NotFound; without an argument, or to before the insertion: Invalid."""
    with pytest.raises(journal.NotFound):
        pages.move("a", priority=1)
    pages.put("a")
    before = pages.get("a")
    with pytest.raises(journal.Invalid):
        pages.move("a")
    with pytest.raises(journal.Invalid):
        pages.move("a", delay=1, process_date=clock.now())
    with pytest.raises(journal.Invalid):
        pages.move("a", process_date=clock.now() - 1)
    assert pages.get("a") == before


def test_priorities_have_names() -> None:
    """Smallest first."""
    names = [journal.NOW, journal.IMPORTANT, journal.NEW_PAGE, journal.RESET, journal.UPDATES, journal.SLOW]
    assert [*names, journal.REVIEW, journal.TIME_ALLOWS] == [0, 10, 20, 50, 180, 200, 230, 255]
