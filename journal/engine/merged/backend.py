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
            state = p.state
            state.save_leases()
            found: dict[str, int] = {}
            for rows in state.generations:
                for name, counts in counts_in(rows):
                    if counts[b"entries"]:
                        found[name.decode()] = found.get(name.decode(), 0) + counts[b"entries"]
            return dict(sorted(found.items()))

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes of what is shared."""
        p = self.p
        with p.lock:
            p.enter()
            state = p.state
            sizes = {"entries": state.size(), "buried": state.size(b"buried"), "in_use": len(p.members)}
            return sizes | p.figures()

    def use(self, settings: Settings) -> None:
        """Go on with other settings."""
        with self.p.lock:
            self.p.use_settings(settings)
