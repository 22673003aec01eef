"""Counters and sizes of a journal, cheap to read; docs/OPERATIONS.md has each field."""

from __future__ import annotations

from typing import Any

from journal.core.requests.read import StatisticsRequest
from journal.engine.caller import Caller
from journal.engine.pipeline import Pipeline
from journal.engine.state.flags import pause_in
from journal.engine.work.outlook import oldest_due


def statistics(p: Pipeline, asked: StatisticsRequest, caller: Caller) -> dict[str, Any]:
    """Of one journal."""
    with p.lock:
        now = p.enter()
        state = p.state
        if not p.is_writable:
            state.rebuild_order()  # a look has none: nothing is claimed there
        oldest = oldest_due(p, now)
        pause = pause_in(state.active)
        return {
            "entries": state.size(),
            "processing": len(state.leases),
            "waiting": state.size() - len(state.leases),
            "buried": state.size(b"buried"),
            "successors": state.size(b"successors"),
            "order": p.order,
            "generations": len(state.generations),
            "next_offset": p.log.next_offset - p.log.base,
            "durable_offset": p.log.synced - p.log.base,
            "log_bytes": p.log.bytes_written,
            "rows_bytes": sum(rows.file.used_bytes() for rows in state.generations),
            "syncs": p.commit.syncs,
            "compactions": p.compaction.passes,
            "compacted_records": p.compaction.records_removed,
            "compacted_bytes": p.compaction.bytes_saved,
            "checkpoints": p.checkpoints.count,
            "checkpoint_ms_last": round(p.checkpoints.pause_ms_last, 3),
            "checkpoint_ms_max": round(p.checkpoints.pause_ms_max, 3),
            "leases_lost": p.tally.timer["leases_lost"],
            "buried_by_timeouts": p.tally.timer["buried"],
            "expired": p.tally.timer["expired"],
            "next_due": state.next_due(now),
            "timers_behind_ms": max(0, now - p.timer_at),
            "oldest_due": oldest,
            "oldest_due_ms": None if oldest is None else now - oldest,
            "verbs": p.tally.verbs(),
            "lateness": p.tally.lateness.view(),
            "processing_time": p.tally.processing.view(),
            "put_time": p.tally.put_times.view(),
            "sync_time": p.commit.sync_times.view(),
            "paused": None if pause is None else {"reason": pause[0], "since": pause[1]},
        }
