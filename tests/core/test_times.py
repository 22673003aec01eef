"""Dates and durations: what callers may pass, in milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from journal.core.limits import DATE_MAX, DURATION_MAX
from journal.core.times import date_ms, duration_ms
from journal.errors import Invalid

NAIVE = datetime(2023, 11, 14)  # noqa: DTZ001 - the one that must be refused


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (0, 0),
        (DATE_MAX, DATE_MAX),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(2023, 11, 14, 22, 13, 20, 1999, tzinfo=UTC), 1_700_000_000_001),
        (datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 0),
        (datetime(9999, 12, 31, tzinfo=UTC), 253_402_214_400_000),
    ],
)
def test_dates(value: Any, ms: int) -> None:
    """Milliseconds, or an aware datetime in any zone, cut to the millisecond."""
    assert date_ms(value) == ms


@pytest.mark.parametrize(
    "value",
    [
        -1,
        DATE_MAX + 1,
        1.5,
        "2023-11-14",
        None,
        True,
        timedelta(1),
        NAIVE,
        datetime(1969, 12, 31, tzinfo=UTC),
    ],
    ids=repr,
)
def test_wrong_dates(value: Any) -> None:
    """Naive datetimes, floats, text, booleans and the time before the epoch are refused, naming the argument."""
    with pytest.raises(Invalid, match="process_date"):
        date_ms(value, "process_date")


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (0, 0), (5, 5), ("500ms", 500), ("30s", 30_000), ("2m", 120_000), ("1h", 3_600_000), ("1d", 86_400_000),
        ("0s", 0), (timedelta(seconds=1.5), 1500), (timedelta(microseconds=1999), 1), (DURATION_MAX, DURATION_MAX),
    ],
    ids=repr,
)  # fmt: skip
def test_durations(value: Any, ms: int) -> None:
    """Milliseconds, a timedelta, or a number with a unit."""
    assert duration_ms(value) == ms


@pytest.mark.parametrize(
    "value",
    ["", "5", "s", "-5s", "1.5s", "5 seconds", "1h30m", "5S", "\u0665s", None, 1.5, True, -1, timedelta(-1),
     timedelta(microseconds=-1), DURATION_MAX + 1, "999999999999999d", [5]],
    ids=repr,
)  # fmt: skip
def test_wrong_durations(value: Any) -> None:
    """Negative ones, floats, units that nobody knows, a thousand years: refused, naming the argument."""
    with pytest.raises(Invalid, match="lease"):
        duration_ms(value, "lease")
