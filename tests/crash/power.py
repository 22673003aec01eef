"""
The power-cut campaign: record a workload, enumerate what a power cut may leave at each moment, recover each and judge it.

One recording gives some thousand states. From one of them the next recording starts, so that recoveries are cut as well.
At `full` nothing that was acknowledged may be lost; at `interval` what is found is the state after some whole call, and no earlier one
than the journal called durable.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.connection
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.crash import events as ev
from tests.crash import mutants
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
from tests.crash.cuts import Cut, cuts, moments
from tests.crash.marks import Mark, kept_at_least, parse_marks
from tests.crash.oracle import Recovered, judge, recover
from tests.crash.program import START_MS, Shape
from tests.crash.scratch import empty, scratch
from tests.crash.strace import read_lines, record, strace_missing
from tests.crash.trace import parse

WORKERS = 2
CALLS = 50
PER_RECORDING = 1500
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Recording:
    """A workload's run as events, with what it should have shown after each call."""

    shape: Shape
    round: int
    root: str
    events: list[ev.Event]
    marks: list[Mark]
    reference: list[Mark]
    image: dict[str, bytes | None]
    now: int
    per_moment: int

    @property
    def name(self) -> str:
        return f"seed {self.shape.seed} round {self.round} {self.shape.durability}"

    def cuts(self) -> Any:
        return cuts(self.events, root=self.root, seed=self.shape.seed, per_moment=self.per_moment, image=self.image)

    def bounds(self, cut: Cut) -> tuple[int, int]:
        """The calls that must have survived, and those that may have."""
        seen = self.marks[: cut.marks]
        return kept_at_least(seen, frozenset({"full"})), (seen[-1].number + 1 if seen else 0)


