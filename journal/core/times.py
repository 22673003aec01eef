"""
Dates and durations at the edge: what callers may pass, turned into integer milliseconds.

Inside the product there are only integers. A date is milliseconds since the epoch; 0 as an expiration means never.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from journal.core.limits import DATE_MAX, DURATION_MAX
from journal.errors import Invalid

DateLike = int | datetime
DurationLike = int | timedelta | str

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_TEXT = re.compile(r"([0-9]{1,15})\s*(ms|s|m|h|d|w)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def date_ms(value: DateLike, name: str = "date") -> int:
    """Milliseconds since the epoch from an int or an aware datetime (truncated to the millisecond)."""
    if type(value) is int:
        ms = value
    elif isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise Invalid(f"{name} is a naive datetime ({value!r}): give it a time zone, e.g. tzinfo=datetime.UTC")
        ms = (value - _EPOCH) // _MS
    else:
        raise Invalid(f"{name} must be an int (milliseconds since the epoch) or an aware datetime, not {value!r}")
    if not 0 <= ms <= DATE_MAX:
        raise Invalid(f"{name} is {ms}: it must be from 0 to {DATE_MAX} milliseconds since the epoch")
    return ms


def duration_ms(value: DurationLike, name: str = "duration") -> int:
    """Milliseconds from an int, a timedelta, or text such as "500ms", "30s", "2m", "1h", "1d"."""
    if type(value) is int:
        ms = value
    elif isinstance(value, timedelta):
        ms = value // _MS
    elif isinstance(value, str):
        match = _TEXT.fullmatch(value.strip())
        if match is None:
            raise Invalid(f"{name} is {value!r}: write a number and a unit (ms, s, m, h, d, w), e.g. '30s'")
        ms = int(match[1]) * _UNITS[match[2]]
    else:
        raise Invalid(f"{name} must be milliseconds, a timedelta or text such as '30s', not {value!r}")
    if not 0 <= ms <= DURATION_MAX:
        raise Invalid(f"{name} is {ms} ms: it must be from 0 to {DURATION_MAX} ms")
    return ms
