"""Compaction: of each key the last change stays, and what decided its data; offsets, followers and a crash do not notice."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import journal
from journal import Cursor, CursorUnavailable, LogDamaged, Refused, StoreFull
from journal.core.effects import Skip
from journal.core.events import Event
from journal.core.latest import Latest
from journal.engine import compaction, condense, tail
from journal.engine.segments import CONDENSED, Place, Reader, list_segments
from journal.engine.tail import Tail
from journal.testing import ManualClock
from tests.engine.helpers import Failing

SMALL: dict[str, Any] = {"segment_bytes_max": 1 << 16, "compact": True}
Copy = Callable[[journal.Store], Path]


@pytest.fixture
def kept(store: journal.Store) -> journal.Journal:
    """A journal that keeps its log compacted, in small segments."""
    return store.journal("pages", **SMALL)


def told(pages: journal.Journal, **options: Any) -> list[Event]:
    return list(pages.feed(live=False, **options))


def words(pages: journal.Journal, **options: Any) -> list[tuple[str, Any]]:
    return [(event.verb, event.key) for event in told(pages, **options)]


def mirror(events: list[Event]) -> dict[Any, Any]:
    """What a follower holds who stores data and removes keys (events N2)."""
    held: dict[Any, Any] = {}
    for event in events:
        if event.op == "delete":
            held.pop(event.key, None)
        elif event.has_data:
            held[event.key] = event.data
    return held


def last_changes(events: list[Event]) -> dict[Any, Cursor]:
    return {
        (event.key, event.flag if event.key is None else None): event.cursor for event in events if event.op != "noop"
    }


def directory(pages: journal.Journal, order: int = 1) -> Path:
    return pages._p.directory(order) / "log"


def skips(pages: journal.Journal, order: int = 1) -> list[tuple[int, int]]:
    """The offset and the length of each run that was taken out."""
    found = directory(pages, order)
    first = list_segments(found)[0]
    return [
        (place.offset, parts.changes)
        for place, _, parts in Reader(found, b"pages", Place(first, first, 0))
        if type(parts.effect) is Skip
    ]


def fill(pages: journal.Journal, rounds: int = 6, key: str = "hot") -> None:
    for turn in range(rounds):
        pages.put(key, [turn, b"x" * 20_000])


# --- what stays -------------------------------------------------------------------------------------------------------


def test_the_last_change_of_each_key_stays(kept: journal.Journal) -> None:
    """And a follower who begins later sees it, then what follows."""
    fill(kept)
    kept.put("a", 1)
    kept.put("b", 1)
    kept.put("a", 2)
    result = kept.compact()
    assert (result.records_before, result.records_after) == (9, 5)
    assert result.bytes_after < result.bytes_before
    kept.put("c", 1)
    assert [(event.key, event.cursor.offset) for event in told(kept)] == [("hot", 5), ("b", 7), ("a", 8), ("c", 9)]
    assert skips(kept) == [(0, 5), (6, 1)]


def test_nothing_is_kept_for_later_followers_unless_asked(store: journal.Store) -> None:
    """A plain queue lets its log go, and refuses to be compacted."""
    pages = store.journal("pages", segment_bytes_max=1 << 16)
    for turn in range(12):
        pages.put(f"k{turn}", b"x" * 30_000)
        store.checkpoint()
    assert told(pages)[0].cursor.offset > 0
    with pytest.raises(Refused, match="compact=True"):
        pages.compact()


def test_what_decided_the_data_stays_with_the_last_change(kept: journal.Journal) -> None:
    """A claim has no data: the put that it claims stays too, and both go when it is done."""
    kept.put("a", 1)
    kept.put("a", 2)
    kept.put("b", 1)
    lease = kept.claim()
    assert lease is not None
    lease.extend("2h")
    kept.compact()
    assert words(kept) == [("replace", "a"), ("put", "b"), ("extend", "a")]
    lease.done()
    kept.compact()
    assert words(kept) == [("put", "b"), ("done", "a")]


def test_a_group_stays_whole(kept: journal.Journal) -> None:
    """One change of it is the last of its key: the record is one, with one checksum."""
    kept.put_many([journal.Put(f"k{n}", n) for n in range(5)])
    for n in range(4):
        kept.delete(f"k{n}")
    kept.put_many([journal.Put("gone", 1)])
    kept.delete("gone")
    kept.compact()
    assert words(kept) == [
        *[("put", f"k{n}") for n in range(5)],
        *[("delete", f"k{n}") for n in range(4)],
        ("delete", "gone"),
    ]


def test_flags_and_colliding_keys_are_told_apart(kept: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text and bytes are different keys; what was done to a flag last stays."""
    kept.put("a", "text")
    kept.put(b"a", "bytes")
    kept._p.retention._raise("one")
    kept._p.retention._raise("two")
    kept.compact()
    assert [(e.key, e.flag, e.reason) for e in told(kept)] == [
        ("a", None, None),
        (b"a", None, None),
        (None, "feed", "two"),
    ]