def make_recording(place: Path, shape: Shape, number: int, image: Path | None, mutant: str | None) -> Recording:
    """Run the workload under strace on a copy of an image (None: on nothing)."""
    root = empty(place / "root")
    root.mkdir()
    if image is not None:
        shutil.copytree(image, root / "store")
    for name in ("marks", "trace"):
        (place / name).unlink(missing_ok=True)
    now = START_MS + number * HOUR_MS
    extra = ["--now", str(now)]
    expected = reference(image, shape, CALLS, *extra)
    loaded = load_image(root)
    if mutant:
        extra += ["--mutant", mutant]
    command = child_command(root / "store", place / "marks", shape, CALLS, *extra)
    done = record(command, place / "trace", cwd=PROJECT, env=child_environment())
    if done.returncode != 0:
        raise RuntimeError(f"the workload failed under strace:\n{done.stderr[-3000:]}")
    found = parse(read_lines(place / "trace"), root=str(root), cwd=str(PROJECT), marks=str(place / "marks"))
    marks = parse_marks(event.text for event in found if isinstance(event, ev.Marked))
    if (why := disagreement(marks, expected)) and not mutant:
        raise RuntimeError(f"the program is not deterministic: {why}")
    per_moment = max(4, 2 * PER_RECORDING // max(1, moments(found)))
    return Recording(shape, number, str(root), found, marks, expected, loaded, now, per_moment)


def load_image(root: Path) -> dict[str, bytes | None]:
    """The files and directories (None) below a root, as they are before a recording."""
    paths = [path for path in sorted(root.rglob("*")) if not path.name.endswith("-lock")]
    return {str(path): None if path.is_dir() else path.read_bytes() for path in paths}


def examine(recording: Recording, share: int, place: Path, mutant: str | None, out: Any) -> None:
    """A worker: recover and judge its share of the states of a recording."""
    if mutant:
        mutants.install(mutant)
    known: dict[bytes, Recovered] = {}
    for cut in recording.cuts():
        if cut.state.digest[0] % WORKERS != share:
            continue
        recovered = known.get(cut.state.digest)
        if recovered is None:
            out.send(("state", cut.name, cut.state.label))
            cut.state.write(empty(place))
            recovered = known[cut.state.digest] = recover(place / "store", recording.shape, recording.now + HOUR_MS)
        if problem := judge(recovered, recording.reference, *recording.bounds(cut)):
            out.send(("broken", cut.name, f"{cut.state.label}, after {cut.marks} marks: {problem}"))
            return
    out.send(("end", "", ""))


def run_workers(
    recording: Recording, place: Path, mutant: str | None, progress: Progress, before: int
) -> tuple[int, str | None]:
    """
    Examine a recording on all cores; how many states there were, and the first broken promise as `cut: what`.

    One broken promise ends the campaign, so the other workers are ended with it.
    """
    context = multiprocessing.get_context("fork")
    pipes: dict[Any, tuple[Any, list[str]]] = {}
    for share in range(WORKERS):
        receiving, sending = context.Pipe(duplex=False)
        arguments = (recording, share, place / f"state-{share}", mutant, sending)
        process = context.Process(target=examine, args=arguments, daemon=True)
        process.start()
        sending.close()
        pipes[receiving] = (process, ["", ""])
    states, broken = 0, None
    while pipes and broken is None:
        for pipe in multiprocessing.connection.wait(list(pipes)):
            process, last = pipes[pipe]
            try:
                kind, cut, text = pipe.recv()
            except EOFError:
                process.join()
                broken = f"{last[0]}: the process that recovered it died with {process.exitcode} ({last[1]})"
                del pipes[pipe]
                continue
            if kind == "state":
                states += 1
                last[:] = [cut, text]
                progress.tell(f"{before + states} states, {progress.rate(before + states)}, {recording.name}")
                continue
            if kind == "broken":
                broken = f"{cut}: {text}"
            process.join()
            del pipes[pipe]
    for process, _last in pipes.values():
        process.kill()
        process.join()
    return states, broken


def campaign(
    states: int, seed: int, durability: str, mutant: str | None = None, rounds: int = 3
) -> tuple[int, Violation | None]:
    """Record and examine until so many states were seen; the number of states and the first violation."""
    progress, total = Progress("power"), 0
    with scratch("power") as place:
        while total < states:
            level = durability if durability != "both" else ("interval" if seed % 3 == 0 else "full")
            image: Path | None = None
            for number in range(1, rounds + 1):
                recording = make_recording(place, Shape(seed, level), number, image, mutant)
                seen, broken = run_workers(recording, place, mutant, progress, total)
                total += seen
                if broken is not None:
                    return total, violation(recording, broken, place, mutant)
                if total >= states:
                    break
                image = pick_image(recording, place)
            seed += 1
        progress.tell(f"{total} states, {progress.rate(total)}, none broke a promise", is_last=True)
    return total, None


def pick_image(recording: Recording, place: Path) -> Path | None:
    """One of the states of a recording, to start the next one from."""
    chance = random.Random(f"image:{recording.shape.seed}:{recording.round}")
    chosen = chance.randrange(len(recording.events) // 3, len(recording.events))
    best: Cut | None = None
    for cut in recording.cuts():
        if cut.point > chosen and best is not None:
            break
        if best is None or chance.random() < 0.3:
            best = cut
    assert best is not None
    best.state.write(empty(place / "image"))
    store = place / "image" / "store"
    return store if store.is_dir() else None


def violation(recording: Recording, broken: str, place: Path, mutant: str | None) -> Violation:
    """Save the recording and the state, and say how to see it again."""
    cut_name = broken.split(":")[0]
    for cut in recording.cuts():
        if cut.name == cut_name:
            cut.state.write(empty(place / "broken"))
            break
    evidence = keep(place, "power")
    option = f" --mutant {mutant}" if mutant else ""
    again = (
        f"python -m tests.crash power --seed {recording.shape.seed} --durability {recording.shape.durability} "
        f"--states {PER_RECORDING * recording.round}{option}; the recording is {evidence}/trace, the state before recovery "
        f"is {evidence}/broken/store"
    )
    return Violation(f"power cut, {recording.name}, cut {broken}", again)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--states", type=int, default=3000, help="how many different states to recover (default %(default)s)"
    )
    parser.add_argument("--durability", choices=("full", "interval", "both"), default="both")
    parser.add_argument(
        "--mutant", choices=sorted(mutants.MUTANTS), help="break the engine in this way: it must be found"
    )


def main(given: argparse.Namespace) -> int:
    if (why := strace_missing()) is not None:
        print(f"power: skipped, {why}")
        return 0
    _total, broken = campaign(given.states, given.seed, given.durability, given.mutant)
    if broken:
        print(broken)
    return 1 if broken else 0
