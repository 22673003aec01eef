"""
The logs of a journal's generations: those that are closed as a row of spans, which followers of the log read at every wake-up. There
may be thousands, nearly all of them gone.

A list of what is kept is never changed, only replaced, and what did not change in it is the same object. So the row is put
together once for each list, and of a generation once for each change of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from journal.core.log.cursor_math import Span
from journal.engine.log.generation_record import GenerationRecord
from journal.engine.log.reader import list_segments


class KeptLog(NamedTuple):
    """The log of one generation: what is known of it, and where it is."""

    span: Span
    directory: Path


class ClosedLogs:
    """Those of one journal. Under its lock."""

    def __init__(self, directory: Callable[[int], Path]) -> None:
        """`directory`: where a generation is, by its order."""
        self.logs: list[KeptLog] = []
        self.spans: list[Span] = []
        self._directory = directory
        self._seen: list[GenerationRecord] | None = None
        self._known: dict[int, tuple[GenerationRecord, KeptLog]] = {}

    def look(self, kept: list[GenerationRecord]) -> ClosedLogs:
        """Bring `logs` and `spans` up to date with this list; callers must not change them."""
        if kept is not self._seen:
            known = self._known
            made: dict[int, tuple[GenerationRecord, KeptLog]] = {}
            for k in kept[:-1]:
                pair = known.get(k.order)
                made[k.order] = pair if pair is not None and pair[0] is k else (k, self._log(k, pair))
            self._known = made
            self.logs = [log for _, log in made.values()]
            self.spans = [log.span for log in self.logs]
            self._seen = kept
        return self

    def _log(self, k: GenerationRecord, known: tuple[GenerationRecord, KeptLog] | None) -> KeptLog:
        assert k.last is not None
        directory = self._directory(k.order) / "log" if known is None else known[1].directory
        if not k.has_log:
            return KeptLog(Span(k.order, k.last, is_closed=True, oldest=k.last + 1, is_gone=True), directory)
        # The first offset never changes: compaction keeps the name of the first segment.
        oldest = list_segments(directory)[0] if known is None else known[1].span.oldest
        return KeptLog(Span(k.order, k.last, is_closed=True, oldest=oldest), directory)
