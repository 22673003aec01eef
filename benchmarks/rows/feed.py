"""
What following the log costs: the reader, against a loop that reads the same bytes and unpacks them; and the writer.

The bare loop reads each segment whole, walks over the heads and unpacks the data of each record with msgpack. It
verifies nothing, makes no events and knows no offsets: it is what the format costs in Python. All times are divided by
the number of changes. In a log of groups the loop runs once for a thousand of them, which msgpack unpacks as one list, so
a second loop is measured there that also steps over each change of a group, as a reader of them must.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import msgpack

import journal
from benchmarks.measure import DATA, Contender, interleave, say
from benchmarks.ours import JOURNAL, load
from benchmarks.plan import Plan
from benchmarks.table import Row
from journal.core.log.record import HEAD, HEAD_BYTES

READ_ROUNDS = 5
ACK_EVERY = 100
"""Events that the follower acknowledges at a time."""
LONG = 40
"""Unsynced puts in a round, beside a follower: so many times as many as alone, half a second."""


def feed(directory: Path, plan: Plan) -> list[Row]:
    """All rows of the section."""
    rows = _reading(directory, plan, is_grouped=False)
    rows += _reading(directory, plan, is_grouped=True)
    rows += [_writing(directory, plan, durability) for durability in ("full", "interval")]
    return rows


# -- reading --------------------------------------------------------------------------------------------------------------


def bare_loop(directory: Path, *, is_each: bool = False) -> int:
    """Read and unpack every record of a log, and step over each change of a group; how many changes it has."""
    changes = 0
    unpack, unpackb = HEAD.unpack_from, msgpack.unpackb
    for name in sorted(os.listdir(directory)):
        data = (directory / name).read_bytes()
        at = 0
        while at + HEAD.size <= len(data):
            _, size, _, _, names = unpack(data, at)
            if size == 0:
                break
            end = at + HEAD_BYTES + size
            parts = unpackb(data[at + HEAD_BYTES + 8 + names : end - 4])
            if is_each:
                for _primary, _value in zip(parts[3][::2], parts[3][1::2], strict=True):
                    changes += 1
            else:
                changes += parts[2]
            at = end
    return changes


def _reading(directory: Path, plan: Plan, *, is_grouped: bool) -> list[Row]:
    what = "groups of 1,000 puts" if is_grouped else "single puts"
    say(f"reading {plan.many:,} events, {what}")
    store = journal.open(directory / ("groups" if is_grouped else "singles"), durability="none")
    entries = store.journal(JOURNAL)
    entries.feed(consumer="hold").close()
    if is_grouped:
        load(entries, plan.many, "page")
    else:
        put = entries.put
        for number in range(plan.many):
            put(f"page-{number}", DATA)
    store.checkpoint()
    logs = store.path / JOURNAL / "000001" / "log"

    def bare() -> None:
        assert bare_loop(logs) == plan.many

    def each() -> None:
        assert bare_loop(logs, is_each=True) == plan.many

    def iterate() -> None:
        assert sum(1 for _ in entries.feed(live=False)) == plan.many

    def look() -> None:
        for event in entries.feed(live=False):
            if event.op != "insert" or event.key is None or event.data != DATA:
                raise AssertionError(event)

    contenders = [
        Contender("a bare loop", plan.many, bare),
        Contender("iterate", plan.many, iterate),
        Contender("look", plan.many, look),
    ]
    if is_grouped:
        contenders.append(Contender("a bare loop over each", plan.many, each))
    times = interleave(contenders, READ_ROUNDS)
    store.close()
    theirs = times["a bare loop"]
    note = "the loop runs once for a thousand changes" if is_grouped else ""
    rows = [
        Row.compare(f"feed: an event, {what}", times["iterate"], theirs, 0.4, note=note),
        Row.compare(
            f"feed: an event, {what}, op, key and data read",
            times["look"],
            theirs,
            0.4,
            note=note or "the loop looks at none of them",
        ),
    ]
    if is_grouped:
        theirs, note = times["a bare loop over each"], "the loop steps over each change"
        rows += [
            Row.compare(f"feed: an event, {what}", times["iterate"], theirs, 0.4, note=note),
            Row.compare(f"feed: an event, {what}, op, key and data read", times["look"], theirs, 0.4, note=note),
        ]
    return rows


# -- writing --------------------------------------------------------------------------------------------------------------


class _Followed:
    """A journal that a live feed of the same process follows, or none does."""

    def __init__(self, path: Path, durability: str, *, is_followed: bool) -> None:
        self.store = journal.open(path, durability=durability)
        self.journal = self.store.journal(JOURNAL)
        self._number = 0
        self._feed = self.journal.feed(consumer="bench", wait_acks=True) if is_followed else None
        self._thread = threading.Thread(target=self._follow, daemon=True)
        if is_followed:
            self._thread.start()

    def _follow(self) -> None:
        assert self._feed is not None
        seen = []
        for event in self._feed:
            seen.append(event)
            if len(seen) == ACK_EVERY:
                self._feed.ack(seen)
                seen.clear()

    def contender(self, name: str, calls: int) -> Contender:
        return Contender(name, calls, lambda: self._put(calls), self._catch_up)

    def _put(self, calls: int) -> None:
        put = self.journal.put
        for number in range(self._number, self._number + calls):
            put(f"page-{number}", DATA)
        self._number += calls

    def _catch_up(self) -> None:
        """What the follower has not read yet must not be read in the other's time."""
        pause = threading.Event()
        while self._feed is not None and self._feed.lag >= ACK_EVERY:
            pause.wait(0.001)

    def close(self) -> None:
        self.store.close()
        if self._feed is not None:
            self._thread.join()


def _writing(directory: Path, plan: Plan, durability: str) -> Row:
    say(f"puts with a feed consumer, {durability}")
    # Unsynced puts come so fast that a feed looks at hundreds of them at once: in a short round its work would fall behind the end.
    calls = plan.calls if durability == "full" else LONG * plan.unsynced_calls
    alone = _Followed(directory / f"alone-{durability}", durability, is_followed=False)
    followed = _Followed(directory / f"followed-{durability}", durability, is_followed=True)
    contenders = [alone.contender("without a feed", calls), followed.contender("with one", calls)]
    times = interleave(contenders, plan.rounds * 2 if durability == "full" else plan.rounds // 2, warm_up=2)
    alone.close()
    followed.close()
    what = f"{durability}: a put, with a live feed in the same process"
    return Row.compare(what, times["with one"], times["without a feed"], 0.8)
