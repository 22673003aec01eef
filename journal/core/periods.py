"""
Periods of wall-clock time (UTC): when a generation that began at a date ends.
"""

from __future__ import annotations

from datetime import UTC, datetime

from journal.core.limits import NEVER

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_YEAR_9999 = 253_370_764_800_000
"""Where datetime ends."""
PERIODS = ("1h", "1d", "1mo")


def period_end(date: int, period: str) -> int:
    """The first boundary after a date."""
    match period:
        case "1h":
            return (date // HOUR_MS + 1) * HOUR_MS
        case "1d":
            return (date // DAY_MS + 1) * DAY_MS
        case "1mo":
            if date >= _YEAR_9999:
                return NEVER
            began = datetime.fromtimestamp(date / 1000, UTC)
            year, month = divmod(began.year * 12 + began.month, 12)
            return int(datetime(year, month + 1, 1, tzinfo=UTC).timestamp()) * 1000
    raise AssertionError(period)
