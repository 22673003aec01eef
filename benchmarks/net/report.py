"""`python -m benchmarks net`: every line of the report, section by section."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.engine import Report
from benchmarks.net import calls
from benchmarks.net.listening import listening
from benchmarks.plan import Plan
from benchmarks.table import Row


def run(directory: Path, plan: Plan, only: str | None) -> Report:
    report = Report()
    sections: dict[str, Callable[[Path, Plan], list[Row]]] = {
        "durable": calls.durable,
        "single": calls.single,
        "groups": calls.groups,
        "listen": listening,
    }
    for name, section in sections.items():
        if only in (None, name):
            report.add(name, lambda section=section: section(directory, plan))
    return report
