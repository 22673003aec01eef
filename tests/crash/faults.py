"""
The k-th system call fails, for k = 1, 2, … until a run is clean; and after a sync that failed the power goes (`losses`).

A stubborn workload goes on through the errors; afterwards a shadow on a healthy store follows what it was told, and what is found after a
reopen without faults must be the same. `fdatasync`, `fsync`, `pwrite64`, `ftruncate` and `rename` fail with EIO and ENOSPC (once, or for
a while, as a full disk does), and a pwrite takes only half of its bytes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tests.crash import losses
from tests.crash.campaign import PROJECT, Progress, Violation, child_environment, keep
from tests.crash.dump import difference, dump
from tests.crash.marks import read_marks
from tests.crash.oracle import reopened, verify
from tests.crash.program import START_MS, Shape
from tests.crash.scratch import empty, scratch
from tests.crash.strace import strace_missing
from tests.crash.stubborn import AGAIN, Shadow

CALLS = 25
SYSCALLS = ("fdatasync", "fsync", "pwrite64", "ftruncate", "rename")
LOSSES = "losses"
AWHILE = 20
RESTARTS = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """What fails: a system call with an error (once or from k on for a while), or a pwrite that is cut short."""

    syscall: str
    error: str
    is_lasting: bool = False

    def __str__(self) -> str:
        return f"{self.syscall}:{self.error}" + ("+" if self.is_lasting else "")

    def options(self, k: int) -> list[str]:
        when = f"{k}..{k + AWHILE}" if self.is_lasting else str(k)
        return ["-e", f"trace={self.syscall}", "-e", f"inject={self.syscall}:error={self.error}:when={when}"]


SHORT = Fault("pwrite64", "SHORT")
FAULTS: tuple[Fault, ...] = (
    *(Fault(syscall, error) for syscall in SYSCALLS for error in ("EIO", "ENOSPC")),
    *(Fault(syscall, "ENOSPC", is_lasting=True) for syscall in SYSCALLS),
    SHORT,
)


def run_child(fault: Fault, k: int, shape: Shape, place: Path) -> tuple[bool, str | None]:
    """
    One run with one fault: whether it came to the fault, and what went wrong besides.

    strace counts for each thread, so k is the k-th call of every thread. After a failure that asks for it the workload is
    started again, without faults: otherwise the first call of each new thread would fail for ever.
    """
    marks, memory = place / "marks", place / "memory"
    command = [
        sys.executable,
        "-m",
        "tests.crash.stubborn",
        str(place / "store"),
        "--marks",
        str(marks),
        "--memory",
        str(memory),
    ]
    command += ["--seed", str(shape.seed), "--calls", str(CALLS)] + (["--leave-open"] if k % 2 else [])
    if fault == SHORT:
        faulty = [*command, "--short", str(k)]
    else:
        faulty = ["strace", "-f", "-o", str(place / "trace"), "-e", "signal=none", *fault.options(k), *command]
    problem = None
    for number, argv in enumerate([faulty, *[command] * RESTARTS]):
        code, told = _run(argv)
        if code == 0:
            break
        if code != AGAIN:
            problem = f"the workload (start {number + 1}) ended with {code}: {told[-2500:]}"
            break
    else:
        problem = f"the workload was started {RESTARTS} times without faults and asks for another start: {told[-1000:]}"
    is_met = (place / "marks.short").exists() if fault == SHORT else "INJECTED" in (place / "trace").read_text()
    return is_met, problem


def _run(command: list[str]) -> tuple[int | None, str]:
    try:
        done = subprocess.run(
            command, cwd=PROJECT, env=child_environment(), capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        return None, "it hangs"
    return done.returncode, done.stderr


def check(shape: Shape, place: Path) -> str | None:
    """Compare what a run was told with a healthy store, and with what is found now."""
    marks = read_marks(place / "marks")
    if problem := Shadow(place / "shadow", shape).follow(marks):
        return problem
    expected = marks[-1].dump
    shutil.copytree(place / "store", place / "reopened")  # what the run left is evidence
    with reopened(place / "reopened", shape, START_MS + 3_600_000) as (store, pages):
        found = dump(pages, is_token_shown=False)
        if found != expected:
            return f"a reopen without faults shows something else:\n{difference(expected, found)}"
        if problems := store.check():
            return f"check() after it: {problems[:3]}"
    return verify(place / "reopened")


def one_run(fault: Fault, k: int, shape: Shape, place: Path) -> tuple[bool, str | None]:
    empty(place).mkdir()
    is_met, problem = run_child(fault, k, shape, place)
    return is_met, problem or check(shape, place)


def campaign(
    faults: tuple[Fault, ...], seed: int, k_first: int = 1, k_max: int = 10_000, step: int = 1
) -> Iterator[Violation]:
    """All faults at all places; every violation is told, one for each fault."""
    progress, runs = Progress("faults"), 0
    with scratch("faults") as place:
        for fault in faults:
            for k in range(k_first, k_max + 1, step):
                shape = Shape(seed + k % 5 * 3)
                is_met, problem = one_run(fault, k, shape, place / "run")
                runs += 1
                progress.tell(f"{runs} runs, {fault} at {k}")
                if problem is not None:
                    again = f"python -m tests.crash faults --only {fault} --first {k} --last {k} --seed {seed}"
                    yield Violation(
                        f"{fault} at call {k}: {problem}", f"{again}; evidence in {keep(place / 'run', 'faults')}"
                    )
                    break
                if not is_met:
                    break
    progress.tell(f"{runs} runs", is_last=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        action="append",
        help=f"a fault such as fdatasync:EIO, pwrite64:ENOSPC+ or pwrite64:SHORT, or {LOSSES}; may be repeated",
    )
    parser.add_argument("--first", type=int, default=1, help="the first k")
    parser.add_argument("--last", type=int, default=10_000, help="the last k, if no run is clean before")
    parser.add_argument("--step", type=int, default=1, help="try only every so many k")


def main(given: argparse.Namespace) -> int:
    faults = tuple(fault for fault in FAULTS if not given.only or str(fault) in given.only)
    if (why := strace_missing()) is not None:
        print(f"faults: only short writes, {why}")
        faults = tuple(fault for fault in faults if fault == SHORT)
    broken = 0
    found: Iterable[Violation] = campaign(faults, given.seed, given.first, given.last, given.step)
    if why is None and (not given.only or LOSSES in given.only):
        found = chain(found, losses.campaign(given.step, given.first, given.last))
    for violation in found:
        print(violation, flush=True)
        broken += 1
    return 1 if broken else 0
