"""Snapshots: all entries of a journal at one cursor, in parts that any process can read."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import journal
from journal.core.entry.rows import decode_entry, decode_lease, unpack_data
from journal.engine.snapshots.snapshot import EngineSnapshotPart
from journal.testing import ManualClock


def rows_of(parts: Iterable[EngineSnapshotPart]) -> list[tuple[bytes, bytes]]:
    return [row for part in parts for block in part.read() for row in zip(block.primaries, block.values, strict=True)]


def shown(parts: Iterable[EngineSnapshotPart]) -> dict[Any, Any]:
    """Keys and data, in the order in which they come."""
    entries = [decode_entry(*row) for row in rows_of(parts)]
    assert len({entry.key for entry in entries}) == len(entries)
    return {entry.key: unpack_data(entry.data) for entry in entries}


def leases_of(parts: Iterable[EngineSnapshotPart]) -> dict[Any, Any]:
    return {
        decode_entry(block.primaries[at], block.values[at]).key: decode_lease(block.primaries[at], value)
        for part in parts
        for block in part.read()
        for at, value in block.leases.items()
    }


# -- what it shows ------------------------------------------------------------------------------------------------------


def test_it_shows_what_was_there(pages: journal.Journal, clock: ManualClock) -> None:
    """All entries up to its cursor, whatever comes later (N1)."""
    pages.put("b", 2, priority=50)
    pages.put("a", 1, priority=10, owner="o")
    last = pages.put("c", {"deep": [1, None]}, delay="1d")
    with pages.snapshot() as shot:
        pages.put("later")
        pages.delete("b")
        assert (shot.cursor, shot.size, shot.taken, shot.schema) == (last.cursor, 3, clock.now(), None)
        assert list(shown(shot.parts(1)).items()) == [("a", 1), ("b", 2), ("c", {"deep": [1, None]})]
        assert shown(shot.parts(3)) == shown(shot.parts(1))
        assert leases_of(shot.parts(2)) == {}
    with pages.snapshot() as shot:
        assert list(shown(shot.parts(2))) == ["a", "later", "c"]


def test_an_empty_journal_has_one_part_without_blocks(pages: journal.Journal) -> None:
    """Before the first change, and after all has gone."""
    with pages.snapshot() as shot:
        assert (shot.cursor, shot.size) == (journal.Cursor(1, -1), 0)
        (part,) = shot.parts(4)
        assert list(part.read()) == []
    pages.put("a")
    pages.delete("a")
    with pages.snapshot() as shot:
        assert (shot.cursor, [list(part.read()) for part in shot.parts(3)]) == (journal.Cursor(1, 1), [[]])


def test_leases_come_with_their_entries(pages: journal.Journal, clock: ManualClock) -> None:
    """Of those that are processing, and of those that wait again after a timeout; successors and buried ones do not come."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(5)])
    lost = pages.claim_key("k0", consumer="slow", lease="10s")
    assert lost is not None
    clock.advance(10_000)
    lease = pages.claim_key("k3", consumer="quick")
    pages.put("k3", "successor")
    doomed = pages.claim_key("k4")
    assert lease is not None and doomed is not None
    doomed.bury("unreadable")
    with pages.snapshot() as shot:
        assert shown(shot.parts(1)) == {f"k{n}": n for n in range(4)}
        held = leases_of(shot.parts(2))
        assert {key: (chr(row.status), row.consumer, row.timeouts) for key, row in held.items()} == {
            "k0": ("W", "", 1),
            "k3": ("P", "quick", 0),
        }


def test_what_has_expired_is_not_there(pages: journal.Journal, clock: ManualClock) -> None:
    """Timers that are due fire first."""
    pages.put("short", expiration=clock.now() + 5)
    pages.put("long")
    clock.advance(5)
    with pages.snapshot() as shot:
        assert (shot.size, list(shown(shot.parts(1)))) == (1, ["long"])


def test_it_goes_over_all_generations(pages: journal.Journal) -> None:
    """In the order of work, whichever file an entry is in; the schema is that of all."""
    for generation in range(4):
        pages.put_many([journal.Put(f"{n}-{generation}", n, priority=n) for n in range(50)])
        pages.rotate()
    pages.claim_many(7, consumer="c")
    with pages.snapshot() as shot:
        assert (shot.size, shot.cursor.order) == (200, 5)
        whole = rows_of(shot.parts(1))
        assert whole == sorted(whole) and len(whole) == 200
        for count in (2, 3, 8, 200, 1000):
            assert rows_of(shot.parts(count)) == whole
        assert len(leases_of(shot.parts(3))) == 7


def test_the_schema_is_that_of_all_generations(store: journal.Store) -> None:
    """For who makes columns of it."""
    pages = store.journal("pages", schema=journal.Schema([journal.Field("a", "int64")]))
    pages.put("1", {"a": 1})
    store.journal("pages", schema=journal.Schema([journal.Field("b", "string")]))
    pages.rotate()
    with pages.snapshot() as shot:
        assert shot.schema is not None and [field.name for field in shot.schema.fields] == ["a", "b"]


# -- parts --------------------------------------------------------------------------------------------------------------


