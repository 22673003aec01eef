"""
Soak: a store at work for a long time, with everything that opens files or takes memory going on at once.

One process owns the store and serves it: mixed verbs from several threads, a rotation each second, a feed, snapshots, loads, merged
journals. A second one reads beside it (readonly=True), a third is a client of the daemon. Resident memory and descriptors of each are
read from /proc each second, and printed as a table with a row for each minute.

S1  Flat: after the first third, which fills caches and arenas, the median of the last third is not above that of the second third by
    more than RSS_MB, or RSS_SHARE of it, and not by more than DESCRIPTORS. A leak of a descriptor or of 10 KB with each rotation
    is over these limits after ten minutes.
S2  A run of less than FLAT_FROM minutes is too short for that: it is judged by SHORT_RSS_MB and DESCRIPTORS_MAX, which catch what
    leaks with each rotation or each call.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.crash.scratch import scratch

ROLES = ("owner", "reader", "client")
RSS_MB = 6.0
RSS_SHARE = 0.05
"""malloc gives pages back now and then: medians of a third of a run differ by 1 to 3 % without a leak."""
DESCRIPTORS = 6
"""How many generations drain at a moment differs from second to second, by 2 or 3; each has two descriptors."""
FLAT_FROM = 8.0
SHORT_RSS_MB = 60.0
DESCRIPTORS_MAX = 120
END_S = 30.0


class Sample(NamedTuple):
    """What one process had at one moment."""

    second: float
    rss_mb: float
    descriptors: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default %(default)s)")
    parser.add_argument(
        "--pause", type=float, default=3.0, help="ms that each thread rests after a call (default %(default)s)"
    )


def main(given: argparse.Namespace) -> int:
    with scratch("soak", is_fast=False) as top:
        children = {
            role: subprocess.Popen(
                [sys.executable, "-m", "tests.crash.soak_roles", role, str(top), str(given.seed), str(given.pause)]
            )
            for role in ROLES
        }
        try:
            samples = watch(children, top, given.minutes * 60)
        finally:
            for role, child in reversed(children.items()):  # the owner last: others wait for a daemon that is gone
                (top / f"stop-{role}").touch()
                try:
                    child.wait(END_S)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
        complaints = [f"{role} ended with {child.returncode}" for role, child in children.items() if child.returncode]
    for role in ROLES:
        complaints += judged(role, samples[role], given.minutes)
    for complaint in complaints:
        print(f"NOT FLAT: {complaint}" if "ended" not in complaint else complaint)
    print("soak: flat" if not complaints else "soak: not flat")
    return int(bool(complaints))


def watch(children: dict[str, subprocess.Popen[bytes]], top: Path, seconds: float) -> dict[str, list[Sample]]:
    """Sample each second until the time is over, or a process has ended; a row for each minute."""
    samples: dict[str, list[Sample]] = {role: [] for role in children}
    began = time.monotonic()
    print_head()
    printed = 0
    while (passed := time.monotonic() - began) < seconds:
        threading.Event().wait(1.0)
        for role, child in children.items():
            if child.poll() is not None:
                print(f"{role} has ended with {child.returncode}")
                return samples
            samples[role].append(sample(child.pid, passed))
        if passed // 60 > printed:
            printed = int(passed // 60)
            print_row(printed, samples, top)
    print_row(printed + 1, samples, top)
    return samples


def sample(pid: int, second: float) -> Sample:
    """From /proc."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return Sample(second, int(fields["VmRSS"].split()[0]) / 1024, len(os.listdir(f"/proc/{pid}/fd")))


def print_head() -> None:
    print("minute" + "".join(f"{role + ' MB':>12}{'files':>7}" for role in ROLES) + "  calls", flush=True)


def print_row(minute: int, samples: dict[str, list[Sample]], top: Path) -> None:
    """Medians of the last minute, and all calls so far."""
    row = f"{minute:6d}"
    for role in ROLES:
        last = samples[role][-60:]
        row += f"{median(each.rss_mb for each in last):12.1f}{median(each.descriptors for each in last):7.0f}"
    calls: Counter[str] = Counter()
    for role in ROLES:
        try:
            calls.update({f"{role}.{verb}": n for verb, n in json.loads((top / f"{role}.json").read_text()).items()})
        except (OSError, ValueError):
            pass
    print(row + "  " + " ".join(f"{verb}={n}" for verb, n in sorted(calls.items())), flush=True)


def judged(role: str, samples: list[Sample], minutes: float) -> list[str]:
    """What is wrong with the samples of one process (S1, S2)."""
    third = len(samples) // 3
    if third == 0:
        return [f"{role}: too few samples"]
    before, after = samples[third : 2 * third], samples[2 * third :]
    rss = median(each.rss_mb for each in before), median(each.rss_mb for each in after)
    files = median(each.descriptors for each in before), median(each.descriptors for each in after)
    rss_max = max(RSS_MB, RSS_SHARE * rss[0]) if minutes >= FLAT_FROM else SHORT_RSS_MB
    found = []
    if rss[1] - rss[0] > rss_max:
        found.append(f"{role}: memory rose from {rss[0]:.1f} to {rss[1]:.1f} MB, {rss_max:.1f} more are allowed")
    if minutes >= FLAT_FROM and files[1] - files[0] > DESCRIPTORS:
        found.append(f"{role}: descriptors rose from {files[0]:.0f} to {files[1]:.0f}, {DESCRIPTORS} more are allowed")
    if files[1] > DESCRIPTORS_MAX:
        found.append(f"{role}: {files[1]:.0f} descriptors are open, {DESCRIPTORS_MAX} are allowed")
    return found
