"""
A fixed program over everything that rests on a sync: generations that drain, rotations, a journal that comes and goes, settings, a feed.

    python -m tests.crash.chores STORE --marks FILE [--merged] [--spare caller|keeper] [--resume STEP]

Each step is one call at `full`, claims too, and writes a mark with all that the store shows. A refused step changed nothing, and the
program goes on; after a step that failed it ends, as a kill would end it. Of `--spare` the syncs do not count: strace counts those of each
thread, and the k-th of one thread must not hide the k-th of the other.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path

import journal
from journal.testing import ManualClock
from tests.crash import mutants
from tests.crash.dump import dump
from tests.crash.marks import Mark, MarkFile
from tests.crash.program import START_MS

SPARED = 200
"""Syncs that a thread makes elsewhere first: more than a program has."""
PASSED = 20
"""More syncs than the keeper makes before a spared thread can be told."""
LEASE = "9000d"


class Chores:
    """The program on a store that is open."""

    def __init__(self, path: Path, *, is_merged: bool) -> None:
        self.store = journal.open(path, claims="full", clock=ManualClock(START_MS))
        self._is_merged = is_merged
        shared = {"segment_bytes_max": 1 << 16, "generations_max": 3}
        if is_merged:
            self.store.merged(**shared)
            shared = {}
        self.pages = self.declare("work", **shared)

    def declare(self, name: str, **settings: object) -> journal.Journal:
        return self.store.journal(name, **settings, **({"merged": True} if self._is_merged else {}))

    def shown(self) -> list[str]:
        """All that the store shows; where feed consumers stand comes last."""
        lines = [f"journals {self.store.journals()}", f"timeouts_max {self.pages.settings.timeouts_max}"]
        lines += dump(self.pages, is_token_shown=False)
        if "extra" in self.store.journals():
            lines += [f"extra {line}" for line in dump(self.declare("extra"), is_token_shown=False)]
        return lines + [
            f"feed {each.name} {each.position.order:06} {each.position.offset + 1:012}" for each in self.pages.feeds()
        ]

    # -- the steps ---------------------------------------------------------------------------------------------------

    def put_many(self, name: str, count: int, size: int = 20) -> None:
        self.pages.put_many(
            [journal.Put(f"{name}-{n}", bytes(size), delay="1d" if n % 4 == 3 else 0) for n in range(count)]
        )

    def claim(self, count: int) -> None:
        self.pages.claim_many(count, lease=LEASE)

    def done(self, count: int) -> None:
        self.pages.done_many(sorted(self.pages.leases(), key=lambda lease: str(lease.key))[:count])

    def settings(self, number: int) -> None:
        self.declare("work", timeouts_max=number)

    def follow(self, count: int) -> None:
        with self.pages.feed(consumer="audit", live=False, start="BEGIN") as feed:
            feed.ack(list(islice(feed, count)))
        self.pages._backend.p.consumers.flush()

    def steps(self) -> list[Callable[[], object]]:
        """What the program does, in order."""
        store, pages = self.store, self.pages
        return [
            lambda: self.put_many("a", 12), lambda: self.claim(6), lambda: pages.rotate(), lambda: self.put_many("b", 6),
            lambda: self.follow(4), lambda: self.done(2), store.checkpoint, lambda: self.done(1), store.checkpoint,
            lambda: pages.put("b-0", "again"), store.checkpoint, lambda: pages.rotate(), lambda: self.settings(9),
            lambda: self.declare("extra"), lambda: self.declare("extra").put("x", 1), lambda: self.done(1),
            lambda: store.drop("extra"), lambda: self.follow(6), lambda: self.put_many("large", 3, 30_000), store.checkpoint,
            lambda: self.claim(3), lambda: self.done(2), lambda: self.put_many("more", 3, 30_000), store.checkpoint,
            store.checkpoint, lambda: self.done(9), store.checkpoint, lambda: self.follow(40), store.checkpoint,
            lambda: pages.rotate(), lambda: self.put_many("c", 4), lambda: self.claim(2), lambda: self.done(1),
            store.checkpoint, store.checkpoint,
        ]  # fmt: skip


def spare(path: Path, count: int) -> None:
    """Syncs of a file that is nobody's."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(count):
        for sync in (os.fdatasync, os.fsync):
            with suppress(OSError):
                sync(fd)
    os.close(fd)


def run(given: argparse.Namespace) -> None:
    marks, nobody = MarkFile(given.marks), given.marks.with_suffix(".spare")
    if given.spare is not None:
        spare(nobody, SPARED if given.spare == "caller" else PASSED)
    try:
        chores = Chores(given.store, is_merged=given.merged)
    except journal.StorageError as error:
        marks.write(Mark(0, "open", "unknown", f"{type(error).__name__}: {error}"))
        os._exit(0)
    if given.spare == "keeper":
        chores.store._backend.keeper.call(lambda: spare(nobody, SPARED))
    marks.write(Mark(given.resume, "open", "done", dump=chores.shown()))
    for number, step in enumerate(chores.steps(), start=1):
        if number <= given.resume:
            continue
        level, answer = "done", ""
        try:
            step()
        except (journal.StoreFailed, journal.StoreClosed) as error:
            level, answer = "unknown", f"{type(error).__name__}: {error}"
        except journal.StorageError as error:
            level, answer = "unchanged", f"{type(error).__name__}: {error}"
        except journal.Refused as error:
            answer = type(error).__name__
        try:
            shown = [] if level == "unknown" else chores.shown()
        except journal.StorageError as error:  # it failed in the background
            level, answer, shown = "unknown", f"{type(error).__name__}: {error}", []
        marks.write(Mark(number, "", level, answer, dump=shown))
        if level == "unknown":
            os._exit(0)
    chores.store.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash.chores", description="a program that rests on its syncs"
    )
    parser.add_argument("store", type=Path)
    parser.add_argument("--marks", type=Path, required=True)
    parser.add_argument("--merged", action="store_true")
    parser.add_argument("--spare", choices=("caller", "keeper"), help="whose syncs do not count")
    parser.add_argument("--resume", type=int, default=0, help="go on after this step")
    parser.add_argument("--mutant", choices=sorted(mutants.MUTANTS), help="break the engine in this way first")
    given = parser.parse_args()
    if given.mutant:
        mutants.install(given.mutant)
    run(given)


if __name__ == "__main__":
    main()
