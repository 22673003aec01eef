"""
The k-th sync of a thread fails with EIO, the kernel drops what it should have written, and then the power goes.

The part of the fault campaign that looks at the disk. The program (`chores`) runs under strace, which records it and lets one sync fail. A
model of the disk (`disk`) has then lost the pages of that sync: the program still sees them, no later sync writes them. At each mark from
there on, and at the end, the states that a power cut may leave are opened and compared with what was acknowledged. For some k the same is
done with a second process, which opens the store without a reboot in between: it sees what the cache has, and the disk has not.

L1  What is found is the state after the last answered step, or after the one that was under way.
L2  What the process left in the operating system opens, too, and is such a state: a kill comes instead of the power cut.
L3  When a process has ended, the model shows the files that are there: calls that its end has cut short are looked up (trace T4).
"""

from __future__ import annotations

import dataclasses
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.crash import events as ev
from tests.crash.campaign import PROJECT, Progress, Violation, child_environment, keep
from tests.crash.chores import PASSED, Chores
from tests.crash.disk import Disk
from tests.crash.dump import difference
from tests.crash.marks import Mark, read_marks
from tests.crash.oracle import verify
from tests.crash.power import load_image
from tests.crash.scratch import empty, scratch
from tests.crash.states import State, enumerate_states
from tests.crash.strace import read_lines, strace_command
from tests.crash.trace import parse

KINDS = (("fdatasync", "caller"), ("fsync", "caller"), ("fdatasync", "keeper"), ("fsync", "keeper"))
"""Which system call fails, and of whom it does not."""
SHARES = (1.0, 0.0, 0.5)
"""How many pages of that sync are lost: all, none (the error came afterwards), or some."""
PER_MOMENT = 3
SECOND = 3
"""For one k of so many there is a second process: its states take three times as long."""
EVERY = 6
"""Of the marks of the second process so many are passed over."""
K_MAX = 200
OTHERS = 1 << 20