PLACES = st.lists(st.tuples(st.sampled_from([0, 1, 7, 100, 200, 255]), st.integers(0, 30)), max_size=60)
LIMIT = st.none() | st.integers(0, 31)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(PLACES, min_size=1, max_size=3),
    st.integers(1, 9),
    LIMIT,
    LIMIT,
    st.none() | st.sets(st.sampled_from([0, 1, 2, 100, 255])),
)
def test_parts_cover_what_was_asked_for(
    tmp_path_factory: pytest.TempPathFactory,
    generations: list[list[tuple[int, int]]],
    count: int,
    since: int | None,
    until: int | None,
    priorities: set[int] | None,
) -> None:
    """Each entry in one part, in the order of work, and nothing else (N2)."""
    clock = ManualClock(1000)
    with journal.open(tmp_path_factory.mktemp("s") / "s", clock=clock, durability="none") as store:
        pages = store.journal("pages")
        expected: list[tuple[int, int, str]] = []
        for order, places in enumerate(generations):
            for n, (priority, date) in enumerate(places):
                pages.put(f"{order}-{n}", priority=priority, process_date=date, insertion_date=date)
                is_wanted = (since is None or date >= since) and (until is None or date < until)
                if is_wanted and (priorities is None or priority in priorities):
                    expected.append((priority, date, f"{order}-{n}"))
            pages.rotate()
        with pages.snapshot() as shot:
            parts = shot.parts(count, since=since, until=until, priorities=priorities)
            found = [(p[0], int.from_bytes(p[1:9]), decode_entry(p, value).key) for p, value in rows_of(parts)]
            assert sorted(found) == sorted(expected)
            assert [place[:2] for place in found] == [place[:2] for place in sorted(expected)]
            assert 1 <= len(parts) <= count


def sizes(shot: Any, count: int, **limits: Any) -> list[int]:
    return [sum(len(block.primaries) for block in part.read()) for part in shot.parts(count, **limits)]


def test_parts_are_about_equal(pages: journal.Journal, clock: ManualClock) -> None:
    """With one priority and dates within a second, with generations of very different sizes, and within limits."""
    now = clock.now()
    pages.put_many([journal.Put(f"old{n}", process_date=now + n % 1000) for n in range(300)])
    pages.rotate()
    for start in range(0, 8000, 2000):
        pages.put_many([journal.Put(f"k{n}", process_date=now + n % 1000) for n in range(start, start + 2000)])
    pages.put_many([journal.Put(f"i{n}", priority=n % 9) for n in range(900)])
    with pages.snapshot() as shot:
        for limits in ({}, {"since": now, "until": now + 100}, {"priorities": [100, 3]}, {"until": now + 10}):
            found = sizes(shot, 8, **limits)
            assert len(found) == 8 and max(found) < 1.5 * sum(found) / 8, (limits, found)


def test_blocks_are_bounded(store: journal.Store) -> None:
    """By rows, and by bytes when entries are large."""
    pages = store.journal("pages")
    pages.put_many([journal.Put(f"k{n}", n) for n in range(10_000)])
    with pages.snapshot() as shot:
        assert [len(block.primaries) for part in shot.parts(1) for block in part.read()] == [4096, 4096, 1808]
    pages.put_many([journal.Put(f"big{n}", bytes(500_000), priority=1) for n in range(30)])
    with pages.snapshot() as shot:
        blocks = [block for part in shot.parts(1, priorities=[1]) for block in part.read()]
        assert len(blocks) > 2 and sum(len(block.values) for block in blocks) == 30


@pytest.mark.parametrize("limits", [{"since": "x"}, {"until": -1}, {"priorities": [300]}])
def test_limits_are_checked(pages: journal.Journal, limits: Any) -> None:
    """Before anything is read."""
    with pages.snapshot() as shot:
        with pytest.raises(journal.Invalid):
            shot.parts(1, **limits)
        with pytest.raises(journal.Invalid):
            shot.parts(0)


READ = """
import pickle, sys
parts = pickle.load(sys.stdin.buffer)
found = [row for part in parts for block in part.read() for row in zip(block.primaries, block.values)]
sys.stdout.buffer.write(pickle.dumps(found))
"""


def test_another_process_reads_a_part(pages: journal.Journal) -> None:
    """It is small, and needs no store (N3)."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(100)])
    pages.rotate()
    pages.put_many([journal.Put(f"m{n}", n) for n in range(100)])
    with pages.snapshot() as shot:
        parts = shot.parts(3)
        assert all(len(pickle.dumps(part)) < 1000 for part in parts)
        done = subprocess.run([sys.executable, "-c", READ], input=pickle.dumps(parts), capture_output=True, check=True)
        assert pickle.loads(done.stdout) == rows_of(parts)


def test_several_readers_share_a_file(pages: journal.Journal) -> None:
    """LMDB opens one once in a process: readers of several parts, at the same time, get along (reader C2)."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(9000)])
    with pages.snapshot() as shot:
        one, two = shot.parts(2)
        first, second = one.read(), two.read()
        found = len(next(first).primaries) + len(next(second).primaries)
        first.close()  # type: ignore[attr-defined]
        found += sum(len(block.primaries) for block in second)
        assert found == 4096 + sum(len(block.primaries) for block in two.read())
        assert sum(sizes(shot, 2)) == 9000


@pytest.mark.embedded(reason="a child of a client has no connection")
def test_a_forked_child_reads_and_removes_nothing(pages: journal.Journal) -> None:
    """It has the parent's maps, and its own end of the snapshot is not the snapshot's end."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(50)])
    with pages.snapshot() as shot:
        (part,) = shot.parts(1)
        reading = part.read()
        expected = len(next(reading).primaries)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                if sum(len(block.primaries) for block in part.read()) == expected:
                    shot.close()
                    code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert list(reading) == [] and len(rows_of([part])) == 50
