"""LISTEN with many entries scheduled: how late a datagram is, and what a daemon does while nothing is due."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import journal
from benchmarks.measure import say
from benchmarks.net.child import Child
from benchmarks.net.daemon import Daemon
from benchmarks.ours import JOURNAL, LOAD_BATCH
from benchmarks.plan import Plan
from benchmarks.table import Row

SPACING_MS = 40
"""Between two dates: more than the time in which the daemon makes one datagram of several."""
_HOUR_MS = 3_600_000
CLOCKS_MAX = 2.0
"""Wake-ups in a minute without a reason: the daemon's timer clamps its sleep to a minute, and a connection has a timer for silence."""
_SETTLE_S = 65.0
"""What was done last is synced, and the alarms of leases that were ended have rung."""
_TICKS = os.sysconf("SC_CLK_TCK")


def listening(directory: Path, plan: Plan) -> list[Row]:
    """One daemon with everything scheduled, one backend that listens."""
    with contextlib.ExitStack() as stack:
        daemon = Daemon(directory / "listening", "interval")
        stack.callback(daemon.close)
        say(f"{plan.scheduled:,} entries scheduled")
        _schedule(daemon.unix, plan.scheduled)
        ear = Child("benchmarks.net.ear", daemon.tcp)
        stack.callback(ear.close)
        ear.answer()
        say(f"{plan.datagrams} entries that fall due one by one")
        ear.tell("late", plan.datagrams, SPACING_MS)
        told, fired = ear.answer()
        say(f"nothing due for {plan.idle_seconds:.0f} s")
        return [_lateness(plan, told, fired), *_idle(plan, daemon.pid, ear)]


def _schedule(address: str, number: int) -> None:
    """Entries with dates from an hour on: none falls due while we measure."""
    start = int(time.time() * 1000) + _HOUR_MS
    with journal.connect(address) as store:
        into = store.journal(JOURNAL)
        for first in range(0, number, LOAD_BATCH):
            numbers = range(first, min(number, first + LOAD_BATCH))
            into.put_many(journal.Put(f"later-{i}", None, process_date=start + i * 37) for i in numbers)
        store.checkpoint()


def quantile(values: list[float], q: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * q))]


def _lateness(plan: Plan, told: list[float], fired: list[float]) -> Row:
    ours, theirs = quantile(told, 0.99), quantile(fired, 0.99)
    note = f"p50 {quantile(told, 0.5):.2f} ms against {quantile(fired, 0.5):.2f} ms; {len(told)} datagrams"
    return Row(
        f"LISTEN: a datagram's lateness, {plan.scheduled:,} scheduled, p99",
        f"{ours:.2f} ms",
        "asyncio's timers, p99",
        f"{theirs:.2f} ms",
        ours / theirs,
        target=10.0,
        is_at_most=True,
        note=note,
    )


def _idle(plan: Plan, pid: int, ear: Child) -> list[Row]:
    ear.tell("renew", _SETTLE_S)
    ear.answer()
    wake_ups, ticks = _waits(pid), _cpu_ticks(pid)
    ear.tell("renew", plan.idle_seconds)
    asked: int = ear.answer()
    wake_ups, cpu_ms = _waits(pid) - wake_ups, (_cpu_ticks(pid) - ticks) * 1000 / _TICKS
    return [
        Row(
            f"LISTEN: wake-ups in {plan.idle_seconds:.0f} s, nothing due",
            f"{wake_ups}",
            "renewals of the lease",
            f"{asked}",
            wake_ups - asked,
            target=CLOCKS_MAX,
            is_at_most=True,
            unit="more",
            note=f"{cpu_ms:.0f} ms of CPU; the others: a clamped sleep, the silence of a connection",
        )
    ]


def _waits(pid: int) -> int:
    """How often the threads of a process have gone to sleep by themselves: as often as they were woken."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        found = next(line for line in status.read_text().splitlines() if line.startswith("voluntary_ctxt_switches"))
        total += int(found.split()[1])
    return total


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
