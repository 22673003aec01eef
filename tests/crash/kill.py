"""
The kill -9 campaign: a child works, the parent kills it, reopens, and compares with the acknowledged calls.

A cycle goes on with what the last kill left, so recoveries are killed too. One cycle in three has threads (see `crowd`), the others run a
`program` whose every state is known. Whatever was acknowledged at any level but `none` must be there.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.crash import crowd, mutants
from tests.crash.campaign import (
    PROJECT,
    Progress,
    Violation,
    child_command,
    child_environment,
    disagreement,
    keep,
    reference,
)
from tests.crash.marks import kept_at_least, read_marks
from tests.crash.oracle import judge, recover, reopened
from tests.crash.program import START_MS, Shape
from tests.crash.scratch import scratch

CALLS = 400  # more than a child gets done before it is killed
THREAD_CALLS = 400
HOUR_MS = 3_600_000
LOOK_S, LOOKS = 0.01, 1000
LEVELS = frozenset({"full", "os"})

# Where a crash hurts most: between two steps that belong together.
POINTS: tuple[str, ...] = (
    "journal.engine.log.writer:LogWriter.append:before",
    "journal.engine.log.writer:LogWriter.append:after",
    "journal.engine.log.writer:LogWriter.roll:before",
    "journal.engine.log.writer:LogWriter.roll:after",
    "journal.engine.log.writer:LogWriter.passed:before",
    "journal.engine.log.writer:LogWriter.passed:after",
    "journal.engine.log.replayed_tail:harden:before",
    "journal.engine.log.replayed_tail:harden:after",
    "journal.engine.log.writer:LogWriter.replaced:before",
    "journal.engine.log.writer:LogWriter.replaced:after",
    "journal.engine.generations.compaction:Compaction._check_still:after",
    "journal.engine.log.compactor:_Output.finish:before",
    "journal.engine.log.compactor:_Output.finish:after",
    "journal.engine.files.lmdb:LmdbFile.commit:before",
    "journal.engine.files.lmdb:LmdbFile.commit:after",
    "journal.engine.files.lmdb:create:before",
    "journal.engine.files.lmdb:create:after",
    "journal.engine.generations.migration:Migration._move:after",
    "journal.engine.generations.generations:Generations._begin:before",
    "journal.engine.generations.generations:Generations._begin:after",
    "journal.engine.generations.generations:Generations._give_up_empty:after",
    "journal.engine.generations.generations:Generations.dispose_of_segment:after",
    "journal.engine.generations.retention:Retention.rolled:before",
    "journal.engine.generations.retention:Retention._raise:before",
    "journal.engine.generations.retention:Retention._raise:after",
    "journal.engine.generations.retention:Retention.free:before",
)


@dataclass(frozen=True, slots=True)
class Cycle:
    """How one cycle goes: which program, and when it dies (at a point, or after so many seconds)."""

    number: int
    shape: Shape
    threads: int
    point: str | None
    delay: float

    @property
    def now(self) -> int:
        return START_MS + self.number * HOUR_MS


def plan(number: int, seed: int, points: tuple[str, ...]) -> Cycle:
    """The cycle of this number: the same for the same seed but for the moment of a kill by time."""
    chance = random.Random(f"kill:{seed}:{number}")
    durability = chance.choice(("full", "full", "interval", "none"))
    threads = chance.randint(2, 4) if number % 3 == 2 else 1
    point = None
    if points and number % 2:
        point = f"{points[number // 2 % len(points)]}:{chance.choice((1, 1, 1, 2, 3, 5))}"
    # All cycles work on one store, so whether its journal is merged (program.Shape: a seed's rest by 4) is the campaign's.
    shape = Shape(seed * 1000 + seed % 4 + 4 * number, durability)
    return Cycle(number, shape, threads, point, chance.uniform(0.1, 0.9))


def run_child(cycle: Cycle, store: Path, marks: Path, mutant: str | None) -> str:
    """Let a child work and kill it; how it ended."""
    extra = ["--now", str(cycle.now), "--threads", str(cycle.threads)]
    extra += ["--point", cycle.point] if cycle.point else []
    extra += ["--mutant", mutant] if mutant else []
    calls = CALLS if cycle.threads == 1 else THREAD_CALLS
    command = child_command(store, marks, cycle.shape, calls, *extra)
    child = subprocess.Popen(command, cwd=PROJECT, env=child_environment(), stderr=subprocess.PIPE, text=True)
    if not cycle.point:
        _until_it_works(child, marks)
    try:
        _, errors = child.communicate(timeout=30 if cycle.point else cycle.delay)
    except subprocess.TimeoutExpired:
        child.kill()
        _, errors = child.communicate()
    if child.returncode not in (0, -signal.SIGKILL):
        return f"failed with {child.returncode}: {errors[-2000:]}"
    return "killed" if child.returncode else "ended"


def _until_it_works(child: subprocess.Popen[str], marks: Path) -> None:
    """Until the first call was answered: on a slow machine the start alone takes longer than the time that a child is given."""
    for _ in range(LOOKS):
        if marks.exists() and marks.stat().st_size:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(LOOK_S)
            return


def check_program(cycle: Cycle, place: Path, before: Path | None, mutant: str | None) -> str | None:
    """Compare what a killed program left with the reference."""
    expected = reference(before, cycle.shape, CALLS, "--now", str(cycle.now))
    marks = read_marks(place / "marks")
    if (why := disagreement(marks, expected)) and not mutant:
        return f"another answer than in the undisturbed run: {why}"
    copy = place / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    if (place / "store").exists():
        shutil.copytree(place / "store", copy)
    found = recover(copy, cycle.shape, cycle.now + HOUR_MS // 2)
    high = marks[-1].number + 1 if marks else 0
    return judge(found, expected, kept_at_least(marks, LEVELS), high)


def check_crowd(cycle: Cycle, place: Path) -> str | None:
    """Compare what killed threads left with what they had been answered."""
    shutil.rmtree(place / "copy", ignore_errors=True)
    if not (place / "store").exists():
        return None
    shutil.copytree(place / "store", place / "copy")
    try:
        return _inspect(cycle, place)
    except Exception as error:  # noqa: BLE001 - whatever comes out of a recovery is a finding
        return f"{type(error).__name__}: {error}"


def _inspect(cycle: Cycle, place: Path) -> str | None:
    with reopened(place / "copy", cycle.shape, cycle.now + HOUR_MS // 2) as (store, pages):
        if problems := store.check():
            return f"check() after recovery: {problems[:3]}"
        if cycle.shape.durability != "none" and (problem := crowd.inspect(pages, place / "marks")):
            return problem
        if problems := store.check():
            return f"check() after all leases were finished: {problems[:3]}"
    return None


def campaign(
    cycles: int, seed: int, points: tuple[str, ...] = POINTS, mutant: str | None = None
) -> tuple[int, Violation | None]:
    """Kill and compare so many times; the first violation ends it."""
    progress, killed = Progress("kill"), 0
    with scratch("kill", is_fast=False) as place:
        for number in range(cycles):
            cycle = plan(number, seed, points)
            problem, ended = one_cycle(cycle, place, mutant)
            killed += ended == "killed"
            if problem is not None:
                evidence = keep(place, "kill")
                again = f"python -m tests.crash kill --cycles {number + 1} --seed {seed}" + (
                    f" --mutant {mutant}" if mutant else ""
                )
                return number + 1, Violation(
                    f"kill cycle {number} ({cycle}): {problem}", f"{again}; evidence in {evidence}"
                )
            progress.tell(f"{number + 1} of {cycles} cycles, {killed} killed")
        progress.tell(f"{cycles} cycles, {killed} killed, nothing acknowledged was lost", is_last=True)
    return cycles, None


def one_cycle(cycle: Cycle, place: Path, mutant: str | None) -> tuple[str | None, str]:
    """Run, kill and compare. Every few cycles begin with a new store, the others with what the last kill left."""
    store, before = place / "store", place / "before"
    is_crowd = cycle.threads > 1
    # A crowd's marks are about all runs on a store, a program's about one.
    if cycle.number % 5 == 0 or is_crowd or not store.exists():
        shutil.rmtree(store, ignore_errors=True)
    (place / "marks").unlink(missing_ok=True)
    shutil.rmtree(before, ignore_errors=True)
    if store.exists():
        shutil.copytree(store, before)
    ended = run_child(cycle, store, place / "marks", mutant)
    if ended.startswith("failed"):
        return f"the child {ended}", ended
    if is_crowd:
        problem = check_crowd(cycle, place)
        shutil.rmtree(store, ignore_errors=True)
        return problem, ended
    return check_program(cycle, place, before if before.exists() else None, mutant), ended


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cycles", type=int, default=100, help="how many times to kill (default %(default)s)")
    parser.add_argument(
        "--point", action="append", help="kill at module:Class.method:before|after; may be repeated (default: a list)"
    )
    parser.add_argument(
        "--mutant", choices=sorted(mutants.MUTANTS), help="break the engine in this way: it must be found"
    )


def main(given: argparse.Namespace) -> int:
    _done, broken = campaign(given.cycles, given.seed, tuple(given.point or POINTS), given.mutant)
    if broken:
        print(broken)
    return 1 if broken else 0
