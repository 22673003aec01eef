"""
The engine against a plain model of its entries.

Every rule does the same to both; after each one a full scan equals the model and the store's own check is clean. Keys
collide (three murmurs for all of them), time passes, the store is closed, crashes and is opened again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

import journal
from tests.model.rows import MURMURS, POSTPONE_MAX, TIMEOUTS_MAX, Model, Row
from tests.model.world import World

KEYS = st.sampled_from(["a", b"a", "b", "c", "a:1"])
PRIORITIES = st.sampled_from([0, 100, 200])
DELAYS = st.sampled_from([0, 1, 1000, 9000])
LIVES = st.sampled_from([None, None, 500, 3000])
AGES = st.sampled_from([0, 0, None, None, 700])
"""How long before it is put an entry was inserted; None: the engine says when."""
STEPS = st.sampled_from([-3_600_000, -7000, -1500, 1500, 7000, 3_600_000])
SIZES = st.integers(1, 3)
PARTS = st.sampled_from(
    [None, None, journal.Range(0, 1), journal.Range(0, 2), journal.Range(1, 3), journal.Range(0, 3)]
)


class Wish(NamedTuple):
    """A put before it is made."""

    row: Row | None
    """What it should become; None: it must be refused."""
    key: Any
    data: Any
    options: dict[str, Any]


class Entries(World):
    """Both sides by side."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.numbers = iter(range(10**9))
        self.lost: list[int] = []

    def start(self, durability: str, **options: Any) -> None:
        options |= {
            "timeouts_max": TIMEOUTS_MAX,
            "postpone_max": POSTPONE_MAX,
            "generations_max": 2,
            "buckets": MURMURS,
        }
        super().start(durability, **options)

    def new(self, key: Any, priority: int, delay: int, life: int | None, age: int | None) -> Wish:
        """What a producer asks for next."""
        insertion = self.now - (age or 0)
        expiration = 0 if life is None else self.now + life
        given_key, given, stored = self.written(key, next(self.numbers))
        row = None
        if stored is not None:
            row = Row(*stored, priority, self.now + delay, insertion, expiration, insertion, stamped=age is None)
        options = {"priority": priority, "delay": delay, "expiration": expiration}
        if age is not None:
            options["insertion_date"] = insertion
        return Wish(row, given_key, given, options)

    def written(self, key: Any, number: int) -> tuple[Any, Any, tuple[Any, Any] | None]:
        """The key and the data that are given, and those that must be stored; None: it is refused."""
        return key, number, (key, number)

    def kept(self, row: Row, result: journal.PutResult) -> None:
        """A put was accepted: it says the same as the model, and its event will."""
        outcome = self.model.put(row)
        assert result.outcome == outcome
        if outcome != "ignored":
            self.told[result.cursor] = row.key, row.data

    def held(self) -> list[Row]:
        return sorted((r for r in self.model.rows.values() if r.token), key=lambda r: r.token)

    # -- rules --------------------------------------------------------------------------------------------------------

    @rule(key=KEYS, priority=PRIORITIES, delay=DELAYS, life=LIVES, age=AGES)
    def put(self, key: Any, priority: int, delay: int, life: int | None, age: int | None) -> None:
        wish = self.new(key, priority, delay, life, age)
        if wish.row is None:
            with pytest.raises(journal.Invalid):
                self.pages.put(wish.key, wish.data, **wish.options)
        else:
            self.kept(wish.row, self.pages.put(wish.key, wish.data, **wish.options))

    @rule(items=st.lists(st.tuples(KEYS, PRIORITIES, DELAYS, LIVES, AGES), max_size=5))
    def put_many(self, items: list[Any]) -> None:
        wishes = [self.new(*item) for item in items]
        results = self.pages.put_many([journal.Put(wish.key, wish.data, **wish.options) for wish in wishes])
        assert len(results) == len(wishes)
        for wish, result in zip(wishes, results, strict=True):
            if wish.row is None:
                assert isinstance(result, journal.Invalid)
            else:
                assert isinstance(result, journal.PutResult)
                self.kept(wish.row, result)

    @rule(key=KEYS, is_right=st.booleans())
    def put_version(self, key: Any, is_right: bool) -> None:
        """The version that is shown is accepted, unless a put waits behind it that was not seen; all others are refused."""
        wish = self.new(key, 100, 0, None, 0)
        if wish.row is None:
            return
        row = self.model.rows.get(wish.row.key)
        shown = self.pages.get(wish.row.key)
        version = (0 if shown is None else shown.version) + (0 if is_right else 100)
        if not is_right or (row is not None and row.successor is not None):
            with pytest.raises(journal.VersionMismatch):
                self.pages.put(wish.key, wish.data, version=version, **wish.options)
        else:
            self.kept(wish.row, self.pages.put(wish.key, wish.data, version=version, **wish.options))

    @rule(key=KEYS, delay=DELAYS)
    def create(self, key: Any, delay: int) -> None:
        wish = self.new(key, 100, delay, None, 0)
        if wish.row is None or wish.row.key in self.model.rows:
            with pytest.raises(journal.Invalid if wish.row is None else journal.KeyExists):
                self.pages.create(wish.key, wish.data, **wish.options)
        else:
            self.kept(wish.row, self.pages.create(wish.key, wish.data, **wish.options))

    @rule(n=SIZES, lease=st.sampled_from([1, 1000, 4000]), is_single=st.booleans(), part=PARTS)
    def claim(self, n: int, lease: int, is_single: bool, part: journal.Range | None) -> None:
        due = self.model.due(self.now, part)
        if is_single:
            n, one = 1, self.pages.claim(lease=lease, buckets=part)
            leases = [] if one is None else [one]
        else:
            leases = self.pages.claim_many(n, lease=lease, buckets=part)
        assert [(x.key, x.priority, x.process_date) for x in leases] == [(r.key, *r.place) for r in due[:n]]
        for x in leases:
            row = self.model.rows[x.key]
            assert (x.data, x.timeouts, x.deadline) == (row.data, row.timeouts, self.now + lease)
            assert x.token not in self.model.finished
            row.token, row.deadline = x.token, x.deadline

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def done(self, data: Any) -> None:
        row = data.draw(st.sampled_from(self.held()))
        self.pages.done(row.token)
        self.model.finished.add(row.token)
        self.model.finish(row)

    @precondition(lambda self: self.held())
    @rule(data=st.data(), key=KEYS, is_same=st.booleans(), delay=DELAYS, life=LIVES)
    def done_next(self, data: Any, key: Any, is_same: bool, delay: int, life: int | None) -> None:
        """Done and a put, as one change; repeated it changes nothing."""
        row = data.draw(st.sampled_from(self.held()))
        wish = self.new(row.key if is_same else key, 100, delay, life, 0)
        put = journal.Put(wish.key, wish.data, **wish.options)
        if wish.row is None:
            with pytest.raises(journal.Invalid):
                self.pages.done(row.token, next=put)
            return
        result = self.pages.done(row.token, next=put)
        assert result is not None
        self.model.finished.add(row.token)
        self.model.finish(row)
        self.kept(wish.row, result)
        again = self.pages.done(row.token, next=put)
        assert again is not None and again.outcome == "repeated"

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
    @rule(data=st.data(), delay=DELAYS, failed=st.booleans(), priority=st.sampled_from([None, None, 0, 200]))
    def release(self, data: Any, delay: int, failed: bool, priority: int | None) -> None:
        row = data.draw(st.sampled_from(self.held()))
        self.pages.release(row.token, delay=delay, priority=priority, failed=failed)
        row.priority = row.priority if priority is None else priority
        self.lost.append(row.token)
        row.timeouts += failed
        row.date, row.insertion, row.owed, row.turn = (
            self.now + delay,
            row.insertion + row.owed,
            0,
            next(self.model.turns),
        )
        self.model.free(row, self.now)

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
        self.pages.retry(key)
        self._retried(key)

    def _retried(self, key: Any) -> None:
        row = [r for r in self.model.buried if r.key == key][-1]
        self.model.buried = [r for r in self.model.buried if r is not row]
        life = row.expiration if row.expiration > self.now else 0
        self.model.rows[key] = replace(
            row.settled(),
            date=self.now,
            timeouts=0,
            token=0,
            deadline=0,
            successor=None,
            expiration=life,
            turn=next(self.model.turns),
        )

    @precondition(lambda self: self.model.buried)
    @rule()
    def retry_many(self) -> None:
        """All of them, in the order of burial; of a key that was buried twice the last one."""
        found = self.pages.buried()
        assert [b.key for b in found] == [r.key for r in self.model.buried]
        keys = [b.key for b in found]
        for key, result in zip(keys, self.pages.retry_many(keys), strict=True):
            assert isinstance(result, journal.KeyExists) == (key in self.model.rows)
            if key not in self.model.rows:
                self._retried(key)

    @precondition(lambda self: self.model.buried)
    @rule()
    def discard(self) -> None:
        row = self.model.buried[-1]
        self.pages.discard(row.key)
        self.model.buried.pop()

    @rule(is_paused=st.booleans())
    def pause(self, is_paused: bool) -> None:
        """Nothing is due for anybody; or again."""
        if is_paused:
            self.pages.pause("why not")
            self.model.flags += 1
        else:
            assert self.pages.resume() is bool(self.model.pauses)
            self.model.flags -= self.model.pauses
        self.model.pauses = self.model.pauses + 1 if is_paused else 0

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
        if row.place != (priority, self.now + delay):
            row.date, row.priority, row.turn = self.now + delay, priority, next(self.model.turns)
        row.insertion, row.owed = row.insertion + row.owed, 0

    @rule(ms=st.sampled_from([1, 400, 1000, 6000]))
    def advance(self, ms: int) -> None:
        before = {r.token for r in self.held()}
        self.clock.advance(ms)
        self.model.tick(self.now)
        self.lost += sorted(before - {r.token for r in self.held()})

    @rule(by=STEPS)
    def step(self, by: int) -> None:
        """The wall clock is set: dates follow, leases do not."""
        self.set_clock(by)
        self.model.step(by)
        self.model.tick(self.now)

    # -- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def same(self) -> None:
        self.undisturbed(self._same)

    def _same(self) -> None:
        self.model.tick(self.now)
        found = [
            (e.key, e.data, e.priority, e.process_date, e.insertion_date, e.expiration, e.status, e.timeouts)
            for e in self.pages.scan()
        ]
        expected = [
            (
                r.key,
                self.shown(r.data),
                r.priority,
                r.date,
                r.insertion,
                r.expiration,
                "P" if r.token else "W",
                r.timeouts,
            )
            for r in sorted(self.model.rows.values(), key=lambda r: r.order)
        ]
        assert found == expected
        assert self.pages.count() == len(expected)
        assert self.pages.count(status="P") == len(self.held())
        assert [x.token for x in sorted(self.pages.leases(), key=lambda x: x.token)] == [r.token for r in self.held()]
        assert [b.key for b in self.pages.buried()] == [r.key for r in self.model.buried]
        assert self.pages.count(status="buried") == len(self.model.buried)
        assert sum(f.count for f in self.store.flags()) == self.model.flags
        assert self.is_lag(self.pages.feeds()[0].lag)
        problems = self.store.check()
        assert problems == [], problems
