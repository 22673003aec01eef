"""Who follows a compacted log, or one that is compacted under him; and what generations and retention do to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import journal
from journal import Cursor, CursorUnavailable
from journal.core.log.events import Event
from journal.engine.feed import log_tail
from journal.engine.feed.log_tail import Tail
from journal.engine.log.external import LogFiles
from journal.engine.log.reader import CONDENSED, list_segments, segment_path
from journal.testing import ManualClock
from tests.engine.generations.compacting import SMALL, Copy, directory, fill, mirror, skips, told


@pytest.fixture
def kept(store: journal.Store) -> journal.Journal:
    """A journal that keeps its log compacted, in small segments."""
    return store.journal("pages", **SMALL)


# --- followers --------------------------------------------------------------------------------------------------------


def test_a_reader_in_the_middle_goes_on(kept: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever cursor it stands at when its file is replaced, and when it goes back to where it was."""
    monkeypatch.setattr(log_tail, "BLOCK_BYTES", 1000)
    for turn in range(12):
        kept.put("hot", [turn, b"x" * 9_000])
        kept.put(f"k{turn}", turn)
    readers = []
    for pages_read in range(24):
        reader = Tail(kept._backend.p, Cursor(1, -1))
        for _ in range(pages_read):
            reader.page()
        readers.append(reader)
    kept.compact()
    left = [event.cursor.offset for event in told(kept)]
    assert left == [*range(1, 22, 2), 22, 23]
    for reader in readers:
        at = reader.at
        rest = [event.cursor.offset for event in iter_all(reader)]
        assert set(rest) >= {offset for offset in left if offset > at.offset}
        assert rest == sorted(set(rest)) and all(offset > at.offset for offset in rest)
        reader.seek(Cursor(1, 3))
        assert [event.cursor.offset for event in iter_all(reader)] == [offset for offset in left if offset > 3]


def iter_all(reader: Tail) -> list[Event]:
    found: list[Event] = []
    while page := reader.page():
        found += page
    return found


def test_a_feed_may_begin_inside_of_what_was_taken_out(kept: journal.Journal) -> None:
    """At any cursor: the next change that is left comes first. Distances count what was taken out."""
    fill(kept, 8)
    kept.put("a", 1)
    kept.compact()
    for offset in range(-1, 8):
        wanted = [7, 8] if offset < 7 else [8]
        assert [event.cursor.offset for event in told(kept, start=Cursor(1, offset))] == wanted
    assert kept.distance(Cursor(1, -1), Cursor(1, 8)) == 9
    assert kept.lag(Cursor(1, 2)) == 6


def test_a_new_consumer_acknowledges_over_gaps(kept: journal.Journal, store: journal.Store) -> None:
    """What was taken out counts as acknowledged when all before it is; it costs no place among the unacknowledged."""
    for turn in range(4):
        kept.put("hot", turn)
        kept.put(f"k{turn}", turn)
    kept.compact()
    with kept.feed(consumer="audit", live=False, unacked_max=4) as feed:
        assert feed.lag == 8
        events = [next(feed) for _ in range(4)]
        assert [event.cursor.offset for event in events] == [1, 3, 5, 6]
        assert feed.unacked == 4
        feed.ack(events[1:])
        assert feed.position == Cursor(1, 0)
        feed.ack(events[0])
        assert feed.position == Cursor(1, 6)
        feed.ack(next(feed))
        assert (feed.lag, feed.unacked) == (0, 0)


def test_gaps_are_passed_when_changes_come_again(kept: journal.Journal) -> None:
    """After a failure what was not acknowledged comes one at a time, over gaps too."""
    for turn in range(4):
        kept.put("hot", turn)
        kept.put(f"k{turn}", turn)
    kept.compact()
    with kept.feed(consumer="audit", live=False) as feed:
        assert len(list(feed)) == 5
        feed.fail()
        again = []
        for event in feed:
            again.append(event.cursor.offset)
            assert feed.is_redelivering
            feed.ack(event)
        assert again == [1, 3, 5, 6, 7]
        assert feed.position == Cursor(1, 7)


def test_what_a_consumer_has_not_acknowledged_is_not_compacted(kept: journal.Journal, store: journal.Store) -> None:
    """One that never came holds everything; then as far as it is."""
    with kept.feed(consumer="slow", live=False):
        fill(kept, 8)
    assert kept.compact().records_before == 0
    with kept.feed(consumer="slow", live=False) as feed:
        events = list(feed)
        assert [event.cursor.offset for event in events] == list(range(8))
        feed.ack(events[:5])
    kept.compact()
    found = [event.cursor.offset for event in told(kept)]
    assert found[-3:] == [5, 6, 7] and len(found) < 8
    kept.remove_feed("slow")
    kept.compact()
    assert [event.cursor.offset for event in told(kept)] == [7]


def test_a_consumer_that_comes_during_a_pass_loses_nothing(kept: journal.Journal) -> None:
    """The last look is in the moment when a file is replaced."""
    fill(kept, 8)
    p = kept._backend.p
    p.keeper.call(p.compaction._begin_now)
    p.keeper.call(lambda: next(p.compaction._work))  # type: ignore[arg-type]
    feed = kept.feed(consumer="late", live=False)
    while not p.keeper.call(lambda: p.compaction._advance(60)):
        pass
    assert [event.cursor.offset for event in feed] == list(range(8))
    feed.close()
    assert not (directory(kept) / CONDENSED).exists()


def test_a_look_from_outside_reads_a_compacted_log(kept: journal.Journal, store: journal.Store, crashed: Copy) -> None:
    """Without owning the store."""
    fill(kept, 8)
    kept.put("a", 1)
    kept.compact()
    with journal.open(crashed(store), readonly=True) as look:
        assert [e.cursor.offset for e in look.journal("pages").feed(live=False)] == [7, 8]