def test_more_keys_than_are_known_keep_more(store: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the table is full older changes stay; never less than the last one of a key."""
    monkeypatch.setattr(compaction, "Latest", partial(Latest, keys_max=3))
    pages = store.journal("pages", **SMALL)
    for turn in range(2):
        for n in range(6):
            pages.put(f"k{n}", turn)
    pages.compact()
    assert [(e.key, e.data) for e in told(pages)] == [
        *[(f"k{n}", 0) for n in range(3)],
        *[(f"k{n}", 1) for n in range(6)],
    ]


# --- files ------------------------------------------------------------------------------------------------------------


def test_small_neighbours_become_one_file(kept: journal.Journal) -> None:
    """Files do not pile up, and runs that were taken out one after the other are one."""
    fill(kept, 12)
    assert len(list_segments(directory(kept))) >= 4
    kept.compact()
    assert len(list_segments(directory(kept))) == 2
    fill(kept, 12)
    kept.compact()
    assert list_segments(directory(kept)) == [0, 24]
    assert skips(kept) == [(0, 23)]


def test_large_files_are_not_put_together(kept: journal.Journal) -> None:
    """What stays is spread over files of the usual size."""
    for n in range(12):
        kept.put(f"k{n}", b"x" * 20_000)
    before = list_segments(directory(kept))
    result = kept.compact()
    assert result.records_before == result.records_after == 12
    assert list_segments(directory(kept)) == [*before, 12]


def test_it_runs_by_itself_when_there_is_enough(kept: journal.Journal, store: journal.Store) -> None:
    """After checkpoints, in the background; and not again before more has come."""
    for turn in range(12):
        kept.put("hot", [turn, b"x" * 30_000])
        store.checkpoint()
    while kept._p.compaction._work is not None:
        kept._p.keeper.call(lambda: None)
    numbers = kept.statistics()
    assert numbers["compactions"] >= 1 and numbers["compacted_records"] > 0 and numbers["compacted_bytes"] > 0
    kept.compact()
    passes = kept.statistics()["compactions"]
    for _ in range(4):
        store.checkpoint()
    assert kept._p.compaction._work is None
    assert kept.statistics()["compactions"] == passes


def test_a_full_disk_postpones_it(kept: journal.Journal, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    """Nothing changes; who asked is told, in the background it is a warning."""
    fill(kept)
    before, files = words(kept), sorted(os.listdir(directory(kept)))
    real = condense.open_file

    def full(path: Path, flags: int = os.O_RDWR) -> int:
        if path.name == CONDENSED:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, flags)

    monkeypatch.setattr(condense, "open_file", full)
    with pytest.raises(StoreFull):
        kept.compact()
    assert words(kept) == before
    assert sorted(os.listdir(directory(kept)))[:-1] == files
    kept._p.keeper.call(kept._p.compaction.look)
    while kept._p.compaction._work is not None:
        kept._p.keeper.call(lambda: None)
    assert "compaction_postponed" in caplog.text
    assert words(kept) == before
    monkeypatch.undo()
    kept.compact()
    assert len(words(kept)) == 1


@pytest.mark.parametrize("call", ["rename", "unlink", "fdatasync", "fsync", "ftruncate", "pwrite"])
def test_a_call_that_fails_leaves_a_log_that_can_be_read(
    kept: journal.Journal, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """At whatever step: the same last changes, and the next time it works."""
    fill(kept, 12)
    kept.rotate()
    fill(kept, 12)
    wanted = mirror(told(kept))
    kept._p.keeper.call(kept._p.compaction._begin_now)
    failing = Failing(monkeypatch, call, errno.EIO)
    with pytest.raises((OSError, journal.StorageError), match="Input/output error"):
        kept._p.keeper.call(lambda: kept._p.compaction._advance(60))
    assert failing.calls
    monkeypatch.undo()
    assert mirror(told(kept)) == wanted
    kept.compact()
    assert mirror(told(kept)) == wanted
    assert len(words(kept)) == 1


def test_a_damaged_segment_is_not_compacted(kept: journal.Journal, tmp_path: Path) -> None:
    """A record that cannot be read must not become one that was taken out."""
    fill(kept, 12)
    path = directory(kept) / f"{0:020d}.log"
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"?" + content[101:])
    with pytest.raises(LogDamaged, match="byte 0"):
        kept.compact()
    path.write_bytes(content)
    kept.compact()


def test_wiped_bytes_are_gone(store: journal.Store, tmp_path: Path) -> None:
    """With wipe=True the old files are overwritten, although somebody has them open, and he reads on."""
    pages = store.journal("pages", **SMALL, wipe=True)
    fill(pages, 12)
    reader = Tail(pages._p, Cursor(1, -1))
    seen = [event.cursor.offset for event in reader.page()]
    old = os.open(directory(pages) / f"{0:020d}.log", os.O_RDONLY)
    pages.compact()
    assert not os.pread(old, 1 << 20, 0).strip(b"\0")
    os.close(old)
    while page := reader.page():
        seen += [event.cursor.offset for event in page]
    assert seen[-1] == 11


# --- followers --------------------------------------------------------------------------------------------------------


def test_a_reader_in_the_middle_goes_on(kept: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever cursor it stands at when its file is replaced, and when it goes back to where it was."""
    monkeypatch.setattr(tail, "BLOCK_BYTES", 1000)
    for turn in range(12):
        kept.put("hot", [turn, b"x" * 9_000])
        kept.put(f"k{turn}", turn)
    readers = []
    for pages_read in range(24):
        reader = Tail(kept._p, Cursor(1, -1))
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
    p = kept._p
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
    for _ in range(3):
        kept.put("z", b"x" * 60_000)
        store.checkpoint()
    assert list_segments(directory(kept))[0] > 0 or told(kept)[0].cursor.offset > 0


def test_a_compacted_log_survives_a_reopen(store: journal.Store, tmp_path: Path, clock: ManualClock) -> None:
    """And is compacted further there, together with what has come since."""
    path = tmp_path / "again.journal"
    with journal.open(path, clock=clock) as first:
        pages = first.journal("pages", **SMALL)
        fill(pages, 8)
        pages.compact()
    with journal.open(path, clock=clock) as again:
        pages = again.journal("pages")
        assert pages.settings.compact
        fill(pages, 2)
        assert [event.cursor.offset for event in told(pages)] == [7, 8, 9]
        pages.compact()
        assert skips(pages) == [(0, 9)]
        assert again.check(deep=True) == []


def test_a_crash_between_any_two_steps_leaves_every_offset(
    kept: journal.Journal, store: journal.Store, crashed: Copy
) -> None:
    """Copied after each step of a pass, which is what a kill leaves: the mirror is the same, and a pass finishes it."""
    fill(kept, 12)
    kept.put("a", 1)
    kept.rotate()
    fill(kept, 12, key="other")
    wanted = mirror(told(kept))
    p = kept._p
    p.keeper.call(p.compaction._begin_now)
    copies = []
    seen: set[tuple[str, ...]] = set()

    def step() -> bool:
        try:
            next(p.compaction._work)  # type: ignore[arg-type]
        except StopIteration:
            p.compaction.close()
            return False
        return True

    while p.keeper.call(step):
        names = tuple(f"{f}{f.stat().st_ino}" for order in (1, 2) for f in sorted(directory(kept, order).iterdir()))
        if names not in seen:
            seen.add(names)
            copies.append(crashed(store))
    assert len(copies) >= 6
    for copy in copies:
        with journal.open(copy) as again:
            pages = again.journal("pages")
            assert mirror(told(pages)) == wanted
            assert again.check() == []
            pages.compact()
            assert [event.key for event in told(pages)] == ["hot", "a", "other"]
            assert again.check() == []
            assert not list(copy.rglob(CONDENSED))


def test_a_check_finds_a_change_that_is_missing(
    kept: journal.Journal, store: journal.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction that takes out too much does not go unnoticed."""
    fill(kept, 3)
    kept.put("a", 1)
    p = kept._p
    with monkeypatch.context() as patch:
        patch.setattr("journal.core.latest.Latest.keeps", lambda self, digest, is_decisive: False)
        kept.compact()
    found = store.check()
    assert len(found) == 2 and all("has its data" in line for line in found)
    for key in ("a", "hot"):
        kept.delete(key)
    assert store.check() == []
    assert p.trouble is None


# --- against a model --------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "c", b"a"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS),
        st.tuples(st.just("put_many"), st.lists(KEYS, min_size=1, max_size=3, unique=True)),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(
            st.sampled_from(["claim", "done", "release", "bury", "retry", "rotate", "roll", "compact"]), st.none()
        ),
    ),
    max_size=40,
)


class Run:
    """Makes steps; a consumer that acknowledges nothing would hold the log, so what happened is read before each pass."""

    def __init__(self, store: journal.Store) -> None:
        self.pages = store.journal("pages", **SMALL)
        self.leases: list[journal.Lease] = []
        self.all: dict[Cursor, Event] = {}
        self.number = 0

    def note(self) -> None:
        self.all |= {event.cursor: event for event in told(self.pages)}

    def step(self, verb: str, what: Any) -> None:
        pages = self.pages
        self.number += 1
        match verb:
            case "put":
                pages.put(what, self.number)
            case "put_many":
                pages.put_many([journal.Put(key, self.number) for key in what])
            case "delete":
                try:
                    pages.delete(what)
                except Refused:
                    pass
            case "claim":
                self.leases += pages.claim_many(2)
            case "done" | "release" | "bury" if self.leases:
                getattr(self.leases.pop(0), verb)()
            case "retry" if pages.buried():
                pages.retry(pages.buried()[0].entry.key)
            case "rotate":
                pages.rotate()
            case "roll":
                with pages._p.commit.io, pages._p.lock:
                    if pages._p.log.position:
                        pages._p.log.roll()
            case "compact":
                self.note()
                pages.compact()


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_follower_ends_with_what_one_has_who_saw_everything(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    """Nothing invented, the order kept, the last change of each key there, and the same data of every key."""
    with journal.open(tmp_path_factory.mktemp("model") / "s", durability="interval", clock=ManualClock(1)) as store:
        run = Run(store)
        for verb, what in steps:
            run.step(verb, what)
        run.step("compact", None)
        everything = [run.all[cursor] for cursor in sorted(run.all)]
        left = [event for event in told(run.pages) if event.op != "noop"]
        assert [event.cursor for event in left] == sorted({event.cursor for event in left})
        assert all(tuple(event)[1:] == tuple(run.all[event.cursor])[1:] for event in left)
        assert last_changes(left) == last_changes(everything)
        assert mirror(left) == mirror(everything)
        assert store.check() == []
