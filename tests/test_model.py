"""
The engine against a plain model: dicts and sorted(), and nothing else.

Every rule does the same to both; after each one a full scan equals the model and the store's own check is clean. Keys
collide (three murmurs for all of them), time passes, the store is closed, crashes and is opened again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import journal
from journal.core.keys import key_bytes
from journal.testing import ManualClock
from tests.conftest import copy_live
from tests.engine.helpers import collide

START = 1_700_000_000_000
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "40"))
"""Sequences tried; 40 are a smoke test of some seconds, MODEL_EXAMPLES=2000 is a search."""
TIMEOUTS_MAX = 1
POSTPONE_MAX = 5000
MURMURS = 3
"""All keys share so many, each in a bucket of its own."""

KEYS = st.sampled_from(["a", b"a", "b", "c", "d"])
PRIORITIES = st.sampled_from([0, 100, 200])
DELAYS = st.sampled_from([0, 1, 1000, 9000])
LIVES = st.sampled_from([None, None, 500, 3000])
AGES = st.sampled_from([0, 0, 0, 700])
SIZES = st.integers(1, 3)
PARTS = st.sampled_from(
    [None, None, journal.Range(0, 1), journal.Range(0, 2), journal.Range(1, 3), journal.Range(0, 3)]
)


@dataclass
class Row:
    """An entry of the model."""

    key: Any
    data: Any
    priority: int
    date: int
    insertion: int
    expiration: int
    accepted: int
    timeouts: int = 0
    deadline: int = 0
    token: int = 0
    successor: Row | None = None

    @property
    def place(self) -> tuple[int, int]:
        return self.priority, self.date


def merged(old: Row, new: Row) -> Row:
    """Seed 004's table, with the cap on postponing."""
    date = max(old.date, new.date)
    if date > old.date:
        date = max(old.date, min(date, old.insertion + POSTPONE_MAX))
    return replace(
        old,
        data=new.data,
        priority=min(old.priority, new.priority),
        date=date,
        expiration=0 if 0 in (old.expiration, new.expiration) else max(old.expiration, new.expiration),
        accepted=max(old.accepted, new.accepted),
        timeouts=0,
    )


@dataclass
class Model:
    """What the store should hold."""

    rows: dict[Any, Row] = field(default_factory=dict)
    buried: list[Row] = field(default_factory=list)
    finished: set[int] = field(default_factory=set)
    flags: int = 0

    def put(self, new: Row) -> str:
        row = self.rows.get(new.key)
        if row is None:
            self.rows[new.key] = new
            return "inserted"
        last = row.successor or row
        if new.accepted < last.accepted:
            return "ignored"
        if not row.token:
            self.rows[new.key] = merged(row, new)
            return "merged"
        row.successor = new if row.successor is None else merged(row.successor, new)
        return "queued"

    def due(self, now: int, part: journal.Range | None = None) -> list[Row]:
        """Whom a claim may get, in order of work; equals in place are equals."""
        waiting = sorted((r for r in self.rows.values() if not r.token and r.date <= now), key=lambda r: r.place)
        if part is not None:
            waiting = [r for r in waiting if sum(key_bytes(r.key)) % MURMURS in part]
        return [r for r in waiting if r.priority < 200] or waiting

    def free(self, row: Row) -> None:
        """The lease ended badly: the row waits, its successor merged in."""
        successor, row.successor, row.token, row.deadline = row.successor, None, 0, 0
        if successor is not None:
            self.rows[row.key] = merged(row, successor)

    def finish(self, row: Row) -> None:
        """The entry is gone; its successor takes its place."""
        del self.rows[row.key]
        if row.successor is not None:
            self.rows[row.key] = row.successor

    def tick(self, now: int) -> None:
        """What happens by itself."""
        for row in list(self.rows.values()):
            if row.token and row.deadline <= now:
                if row.successor is None and not (row.expiration and row.expiration <= now):
                    row.timeouts += 1
                    if row.timeouts > TIMEOUTS_MAX:
                        self.bury(row)
                        self.flags += 1
                        continue
                self.free(row)
        for row in list(self.rows.values()):
            if not row.token and row.expiration and row.expiration <= now:
                del self.rows[row.key]

    def bury(self, row: Row) -> None:
        self.finish(row)
        self.buried.append(row)


