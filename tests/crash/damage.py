"""
Damaged files: bits flipped, pages zeroed, files cut, in the log, the rows and the catalog of a closed store and of a killed one.

Allowed is an error that names the file (and the byte or offset, for the log), or a store that shows exactly what it showed before (the
damage hit a place that is not in use). Never other data, never the death of the interpreter.

A killed store's last record is an exception that no log can avoid: when only that one is unreadable it looks like a write that was cut off,
so the state before it is accepted as well. So is an earlier whole state when the end of the log was overwritten with zeros: nothing tells
it from a power cut that lost those pages.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import journal
from journal.engine.log.reader import Reader, RecordPlace
from tests.crash.campaign import PROJECT, Progress, Violation, child_command, child_environment, keep, reference
from tests.crash.dump import difference, digest, dump
from tests.crash.marks import Mark
from tests.crash.oracle import reopened
from tests.crash.program import NAME, START_MS, Shape
from tests.crash.scratch import empty, scratch

CALLS = 70
PAGE = 4096


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing done to one file."""

    file: str
    kind: str
    place: int
    bit: int = 0

    def __str__(self) -> str:
        return f"{self.file} {self.kind} at byte {self.place}" + (f" bit {self.bit}" if self.kind == "flip" else "")

    def inflict(self, store: Path) -> None:
        path = store / self.file
        data = bytearray(path.read_bytes())
        if self.kind == "flip":
            data[self.place] ^= 1 << self.bit
        elif self.kind == "cut":
            del data[self.place :]
        elif self.kind == "zero":
            data[self.place : self.place + PAGE] = bytes(len(data[self.place : self.place + PAGE]))
        elif self.kind == "sector":
            data[self.place : self.place + 512] = bytes(len(data[self.place : self.place + 512]))
        path.write_bytes(data)


