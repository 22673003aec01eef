"""
Answers that wait for the disk: many clients share one sync.

The daemon's thread applies requests and never waits for a sync; what an answer rests on is noted here, by the journal's group commit.
When no further request is ready, a thread syncs up to the last offset that an answer waits for. Meanwhile more requests are applied;
when it is done, all answers that rest on what is durable now go out, and the next sync begins.

W1  An answer is given when every offset that it rests on is durable, or with the error that the sync met.
W2  One sync at a time for each log, on a thread that does nothing else; different logs are synced side by side.
W3  While requests come one after the other, a sync is put off for those that are there already: two threads that hand the interpreter to
    each other for every put take longer than the puts. No answer is put off for longer than the last sync took, or PUT_OFF_MAX_S.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from time import monotonic

from journal.engine.log.group_commit import GroupCommit
from journal.engine.pipeline import Pipeline
from journal.errors import JournalError, StoreFull
from journal.net.server.runtime.event_loop import Loop
from journal.threads import begin

log = logging.getLogger("journal.daemon")

LANES_MAX = 8
PUT_OFF_MAX_S = 0.002
Answer = Callable[[JournalError | None], None]


class _Line:
    """The answers that wait for one log."""

    __slots__ = ("commit", "is_syncing", "lane", "pipeline", "waiting")

    def __init__(self, pipeline: Pipeline, lane: SimpleQueue[_Line | None] | None) -> None:
        self.pipeline = pipeline
        self.commit = pipeline.commit
        self.waiting: deque[tuple[int, Answer]] = deque()
        """In the order of their offsets: they were applied one after the other."""
        self.is_syncing = False
        self.lane = lane
        """None: there is no thread for it, yet."""


class Settling:
    """All answers that wait. On the daemon's thread, but for its own threads."""

    def __init__(self, loop: Loop) -> None:
        self.count = 0
        """Answers that wait."""
        self._loop = loop
        self._lines: dict[GroupCommit, _Line] = {}
        self._lanes: list[SimpleQueue[_Line | None]] = []
        self._threads: list[threading.Thread] = []
        self._stirred: list[_Line] = []
        self._put_off_at: float | None = None
        self._took_s = 0.0
        """The last sync."""
        loop.after_round.append(self.begin)

    def add(self, pipeline: Pipeline, offset: int, answer: Answer) -> None:
        """An answer rests on an offset (W1)."""
        line = self._lines.get(pipeline.commit)
        if line is None:
            line = self._lines[pipeline.commit] = _Line(pipeline, self._lane())
        last = line.waiting[-1][0] if line.waiting else -1
        line.waiting.append((max(offset, last), answer))
        self.count += 1
        if not line.is_syncing and len(line.waiting) == 1:
            self._stirred.append(line)

    def _lane(self) -> SimpleQueue[_Line | None] | None:
        if len(self._lanes) < LANES_MAX:
            lane: SimpleQueue[_Line | None] = SimpleQueue()
            thread = threading.Thread(
                target=self._run, args=(lane,), name=f"journal-settle-{len(self._lanes)}", daemon=True
            )
            try:
                self._threads.append(begin(thread))
                self._lanes.append(lane)
            except StoreFull as e:
                log.warning("settling_without_thread error=%s", e)  # the other lanes do it, or this thread (begin)
        return self._lanes[len(self._lines) % len(self._lanes)] if self._lanes else None

    def begin(self) -> None:
        """The round is over: begin the syncs that are asked for, unless there is more to apply first (W3)."""
        if self._stirred and not self._puts_off():
            stirred, self._stirred = self._stirred, []
            for line in stirred:
                line.is_syncing = True
                line.lane = line.lane or self._lane()
                if line.lane is None:
                    self._sync(line)
                else:
                    line.lane.put(line)

    def _puts_off(self) -> bool:
        if not self._loop.has_more():
            self._put_off_at = None
            return False
        now = monotonic()
        if self._put_off_at is None:
            self._put_off_at = now
        if now - self._put_off_at < min(self._took_s, PUT_OFF_MAX_S):
            return True
        self._put_off_at = None
        return False

    def _run(self, lane: SimpleQueue[_Line | None]) -> None:
        while (line := lane.get()) is not None:
            self._sync(line)

    def _sync(self, line: _Line) -> None:
        error: JournalError | None = None
        until = line.waiting[-1][0]  # the last by now: answers that came since the round are included
        began = monotonic()
        try:
            line.commit.wait(until)
            until = max(until, line.pipeline.log.synced)
        except JournalError as e:
            error = e
        self._took_s = monotonic() - began
        self._loop.call(partial(self.settled, line, until, error))

    def settled(self, line: _Line, until: int, error: JournalError | None) -> None:
        """A sync is over."""
        line.is_syncing = False
        waiting = line.waiting
        while waiting and waiting[0][0] <= until:
            self.count -= 1
            waiting.popleft()[1](error)
        if waiting:
            self._stirred.append(line)
        elif line.pipeline.trouble is not None:
            del self._lines[line.commit]  # a journal that was dropped, or a store that failed

    def close(self) -> None:
        """End the threads; no answer waits any more."""
        for lane in self._lanes:
            lane.put(None)
        for thread in self._threads:
            thread.join()
