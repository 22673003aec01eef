"""
A load test as message brokers have them: producers, consumers, dates from the past into the near future, until nothing is left.

Every entry must be done, and none handed out twice unless a lease was lost: else there is no figure. Lateness is from the moment when an
entry was due and published to the moment when its handler has it. At full load it is the length of the queue; so there is a second
run at a steady pace, which shows what waiting for the right millisecond costs.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import journal
from benchmarks.measure import percentile, say
from benchmarks.plan import Plan
from benchmarks.table import Row

BATCH = 3_000
"""Entries that a producer publishes at once."""
AT_ONCE = 200
"""Leases that a consumer holds, and finishes with one record."""
_STAMP = struct.Struct(">Q")


@dataclass(frozen=True)
class Load:
    journals: int = 2
    entries: int = 75_000
    """In each journal."""
    producers: int = 2
    """Of each journal, and as many consumers as follow."""
    consumers: int = 5
    buckets: int | None = 500
    """None: all claim from all buckets."""
    bytes: int = 2_048
    past_ms: int = 1_000
    future_ms: int = 2_000
    durability: str = "full"
    lease: str = "1m"
    per_second: int | None = None
    """How many a journal gets in a second; None: as many as it takes."""
    at_once: int = AT_ONCE
    timeout_s: float = 300.0

    def __str__(self) -> str:
        dealt = f", {self.buckets} buckets" if self.buckets is not None else ""
        return (
            f"{self.journals} × {self.entries:,} entries, {self.producers} producers, {self.consumers} consumers{dealt}"
        )


@dataclass
class Outcome:
    seconds: float
    handed: int
    lost: int
    late_ms: list[float] = field(repr=False)

    @property
    def per_second(self) -> float:
        return len(self.late_ms) / self.seconds


class _Topic:
    """One journal with its producers and consumers."""

    def __init__(self, store: journal.Store, number: int, load: Load, failed: threading.Event) -> None:
        self.load, self.failed = load, failed
        settings = {} if load.buckets is None else {"buckets": load.buckets}
        self.pages = store.journal(f"load-{number}", **settings)
        self.handed = bytearray(load.entries)
        self.late: list[list[float]] = []
        self.lost: list[int] = []
        """Keys of leases that were lost: these are handed out again."""
        self.left = load.entries
        self.errors: list[BaseException] = []
        self.finished = threading.Event()
        self._counting = threading.Lock()
        self.consumers = [self._consumer(n) for n in range(load.consumers)]
        self.threads = [
            threading.Thread(target=self._safely, args=(work, each), daemon=True)
            for work, all_ in ((self._consume, self.consumers), (self._produce, range(load.producers)))
            for each in all_
        ]

    def _consumer(self, number: int) -> journal.Consumer:
        return journal.Consumer(
            self.pages,
            name=f"consumer-{number}",
            lease=self.load.lease,
            prefetch=self.load.at_once,
            buckets=None if self.load.buckets is None else "dealt",
        )

    def _safely(self, work: object, each: object) -> None:
        try:
            work(each)  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001 - told to the thread that measures
            self.errors.append(error)
            self.failed.set()
            self.finished.set()

    def _produce(self, number: int) -> None:
        load, chance = self.load, random.Random(number)
        rest = bytes(load.bytes - _STAMP.size)
        keys = range(number, load.entries, load.producers)
        batch = BATCH if load.per_second is None else max(1, load.per_second // load.producers // 50)
        started = time.perf_counter()
        for first in range(0, len(keys), batch):
            if load.per_second is not None:
                due = started + first * load.producers / load.per_second
                self.failed.wait(max(0.0, due - time.perf_counter()))
            now = time.time_ns() // 1_000_000
            stamp = _STAMP.pack(now) + rest
            puts = [
                journal.Put(f"{key}", stamp, process_date=now + chance.randint(-load.past_ms, load.future_ms))
                for key in keys[first : first + batch]
            ]
            assert all(isinstance(result, journal.PutResult) for result in self.pages.put_many(puts))

    def _consume(self, consumer: journal.Consumer) -> None:
        late: list[float] = []
        self.late.append(late)
        for lease in consumer:
            batch = [lease]
            while len(batch) < self.load.at_once and (more := consumer.take_nowait()) is not None:
                batch.append(more)
            now = time.time_ns() / 1e6
            for each in batch:
                late.append(now - max(each.process_date, _STAMP.unpack_from(each.data)[0]))
            results = consumer.done_many(batch)
            with self._counting:
                for each, error in zip(batch, results, strict=True):
                    self.handed[int(each.key)] += 1
                    if error is None:
                        self.left -= 1
                    else:
                        self.lost.append(int(each.key))
                if not self.left:
                    self.finished.set()

    def close(self) -> None:
        for consumer in self.consumers:
            consumer.close()
        for thread in self.threads:
            if thread.ident is not None:
                thread.join(10)

    def check(self) -> None:
        """Nothing is left, and nothing was handed out twice for no reason."""
        if self.errors:
            raise self.errors[0]
        twice = {key for key, times in enumerate(self.handed) if times > 1}
        never = [key for key, times in enumerate(self.handed) if times == 0]
        problems = [
            f"{self.pages.count()} left" if self.pages.count() else "",
            f"{len(never)} never handed out, e.g. {never[:3]}" if never else "",
            f"{len(twice - set(self.lost))} twice without a lost lease" if twice - set(self.lost) else "",
        ]
        if any(problems):
            raise AssertionError(f"{self.pages.name}: {', '.join(filter(None, problems))}")


def run(directory: Path, load: Load) -> Outcome:
    """Publish and work off everything; raises when anything is left, or was handed out twice for no reason."""
    failed = threading.Event()
    with journal.open(directory, durability=load.durability) as store:
        topics = [_Topic(store, number, load, failed) for number in range(load.journals)]
        started = time.perf_counter()
        for topic in topics:
            for thread in topic.threads:
                thread.start()
        until = started + load.timeout_s
        is_finished = all(topic.finished.wait(max(0.0, until - time.perf_counter())) for topic in topics)
        seconds = time.perf_counter() - started
        for topic in topics:
            topic.close()
        for topic in topics:
            topic.check()
        assert is_finished, f"not finished after {load.timeout_s} s"
        assert store.check() == []
    late = [each for topic in topics for some in topic.late for each in some]
    handed = sum(sum(topic.handed) for topic in topics)
    return Outcome(seconds, handed, sum(len(topic.lost) for topic in topics), late)


def load(directory: Path, plan: Plan) -> list[Row]:
    full = Load(entries=plan.load_entries)
    pace = plan.load_per_second
    steady = Load(journals=1, entries=pace * plan.load_seconds, per_second=pace, at_once=20, future_ms=1_000)
    rows = []
    for name, each in (("full load", full), (f"{pace:,} a second", steady)):
        say(f"{name}: {each}")
        outcome = run(directory / name.replace(" ", "-"), each)
        rows.append(_row(f"{name}: {each}", outcome))
    return rows


def _row(what: str, outcome: Outcome) -> Row:
    p50, p99 = (percentile(outcome.late_ms, share) for share in (0.5, 0.99))
    note = f"late p50 {p50:,.1f} ms, p99 {p99:,.1f} ms; 0 left, {outcome.lost} leases lost, none twice without"
    return Row(what, f"{outcome.per_second:,.0f} events/s", "", "", note=note)
