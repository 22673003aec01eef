"""What the campaigns share: starting the child, a reference run, a line of progress, and what to say when a promise is broken."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.crash.marks import Mark, read_marks
from tests.crash.program import Shape
from tests.crash.scratch import scratch

EVERY_S = 5
PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, and the command that shows it again."""

    what: str
    reproduce: str

    def __str__(self) -> str:
        return f"VIOLATION: {self.what}\n  reproduce: {self.reproduce}"


def quiet() -> None:
    """For the process of a campaign, not for one that imports its modules: recoveries report every torn tail, thousands of them."""
    logging.getLogger("journal").setLevel(logging.CRITICAL)


class Progress:
    """Lines of progress, one every few seconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._begin = self._told = time.monotonic()

    def tell(self, text: str, *, is_last: bool = False) -> None:
        now = time.monotonic()
        if is_last or now - self._told >= EVERY_S:
            self._told = now
            print(f"{self.name}: {text} ({now - self._begin:.0f} s)", flush=True)

    def rate(self, count: int) -> str:
        return f"{count / max(0.001, time.monotonic() - self._begin):.0f}/s"


def child_command(store: Path, marks: Path, shape: Shape, calls: int, *extra: str) -> list[str]:
    """The workload of a campaign as a command line."""
    options = [
        "--marks",
        str(marks),
        "--seed",
        str(shape.seed),
        "--calls",
        str(calls),
        "--durability",
        shape.durability,
    ]
    return [sys.executable, "-m", "tests.crash.workload", str(store), *options, *extra]


def child_environment() -> dict[str, str]:
    """Nothing of the interpreter's own may look like a call of the store: no bytecode is written."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "PYTHONPATH": str(PROJECT)}


def reference(image: Path | None, shape: Shape, calls: int, *extra: str) -> list[Mark]:
    """The marks of an undisturbed run on a copy of a store (None: on a new one), each with a dump."""
    with scratch("reference") as place:
        if image is not None:
            shutil.copytree(image, place / "store")
        command = child_command(place / "store", place / "marks", shape, calls, "--dump", *extra)
        done = subprocess.run(
            command, cwd=PROJECT, env=child_environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"the reference run failed:\n{done.stderr[-3000:]}")
        return read_marks(place / "marks")


def disagreement(marks: list[Mark], expected: list[Mark]) -> str | None:
    """Where a run gave other answers than the reference of the same program."""
    for mark, other in zip(marks, expected, strict=False):
        if (mark.number, mark.verb, mark.answer) != (other.number, other.verb, other.answer):
            return f"call {mark.number} answered {mark.verb} {mark.answer!r}, in the reference {other.verb} {other.answer!r}"
    return None


def keep(source: Path, name: str) -> Path:
    """Save evidence from a scratch directory for whoever looks into it."""
    target = Path(tempfile.mkdtemp(prefix=f"crash-{name}-", dir=tempfile.gettempdir()))
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)
    return target
