"""
All merged journals of a store together: what they share, as programs see it. Made by `Store.merged`.
"""

from __future__ import annotations

from typing import Any

from journal.core.settings import Settings
from journal.engine.backend import EngineLog
from journal.engine.merged.member import MemberConsumers
from journal.engine.merged.rows import counts_in
from journal.engine.merged.sequence import Merging
from journal.shield import shielded


@shielded
class EngineMerged(EngineLog):
    """The generations, the log and the settings that merged journals share (journal.api.backend.LogBackend)."""

    p: Merging

    def __init__(self, pipeline: Merging) -> None:
        super().__init__(pipeline, MemberConsumers(pipeline, pipeline.consumers, ""))

    def within(self, timeout_ms: int | None) -> EngineMerged:
        """Itself: no network is waited for."""
        return self

    def counts(self) -> dict[str, int]:
        """How many entries each journal has; those that have none are left out. None of them is opened for it."""
        p = self.p
        with p.lock:
            p.enter()
            p.state.save_leases()
            found: dict[str, int] = {}
            for rows in p.state.generations:
                for name, counts in counts_in(rows):
                    if counts[b"entries"]:
                        found[name.decode()] = found.get(name.decode(), 0) + counts[b"entries"]
            return dict(sorted(found.items()))

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes of what is shared."""
        p = self.p
        with p.lock:
            p.enter()
            return {
                "entries": p.state.size(),
                "buried": p.state.size(b"buried"),
                "in_use": len(p.members),
                "order": p.order,
                "generations": len(p.state.generations),
                "log_bytes": p.log.bytes_written,
                "rows_bytes": sum(rows.file.used_bytes() for rows in p.state.generations),
                "syncs": p.commit.syncs,
                "sync_time": p.commit.sync_times.view(),
                "checkpoints": p.checkpoints.count,
                "compactions": p.compaction.passes,
                "compacted_records": p.compaction.records_removed,
                "compacted_bytes": p.compaction.bytes_saved,
            }

    def use(self, settings: Settings) -> None:
        """Go on with other settings."""
        p = self.p
        with p.lock:
            p.settings = settings
            p.log.limit(segment_bytes=settings.segment_bytes_max)
            p.generations.schedule()
            p.checkpoints.look_at_settings()
            p.retention.hold()
