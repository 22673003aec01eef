"""Each verb over the wire does what the same verb of the library does: two stores, one asked, one called, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import journal
from journal import Cursor, Delete, Journal, Move, Put
from journal.core.buckets import Range
from journal.core.settings import from_map
from journal.net.wire import values as v
from journal.testing import ManualClock
from tests.net.server.asking import ask, pack

START = 1_700_000_000_000
TOKEN = 1 << 40
"""Of the first lease of a store."""


class Twins:
    """Two stores with the same past."""

    def __init__(self, top: Path) -> None:
        self.asked = journal.open(top / "asked.journal", clock=ManualClock(START))
        self.called = journal.open(top / "called.journal", clock=ManualClock(START))

    def both(self, do: Callable[[Journal], Any]) -> None:
        for store in (self.asked, self.called):
            do(store.journal("pages"))


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[Twins]:
    """Two stores, each with some entries, leases and a buried one, which must be the same at the end."""
    twins = Twins(tmp_path)
    with twins.asked, twins.called:
        twins.both(_prepare)
        yield twins
        assert twins.asked.check() == twins.called.check() == []
        assert _state(twins.asked.journal("pages")) == _state(twins.called.journal("pages"))


def _prepare(pages: Journal) -> None:
    """/0 is leased (the first token), /1 too (the second), /2 to /9 wait, /9 for later; "old" is buried."""
    pages.put("old", {"why": "not"}, priority=1)
    pages.bury(pages.claim_many(1, consumer="c")[0], "no use")
    for i in range(10):
        pages.put(
            f"/{i}",
            {"n": i},
            priority=10 + i % 3,
            owner="us" if i % 2 else None,
            process_date=START + (10_000 if i == 9 else 0),
            expiration=START + 99_000_000 if i == 4 else None,
        )
    pages.claim_key("/0", consumer="c", lease=60_000)
    pages.claim_key("/1", consumer="d", lease=50_000)
    pages.raise_flag("odd", "look at this")


def _state(pages: Journal) -> list[Any]:
    """All that can be seen, and how it came to be."""
    events = [(*event[1:], event.timestamp, event.mode) for event in pages.feed(live=False)]
    leases = [(lease.token, lease.deadline, lease.consumer) for lease in pages.leases()]
    return [list(pages.scan()), pages.buried(), leases, events]


def lease_row(lease: journal.Lease | None) -> Any:
    if lease is None:
        return None
    row = v.LentRow(*(getattr(lease, name) for name in v.LentRow._fields))
    return list(row._replace(data=pack(lease.data)))


def lease_rows(leases: list[journal.Lease]) -> list[Any]:
    return [lease_row(lease) for lease in leases]


def results(values: list[Any]) -> list[Any]:
    return [v.result_from(value) if type(value) is not bool else value for value in values]


def shown(value: Any) -> Any:
    """Errors by their class and text: they are no values."""
    if isinstance(value, journal.JournalError):
        return type(value), str(value)
    return [shown(each) for each in value] if isinstance(value, list) else value


def entries(values: list[Any]) -> list[Any]:
    return [None if value is None else v.entry_from(value) for value in values]


def same(value: Any) -> Any:
    return value


Case = tuple[str, dict[str, Any], Callable[[Any], Any], Callable[[Any], Any]]
"""The command, its parameters, how the reply is read, and the verb of the library."""
DATA = {"a": [1, None, b"x"], 5: 1.5}
ITEMS: list[dict[str, Any]] = [
    {"key": "/new", "data": pack(1)},
    {"key": "/2", "data": pack(2), "priority": 3, "delay": 5},
    {"key": "/3", "data": pack(3)},
    {"key": b"\xff", "data": pack(DATA), "owner": "us", "priority": None, "expiration": START + 5},
    {"key": "/bad", "data": b"\xc1"},
    {"key": "/new", "data": pack(4), "process_date": START + 7, "insertion_date": START - 7},
]
PUTS = [
    Put("/new", 1), Put("/2", 2, priority=3, delay=5), Put("/3", 3), Put(b"\xff", DATA, owner="us", expiration=START + 5),
    Put("/bad", object()), Put("/new", 4, process_date=START + 7, insertion_date=START - 7),
]  # fmt: skip
CASES: list[Case] = [
    ("PUT", {"key": "/x", "data": pack(DATA)}, v.result_from, lambda j: j.put("/x", DATA)),
    ("PUT", {"key": "/x", "data": pack(b"bytes")}, v.result_from, lambda j: j.put("/x", b"bytes")),
    (
        "PUT",
        {"key": "/2", "data": pack({"m": 1}), "priority": 0},
        v.result_from,
        lambda j: j.put("/2", {"m": 1}, priority=0),
    ),
    ("PUT", {"key": b"\x00k", "data": pack(None), "priority": None}, v.result_from, lambda j: j.put(b"\x00k", None)),
    ("PUT", {"key": "ä", "data": pack("ö"), "delay": 10}, v.result_from, lambda j: j.put("ä", "ö", delay=10)),
    (
        "PUT",
        {
            "key": "/x",
            "data": pack(1),
            "process_date": START + 5,
            "expiration": START + 9,
            "owner": "us",
            "insertion_date": 7,
        },
        v.result_from,
        lambda j: j.put("/x", 1, process_date=START + 5, expiration=START + 9, owner="us", insertion_date=7),
    ),
    ("PUT", {"key": "/0", "data": pack(1)}, v.result_from, lambda j: j.put("/0", 1)),
    ("PUT", {"key": "/1", "data": pack(1)}, v.result_from, lambda j: j.put("/1", 1)),
    ("PUT", {"data": pack(1)}, v.result_from, lambda j: j.put(None, 1)),
    ("PUT_MANY", {"puts": ITEMS}, results, lambda j: j.put_many(PUTS)),
    ("PUT_MANY", {"puts": []}, results, lambda j: j.put_many([])),
    ("PUT_MANY", {"puts": ITEMS[:1]}, results, lambda j: j.put_many(PUTS[:1])),
    ("CREATE", {"key": "/x", "data": pack(1)}, v.result_from, lambda j: j.create("/x", 1)),
    ("CREATE", {"key": "/2", "data": pack({"n": 2})}, v.result_from, lambda j: j.create("/2", {"n": 2})),
    (
        "CREATE",
        {"key": "/2", "data": pack({"n": 2}), "is_repeatable": True},
        v.result_from,
        lambda j: j.create("/2", {"n": 2}, is_repeatable=True),
    ),
    ("CREATE_MANY", {"puts": ITEMS}, results, lambda j: j.create_many(PUTS)),
    (
        "CREATE_MANY",
        {"puts": [{"key": "/2", "data": pack({"n": 2})}], "is_repeatable": True},
        results,
        lambda j: j.create_many([Put("/2", {"n": 2})], is_repeatable=True),
    ),
    ("MOVE", {"key": "/2", "delay": 99, "priority": 4}, v.result_from, lambda j: j.move("/2", delay=99, priority=4)),
    ("MOVE", {"key": "/3", "process_date": START + 1}, v.result_from, lambda j: j.move("/3", process_date=START + 1)),
    (
        "MOVE",
        {"key": "/3", "process_date": START + 1, "owner": "us", "version": 1},
        v.result_from,
        lambda j: j.move("/3", process_date=START + 1, owner="us", version=1),
    ),
    ("MOVE", {"key": "/0", "delay": 1}, v.result_from, lambda j: j.move("/0", delay=1)),
    ("MOVE", {"key": "/2"}, v.result_from, lambda j: j.move("/2")),
    (
        "MOVE_MANY",
        {"moves": [{"key": "/2", "delay": 1}, {"key": "no", "delay": 1}, {"key": "/3", "priority": 1, "owner": "us"}]},
        results,
        lambda j: j.move_many([Move("/2", delay=1), Move("no", delay=1), Move("/3", priority=1, owner="us")]),
    ),
    ("DELETE", {"key": "/2"}, same, lambda j: j.delete("/2")),
    ("DELETE", {"key": "no"}, same, lambda j: j.delete("no")),
    ("DELETE", {"key": "/3", "version": 2, "owner": "us"}, same, lambda j: j.delete("/3", version=2, owner="us")),
    (
        "DELETE_MANY",
        {"deletes": [{"key": "/2"}, {"key": "/0"}, {"key": "no"}, {"key": "/3", "owner": "us"}]},
        results,
        lambda j: j.delete_many(["/2", "/0", "no", Delete("/3", owner="us")]),
    ),
    ("CLAIM", {"consumer": "c"}, same, lambda j: {"lease": lease_row(j.claim(consumer="c")), "next_due": None}),
    ("CLAIM", {"lease": 5}, same, lambda j: {"lease": lease_row(j.claim(lease=5)), "next_due": None}),
    (
        "CLAIM",
        {"consumer": "c", "buckets": "0-511", "durability": "full"},
        same,
        lambda j: {
            "lease": lease_row(j.claim(consumer="c", buckets=Range(0, 512), durability="full")),
            "next_due": None,
        },
    ),
    (
        "CLAIM",
        {"buckets": "0-1023"},
        same,
        lambda j: {"lease": lease_row(j.claim(buckets=Range(0, 1024))), "next_due": None},
    ),
    (
        "CLAIM_MANY",
        {"n": 5, "consumer": "c"},
        same,
        lambda j: {"leases": lease_rows(j.claim_many(5, consumer="c")), "next_due": None},
    ),
    ("CLAIM_MANY", {"n": 16_384}, same, lambda j: {"leases": lease_rows(j.claim_many(16_384)), "next_due": None}),
    (
        "CLAIM_MANY",
        {"n": 99, "buckets": "512-1023"},
        same,
        lambda j: {"leases": lease_rows(j.claim_many(99, buckets=Range(512, 1024))), "next_due": None},
    ),
    ("CLAIM_KEY", {"key": "/4", "consumer": "c"}, same, lambda j: lease_row(j.claim_key("/4", consumer="c"))),
    (
        "CLAIM_KEY",
        {"key": "/5", "version": 1, "lease": 7},
        same,
        lambda j: lease_row(j.claim_key("/5", version=1, lease=7)),
    ),
    ("CLAIM_KEY", {"key": "/5", "version": 9}, same, lambda j: lease_row(j.claim_key("/5", version=9))),
    ("CLAIM_KEY", {"key": "/0"}, same, lambda j: lease_row(j.claim_key("/0"))),
    ("CLAIM_KEY", {"key": "/9"}, same, lambda j: lease_row(j.claim_key("/9"))),
    ("CLAIM_KEY", {"key": "no"}, same, lambda j: lease_row(j.claim_key("no"))),
    ("DONE", {"token": TOKEN + 1}, same, lambda j: j.done(TOKEN + 1)),
    ("DONE", {"token": TOKEN + 1, "durability": "full"}, same, lambda j: j.done(TOKEN + 1, durability="full")),
    ("DONE", {"token": 7}, same, lambda j: j.done(7)),
    (
        "DONE_MANY",
        {"tokens": [TOKEN + 1, 7, TOKEN + 2, TOKEN + 1]},
        lambda value: [None if each is None else v.error_from(each) for each in value],
        lambda j: j.done_many([TOKEN + 1, 7, TOKEN + 2, TOKEN + 1]),
    ),
    (
        "EXTEND",
        {"token": TOKEN + 1, "lease": 70_000},
        lambda value: (value["deadline"], value["version"]),
        lambda j: j.extended(TOKEN + 1, 70_000),
    ),
    ("EXTEND", {"token": TOKEN + 1}, lambda value: value["deadline"], lambda j: j.extend(TOKEN + 1)),
    ("EXTEND", {"token": 7}, same, lambda j: j.extend(7)),
    ("RELEASE", {"token": TOKEN + 1}, same, lambda j: j.release(TOKEN + 1)),
    (
        "RELEASE",
        {"token": TOKEN + 1, "delay": 5, "failed": True},
        same,
        lambda j: j.release(TOKEN + 1, delay=5, failed=True),
    ),
    (
        "RELEASE",
        {"token": TOKEN + 2, "process_date": START + 3},
        same,
        lambda j: j.release(TOKEN + 2, process_date=START + 3),
    ),
    ("RELEASE", {"token": 7}, same, lambda j: j.release(7)),
    ("BURY", {"token": TOKEN + 1, "reason": "broken"}, same, lambda j: j.bury(TOKEN + 1, "broken")),
    ("BURY", {"token": TOKEN + 1}, same, lambda j: j.bury(TOKEN + 1)),
    ("BURY", {"token": 7}, same, lambda j: j.bury(7)),
    ("LEASE", {"token": TOKEN + 1}, same, lambda j: lease_row(j.lease(TOKEN + 1))),
    ("LEASE", {"token": 7}, same, lambda j: lease_row(j.lease(7))),
    ("LEASES", {"consumer": "d"}, lambda value: value["leases"], lambda j: lease_rows(j.leases(consumer="d"))),
    ("LEASES", {}, lambda value: value["leases"], lambda j: lease_rows(j.leases())),
    ("GET", {"key": "/4"}, v.entry_from, lambda j: j.get("/4")),
    ("GET", {"key": "/1"}, v.entry_from, lambda j: j.get("/1")),
    ("GET", {"key": "no"}, same, lambda j: j.get("no")),
    ("GET_MANY", {"keys": ["/4", "no", "/1"]}, entries, lambda j: j.get_many(["/4", "no", "/1"])),
    ("SELECT", {}, v.page_from, lambda j: j.select()),
    ("SELECT", {"limit": 3}, v.page_from, lambda j: j.select(limit=3)),
    (
        "SELECT",
        {"status": "processing", "consumer": "c"},
        v.page_from,
        lambda j: j.select(status="processing", consumer="c"),
    ),
    (
        "SELECT",
        {"status": "available", "owner": "us", "since": START, "until": START + 1, "buckets": "0-700"},
        v.page_from,
        lambda j: j.select(status="available", owner="us", since=START, until=START + 1, buckets=Range(0, 701)),
    ),
    ("SCAN", {}, lambda value: entries(value["entries"]), lambda j: list(j.scan())),
    (
        "SCAN",
        {"status": "waiting", "since": START + 1},
        lambda value: entries(value["entries"]),
        lambda j: list(j.scan(status="waiting", since=START + 1)),
    ),
    ("COUNT", {}, same, lambda j: j.count()),
    ("COUNT", {"status": "waiting", "owner": "us"}, same, lambda j: j.count(status="waiting", owner="us")),
    ("ENTRIES_OF", {"owner": "us", "limit": 2}, v.page_from, lambda j: j.entries_of("us", limit=2)),
    ("COUNT_OF", {"owner": "us"}, same, lambda j: j.count_of("us")),
    ("FORECAST", {"step": 1000, "horizon": 60_000}, v.forecast_from, lambda j: j.forecast(step=1000, horizon=60_000)),
    ("FORECAST", {}, v.forecast_from, lambda j: j.forecast()),
    ("STATISTICS", {}, lambda value: value | MEASURED, lambda j: j.statistics() | MEASURED),
    ("SETTINGS", {}, from_map, lambda j: j.settings),
    ("GENERATIONS", {}, lambda value: [v.generation_from(each) for each in value], lambda j: j.generations()),
    ("DISTANCE", {"a": [1, 2], "b": [1, 9]}, same, lambda j: j.distance(Cursor(1, 2), Cursor(1, 9))),
    ("SHIFT", {"cursor": [1, 9], "n": -3}, v.cursor_from, lambda j: j.shift(Cursor(1, 9), -3)),
    ("LAG", {"cursor": [1, 9]}, same, lambda j: j.lag(Cursor(1, 9))),
    ("LAG", {"cursor": [9, 9]}, same, lambda j: j.lag(Cursor(9, 9))),
    ("DURABLE_CURSOR", {}, v.cursor_from, lambda j: j.durable_cursor),
    ("WAIT_DURABLE", {"cursor": [1, 9]}, same, lambda j: j.wait_durable(Cursor(1, 9))),
    ("WAIT_DURABLE", {"cursor": [1, 9999]}, same, lambda j: j.wait_durable(Cursor(1, 9999))),
    ("OWNERS", {}, lambda value: dict(value["owners"]), lambda j: j.owners()),
    (
        "RAISE_FLAG",
        {"name": "f", "message": "m", "durability": "full"},
        same,
        lambda j: j.raise_flag("f", "m", durability="full"),
    ),
    ("BURIED", {}, lambda value: [v.buried_from(each) for each in value["buried"]], lambda j: j.buried()),
    ("RETRY", {"key": "old"}, v.result_from, lambda j: j.retry("old")),
    ("RETRY", {"key": "no"}, v.result_from, lambda j: j.retry("no")),
    ("DISCARD", {"key": "old"}, same, lambda j: j.discard("old")),
    ("ROTATE", {}, v.generation_from, lambda j: j.rotate()),
    ("COMPACT", {}, v.compacted_from, lambda j: j.compact()),
    ("FEEDS", {}, lambda value: value["feeds"], lambda j: j.feeds()),
    ("FEED_REMOVE", {"consumer": "no"}, same, lambda j: j.remove_feed("no")),
    ("FEED_MARK", {"consumer": "no", "cursor": [1, 3]}, same, lambda j: j.mark_feed("no", Cursor(1, 3))),
    ("FEED_SKIP", {"consumer": "no", "cursor": [1, 3]}, same, lambda j: j.skip_feed("no", Cursor(1, 3))),
]
MEASURED = {"checkpoint_ms_last": 0, "checkpoint_ms_max": 0, "syncs": 0, "sync_time": 0, "put_time": 0}
"""What no two runs have in common."""


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])
def test_a_verb_over_the_wire_is_the_verb(twins: Twins, number: int) -> None:
    """The same result or the same error, and the same entries, leases, records afterwards."""
    command, given, read, call = CASES[number]
    outcomes = []
    for do in (
        lambda: read(ask(twins.asked, command, **given)),
        lambda: call(twins.called.journal("pages")),
    ):
        try:
            outcomes.append(shown(do()))
        except journal.JournalError as e:
            outcomes.append(shown(e))
    asked, called = outcomes
    if command in ("PUT_MANY", "CREATE_MANY") and len(given["puts"]) > 4:
        assert asked[4][0] is called[4][0] is journal.Invalid  # data that is no value is said in other words
        asked[4] = called[4]
    assert asked == called