def test_a_look_at_the_files_goes_on_when_they_are_replaced(kept: journal.Journal) -> None:
    """Beside the owner, without its lock: wherever it stands, it gives no change twice and misses no last one."""
    for turn in range(12):
        kept.put("hot", [turn, b"x" * 9_000])
        kept.put(f"k{turn}", turn)
    looks = []
    for count in range(24):
        found = LogFiles(directory(kept)).read()
        looks.append((found, [next(found) for _ in range(count)]))
    kept.compact()
    left = [event.cursor.offset for event in told(kept)]
    for found, before in looks:
        records = [*before, *found]
        offsets = [each.record.offset for each in records if each.record.op != 5]
        assert offsets == sorted(set(offsets))
        assert set(offsets) >= set(left)
    assert LogFiles(directory(kept)).newest().record.offset == left[-1]  # type: ignore[union-attr]


# --- generations, retention, reopening --------------------------------------------------------------------------------


def test_generations_are_compacted_as_one_log(kept: journal.Journal) -> None:
    """A change in a newer generation supersedes one in an older; the logs of closed ones stay."""
    kept.put("a", 1)
    kept.put("b", 1)
    kept.rotate()
    kept.put("a", 2)
    kept.rotate()
    kept.put("c", 1)
    kept.compact()
    found = [(event.key, event.cursor.order) for event in told(kept) if event.op != "noop"]
    assert found == [("b", 1), ("a", 2), ("c", 3)]
    kept.delete("b")
    kept.compact()
    assert skips(kept, 1) == [(0, 2)]
    with kept.feed(consumer="new", live=False) as feed:
        for event in feed:
            feed.ack(event)
        assert feed.lag == 0
    assert "compact" in kept.generations()[0].kept_by


def test_carried_rows_are_no_change_of_a_key(store: journal.Store) -> None:
    """A survivor that moved to another generation keeps its last change where that happened."""
    pages = store.journal("pages", **SMALL, generations_max=2)
    pages.put("far", "data", delay="300d")
    for turn in range(4):
        pages.rotate()
        pages.put("hot", turn)
    pages.compact()
    assert mirror(told(pages)) == {"far": "data", "hot": 3}
    assert all(event.op != "noop" for event in told(pages))


@pytest.mark.parametrize("limit", [{"log_bytes_max": 600_000}, {"log_age_max": "1h"}], ids=["bytes", "age"])
def test_retention_lets_compacted_segments_go(store: journal.Store, clock: ManualClock, limit: dict[str, Any]) -> None:
    """What is too old or too much goes, whole segments and generations, without a flag: nobody followed it."""
    pages = store.journal("pages", **SMALL, **limit)
    for turn in range(12):
        pages.put(f"k{turn}", b"x" * 30_000)
        clock.advance(600_000)
        if turn == 3:
            pages.rotate()
    pages.compact()
    for _ in range(3):
        store.checkpoint()
    found = told(pages)
    assert 0 < len(found) < 12 and found[-1].key == "k11"
    assert found == sorted(found, key=lambda event: event.cursor)
    assert [flag for flag in store.flags() if flag.name == "feed"] == []
    with pytest.raises(CursorUnavailable):
        told(pages, start=Cursor(1, 0))


def test_retention_still_tells_a_consumer_that_loses_changes(store: journal.Store, clock: ManualClock) -> None:
    """Compaction holds no more for it than without."""
    pages = store.journal("pages", **SMALL, log_age_max="1h")
    pages.feed(consumer="slow").close()
    for turn in range(12):
        pages.put(f"k{turn}", b"x" * 30_000)
        clock.advance(1_800_000)
        store.checkpoint()
    assert [flag.name for flag in store.flags()] == ["feed"]


def test_turning_it_off_lets_the_log_go(kept: journal.Journal, store: journal.Store) -> None:
    """And on again, from there on."""
    fill(kept, 8)
    kept.compact()
    store.journal("pages", compact=False)
    for turn in range(4):
        kept.put(f"z{turn}", b"x" * 60_000)
        store.checkpoint()
    assert list_segments(directory(kept))[-1] > told(kept)[0].cursor.offset > 7
    store.journal("pages", compact=True)
    oldest = told(kept)[0].cursor
    fill(kept, 8)
    kept.compact()
    assert kept.distance(oldest, Cursor(1, 19)) == len(told(kept)) + 6


def test_files_that_a_pass_left_may_reach_into_each_other(tmp_path: Path) -> None:
    """It ended before all others were removed, and the next one has put one of them together with its neighbours."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages", **SMALL)
        for number in range(6):
            pages.put(f"k{number}", b"x" * 40_000)
        log = directory(pages)
    paths = {first: segment_path(log, first) for first in list_segments(log)}
    assert list(paths) == [0, 1, 2, 3, 4, 5]
    bytes_of = {first: path.read_bytes()[:40_200].rstrip(b"\0") for first, path in paths.items()}
    paths[0].write_bytes((bytes_of[0] + bytes_of[1]).ljust(256 << 10, b"\0"))
    paths[1].write_bytes((bytes_of[1] + bytes_of[2] + bytes_of[3]).ljust(256 << 10, b"\0"))
    for first in (2, 3):
        paths[first].unlink()
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        assert store.check() == store.check(deep=True) == []
        assert [event.key for event in told(pages)] == [f"k{number}" for number in range(6)]
        assert [each.record.offset for each in LogFiles(log, namespace=pages._backend.p.log.namespace).read()] == [
            0,
            1,
            2,
            3,
            4,
            5,
        ]
        pages.compact()
        assert [event.key for event in told(pages)] == [f"k{number}" for number in range(6)]
        assert store.check() == []
