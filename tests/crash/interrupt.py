"""
Interrupts: SIGINT at random moments and at random calls, over and over, in programs whose main thread calls every verb.

A program (tests.crash.interrupted) goes on after each KeyboardInterrupt, beside threads that work, embedded or as a client of a daemon, on
journals with files of their own or merged ones. It ends by kill -9 or with close; then the store is opened and compared with what was
answered. A program that hangs is ended, and counts as broken.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import journal
from tests.crash import mutants
from tests.crash.campaign import PROJECT, Progress, Violation, child_environment, keep
from tests.crash.scratch import scratch

CALLS = 120
TIMEOUT_S = 180


def one_program(place: Path, seed: int, mutant: str | None) -> tuple[int, str | None]:
    """Disturb one program; how often it was interrupted, and what is wrong."""
    store, report = place / "store", place / "report"
    shutil.rmtree(store, ignore_errors=True)
    shutil.rmtree(place / "aside", ignore_errors=True)
    report.unlink(missing_ok=True)
    ends = "close" if seed % 3 == 0 else "kill"
    command = [
        sys.executable,
        "-m",
        "tests.crash.interrupted",
        str(store),
        "--report",
        str(report),
        "--seed",
        str(seed),
    ]
    command += ["--calls", str(CALLS), "--ends", ends, *(["--mutant", mutant] if mutant else [])]
    try:
        done = subprocess.run(
            command,
            cwd=PROJECT,
            env=child_environment(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 0, f"the program did not end within {TIMEOUT_S} s"
    if not report.exists() or done.returncode != (0 if ends == "close" else -signal.SIGKILL):
        return 0, f"the program ended with {done.returncode}:\n{done.stderr[-6000:]}"
    found = json.loads(report.read_text())
    if found["problems"]:
        return found["interrupts"], f"{found['problems'][:3]}\n{done.stderr[-3000:]}"
    return found["interrupts"], _compare(store, found["there"], found["gone"])


def _compare(store: Path, there: list[str], gone: list[str]) -> str | None:
    with journal.open(store) as opened:
        pages = opened.journal("pages")
        problems = opened.check(deep=True)
        if problems:
            return f"check() after the reopen: {problems[:3]}"
        present = {entry.key for entry in pages.scan()}
        kept = present | {entry.entry.key for entry in pages.buried()}
    if lost := [key for key in there if key not in kept]:
        return f"{len(lost)} entries that were answered are not there, e.g. {lost[:5]}"
    if back := [key for key in gone if key in present]:
        return f"{len(back)} entries that were finished are back, e.g. {back[:5]}"
    return None


def campaign(
    interrupts: int, seed: int, mutant: str | None = None, programs: int = 1 << 30
) -> tuple[int, Violation | None]:
    """Interrupt so many times; the first violation ends it."""
    progress, seen, number = Progress("interrupt"), 0, 0
    with scratch("interrupt") as place:
        while seen < interrupts and number < programs:
            came, problem = one_program(place, seed + number, mutant)
            seen += came
            if problem is not None:
                again = f"python -m tests.crash interrupt --interrupts 1 --seed {seed + number}"
                again += f" --mutant {mutant}" if mutant else ""
                (place / "store" / "SOCKET").unlink(missing_ok=True)  # a socket cannot be copied
                evidence = keep(place, "interrupt")
                return seen, Violation(
                    f"interrupted program {seed + number}: {problem}", f"{again}; evidence in {evidence}"
                )
            number += 1
            progress.tell(f"{seen} of {interrupts} interrupts, {number} programs")
        progress.tell(f"{seen} interrupts in {number} programs, every store was whole", is_last=True)
    return seen, None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--interrupts", type=int, default=200, help="how many (default %(default)s)")
    parser.add_argument(
        "--mutant", choices=sorted(mutants.MUTANTS), help="break the engine in this way: it must be found"
    )


def main(given: argparse.Namespace) -> int:
    _seen, broken = campaign(given.interrupts, given.seed, given.mutant)
    if broken:
        print(broken)
    return 1 if broken else 0
