"""
`python -m benchmarks profile`: where the microseconds of one put, one claim and one done go.

Three views, because each alone misleads:
- the clock, without a profiler: what a call takes at each durability level;
- the profiler: how often each function runs in one call, and its own time. Its times are too long for small Python
  functions (the profiler charges each call it sees), its counts are exact;
- the primitives alone (LMDB put, pwrite, fdatasync, crc32, msgpack, murmur): what one of them takes in a loop of its
  own. Counts times these is the least that the call can cost as it is written now; the rest is Python.

Only the calling thread is profiled: a checkpoint runs on the engine's own thread.
"""

from __future__ import annotations

import cProfile
import pstats
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import DATA, say
from benchmarks.ours import Ours
from benchmarks.primitives import PRIMITIVES, alone_us

_CALLS = 2_000
_ROUNDS = 5
_LINES = 22
VERBS = ("put", "claim", "done")


@dataclass(frozen=True)
class Call:
    """A function as the profiler saw it, for one call of the verb."""

    name: str
    per_call: float
    own_us: float


class Script:
    """A run of puts, then of claims, then of dones, each of which can be timed or profiled."""

    def __init__(self, ours: Ours) -> None:
        self._ours = ours
        self._leases: list[Any] = []

    def put(self) -> None:
        for _ in range(_CALLS):
            self._ours.put(DATA)

    def claim(self) -> None:
        claim = self._ours.journal.claim
        self._leases = [claim(consumer="bench") for _ in range(_CALLS)]

    def done(self) -> None:
        for lease in self._leases:
            lease.done()


def report(directory: Path) -> str:
    parts = [_clock_part(directory)]
    record_bytes, profiled = _profiles(directory)
    costs = alone_us(directory, record_bytes)
    parts += [_verb_part(verb, profiled[verb], costs) for verb in VERBS]
    return "\n\n".join(parts)


def _clock_part(directory: Path) -> str:
    lines = ["By the clock, µs a call (median of rounds)", f"{'':10}" + "".join(f"{verb:>10}" for verb in VERBS)]
    for durability in ("none", "interval", "full"):
        say(f"timing at {durability}")
        ours = Ours(directory / f"clock-{durability}", durability)
        script = Script(ours)
        spent = [[_timed(getattr(script, verb)) for verb in VERBS] for _ in range(_ROUNDS)]
        ours.close()
        figures = [statistics.median(column) for column in zip(*spent, strict=True)]
        lines.append(f"{durability:10}" + "".join(f"{figure:10.1f}" for figure in figures))
    return "\n".join(lines)


def _timed(run: Callable[[], None]) -> float:
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) / _CALLS * 1e6


def _profiles(directory: Path) -> tuple[int, dict[str, list[Call]]]:
    """Profile each verb at `interval`: the same code as `full`, without the wait for the disk."""
    from benchmarks.rows.calls import record_bytes_of

    say("profiling at interval")
    ours = Ours(directory / "profile", "interval")
    record_bytes = record_bytes_of(ours)
    script = Script(ours)
    for verb in VERBS:
        getattr(script, verb)()
    found = {verb: _profiled(getattr(script, verb)) for verb in VERBS}
    ours.close()
    return record_bytes, found


def _profiled(run: Callable[[], None]) -> list[Call]:
    profile = cProfile.Profile()
    profile.runcall(run)
    stats: Any = pstats.Stats(profile)
    calls = [
        Call(_function_name(where), count / _CALLS, own / _CALLS * 1e6)
        for where, (_, count, own, _, _) in stats.stats.items()
    ]
    return sorted(calls, key=lambda call: -call.own_us)


def _function_name(where: tuple[str, int, str]) -> str:
    file, line, function = where
    if file == "~":
        return function.strip("<>{}").replace("built-in method ", "").replace(" objects", "")
    parts = Path(file).parts
    return f"{'/'.join(parts[-2:])}:{line} {function}"


def _verb_part(verb: str, calls: list[Call], costs: dict[str, float]) -> str:
    total = sum(call.own_us for call in calls)
    lines = [f"One {verb}, profiled: {total:.1f} µs, {sum(call.per_call for call in calls):.0f} function calls"]
    lines.append(f"  {'calls':>6} {'own µs':>7}  function")
    shown = [call for call in calls if call.per_call >= 0.01]
    lines += [f"  {call.per_call:6.2f} {call.own_us:7.2f}  {call.name}" for call in shown[:_LINES]]
    lines.append(f"  {'calls':>6} {'alone':>7} {'µs':>7}  primitive")
    least = 0.0
    for primitive in PRIMITIVES:
        count = sum(call.per_call for call in calls if primitive.is_in(call.name))
        if count < 0.01:
            continue
        least += count * costs[primitive.name]
        lines.append(
            f"  {count:6.2f} {costs[primitive.name]:7.2f} {count * costs[primitive.name]:7.2f}  {primitive.name}"
        )
    lines.append(f"  {'':6} {'':7} {least:7.2f}  all of them")
    return "\n".join(lines)
