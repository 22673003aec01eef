"""Counters and sizes of a journal, cheap to read; docs/OPERATIONS.md has each field."""

from __future__ import annotations

from typing import Any

from journal.core.requests.read import StatisticsRequest
from journal.engine.caller import Caller
from journal.engine.handlers import handles
from journal.engine.read.path import FiguresPath
from journal.engine.state.flags import pause_in


@handles(StatisticsRequest)
def statistics(p: FiguresPath, asked: StatisticsRequest, caller: Caller) -> dict[str, Any]:
    """Of one journal."""
    with p.lock:
        now = p.enter()
        state, tally = p.state, p.tally
        if not p.is_writable:
            state.rebuild_order()  # a look has none: nothing is claimed there
        entries, processing, oldest = state.size(), len(state.leases), state.oldest_due(now)
        pause = pause_in(state.active)
        return {
            "entries": entries,
            "processing": processing,
            "waiting": entries - processing,
            "buried": state.size(b"buried"),
            "successors": state.size(b"successors"),
            **p.figures(),
            "leases_lost": tally.timer["leases_lost"],
            "buried_by_timeouts": tally.timer["buried"],
            "expired": tally.timer["expired"],
            "next_due": state.next_due(now),
            "timers_behind_ms": max(0, now - p.timer_at),
            "oldest_due": oldest,
            "oldest_due_ms": None if oldest is None else now - oldest,
            "verbs": tally.verbs(),
            "lateness": tally.lateness.view(),
            "processing_time": tally.processing.view(),
            "put_time": tally.put_times.view(),
            "paused": None if pause is None else {"reason": pause[0], "since": pause[1]},
        }
