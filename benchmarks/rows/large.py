"""The large store: what a million waiting entries cost in memory, and in time to reopen after a kill."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import journal
from benchmarks.child import run_and_kill
from benchmarks.measure import say
from benchmarks.ours import JOURNAL
from benchmarks.plan import Plan
from benchmarks.table import Row, us

_MB = 1_000_000
_MEMORY_MB_MAX = 50
_REOPEN_MAX = 3.0
_TAIL = 1_000
"""Puts before the kill, after the store was opened: what a reopen has to replay, unless a checkpoint came between."""
_WORK = 1_000
"""Cycles before memory is read, so that what a working store needs is there."""


def memory(directory: Path, plan: Plan, large: Path) -> list[Row]:
    """Loads the large store on the way: the child that did it is killed, and the reopening starts from there."""
    say(f"loading {plan.many:,} entries")
    started = time.perf_counter()
    loaded = run_and_kill("load", large, plan.many)
    rate = plan.many / (time.perf_counter() - started)
    grown = (loaded["after"] - loaded["before"]) / _MB
    empty = run_and_kill("rest", directory / "empty", _WORK)
    reopened = run_and_kill("rest", large, _WORK)
    over = (reopened["after"] - empty["after"]) / _MB
    return [
        _memory_row(f"memory after loading {plan.many:,}", grown, "before", loaded["before"], f"loaded {rate:,.0f}/s"),
        _memory_row(f"memory reopened, {plan.many:,} waiting", over, "empty store", empty["after"], ""),
    ]


def _memory_row(what: str, grown_mb: float, against: str, base_bytes: int, note: str) -> Row:
    base_mb = base_bytes / _MB
    ours = f"{base_mb + grown_mb:.1f} MB"
    return Row(
        what, ours, against, f"{base_mb:.1f} MB", grown_mb, None, _MEMORY_MB_MAX, is_at_most=True, unit="MB", note=note
    )


def reopen(directory: Path, plan: Plan, large: Path) -> list[Row]:
    say("reopening after kill -9")
    small = directory / "reopen-small"
    run_and_kill("load", small, plan.reopen_few)
    ratios, spent = [], {large: [0.0] * 0, small: [0.0] * 0}
    for _ in range(plan.reopen_rounds):
        for path in (large, small):
            run_and_kill("tail", path, _TAIL)
            spent[path].append(_open_seconds(path))
        ratios.append(spent[large][-1] / spent[small][-1])
    ours, theirs = (us(statistics.median(spent[path]) * 1e6) for path in (large, small))
    what, against = f"reopen after kill -9, {plan.many:,} waiting", f"{plan.reopen_few:,} waiting"
    of_sums = sum(spent[large]) / sum(spent[small])
    note = f"{_TAIL:,} puts before the kill"
    return [
        Row(what, ours, against, theirs, statistics.median(ratios), of_sums, _REOPEN_MAX, is_at_most=True, note=note)
    ]


def _open_seconds(path: Path) -> float:
    started = time.perf_counter()
    store = journal.open(path)
    store.journal(JOURNAL)
    spent = time.perf_counter() - started
    store.close()
    return spent
