"""`python -m benchmarks forecast`: what it takes to see the load ahead, against a bare walk over the same keys."""

from __future__ import annotations

import random
from pathlib import Path

import journal
from benchmarks.measure import Contender, Times, interleave, say
from benchmarks.ours import JOURNAL
from benchmarks.plan import Plan
from benchmarks.table import Row

BATCH = 1_000
PRIORITIES = (0, 20, 100, 200)
SPREAD_MS = 2 * 3_600_000
"""Dates from an hour ago to an hour ahead."""
DATA = b"x" * 1_000
TARGET = 0.3


def forecast(directory: Path, plan: Plan) -> list[Row]:
    count = plan.many
    say(f"{count:,} entries of {len(DATA)} bytes")
    with journal.open(directory / "ahead", durability="none") as store:
        pages = store.journal(JOURNAL)
        _fill(pages, count)
        store.checkpoint()
        rows = [
            _row(pages, plan, "a forecast of an hour by the minute", step="1m"),
            _row(pages, plan, "a forecast of an hour by the second", step="1s"),
        ]
        pages.claim_many(min(count // 10, 100_000), lease="1d")
        rows.append(_row(pages, plan, f"the same by the minute, {len(pages.leases()):,} of them processing", step="1m"))
        pages.rotate()
        pages.put("last")
        rows.append(_row(pages, plan, "the same over two generations", step="1m"))
        owned = min(count, 100_000)
        for start in range(0, owned, BATCH):
            pages.put_many([journal.Put(f"own-{n}", owner="billing") for n in range(start, start + BATCH)])
        rows.append(_owned(pages, plan, owned))
    return rows


def _fill(pages: journal.Journal, count: int) -> None:
    chance = random.Random(1)
    now = pages.now()
    for start in range(0, count, BATCH):
        results = pages.put_many(
            [
                journal.Put(
                    f"page-{n}",
                    DATA,
                    priority=PRIORITIES[n % len(PRIORITIES)],
                    process_date=now + chance.randrange(SPREAD_MS) - SPREAD_MS // 2,
                )
                for n in range(start, start + BATCH)
            ]
        )
        for result in results:
            if isinstance(result, Exception):
                raise result


def _walk(pages: journal.Journal, database: bytes) -> int:
    """All keys, one after the other, in one go under the lock."""
    p = pages._backend.p
    count = 0
    with p.lock:
        p.enter()
        for rows in p.state.generations:
            for _ in rows.names(rows.file.databases[database]):
                count += 1
    return count


def _against(pages: journal.Journal, plan: Plan, ours: Contender, database: bytes, count: int) -> dict[str, Times]:
    def walk() -> None:
        assert _walk(pages, database) == count

    return interleave([ours, Contender("a bare loop over the keys", count, walk)], plan.reopen_rounds)


def _row(pages: journal.Journal, plan: Plan, what: str, *, step: str) -> Row:
    count = pages.count()

    def look() -> None:
        assert pages.forecast(step=step, horizon="1h").total == count

    times = _against(pages, plan, Contender("forecast", count, look), b"entries", count)
    note = f"{times['forecast'].median_us * count / 1e6:.2f} s for {count:,} entries"
    return Row.compare(f"{what}, each entry", times["forecast"], times["a bare loop over the keys"], TARGET, note=note)


def _owned(pages: journal.Journal, plan: Plan, count: int) -> Row:
    def look() -> None:
        assert pages.count_of("billing") == count

    times = _against(pages, plan, Contender("count_of", count, look), b"owners", count)
    what = f"count_of an owner with {count:,} entries, each"
    return Row.compare(what, times["count_of"], times["a bare loop over the keys"], TARGET)
