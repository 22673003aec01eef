"""
What has happened to a journal since it was opened, counted: an addition for each, read by `statistics()`.
"""

from __future__ import annotations


class Tally:
    """The counts of one journal. Changed under its lock."""

    __slots__ = ("buried_by_timeouts", "expired", "leases_lost")

    def __init__(self) -> None:
        self.leases_lost = 0
        self.buried_by_timeouts = 0
        self.expired = 0
