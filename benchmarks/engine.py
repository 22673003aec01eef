"""`python -m benchmarks engine`: every line of the report, section by section."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from benchmarks.child import run_and_kill
from benchmarks.plan import Plan
from benchmarks.rows import batches, calls, large, pauses, scale, threads
from benchmarks.table import Measured, Row


class Report:
    """What has been measured so far. A section that breaks is a line that says so; the others still run."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.measured: list[Measured] = []
        self.has_failed = False

    def add(self, name: str, section: Callable[[], list[Row] | tuple[list[Row], list[Measured]]]) -> None:
        try:
            found = section()
        except Exception as error:  # noqa: BLE001 - one broken section must not hide the others
            traceback.print_exc()
            self.rows.append(Row.failed(name, error))
            self.has_failed = True
            return
        rows, measured = found if isinstance(found, tuple) else (found, [])
        self.rows += rows
        self.measured += measured


def run(directory: Path, plan: Plan, only: str | None) -> Report:
    store = directory / "large"
    report = Report()
    sections: dict[str, Callable[[], list[Row] | tuple[list[Row], list[Measured]]]] = {
        "synced": lambda: calls.synced(directory, plan),
        "unsynced": lambda: calls.unsynced(directory, plan),
        "batches": lambda: batches.batches(directory, plan),
        "threads": lambda: threads.threads(directory, plan),
        "memory": lambda: large.memory(directory, plan, store),
        "reopen": lambda: large.reopen(directory, plan, _ready(store, plan)),
        "waiting": lambda: scale.many_waiting(directory, plan, _ready(store, plan)),
        "processing": lambda: scale.many_processing(directory, plan),
        "future": lambda: scale.many_future(directory, plan),
        "pauses": lambda: pauses.pauses(directory, plan),
    }
    for name, section in sections.items():
        if only in (None, name):
            report.add(name, section)
    return report


def _ready(store: Path, plan: Plan) -> Path:
    """The large store; the memory section makes it, and without that section it is made here."""
    if not store.exists():
        run_and_kill("load", store, plan.many)
    return store