@dataclass(frozen=True, slots=True)
class Loss:
    """Which sync fails: the k-th of this system call of the keeper, or of the caller."""

    syscall: str
    spared: str
    is_merged: bool
    k: int

    def __str__(self) -> str:
        whose = "caller" if self.spared == "keeper" else "keeper"
        return f"{self.syscall} {self.k} of the {whose}{', merged' if self.is_merged else ''}"

    def record(
        self, place: Path, mutant: str | None, *, resume: int | None = None
    ) -> tuple[list[ev.Event], str | None]:
        """Run the program, or what is left of it without a fault; what it did, and why it ended early."""
        root, marks = place / "root", place / "marks"
        fault = ["-e", f"inject={self.syscall}:error=EIO:when={self.k}"] if resume is None else []
        options = ["--spare", self.spared] if resume is None else ["--resume", str(resume)]
        options += (["--merged"] if self.is_merged else []) + (["--mutant", mutant] if mutant else [])
        command = [sys.executable, "-m", "tests.crash.chores", str(root / "store"), "--marks", str(marks), *options]
        trace = place / ("trace" if resume is None else "trace-2")
        done = subprocess.run(
            [*strace_command(trace, *fault), *command],
            cwd=PROJECT, env=child_environment(), capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            return [], f"the program ended with {done.returncode}: {done.stderr[-2500:]}"
        return parse(read_lines(trace), root=str(root), cwd=str(PROJECT), marks=str(marks), is_left=True), None


def prepare(image: Path, *, is_merged: bool) -> None:
    """A store that is closed, with the journal declared."""
    Chores(image, is_merged=is_merged).store.close()


def one_run(loss: Loss, image: Path, place: Path, mutant: str | None = None) -> tuple[bool, int, str | None]:
    """One program with one failed sync: whether there was one, how many states were opened, and what is wrong with one of them."""
    root = empty(place) / "root"
    shutil.copytree(image, root / "store")
    loaded = load_image(root)
    events, problem = loss.record(place, mutant)
    if problem is not None:
        return True, 0, problem
    marks = read_marks(place / "marks")
    if not any(isinstance(event, ev.SyncFailed) for event in events):
        failed = [mark.answer for mark in marks if mark.level == "unknown"]
        return False, 0, f"a step failed without a fault: {failed}" if failed else None
    if (problem := unlike(events, str(root), loaded)) is not None:
        return True, 0, problem
    # L2, on a copy: it is compared with below, as what became of the last step.
    shutil.copytree(root / "store", place / "killed")
    last, problem = opened(place / "killed", loss)
    if problem is not None:
        return True, 1, f"as a kill leaves it: {problem}"
    problem = misfit(last, marks, len(marks), last)
    if problem is not None:
        return True, 1, f"as a kill leaves it: {problem}"
    first = len(events)
    # Not after a lost sync of a directory: names that are there cannot be written anew, and no file system goes on without its journal.
    if marks[-1].level == "unknown" and loss.k % SECOND == 0 and loss.syscall == "fdatasync":
        more, problem = loss.record(place, mutant, resume=marks[-1].number)
        marks = read_marks(place / "marks")
        if problem is not None or marks[-1].level == "unknown":
            return True, 1, f"the second process failed: {problem or marks[-1].answer}"
        events += map(of_another_process, more)
        if (problem := unlike(events, str(root), loaded)) is not None:
            return True, 1, problem
    states = 1
    for seen, state in cuts(events, first, str(root), loaded, loss):
        states += 1
        state.write(empty(place / "state"))
        found, problem = opened(place / "state" / "store", loss)
        if problem := problem or misfit(found, marks, seen, last):
            state.write(empty(place / "state"))  # as it was before it was opened
            told = [f"{mark.number} {mark.level} {mark.answer[:160]}" for mark in marks if mark.level != "done"]
            return True, states, f"{state.label}, after {seen} marks: {problem}\nsteps that failed: {told}"
    return True, states, None


def unlike(events: list[ev.Event], root: str, image: dict[str, bytes | None]) -> str | None:
    """Where the model of the disk has lost the program (L3): then no state of it means anything."""
    disk = loaded_disk(root, image)
    for event in events:
        disk.apply(event)
    return None if (found := disk.unlike()) is None else f"the recording is not what the program did: {found}"


def loaded_disk(root: str, image: dict[str, bytes | None], is_lost: Callable[[], bool] = lambda: True) -> Disk:
    """A disk before the first event."""
    disk = Disk(root, is_lost)
    for path, data in image.items():
        disk.load(path, data)
    return disk


def of_another_process(event: ev.Event) -> ev.Event:
    """Its calls and handles are none of the first one's."""
    names = {field.name for field in dataclasses.fields(event)} & {"call", "handle"}
    return dataclasses.replace(event, **{name: getattr(event, name) + OTHERS for name in names})


def cuts(
    events: list[ev.Event], first: int, root: str, image: dict[str, bytes | None], loss: Loss
) -> Iterator[tuple[int, State]]:
    """
    The states that a power cut may leave after the sync that failed, with the number of marks by then; `first` events are those of
    the first process.
    """
    for share in SHARES:
        chance = random.Random(f"{loss}:{share}")
        disk = loaded_disk(root, image, lambda chance=chance, share=share: chance.random() < share)  # type: ignore[misc]
        marks, is_lost = 0, False
        for place, event in enumerate(events):
            disk.apply(event)
            marks += isinstance(event, ev.Marked)
            is_lost = is_lost or isinstance(event, ev.SyncFailed)
            is_moment = isinstance(event, ev.Marked | ev.SyncFailed) and (place < first or marks % EVERY == 0)
            if is_lost and (is_moment or place in (first - 1, len(events) - 1)):
                for state in enumerate_states(disk, chance, PER_MOMENT):
                    yield marks, state


def opened(path: Path, loss: Loss) -> tuple[list[str], str | None]:
    """What a store shows that is opened as it was left; or why it cannot be, or does not work."""
    try:
        chores = Chores(path, is_merged=loss.is_merged)
        try:
            found = chores.shown()
            if problems := chores.store.check():
                return found, f"check(): {problems[:3]}"
            chores.pages.put("probe", priority=0, process_date=1, insertion_date=1)
            lease = chores.pages.claim()
            if lease is None or lease.key != "probe":
                return found, f"a put in front of all others was not the next claimed: {lease}"
            lease.done()
            chores.pages.rotate()
            if problems := chores.store.check():
                return found, f"check() after a rotation: {problems[:3]}"
        finally:
            chores.store.close()
        return found, verify(path)
    except Exception as error:  # noqa: BLE001 - whatever comes out of a recovery is a finding
        return [], f"{type(error).__name__}: {error}"


def misfit(found: list[str], marks: list[Mark], seen: int, last: list[str]) -> str | None:
    """What is wrong with what was found, given the answers by then (L1)."""
    answered = [mark for mark in marks[:seen] if mark.level != "unknown"]
    under_way = [mark.dump for mark in marks[seen : seen + 1] if mark.level != "unknown"] or [last]
    before = answered[-1].dump if answered else last
    for expected in (before, *under_way):
        if is_like(found, expected, before):
            return None
    return f"not what was there after step {answered[-1].number if answered else 0}:\n{difference(before, found)}"


def is_like(found: list[str], expected: list[str], before: list[str]) -> bool:
    """The same but for feed consumers, which may stand further on: acknowledgements are written at any time."""
    (rows, feeds), (others, _), (_, known) = (
        ([line for line in lines if not line.startswith("feed ")], [line for line in lines if line.startswith("feed ")])
        for lines in (found, expected, before)
    )
    return (
        rows == others and len(feeds) >= len(known) and all(new >= old for new, old in zip(feeds, known, strict=False))
    )


def kept(run: Path, image: Path, what: str) -> Path:
    """
    All that the violation can be explained from: `image` and `trace`, which the states follow from (those of `trace-2` with them), `marks`,
    `root` as the last process left it, `state` as the cut left it, and what was wrong, with the names that the traces have.
    """
    shutil.copytree(image, run / "image")
    (run / "violation").write_text(f"{what}\nroot in the traces: {run / 'root'}\n")
    return keep(run, "losses")


def campaign(step: int, first: int, last: int, mutant: str | None = None) -> Iterator[Violation]:
    """Every sync of the keeper and of the caller, in both kinds of journals; one violation for each kind of loss."""
    progress, runs, states = Progress("faults, losses"), 0, 0
    with scratch("losses") as place:
        for is_merged in (False, True):
            image = place / f"image-{is_merged}"
            prepare(image, is_merged=is_merged)
            for syscall, spared in KINDS:
                for k in range(first + (PASSED if spared == "keeper" else 0), min(last, K_MAX) + 1, step):
                    loss = Loss(syscall, spared, is_merged, k)
                    is_met, count, problem = one_run(loss, image, place / "run", mutant)
                    runs, states = runs + 1, states + count
                    progress.tell(f"{runs} runs, {states} states, {loss}")
                    if problem is not None:
                        passed = PASSED if spared == "keeper" else 0
                        again = f"python -m tests.crash faults --only losses --first {k - passed} --last {k}"
                        what = f"{loss} was lost: {problem}"
                        yield Violation(what, f"{again}; evidence in {kept(place / 'run', image, what)}")
                        break
                    if not is_met:
                        break
    progress.tell(f"{runs} runs, {states} states after a sync that was lost", is_last=True)