def damages(store: Path, chance: random.Random, each: int) -> Iterator[Damage]:
    """Some damages of each kind to each file, mostly where there is something."""
    for path in sorted(store.rglob("*")):
        if path.suffix not in (".log", ".mdb") or path.name == "spare.mdb":
            continue
        data, name = path.read_bytes(), str(path.relative_to(store))
        used = [begin for begin in range(0, len(data), 512) if any(data[begin : begin + 512])]
        for _ in range(each * 3):
            sector = chance.choice(used) if used and chance.random() < 0.9 else chance.randrange(len(data)) // 512 * 512
            place = min(sector + chance.randrange(512), len(data) - 1)
            yield Damage(name, "flip", place, chance.randrange(8))
        for _ in range(each):
            sector = chance.choice(used or [0])
            yield Damage(name, "zero", sector // PAGE * PAGE)
            yield Damage(name, "sector", sector)
            yield Damage(
                name, "cut", chance.choice([sector, sector + 100, sector // PAGE * PAGE, chance.randrange(len(data))])
            )
        yield Damage(name, "cut", 0)


def look(store: Path, shape: Shape, out: Any) -> None:
    """In a process of its own: open a damaged store and tell what it shows, or which error it gives."""
    try:
        with reopened(store, shape, START_MS + 3_600_000) as (opened, pages):
            found = dump(pages)
            problems = opened.check()
        out.send(("shown", found, problems))
    except journal.JournalError as error:
        out.send(("error", type(error).__name__, str(error)))
    except BaseException as error:  # noqa: BLE001 - anything else is what is looked for
        out.send(("foreign", type(error).__name__, str(error)))


def outcome(store: Path, shape: Shape) -> tuple[str, Any, Any]:
    """What `look` told, or how its process died."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=look, args=(store, shape, sending), daemon=True)
    process.start()
    sending.close()
    try:
        told = receiving.recv() if receiving.poll(60) else ("hangs", "", "")
    except EOFError:
        process.join()
        return "died", process.exitcode, ""
    if told[0] == "hangs":
        process.kill()
    process.join()
    return told


def judge(damage: Damage, told: tuple[str, Any, Any], accepted: list[list[str]], store: Path) -> str | None:
    """What is wrong with the reaction to a damage."""
    kind, first, second = told
    name = Path(damage.file).name
    if kind == "error":
        if name not in second:
            return f"{first} does not name the file: {second}"
        if damage.file.endswith(".log") and not any(word in second for word in ("byte", "offset", "cut", "missing")):
            return f"{first} does not say where: {second}"
        return None
    if kind == "shown":
        if first not in accepted:
            return f"other data was served:\n{difference(accepted[0], first)}"
        return None
    return f"{kind}: {first} {second}"


def make_store(place: Path, shape: Shape, *, is_closed: bool) -> tuple[Path, list[Mark]]:
    """A store as a program leaves it, closed or not, and the marks of the reference run."""
    store = empty(place / "store")
    extra = [] if is_closed else ["--leave-open"]
    (place / "marks").unlink(missing_ok=True)
    command = child_command(store, place / "marks", shape, CALLS, *extra)
    subprocess.run(command, cwd=PROJECT, env=child_environment(), check=True, capture_output=True)
    for lock in store.rglob("*-lock"):
        lock.unlink()
    return store, reference(None, shape, CALLS)


def wipes_the_end(damage: Damage, store: Path) -> bool:
    """Whether the log's last record is zeroed, and others before it: as after a power cut, nothing tells that they were there."""
    if damage.kind not in ("zero", "sector"):
        return False
    path = store / damage.file
    last = 0
    first = int(path.stem)
    for place, _, _ in Reader(path.parent, NAME.encode(), RecordPlace(first, first, 0)):
        if place.segment != first:
            return False
        last = place.position
    return damage.place + (PAGE if damage.kind == "zero" else 512) > last


def accepted_states(marks: list[Mark], *, is_closed: bool, damage: Damage, store: Path) -> list[list[str]]:
    """What a damaged store may show."""
    last = marks[CALLS].dump
    if is_closed or not damage.file.endswith(".log") or "/offsets/" in damage.file:
        return [last]
    if wipes_the_end(damage, store):
        return [last, *(mark.dump for mark in marks[:CALLS])]
    # Calls after the last but one synced call: nothing in the log proves that they had been durable.
    full = [mark.number for mark in marks[: CALLS + 1] if mark.level == "full"]
    return [last, *(mark.dump for mark in marks[full[-2] if len(full) > 1 else 0 : CALLS])]


def campaign(each: int, seeds: list[int]) -> Iterator[Violation]:
    """Damage stores of these seeds in every way."""
    progress, tried, told_errors, unharmed = Progress("damage"), 0, 0, 0
    with scratch("damage") as place:
        for seed in seeds:
            for is_closed in (True, False):
                shape = Shape(seed)
                store, marks = make_store(place, shape, is_closed=is_closed)
                chance = random.Random(f"damage:{seed}:{is_closed}")
                for number, damage in enumerate(damages(store, chance, each)):
                    copy = empty(place / "copy")
                    shutil.copytree(store, copy)
                    damage.inflict(copy)
                    told = outcome(copy, shape)
                    tried += 1
                    told_errors += told[0] == "error"
                    unharmed += told[0] == "shown"
                    progress.tell(f"{tried} damages: {told_errors} named, {unharmed} without effect; seed {seed}")
                    if problem := judge(
                        damage, told, accepted_states(marks, is_closed=is_closed, damage=damage, store=store), copy
                    ):
                        state = "closed" if is_closed else "killed"
                        shutil.rmtree(copy)
                        shutil.copytree(store, copy)
                        damage.inflict(copy)
                        again = f"python -m tests.crash damage --seed {seed} --seeds 1 --each {each} (damage {number}, {state} store)"
                        what = f"{damage} of a {state} store: {problem}"
                        yield Violation(what, f"{again}; the damaged store is {keep(copy, 'damage')}")
    progress.tell(f"{tried} damages: {told_errors} named, {unharmed} without effect", is_last=True)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--each", type=int, default=8, help="damages of each kind to each file (default %(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="stores to damage (default %(default)s)")


def main(given: argparse.Namespace) -> int:
    found = 0
    for violation in campaign(given.each, list(range(given.seed, given.seed + given.seeds))):
        print(violation, flush=True)
        found += 1
        if found == 10:
            print("damage: ten are enough, stopped")
            break
    return 1 if found else 0


__all__ = ["Damage", "campaign", "damages", "digest", "judge"]
