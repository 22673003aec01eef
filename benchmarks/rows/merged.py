"""`python -m benchmarks merged`: what thousands of merged journals cost, against one journal with the same entries."""

from __future__ import annotations

import itertools
import random
import threading
import time
from pathlib import Path

import journal
from benchmarks.measure import DATA, Contender, interleave, percentile, say
from benchmarks.ours import JOURNAL, load, rss_anon_bytes
from benchmarks.plan import Plan
from benchmarks.table import Row, us

EACH = 10
"""Entries of a journal that wait."""
THREADS = 8


def merged(directory: Path, plan: Plan) -> list[Row]:
    return [*_calls(directory, plan), _shared_sync(directory, plan)]


def _calls(directory: Path, plan: Plan) -> list[Row]:
    count = plan.journals
    say(f"{count:,} merged journals with {EACH} entries each")
    names = [f"customer-{i}" for i in range(count)]
    started = time.perf_counter()
    with journal.open(directory / "many", durability="interval") as store:
        for name in names:
            load(store.journal(name, merged=True), EACH, name, delay="1h")
    made = (time.perf_counter() - started) / count * 1e6
    with journal.open(directory / "one", durability="interval") as store:
        load(store.journal(JOURNAL), EACH * count, "page", delay="1h")

    rows = [_reopened(directory, plan, names)]
    before = rss_anon_bytes()
    many = journal.open(directory / "many", durability="interval")
    one = journal.open(directory / "one", durability="interval")
    open_times = []
    for name in names:
        started = time.perf_counter()
        many.journal(name)
        open_times.append((time.perf_counter() - started) * 1e6)
    each_kb = (rss_anon_bytes() - before) / count / 1024
    numbers = itertools.count()
    chance = random.Random(1)
    chosen = [many.journal(name) for name in names]
    alone = one.journal(JOURNAL)

    def cycle(pages: journal.Journal) -> None:
        pages.put(f"new-{next(numbers)}", DATA)
        lease = pages.claim()
        assert lease is not None
        lease.done()

    times = interleave(
        [
            Contender("one journal", plan.unsynced_calls, lambda: [cycle(alone) for _ in range(plan.unsynced_calls)]),
            Contender(
                "merged",
                plan.unsynced_calls,
                lambda: [cycle(chance.choice(chosen)) for _ in range(plan.unsynced_calls)],
            ),
        ],
        plan.rounds,
    )
    many.close()
    one.close()
    note = f"declaring one and its first puts {us(made)}; opening one {us(percentile(open_times, 0.5))}; {each_kb:.0f} KiB of memory each"
    what = f"interval: put + claim + done in one of {count:,} merged journals, all in use"
    return [*rows, Row.compare(what, times["merged"], times["one journal"], 0.4, note=note)]


def _reopened(directory: Path, plan: Plan, names: list[str]) -> Row:
    """Opening the store and putting into one journal does not depend on how many there are."""

    def opened(path: Path, name: str) -> None:
        with journal.open(path, durability="interval") as store:
            store.journal(name).put("first")
            store.journal(name).delete("first")

    times = interleave(
        [
            Contender("one journal", 1, lambda: opened(directory / "one", JOURNAL)),
            Contender("merged", 1, lambda: opened(directory / "many", names[7])),
        ],
        plan.reopen_rounds,
    )
    what = f"open, one put, close, with {plan.journals:,} merged journals"
    return Row.compare(what, times["merged"], times["one journal"], 0.5)


def _shared_sync(directory: Path, plan: Plan) -> Row:
    """Threads with a merged journal each have one sync together, as threads that share a journal do."""
    say(f"{THREADS} threads, a journal each")
    calls = plan.thread_calls // 2

    def crowd(store: journal.Store, *, is_merged: bool) -> Contender:
        chosen = [store.journal(f"j{i}", merged=True) if is_merged else store.journal("all") for i in range(THREADS)]
        numbers = itertools.count()

        def puts(pages: journal.Journal) -> None:
            for _ in range(calls):
                pages.put(f"k-{next(numbers)}", DATA)

        def run() -> None:
            threads = [threading.Thread(target=puts, args=(pages,)) for pages in chosen]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return Contender("merged" if is_merged else "one journal for all", calls * THREADS, run)

    with journal.open(directory / "shared") as shared, journal.open(directory / "own") as own:
        times = interleave([crowd(shared, is_merged=True), crowd(own, is_merged=False)], plan.thread_rounds)
    what = f"full: {THREADS} threads putting, each into a journal of its own"
    return Row.compare(what, times["merged"], times["one journal for all"], 0.7)
