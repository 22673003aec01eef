"""
A workload that goes on when calls fail, as a daemon would: after StoreFailed it is started again, after any other error it continues.

    python -m tests.crash.stubborn STORE --marks FILE --memory FILE --seed 1 --calls 30

Its marks say for each call what the caller may believe: "done" (answered, or refused by a rule), "unchanged" (StoreFull and its like:
nothing was changed) or "unknown" (StoreFailed), with a dump of the journal as it is found afterwards. `Shadow` follows them on a healthy
store. When it must be started again it leaves what it knows in the memory file and exits with AGAIN.
"""

from __future__ import annotations

import argparse
import os
import pickle
from pathlib import Path
from typing import Any

import journal
from journal.testing import ManualClock
from tests.crash import short
from tests.crash.dump import difference, dump
from tests.crash.marks import Mark, MarkFile
from tests.crash.program import START_MS, Program, Shape

AGAIN = 75


class Stubborn:
    """A program on a store, through errors."""

    def __init__(self, path: Path, shape: Shape, marks: MarkFile, memory: Path) -> None:
        self.marks = marks
        self.memory = memory
        self.clock = ManualClock(START_MS)
        self.pending: tuple[int, str, str] | None = None  # a call whose outcome is seen only after a restart
        self.number, self.random_state = 0, None
        if memory.exists():
            now, self.number, self.random_state, self.pending = pickle.loads(memory.read_bytes())
            self.clock = ManualClock(now)
        try:
            self.store = journal.open(path, durability="full", claims=shape.claims, clock=self.clock)
            self.pages = shape.journal(self.store)
            self.program = Program(shape, self.store, self.pages, self.clock)
        except journal.StorageError:
            self.save()
            os._exit(AGAIN)
        self.program.number = self.number
        if self.random_state is not None:
            self.program.chance.setstate(self.random_state)

    def save(self) -> None:
        """Remember where the program is."""
        if hasattr(self, "program"):
            self.number, self.random_state = self.program.number, self.program.chance.getstate()
        self.memory.write_bytes(pickle.dumps((self.clock.now(), self.number, self.random_state, self.pending)))

    def run(self, calls: int) -> None:
        self.tell(self.pending or (0, "done", "open"), is_restarted=self.pending is not None)
        while self.program.number < calls:
            level = "done"
            try:
                answer = self.program.step().answer
            except (journal.StoreFailed, journal.StoreClosed) as error:
                level, answer = "unknown", f"{type(error).__name__}: {error}"
            except journal.StorageError as error:
                level, answer = "unchanged", f"{type(error).__name__}: {error}"
            self.tell((self.program.number, level, answer), is_restarted=False)

    def tell(self, outcome: tuple[int, str, str], *, is_restarted: bool) -> None:
        """Write a mark with what is found; when the store has failed, that is seen after a restart."""
        number, level, answer = outcome
        try:
            shown = None if level == "unknown" and not is_restarted else dump(self.pages, is_token_shown=False)
        except journal.StorageError:
            shown = None
        if shown is None:
            self.pending = outcome
            self.save()
            os._exit(AGAIN)
        self.pending = None
        self.marks.write(Mark(number, "", level, answer, "restarted" if is_restarted else None, dump=shown))


class Shadow:
    """The same program on a healthy store, told what became of each call."""

    def __init__(self, path: Path, shape: Shape) -> None:
        self._path = path
        self._shape = shape

    def follow(self, marks: list[Mark]) -> str | None:
        """What does not fit, or None. A call of unknown outcome is taken as it turned out, if it is one of the two."""
        unapplied = {mark.number for mark in marks if mark.level == "unchanged"}
        for attempt in range(len(marks) + 1):
            problem, undone = self._follow(marks, unapplied, attempt)
            if undone is None:
                return problem
            unapplied.add(undone)
        return "the outcomes of failed calls do not settle"

    def _follow(self, marks: list[Mark], unapplied: set[int], attempt: int) -> tuple[str | None, int | None]:
        clock = ManualClock(START_MS)
        self._path.mkdir(exist_ok=True)
        with journal.open(self._path / str(attempt), durability="none", clock=clock) as store:
            pages = self._shape.journal(store)
            program = Program(self._shape, store, pages, clock)
            for mark in marks:
                if mark.number == 0:
                    continue
                if mark.number in unapplied:
                    program.store, program.journal = _Refusing(store), _Refusing(pages)
                try:
                    program.step()
                except journal.StoreFull:
                    pass
                program.store, program.journal = store, pages
                if mark.cursor == "restarted":
                    program.reattach(store, pages)
                found = dump(pages, is_token_shown=False)
                if found != mark.dump:
                    if mark.level == "unknown" and mark.number not in unapplied:
                        return None, mark.number
                    what = f"call {mark.number} ({mark.level}: {mark.answer})"
                    return f"{what} left another state than it may:\n{difference(found, mark.dump)}", None
        return None, None


class _Refusing:
    """A store or journal that answers questions and refuses changes."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        if name in ("leases", "buried", "scan", "get", "durable_cursor", "settings", "journals"):
            return getattr(self._real, name)
        return self._refuse

    def _refuse(self, *_args: Any, **_options: Any) -> Any:
        raise journal.StoreFull("this call failed in the run that is followed")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash.stubborn", description="a workload that survives failing calls"
    )
    parser.add_argument("store", type=Path)
    parser.add_argument("--marks", type=Path, required=True)
    parser.add_argument("--memory", type=Path, required=True, help="where to leave what a next start needs to know")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--leave-open", action="store_true")
    parser.add_argument(
        "--short", type=int, default=0, help="the k-th pwrite of this process writes only half of its bytes"
    )
    given = parser.parse_args()
    if given.short:
        short.install(given.short, given.marks.with_suffix(".short"))
    stubborn = Stubborn(given.store, Shape(given.seed), MarkFile(given.marks), given.memory)
    stubborn.run(given.calls)
    if given.leave_open:
        os._exit(0)
    try:
        stubborn.store.close()
    except journal.StorageError as error:
        print(f"close: {error}")


if __name__ == "__main__":
    main()
