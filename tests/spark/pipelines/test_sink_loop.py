"""Sinks behind a commit log: the pictures of the design, with their numbers; failures, one at a time, operators, compaction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import journal
from spark_export.pipelines.contract import COMPLETE, COPY, SYNC, SinkBatch
from spark_export.pipelines.declaration import SinkDeclaration
from spark_export.pipelines.functions import FunctionFailed, function_of
from spark_export.pipelines.message import messages_of, table_of
from spark_export.pipelines.runtime.commit_log import CommitLog, SinkOffset
from spark_export.pipelines.runtime.sink_loop import SinkLoop

KEYS = "AABBAABBCACBAACB"  # the messages 0 to 15 of the design's commit log


class ListSink:
    """A bulk writer that keeps its batches, and refuses some ids."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.bad: set[int] = set()

    def check(self) -> None:
        """Nothing to reach."""

    def start(self, spark: Any, pipeline: str, name: str) -> None:
        """Nothing to begin."""

    def resume(self, position: int) -> int:
        """It remembers nothing."""
        return position

    def write(self, batch: SinkBatch) -> None:
        """Take the batch, unless a message of it is bad."""
        ids = [message.id for message in messages_of(batch.tables())]
        if self.bad & set(ids):
            raise OSError(f"refused {sorted(self.bad & set(ids))[0]}")
        self.batches.append(ids)

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[journal.Store]:
    """A store that is checked when the test is over."""
    with journal.open(tmp_path / "work.journal") as opened:
        yield opened
        assert opened.check() == []


def _table(namespace: str, number: int = 1) -> pa.Table:
    return table_of(namespace, [{"n": n} for n in range(number)], {"n": pa.int64()}, key=("n",))


def _append(commit_log: CommitLog, keys: str) -> None:
    for key in keys:
        commit_log.append([(key, _table(key), 1, None)], SYNC)


def _loop(commit_log: CommitLog, sink: ListSink, name: str = "c0", **declared: Any) -> SinkLoop:
    loop = SinkLoop(commit_log, SinkDeclaration(name=name, type="list", **declared), sink, batch=1000)
    loop.prepare()
    return loop


def test_what_was_not_acknowledged_comes_again_after_the_offset(store: journal.Store) -> None:
    """c0 at 12 gets 13 to 15, c1 at 13 gets 14 and 15; then both are at 15."""
    commit_log = CommitLog(store, "p", ["c0", "c1"])
    _append(commit_log, KEYS)
    commit_log.save("c0", SinkOffset(12))
    commit_log.save("c1", SinkOffset(13))
    again = CommitLog(store, "p", ["c0", "c1"])
    for name, expected in (("c0", [13, 14, 15]), ("c1", [14, 15])):
        sink = ListSink()
        _loop(again, sink, name).catch_up()
        assert sink.batches == [expected]
        assert again.offset(name).position == 15


def test_a_bulk_that_fails_leaves_the_offset_and_comes_one_at_a_time(store: journal.Store) -> None:
    """9 to 15 fail in bulk: the offset stays 8. One at a time 9 to 13 pass and 14 fails: the offset is 13, and 14 is named."""
    commit_log = CommitLog(store, "p", ["c0"])
    _append(commit_log, "A" * 9)
    sink = ListSink()
    _loop(commit_log, sink).catch_up()
    assert commit_log.offset("c0").position == 8
    _append(commit_log, "A" * 7)
    sink.bad = {14}
    with pytest.raises(OSError, match="refused 14"):
        _loop(commit_log, sink).catch_up()
    assert commit_log.offset("c0").position == 8
    assert sink.batches == [list(range(9))]
    again = CommitLog(store, "p", ["c0"])
    with pytest.raises(OSError, match="refused 14"):
        _loop(again, sink).catch_up()
    assert sink.batches[1:] == [[9], [10], [11], [12], [13]]
    kept = again.offset("c0")
    assert (kept.position, kept.failed_id, kept.error) == (13, 14, "refused 14")
    sink.bad = set()
    _append(again, "AAA")
    _loop(again, sink).catch_up()
    assert sink.batches[6:] == [[14], [15], [16, 17, 18]]
    assert again.offset("c0") == SinkOffset(18)


def test_a_skipped_message_is_acknowledged_without_being_sent(store: journal.Store) -> None:
    """An operator skips 14: it is not delivered, and the offset passes over it."""
    commit_log = CommitLog(store, "p", ["c0"])
    _append(commit_log, "A" * 16)
    commit_log.save("c0", SinkOffset(13, skipped=(14,)))
    assert commit_log.offset("c0") == SinkOffset(14)
    commit_log.save("c0", SinkOffset(11, skipped=(13,)))
    sink = ListSink()
    _loop(commit_log, sink).catch_up()
    assert sink.batches == [[12, 14, 15]]