class Engine(RuleBasedStateMachine):
    """Both sides by side."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        collide(self.patch, MURMURS)
        self.folder = Path(tempfile.mkdtemp(prefix="journal-model-"))
        self.path = self.folder / "0"
        self.clock = ManualClock(START)
        self.model = Model()
        self.numbers = iter(range(10**9))
        self.store: journal.Store | None = None
        self.lost: list[int] = []
        self.acked: set[journal.Cursor] = set()
        self.unacked: set[journal.Cursor] = set()
        """Delivered by the feed, and not acknowledged."""

    @initialize(durability=st.sampled_from(["full", "interval"]))
    def begin(self, durability: str) -> None:
        self.durability = durability
        self.open()
        self.pages.feed(consumer="model", live=False).close()

    def open(self) -> None:
        self.store = journal.open(self.path, clock=self.clock, durability=self.durability)
        self.pages = self.store.journal(
            "pages", timeouts_max=TIMEOUTS_MAX, postpone_max=POSTPONE_MAX, generations_max=2, buckets=MURMURS
        )

    def teardown(self) -> None:
        try:
            if self.store is not None:
                self.store.close()
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder)

    @property
    def now(self) -> int:
        return self.clock.now()

    def new(self, key: Any, priority: int, delay: int, life: int | None, age: int) -> tuple[Row, dict[str, Any]]:
        insertion = self.now - age
        data = next(self.numbers)
        expiration = 0 if life is None else self.now + life
        row = Row(key, data, priority, self.now + delay, insertion, expiration, insertion)
        options = {"priority": priority, "delay": delay, "expiration": expiration, "insertion_date": insertion}
        return row, options

    def held(self) -> list[Row]:
        return sorted((r for r in self.model.rows.values() if r.token), key=lambda r: r.token)

    # -- rules --------------------------------------------------------------------------------------------------------

    @rule(key=KEYS, priority=PRIORITIES, delay=DELAYS, life=LIVES, age=AGES)
    def put(self, key: Any, priority: int, delay: int, life: int | None, age: int) -> None:
        row, options = self.new(key, priority, delay, life, age)
        result = self.pages.put(key, row.data, **options)
        assert result.outcome == self.model.put(row)

    @rule(items=st.lists(st.tuples(KEYS, PRIORITIES, DELAYS, LIVES, AGES), max_size=5))
    def put_many(self, items: list[Any]) -> None:
        pairs = [self.new(*item) for item in items]
        results = self.pages.put_many([journal.Put(row.key, row.data, **options) for row, options in pairs])
        assert [r.outcome for r in results] == [self.model.put(row) for row, _ in pairs]
        # An entry that expires at once is put, then gone: the model ticks as time does.

    @rule(key=KEYS, delay=DELAYS)
    def create(self, key: Any, delay: int) -> None:
        row, options = self.new(key, 100, delay, None, 0)
        if key in self.model.rows:
            with pytest.raises(journal.KeyExists):
                self.pages.create(key, row.data, **options)
        else:
            assert self.pages.create(key, row.data, **options).outcome == self.model.put(row) == "inserted"

    @rule(n=SIZES, lease=st.sampled_from([1, 1000, 4000]), is_single=st.booleans(), part=PARTS)
    def claim(self, n: int, lease: int, is_single: bool, part: journal.Range | None) -> None:
        due = self.model.due(self.now, part)
        if is_single:
            n, one = 1, self.pages.claim(lease=lease, buckets=part)
            leases = [] if one is None else [one]
        else:
            leases = self.pages.claim_many(n, lease=lease, buckets=part)
        assert [(x.priority, x.process_date) for x in leases] == [r.place for r in due[:n]]
        for x in leases:
            row = self.model.rows[x.key]
            assert row in due
            assert (x.data, x.timeouts, x.deadline) == (row.data, row.timeouts, self.now + lease)
            assert x.token not in self.model.finished
            row.token, row.deadline = x.token, x.deadline
            due.remove(row)

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def done(self, data: Any) -> None:
        row = data.draw(st.sampled_from(self.held()))
        self.pages.done(row.token)
        self.model.finished.add(row.token)
        self.model.finish(row)

    @rule(data=st.data())
    def done_many(self, data: Any) -> None:
        rows = [r for r in self.held() if data.draw(st.booleans())]
        late = self.lost[-2:]
        again = sorted(self.model.finished)[-2:]
        results = self.pages.done_many([*late, *(r.token for r in rows), *again])
        assert [isinstance(e, journal.LeaseLost) for e in results] == [True] * len(late) + [False] * (
            len(rows) + len(again)
        )
        for row in rows:
            self.model.finished.add(row.token)
            self.model.finish(row)

    @precondition(lambda self: self.model.finished)
    @rule(data=st.data())
    def done_again(self, data: Any) -> None:
        self.pages.done(data.draw(st.sampled_from(sorted(self.model.finished))))

    @precondition(lambda self: self.lost)
    @rule(data=st.data())
    def late(self, data: Any) -> None:
        token = data.draw(st.sampled_from(self.lost))
        for verb in (self.pages.done, self.pages.extend, self.pages.release, self.pages.bury):
            with pytest.raises(journal.LeaseLost):
                verb(token)

    @precondition(lambda self: self.held())
    @rule(data=st.data(), delay=DELAYS)
    def release(self, data: Any, delay: int) -> None:
        row = data.draw(st.sampled_from(self.held()))
        self.pages.release(row.token, delay=delay)
        self.lost.append(row.token)
        row.date = self.now + delay
        self.model.free(row)

    @precondition(lambda self: self.held())
    @rule(data=st.data(), more=st.sampled_from([1, 2000]))
    def extend(self, data: Any, more: int) -> None:
        row = data.draw(st.sampled_from(self.held()))
        row.deadline = max(row.deadline, self.now + more)
        assert self.pages.extend(row.token, more) == row.deadline

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def bury(self, data: Any) -> None:
        row = data.draw(st.sampled_from(self.held()))
        self.pages.bury(row.token, "given up")
        self.lost.append(row.token)
        self.model.bury(row)

    @precondition(lambda self: self.model.buried)
    @rule(data=st.data())
    def retry(self, data: Any) -> None:
        key = data.draw(st.sampled_from(sorted({r.key for r in self.model.buried}, key=repr)))
        if key in self.model.rows:
            with pytest.raises(journal.KeyExists):
                self.pages.retry(key)
            return
        row = [r for r in self.model.buried if r.key == key][-1]
        self.pages.retry(key)
        self.model.buried.remove(row)
        life = row.expiration if row.expiration > self.now else 0
        self.model.rows[key] = replace(
            row, date=self.now, timeouts=0, token=0, deadline=0, successor=None, expiration=life
        )

    @precondition(lambda self: self.model.buried)
    @rule()
    def discard(self) -> None:
        row = self.model.buried[-1]
        self.pages.discard(row.key)
        self.model.buried.remove(row)

    @rule(key=KEYS)
    def delete(self, key: Any) -> None:
        row = self.model.rows.get(key)
        if row is not None and row.token:
            with pytest.raises(journal.Refused):
                self.pages.delete(key)
            return
        assert self.pages.delete(key) is (row is not None)
        self.model.rows.pop(key, None)

    @rule(key=KEYS, delay=DELAYS, priority=PRIORITIES)
    def move(self, key: Any, delay: int, priority: int) -> None:
        row = self.model.rows.get(key)
        if row is None or row.token:
            with pytest.raises(journal.Refused):
                self.pages.move(key, delay=delay, priority=priority)
            return
        self.pages.move(key, delay=delay, priority=priority)
        row.date, row.priority = self.now + delay, priority

    @rule(ms=st.sampled_from([1, 400, 1000, 6000]))
    def advance(self, ms: int) -> None:
        before = {r.token for r in self.held()}
        self.clock.advance(ms)
        self.model.tick(self.now)
        self.lost += sorted(before - {r.token for r in self.held()})

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule(choices=st.lists(st.sampled_from(["ack", "ack", "ack", "skip", "fail"]), min_size=1, max_size=12))
    def follow(self, choices: list[str]) -> None:
        """What was acknowledged never comes again; what was not comes before all else, one at a time."""
        again = set(self.unacked)
        with self.pages.feed(consumer="model", live=False) as feed:
            for choice in choices:
                event = next(feed, None)
                if event is None:
                    assert not again
                    break
                cursor = event.cursor
                assert cursor not in self.acked
                assert cursor == min(again) if again else cursor > max(self.acked | self.unacked, default=(0, 0))
                self.unacked.add(cursor)
                if choice == "ack":
                    feed.ack(cursor)
                    self.acked.add(cursor)
                    self.unacked.discard(cursor)
                    again.discard(cursor)
                elif choice == "fail":
                    feed.fail(cursor)
                    again = set(self.unacked)
                elif again:
                    break

    @rule()
    def rotate(self) -> None:
        """Nobody sees it."""
        self.pages.rotate()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()

    @rule()
    def crash(self) -> None:
        """A kill -9: what the OS has is there, what the process held is not."""
        copy = self.folder / str(int(self.path.name) + 1)
        copy_live(self.store, copy)
        self.store.close()
        self.path = copy
        self.open()

    # -- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def same(self) -> None:
        if self.store is None:
            return
        self.model.tick(self.now)
        found = [
            (e.key, e.data, e.priority, e.process_date, e.insertion_date, e.expiration, e.status, e.timeouts)
            for e in self.pages.scan()
        ]
        expected = [
            (r.key, r.data, r.priority, r.date, r.insertion, r.expiration, "P" if r.token else "W", r.timeouts)
            for r in self.model.rows.values()
        ]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        assert [x[2:4] for x in found] == sorted(x[2:4] for x in found)
        assert self.pages.count() == len(expected)
        assert self.pages.count(status="P") == len(self.held())
        assert [x.token for x in sorted(self.pages.leases(), key=lambda x: x.token)] == [r.token for r in self.held()]
        assert sorted(repr(b.entry.key) for b in self.pages.buried()) == sorted(repr(r.key) for r in self.model.buried)
        assert sum(f.count for f in self.store.flags()) == self.model.flags
        assert self.pages.feeds()[0].lag == self.pages.lag(journal.Cursor(1, -1)) - len(self.acked)
        assert self.store.check() == []


TestEngine = Engine.TestCase
TestEngine.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
