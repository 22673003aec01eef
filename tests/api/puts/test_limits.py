"""Arguments that cannot be: Invalid, before anything changes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

import journal
from journal import Put
from journal.testing import ManualClock

Call = Callable[[journal.Journal], object]
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001
ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


WRONG: list[Call] = [
    lambda p: p.put(""), lambda p: p.put(b""), lambda p: p.put(None), lambda p: p.put(5),
    lambda p: p.put("x" * 1025), lambda p: p.put("\ud800"), lambda p: p.put(("a",)),
    lambda p: p.put("a", {(1, 2): 3}), lambda p: p.put("a", {1, 2}), lambda p: p.put("a", 1 << 64),
    lambda p: p.put("a", -(1 << 63) - 1), lambda p: p.put("a", object()), lambda p: p.put("a", ENDLESS),
    lambda p: p.put("a", nested(100_000)), lambda p: p.put("a", "\ud800"), lambda p: p.put("a", NAIVE),
    lambda p: p.put("a", bytes(1 << 20)),
    lambda p: p.put("a", priority=256), lambda p: p.put("a", priority=-1), lambda p: p.put("a", priority=1.0),
    lambda p: p.put("a", priority="1"), lambda p: p.put("a", priority=None), lambda p: p.put("a", priority=True),
    lambda p: p.put("a", delay=-1), lambda p: p.put("a", delay="soon"), lambda p: p.put("a", delay=1.5),
    lambda p: p.put("a", delay=timedelta(-1)), lambda p: p.put("a", delay=1, process_date=1 << 60),
    lambda p: p.put("a", process_date=NAIVE), lambda p: p.put("a", process_date=-1),
    lambda p: p.put("a", process_date=1 << 63), lambda p: p.put("a", process_date="2030-01-01T00:00:00Z"),
    lambda p: p.put("a", expiration=NAIVE), lambda p: p.put("a", expiration="1h"), lambda p: p.put("a", expiration=1 << 63),
    lambda p: p.put("a", insertion_date=NAIVE), lambda p: p.put("a", insertion_date=-1),
    lambda p: p.put("a", insertion_date=2.0),
    lambda p: p.put("a", owner=""), lambda p: p.put("a", owner="x" * 256), lambda p: p.put("a", owner=b"o"),
    lambda p: p.put("a", owner="\ud800"), lambda p: p.create("a", {1}), lambda p: p.get(5), lambda p: p.get(""),
    lambda p: p.delete(None), lambda p: p.delete("there", version="1"), lambda p: p.delete("there", owner=5),
    lambda p: p.move("there", priority=256), lambda p: p.move("there", delay=-1), lambda p: p.move("there", process_date=NAIVE),
    lambda p: p.move("there", priority=1, version="1"),
    lambda p: p.put_many([("a", 1)]), lambda p: p.put_many(["a"]), lambda p: p.put_many(None), lambda p: p.put_many(5),
    lambda p: p.claim(lease=0), lambda p: p.claim(lease=-1), lambda p: p.claim(lease="x"), lambda p: p.claim(consumer=5),
    lambda p: p.claim(consumer="x" * 256), lambda p: p.claim(consumer=None), lambda p: p.claim(consumer="\ud800"),
    lambda p: p.claim(consumer=["x"]), lambda p: p.claim_many(0), lambda p: p.claim_many(-1), lambda p: p.claim_many(1.0),
    lambda p: p.claim_many(True), lambda p: p.claim_many(100_001), lambda p: p.claim_many("5"),
    lambda p: p.done("5"), lambda p: p.done(None), lambda p: p.done(1.0), lambda p: p.done_many(["5"]),
    lambda p: p.done_many(5), lambda p: p.done_many(None), lambda p: p.extend(None), lambda p: p.release("x"),
    lambda p: p.bury([]), lambda p: p.retry(5), lambda p: p.discard(""), lambda p: p.leases(consumer=5),
    lambda p: next(p.work(consumer=5)), lambda p: next(p.work(lease=0)), lambda p: next(p.work(stop=5)),
]  # type: ignore[arg-type, list-item]  # fmt: skip


@pytest.mark.parametrize("n", range(len(WRONG)))
def test_wrong_arguments_are_invalid_and_change_nothing(pages: journal.Journal, n: int) -> None:
    """Whatever the type: Invalid (a ValueError), no record, and the store goes on."""
    pages.put("there", 1)
    before = pages.statistics()["next_offset"]
    with pytest.raises(journal.Invalid) as caught:
        WRONG[n](pages)
    assert isinstance(caught.value, ValueError)
    assert str(caught.value)
    assert pages.statistics()["next_offset"] == before
    assert [e.key for e in pages.scan()] == ["there"]
    assert pages.put("after").outcome == "inserted"


WRONG_UNDER_A_LEASE: list[Callable[[journal.Lease], object]] = [
    lambda x: x.extend(0), lambda x: x.extend(-5), lambda x: x.extend("x"), lambda x: x.extend(1.5),
    lambda x: x.release(delay=-1), lambda x: x.release(delay="x"), lambda x: x.release(process_date=NAIVE),
    lambda x: x.release(delay=1, process_date=1 << 60), lambda x: x.release(process_date=5), lambda x: x.bury(5),
    lambda x: x.bury("x" * 4097), lambda x: x.bury("\ud800"), lambda x: x.bury(None), lambda x: x.bury(b"x"),
]  # type: ignore[arg-type, list-item]  # fmt: skip


@pytest.mark.parametrize("n", range(len(WRONG_UNDER_A_LEASE)))
def test_a_wrong_argument_costs_no_lease(pages: journal.Journal, n: int) -> None:
    """The holder may try again."""
    pages.put("a")
    lease = pages.claim()
    assert lease is not None
    with pytest.raises(journal.Invalid):
        WRONG_UNDER_A_LEASE[n](lease)
    lease.done()


def test_the_largest_of_everything_is_taken(pages: journal.Journal, clock: ManualClock) -> None:
    """At the limit, not below it."""
    pages.put("x" * 1024, owner="o" * 255, process_date=(1 << 63) - 1, expiration=(1 << 63) - 1, priority=255)
    pages.put(b"\xff" * 1024, (1 << 64) - 1, priority=0)
    pages.put("small", -(1 << 63))
    lease = pages.claim(consumer="c" * 255, lease="366000d")
    assert lease is not None and lease.data == (1 << 64) - 1
    lease.bury("r" * 4096)
    assert pages.get("x" * 1024).process_date == (1 << 63) - 1  # type: ignore[union-attr]
    assert pages.buried()[0].reason == "r" * 4096


def test_a_delay_and_a_release_cannot_run_past_the_last_date(pages: journal.Journal) -> None:
    """Dates stay within what msgpack, SQL and Spark can carry."""
    pages.put("far", insertion_date=(1 << 63) - 1)
    entry = pages.get("far")
    assert entry is not None and entry.process_date == (1 << 63) - 1


@pytest.mark.parametrize(
    "limit", [100, 5000, pytest.param(1 << 20, marks=pytest.mark.embedded(reason="no frame holds the entry"))]
)
def test_the_entry_limit_is_a_setting(store: journal.Store, limit: int) -> None:
    """Larger is Invalid and stores nothing; put_many answers for each; the setting may be raised."""
    pages = store.journal("pages", entry_bytes_max=limit)
    assert pages.put("fits", bytes(limit // 3)).outcome == "inserted"
    with pytest.raises(journal.Invalid, match="entry_bytes_max"):
        pages.put("large", bytes(limit))
    results = pages.put_many([Put("a", bytes(limit)), Put("b", bytes(limit // 3))])
    assert [type(r).__name__ for r in results] == ["Invalid", "PutResult"]
    assert sorted(str(e.key) for e in pages.scan()) == ["b", "fits"]
    store.journal("pages", entry_bytes_max=2 * limit + 200)
    assert pages.put("large", bytes(limit)).outcome == "inserted"


def test_a_group_has_a_limit(pages: journal.Journal) -> None:
    """100,000 changes: more is Invalid and stores nothing."""
    with pytest.raises(journal.Invalid):
        pages.put_many([Put("a")] * 100_001)
    with pytest.raises(journal.Invalid):
        pages.done_many([1] * 100_001)
    assert pages.count() == 0
    assert pages.put_many([]) == []


def test_data_comes_back_as_it_was(pages: journal.Journal) -> None:
    """Text and bytes apart, maps with number keys, floats, nesting; tuples come back as lists."""
    data = {"t": "é", "b": b"\0\xff", "n": [None, True, 1.5, -1, 1 << 63], 5: {"x": {}}, b"k": []}
    pages.put("a", data)
    entry = pages.get("a")
    assert entry is not None and entry.data == data
    lease = pages.claim()
    assert lease is not None and lease.data == data
    lease.done()
    pages.put("b", (1, (2,)))
    entry = pages.get("b")
    assert entry is not None and entry.data == [1, [2]]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_535, 65_536])
def test_bytes_of_any_size_come_back(pages: journal.Journal, size: int) -> None:
    """Around the borders of msgpack's headers."""
    pages.put("a", b"\x5a" * size)
    entry = pages.get("a")
    assert entry is not None and entry.data == b"\x5a" * size
