"""
Timelines: what the dates of a journal mean. Those of different timelines are not to be compared, joined or put side by side.

Each timestamp of ours says in its metadata which timeline it is of. Spark does not look there, so code that brings two DataFrames together
checks here first. Metadata goes with a column through select, filter, join and Parquet; an expression makes a new column, without any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_export.columns.layout import TIMELINE
from spark_export.errors import TIMELINE as CODE
from spark_export.errors import invalid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def timelines_of(frame: DataFrame) -> dict[str, str]:
    """The timeline of each column that says it."""
    found: dict[str, str] = {}
    for field in frame.schema:
        timeline = (field.metadata or {}).get(TIMELINE)
        if timeline is not None:
            found[field.name] = timeline
    return found


def same_timeline(*frames: DataFrame) -> str | None:
    """The one timeline of all dates in these; None when they have none. Refused when there are several."""
    seen: dict[str, str] = {}
    for number, frame in enumerate(frames, 1):
        for name, timeline in timelines_of(frame).items():
            seen.setdefault(timeline, f"{name} of DataFrame {number}")
    if len(seen) > 1:
        named = "; ".join(f"{where} is in {timeline!r}" for timeline, where in seen.items())
        raise invalid(
            CODE,
            f"dates of different timelines mean different things: {named}. Join on other columns, and leave the dates of one side out",
        )
    return next(iter(seen), None)
