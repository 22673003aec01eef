"""
How far a Spark job is, on a terminal: rows, share, rate. A line that is written over, and gone at the end.

Tasks on this machine say how many rows they have read; elsewhere the number follows from the tasks that are done: Spark tells no more
while it writes.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from journal.errors import StoreFull
from journal.threads import begin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("journal.export")
STEP_S = 0.5
_WIDTH = 24


class Progress:
    """Shows the jobs of one group for the time of a block."""

    def __init__(
        self,
        spark: SparkSession,
        group: str,
        rows: int,
        what: str,
        *,
        counted: Callable[[], int],
        is_shown: bool | None,
        out: TextIO | None = None,
    ) -> None:
        from pyspark.sql.utils import is_remote

        self._out = sys.stderr if out is None else out
        self._is_shown = self._out.isatty() if is_shown is None else is_shown
        self._tracker: Any = None if is_remote() else spark.sparkContext.statusTracker()  # Spark Connect has none
        self._group, self._rows, self._what, self._counted = group, rows, what, counted
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"progress-{group}", daemon=True)
        self._began = time.monotonic()

    def __enter__(self) -> Progress:
        if self._is_shown:
            try:
                begin(self._thread)
            except StoreFull as e:
                self._is_shown = False  # the work goes on without it
                log.info("progress_not_shown error=%s", e)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            self._is_over.set()
            self._thread.join()
            self._write("")

    def _run(self) -> None:
        rows = 0
        while not self._is_over.wait(STEP_S):
            done, total = self._tasks()
            # Never back: a count may be read while it is written, or belong to a task that begins again.
            rows = max(rows, min(self._rows, max(self._counted(), self._rows * done // max(total, 1))))
            self._write(line(self._what, rows, self._rows, time.monotonic() - self._began))

    def _tasks(self) -> tuple[int, int]:
        done = total = 0
        if self._tracker is None:
            return done, total
        for job in self._tracker.getJobIdsForGroup(self._group):
            info = self._tracker.getJobInfo(job)
            for stage in () if info is None else info.stageIds:
                if (tasks := self._tracker.getStageInfo(stage)) is not None:
                    done, total = done + tasks.numCompletedTasks, total + tasks.numTasks
        return done, total

    def _write(self, text: str) -> None:
        self._out.write(f"\r\x1b[K{text}")
        self._out.flush()


def line(what: str, rows: int, total: int, seconds: float) -> str:
    """One state of the bar."""
    share = rows / total if total else 1.0
    full = int(share * _WIDTH)
    rate = rows / seconds if seconds > 0 else 0
    return f"{what} [{'#' * full}{'.' * (_WIDTH - full)}] {share:4.0%} {rows:,} of {total:,} rows, {rate:,.0f} rows/s"