def test_each_sink_has_its_own_filter_functions_and_offset(store: journal.Store) -> None:
    """One gets A and C, one B; what a filter or a function drops is acknowledged."""
    commit_log = CommitLog(store, "p", ["ac", "b", "none"])
    _append(commit_log, KEYS)
    ac, b, none = ListSink(), ListSink(), ListSink()
    _loop(commit_log, ac, "ac", namespace="^[AC]$").catch_up()
    _loop(commit_log, b, "b", namespace="B").catch_up()
    drop = function_of({"skip": {"field": "n", "op": ">", "match": 0}})
    _loop(commit_log, none, "none", functions=(drop,)).catch_up()
    assert ac.batches == [[n for n, key in enumerate(KEYS) if key in "AC"]]
    assert b.batches == [[n for n, key in enumerate(KEYS) if key == "B"]]
    assert [ids for ids in none.batches if ids] == []
    assert {commit_log.offset(name).position for name in ("ac", "b", "none")} == {15}


def test_a_function_that_fails_stops_its_sink_and_names_the_message(store: journal.Store) -> None:
    """The message's id is kept with the error; the offset stays."""
    commit_log = CommitLog(store, "p", ["c0"])
    commit_log.append([("A", table_of("A", [{"t": "1"}, {"t": "x"}], {"t": pa.string()}), 2, None)], COPY)
    cast = function_of({"cast": {"fields": {"t": "int64"}}})
    sink = ListSink()
    with pytest.raises(FunctionFailed, match="message 1"):
        _loop(commit_log, sink, functions=(cast,)).catch_up()
    assert sink.batches == []
    assert commit_log.offset("c0")._replace(error=None) == SinkOffset(-1, single_until=1, failed_id=1)


def test_on_error_skip_raises_a_flag_and_goes_on(store: journal.Store) -> None:
    """Only the message that fails by itself is left out."""
    commit_log = CommitLog(store, "p", ["c0"])
    _append(commit_log, "A" * 5)
    sink = ListSink()
    sink.bad = {2}
    _loop(commit_log, sink, on_error="skip").catch_up()
    assert sink.batches == [[0], [1], [3], [4]]
    assert [flag.message for flag in store.flags()] == ["sink c0 skipped message 2: refused 2"]


def test_blocks_are_cut_where_one_at_a_time_asks_for_it(store: journal.Store) -> None:
    """A block of many messages is delivered message by message after a failure."""
    commit_log = CommitLog(store, "p", ["c0"])
    commit_log.append([("A", _table("A", 4), 4, None), ("B", _table("B", 2), 2, None)], COPY)
    sink = ListSink()
    sink.bad = {3}
    loop = _loop(commit_log, sink)
    with pytest.raises(OSError, match="refused"):
        loop.catch_up()
    sink.bad = set()
    _loop(commit_log, sink).catch_up()
    assert sink.batches == [[0], [1], [2], [3], [4], [5]]


def test_the_reader_is_told_the_last_message_and_the_state(store: journal.Store) -> None:
    """One namespace is in its copy, one has finished it, one follows; each with its last message and position."""
    commit_log = CommitLog(store, "p", ["c0"])
    commit_log.append([("abc", _table("abc", 3), 3, {"page": 1})], COPY)
    commit_log.append([("def", _table("def", 2), 2, None)], COPY)
    commit_log.complete("def", {"lsn": 7}, _table("def").schema)
    commit_log.append([("xyz", _table("xyz"), 1, {"lsn": 123456})], SYNC)
    states = CommitLog(store, "p", ["c0"]).states()
    assert {name: (state.mode, state.position) for name, state in states.items()} == {
        "abc": (COPY, {"page": 1}),
        "def": (COMPLETE, {"lsn": 7}),
        "xyz": (SYNC, {"lsn": 123456}),
    }
    assert [states[name].last.data for name in ("abc", "def", "xyz") if states[name].last] == [
        {"n": 2},
        {"n": 1},
        {"n": 0},
    ]  # type: ignore[union-attr]


def test_compaction_keeps_the_last_message_of_each_namespace(store: journal.Store) -> None:
    """Of 0 to 16, which the sink has, 14 (C), 15 (B) and 16 (A) stay, and all that it has not."""
    commit_log = CommitLog(store, "p", ["c0"])
    _append(commit_log, KEYS + "A")
    commit_log.pages.rotate()
    _append(commit_log, "AABBAABBCAC")
    commit_log.save("c0", SinkOffset(16))
    commit_log.pages.compact()
    again = CommitLog(store, "p", ["c0"])
    assert [(block.first, block.namespace) for block in again.blocks[:3]] == [(14, "C"), (15, "B"), (16, "A")]
    assert [block.first for block in again.blocks[3:]] == list(range(17, 28))
    sink = ListSink()
    _loop(again, sink).catch_up()
    assert sink.batches == [list(range(17, 28))]
