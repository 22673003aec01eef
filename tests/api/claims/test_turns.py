"""Entries of one priority and one process date come in the order of their puts, however and wherever they were put."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import journal
from journal import Put
from journal.loads import PartWriter
from journal.testing import ManualClock
from tests.engine.loads.blocks import block, many

Copy = Callable[[journal.Store], Path]
TEN = [f"k{n}" for n in range(10)]


def taken(pages: Any, n: int = 100_000, **options: Any) -> list[Any]:
    """The keys of all that is due, in the order in which they are handed out, one by one or as a group."""
    found: list[Any] = []
    while len(found) < n and (leases := pages.claim_many(n - len(found), **options)):
        found += [lease.key for lease in leases]
    return found


def one_by_one(pages: Any, **options: Any) -> list[Any]:
    found = []
    while (lease := pages.claim(**options)) is not None:
        found.append(lease.key)
    return found


def put_each(pages: Any, keys: list[str]) -> None:
    for key in keys:
        pages.put(key)


def put_with_options(pages: Any, keys: list[str]) -> None:
    for key in keys:
        pages.put(key, key, owner="us", expiration=1 << 62)


def put_as_group(pages: Any, keys: list[str]) -> None:
    pages.put_many([Put(key) for key in keys])


def put_as_mixed_group(pages: Any, keys: list[str]) -> None:
    pages.put_many([Put(key, owner="us" if n % 2 else None) for n, key in enumerate(keys)])


def create_as_group(pages: Any, keys: list[str]) -> None:
    pages.create_many([Put(key) for key in keys])


def load_block(pages: Any, keys: list[str]) -> None:
    pages.load([block(*((key, None) for key in keys))])


def load_parts(pages: Any, keys: list[str]) -> None:
    """Two parts, committed in an order of their own."""
    half = len(keys) // 2
    with pages.load_begin() as load:
        for name, some in (("z", keys[:half]), ("a", keys[half:])):
            with load.part(name) as part:
                part.write(block(*((key, None) for key in some)))
        load.commit(["z", "a"])


WAYS = [
    put_each,
    put_with_options,
    put_as_group,
    put_as_mixed_group,
    create_as_group,
    load_block,
    load_parts,
]


@pytest.mark.parametrize("take", [taken, one_by_one])
@pytest.mark.parametrize("put", WAYS)
def test_one_millisecond(
    pages: journal.Journal, put: Callable[[Any, list[str]], None], take: Callable[..., list[Any]]
) -> None:
    """Ten entries of one millisecond come in the order in which they were put."""
    put(pages, TEN)
    assert [entry.key for entry in pages.scan()] == TEN
    assert take(pages) == TEN


@pytest.mark.parametrize("put", WAYS)
def test_one_millisecond_by_buckets(pages: journal.Journal, put: Callable[[Any, list[str]], None]) -> None:
    """A consumer of a range of buckets gets what is his in the same order."""
    put(pages, TEN)
    part = journal.Range(0, 512)
    mine = one_by_one(pages, buckets=part)
    assert 0 < len(mine) < 10
    assert mine == [key for key in TEN if key in mine]
    rest = taken(pages)
    assert rest == [key for key in TEN if key in rest]


@pytest.mark.parametrize("put", WAYS)
def test_after_a_reopen_and_after_a_crash(
    tmp_path: Path, crashed: Copy, clock: ManualClock, put: Callable[[Any, list[str]], None]
) -> None:
    """Order is in the rows, and in the log that they are made from again."""
    with journal.open(tmp_path / "one.journal", clock=clock) as store:
        put(store.journal("pages"), TEN)
        copied = crashed(store)
    for path in (copied, tmp_path / "one.journal"):
        with journal.open(path, clock=clock) as again:
            assert taken(again.journal("pages")) == TEN
            assert again.check(deep=True) == []


def test_the_order_holds_over_a_rotation(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """Entries for one date that were put before and after a rotation, and survivors that moved, keep their order."""
    due = clock.now() + 1000
    keys = []
    for round_ in range(5):
        for n in range(4):
            keys.append(f"{round_}-{n}")
            pages.put(keys[-1], process_date=due)
        pages.rotate()
    for _ in range(40):
        clock.advance(10)
        pages.count()
    clock.advance(1000)
    assert taken(pages, 7) + one_by_one(pages) == keys
    store.check(deep=True)


def test_a_name_that_is_used_again(store: journal.Store, clock: ManualClock) -> None:
    """A journal that was dropped and declared again goes on as any other."""
    for _ in range(3):
        pages = store.journal("again")
        put_each(pages, TEN)
        assert one_by_one(pages) == TEN
        store.drop("again")


def test_a_large_group_and_a_large_load(pages: journal.Journal) -> None:
    """Thousands of one millisecond, before and behind single ones."""
    pages.put("first")
    pages.load([many(3000)])
    pages.put("between")
    pages.put_many([Put(f"g{n}") for n in range(3000)])
    pages.put("last")
    keys = ["first", *(f"k{n}" for n in range(3000)), "between", *(f"g{n}" for n in range(3000)), "last"]
    assert taken(pages) == keys


def test_a_load_with_dates_keeps_the_order_of_its_rows(pages: journal.Journal, clock: ManualClock) -> None:
    """Rows of few dates and priorities, mixed: within each they come as they were given, over all parts."""
    now, some = clock.now(), random.Random(7)
    rows = [(f"k{n}", n, some.choice([3, 5]), now - some.choice([0, 5, 9])) for n in range(6000)]
    pages.load([block(*rows[:2500]), block(*rows[2500:])])
    assert taken(pages) == [row[0] for row in sorted(rows, key=lambda row: row[2:])]


def test_a_load_that_meets_entries(pages: journal.Journal) -> None:
    """Those that are there keep their places; the others come behind them in the order of their rows."""
    put_each(pages, ["b", "x", "a"])
    pages.load([block(*((key, 1) for key in ["e", "a", "d", "b", "c"]))])
    assert taken(pages) == ["b", "x", "a", "e", "d", "c"]


def test_part_files(pages: journal.Journal, tmp_path: Path) -> None:
    """The order of the parts is that in which they are named."""
    paths = []
    for number in (2, 0, 1):
        paths.append(tmp_path / f"{number}.part")
        with PartWriter(paths[-1]) as part:
            part.write(many(4, 4 * number))
    pages.load(paths)
    assert taken(pages) == [f"k{n}" for n in [8, 9, 10, 11, *range(8)]]


@pytest.mark.parametrize("durability", ["full", "interval"])
def test_threads_that_put_together(store: journal.Store, clock: ManualClock, durability: str) -> None:
    """The order of work is that of the log, whoever put what; and each thread's own order holds."""
    pages = store.journal("together")
    results: dict[str, journal.PutResult] = {}

    def put(name: int) -> None:
        for n in range(50):
            key = f"{name}-{n}"
            results[key] = pages.put(key, key, durability=durability)

    threads = [threading.Thread(target=put, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert taken(pages) == sorted(results, key=lambda key: results[key].cursor)


def test_a_merge_keeps_the_place(pages: journal.Journal) -> None:
    """When neither priority nor date changes; with another one the entry comes behind those who are there."""
    put_each(pages, ["a", "b", "c", "d"])
    pages.put("b", "newer")
    pages.put("d", "newer", priority=200)
    pages.put("c", "newer", priority=7)
    pages.put("x", "newer", priority=7)
    pages.put("a", "newer", priority=7)
    assert taken(pages) == ["c", "x", "a", "b", "d"]


def test_moves(pages: journal.Journal, clock: ManualClock) -> None:
    """One that changes nothing keeps the place; there and back again is behind all others."""
    put_each(pages, ["a", "b", "c"])
    now = clock.now()
    pages.move("a", process_date=now, priority=100)
    pages.move("b", priority=9)
    pages.move("b", priority=100)
    assert taken(pages) == ["a", "c", "b"]


def test_releases_and_lost_leases(pages: journal.Journal, clock: ManualClock) -> None:
    """A lost lease gives the entry its place back; a release at the same date puts it behind the others."""
    put_each(pages, ["a", "b", "c"])
    lost, kept = pages.claim(lease=10), pages.claim(lease=1000)
    assert lost is not None and kept is not None
    clock.advance(10)
    kept.release(process_date=clock.now() - 10)
    assert taken(pages) == ["a", "c", "b"]


def test_a_successor_has_the_place_of_its_put(pages: journal.Journal) -> None:
    """Also when the lease ends after others were put."""
    pages.put("a")
    lease = pages.claim()
    assert lease is not None
    put_each(pages, ["b", "a", "c"])
    lease.done()
    assert taken(pages) == ["b", "a", "c"]


def test_buried_entries_are_in_the_order_of_burial(tmp_path: Path, clock: ManualClock) -> None:
    """Over rotations and a reopen, also of one millisecond; a retried one comes behind those who wait."""
    order = random.Random(3).sample(TEN, 10)
    with journal.open(tmp_path / "one.journal", clock=clock) as store:
        pages = store.journal("pages")
        put_each(pages, TEN)
        leases = {lease.key: lease for lease in pages.claim_many(10)}
        for n, key in enumerate(order):
            leases[key].bury("no")
            if n % 4 == 3:
                pages.rotate()
        assert [each.entry.key for each in pages.buried()] == order
        put_each(pages, ["x", "y"])
        pages.retry(order[2])
        assert taken(pages) == ["x", "y", order[2]]
    with journal.open(tmp_path / "one.journal", clock=clock) as again:
        assert [each.entry.key for each in again.journal("pages").buried()] == order[:2] + order[3:]
        assert again.check(deep=True) == []


def test_ranges_of_dates_have_all_of_a_millisecond(pages: journal.Journal, clock: ManualClock) -> None:
    """scan, count and forecast by date take all entries of the first one and none of the last."""
    now = clock.now()
    for date in (now - 1, now, now + 1):
        for n in range(3):
            pages.put(f"{date - now}-{n}", process_date=date)
    found = [entry.key for entry in pages.scan(since=now, until=now + 1)]
    assert found == ["0-0", "0-1", "0-2"]
    assert pages.count(since=now, until=now + 1) == 3
    assert pages.count(since=now + 1) == 3
    assert pages.count(until=now) == 3
