"""
A forecast as a table for people: a line for each step, with a bar; `!` where it is a spike.

X1  No line is wider than `width`, as long as dates and counts fit into it: first the bars become shorter, then fewer priorities are
    named. ASCII only: every terminal and log can show it.
X2  Steps on end in which nothing falls due are one line.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from journal.core.forecast.forecast import Forecast, Load

WIDTH = 100
_BAR_MIN = 8
_PRIORITIES = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))

Line = tuple[str, str, str, str, str, int]
"""When, entries, processing, priorities, mark, and what the bar is drawn of."""


def render(forecast: Forecast, width: int = WIDTH) -> str:
    """The table."""
    for named in range(_PRIORITIES, -1, -1):
        lines = [("due (UTC)", "entries", "processing", "priorities" if named else "", "", 0), *_lines(forecast, named)]
        sizes = [max(len(str(line[n])) for line in lines) for n in range(5)]
        room = width - sum(sizes) - 5 * 2
        if room >= _BAR_MIN:
            break
    most = max(line[5] for line in lines) or 1
    title = f"{forecast.total} entries, in steps of {duration_text(forecast.step_ms)}"
    return "\n".join([title, *(_row(line, sizes, max(room, _BAR_MIN), most) for line in lines)])


def duration_text(ms: int) -> str:
    """A duration as it may be given: "90s", "1h"."""
    size, unit = next((size, unit) for size, unit in _UNITS if ms % size == 0)
    return f"{ms // size}{unit}"


def _row(line: Line, sizes: list[int], room: int, most: int) -> str:
    when, entries, processing, priorities, mark, drawn = line
    bar = "#" * -(-drawn * room // most)
    cells = (
        when.ljust(sizes[0]), entries.rjust(sizes[1]), processing.rjust(sizes[2]), priorities.ljust(sizes[3]),
        mark.ljust(sizes[4]), bar,
    )  # fmt: skip
    return "  ".join(cells).rstrip()


def _lines(forecast: Forecast, named: int) -> list[Line]:
    spikes = forecast.spikes()
    lines = [_line("overdue", forecast.overdue, named)]
    for is_empty, group in groupby(forecast.steps, key=lambda step: not step.counts):
        steps = list(group)
        if is_empty and len(steps) > 1:
            when = f"{_date(steps[0].start, forecast.step_ms)} and {len(steps) - 1} more"
            lines.append((when, "0", "", "", "", 0))
            continue
        for step in steps:
            mark = "!" if any(spike.start <= step.start < spike.end for spike in spikes) else ""
            lines.append(_line(_date(step.start, forecast.step_ms), step, named, mark))
    return [*lines, (*_line("later", forecast.later, named)[:5], 0)]  # what comes some time has no place in the drawing


def _line(when: str, load: Load, named: int, mark: str = "") -> Line:
    by_priority = load.by_priority
    most = sorted(by_priority, key=lambda priority: (-by_priority[priority], priority))[:named]
    counts = [f"{priority}: {by_priority[priority]}" for priority in sorted(most)]
    rest = load.total - sum(by_priority[priority] for priority in most)
    priorities = ", ".join([*counts, f"others: {rest}"] if rest and named else counts)
    processing = load.by_status["P"]
    return when, str(load.total), str(processing) if processing else "", priorities, mark, load.total


def _date(ms: int, step_ms: int) -> str:
    """When a step begins; with milliseconds where steps are shorter than a second."""
    try:
        date = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return str(ms)  # after the year 9999 there are only numbers
    return date.strftime("%Y-%m-%d %H:%M:%S") + (f".{ms % 1000:03d}" if step_ms < 1000 else "")
