"""What a put waits for when checkpoints run: percentiles, not ratios, and no target but a few syncs."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.measure import DATA, percentile, say
from benchmarks.ours import Ours
from benchmarks.plan import Plan
from benchmarks.table import Row, us


def pauses(directory: Path, plan: Plan) -> list[Row]:
    return [_pause(directory, durability, plan.pause_seconds) for durability in ("full", "interval")]


def _pause(directory: Path, durability: str, seconds: float) -> Row:
    say(f"checkpoint pauses, {durability}")
    queue = Ours(directory / f"pauses-{durability}", durability)
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        queue.put(DATA)
        times.append((time.perf_counter() - started) * 1e6)
    queue.close()
    p50, p99, p999 = (percentile(times, share) for share in (0.5, 0.99, 0.999))
    note = f"p99 {us(p99)}, p99.9 {us(p999)}, longest {us(max(times))} of {len(times):,}"
    return Row(f"{durability}: a put while checkpoints run", us(p50), "", "", note=note)
