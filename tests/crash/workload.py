"""
The child of every campaign: runs a program on a store and writes a mark for each answer.

    python -m tests.crash.workload STORE --marks FILE --seed 1 --calls 60 [--durability full] [--dump]

`--dump` adds everything that the journal shows to each mark: the reference that other runs of the same program are compared with.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import journal
from journal.testing import ManualClock
from tests.crash import mutants, points
from tests.crash.dump import dump
from tests.crash.marks import Mark, MarkFile
from tests.crash.program import START_MS, Program, Shape


def run(
    store_path: Path, shape: Shape, calls: int, marks: MarkFile, *, now: int, is_dumped: bool, is_closed: bool = True
) -> None:
    """One process's life: open, call, close."""
    clock = ManualClock(now)
    store = journal.open(store_path, durability=shape.durability, claims=shape.claims, clock=clock)
    pages = shape.journal(store)
    shown = (lambda: dump(pages)) if is_dumped else list
    marks.write(Mark(0, "open", "none", dump=shown()))
    program = Program(shape, store, pages, clock)
    for step in program.steps(calls):
        durable = str(pages.durable_cursor)
        marks.write(Mark(step.number, step.verb, step.level, step.answer, step.cursor, durable, shown()))
    if is_closed:
        last = shown()
        store.close()
        marks.write(Mark(calls + 1, "close", "full", dump=last))
    else:
        os._exit(0)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash.workload", description="run a random program on a store"
    )
    parser.add_argument("store", type=Path)
    parser.add_argument("--marks", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--now", type=int, default=START_MS, help="where the clock begins, in ms")
    parser.add_argument("--durability", choices=("full", "interval", "none"), default="full")
    parser.add_argument("--dump", action="store_true", help="add what the journal shows to each mark")
    parser.add_argument("--leave-open", action="store_true", help="end without closing the store")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--point", help="kill this process at module:Class.method:before|after:count")
    parser.add_argument("--mutant", choices=sorted(mutants.MUTANTS), help="break the engine in this way first")
    return parser


def main() -> None:
    given = arguments().parse_args()
    if given.mutant:
        mutants.install(given.mutant)
    if given.point:
        points.install(given.point)
    marks = MarkFile(given.marks)
    shape = Shape(given.seed, given.durability)
    if given.threads > 1:
        from tests.crash import crowd

        crowd.run(given.store, shape, given.calls, given.marks, now=given.now, threads=given.threads)
    else:
        run(given.store, shape, given.calls, marks, now=given.now, is_dumped=given.dump, is_closed=not given.leave_open)


if __name__ == "__main__":
    main()
