"""
All merged journals of a store together: what they share, as programs see it. Made by `Store.merged`.
"""

from __future__ import annotations

from typing import Any

from journal.core.settings import Settings
from journal.engine.feed.consumers import Consumers
from journal.engine.merged.member import MemberConsumers
from journal.engine.merged.rows import counts_in
from journal.engine.merged.sequence import Merging
from journal.engine.read.feeds import Following
from journal.engine.read.generations import Rotating
from journal.shield import shielded


@shielded
class MergedJournals(Following, Rotating):
    """The generations, the log and the settings that merged journals share; its feed has the changes of all of them."""

    _p: Merging

    def __init__(self, pipeline: Merging) -> None:
        super().__init__(pipeline)
        self._of_all = MemberConsumers(pipeline, pipeline.consumers, "")

    def __repr__(self) -> str:
        return "<MergedJournals>"

    @property
    def settings(self) -> Settings:
        """How their files behave; only the settings that they have together count."""
        return self._p.settings

    def counts(self) -> dict[str, int]:
        """How many entries each journal has; those that have none are left out. None of them is opened for it."""
        p = self._p
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
        p = self._p
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

    def _use(self, settings: Settings) -> None:
        p = self._p
        with p.lock:
            p.settings = settings
            p.log.limit(segment_bytes=settings.segment_bytes_max)
            p.generations.schedule()
            p.checkpoints.look_at_settings()
            p.retention.hold()

    def _all_consumers(self) -> Consumers:
        return self._of_all
