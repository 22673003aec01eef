"""The load ahead: every entry is counted once, in the step in which it falls due."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.entry.keys import primary_key
from journal.core.forecast.forecast import STEPS_MAX, Forecast, ForecastTally, forecast
from journal.core.forecast.text import duration_text, render
from journal.core.limits import DATE_MAX
from journal.core.times import duration_ms
from journal.errors import Invalid

NOW = 1_700_000_000_000
Rows = list[tuple[int, int, str]]


def at(*seconds: float, priority: int = 100, status: str = "W") -> Rows:
    """Entries that fall due so many seconds from now."""
    return [(NOW + round(s * 1000), priority, status) for s in seconds]


def totals(found: Forecast) -> tuple[int, list[int], int]:
    return found.overdue.total, [step.total for step in found.steps], found.later.total


# -- counting ----------------------------------------------------------------------------------------------------------


def test_the_edges_of_the_steps() -> None:
    """Due now is overdue; a step has what is due when it ends, and not what was due when it began."""
    rows = at(-5, 0, 0.001, 59.999, 60, 60.001, 120, 120.001)
    assert totals(forecast(rows, now=NOW, step="1m", horizon="2m")) == (2, [3, 2], 1)


def test_steps_have_their_dates() -> None:
    """One begins where the other ends; the first one now."""
    found = forecast([], now=NOW, step="1m", horizon="3m")
    assert [(step.start - NOW, step.end - NOW) for step in found.steps] == [
        (0, 60_000),
        (60_000, 120_000),
        (120_000, 180_000),
    ]
    assert (found.overdue.start, found.overdue.end, found.later.start) == (0, NOW, found.end)


KEYS_OF = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 100, 255]),
        st.sampled_from([0, NOW - 1, NOW, NOW + 1, NOW + 59_999, NOW + 60_000, NOW + 60_001, NOW + 180_000, DATE_MAX]),
        st.binary(min_size=17, max_size=17),
        st.booleans(),
    ),
    max_size=40,
    unique_by=lambda row: row[:3],
)


@given(KEYS_OF, st.integers(1, 41))
def test_places_in_order_are_counted_like_single_entries(rows: list[tuple[int, int, bytes, bool]], size: int) -> None:
    """Whatever they are, and however many are given at a time."""
    tally, counted = (ForecastTally(NOW, step="1m", horizon="3m") for _ in range(2))
    places = sorted(primary_key(*row[:2], 1, row[2]) for row in rows)
    busy = {primary_key(*row[:2], 1, row[2]) for row in rows if row[3]}
    for priority, date, _, is_busy in rows:
        counted.add(date, priority, "P" if is_busy else "W")
    for start in range(0, len(places), size):
        page = places[start : start + size]
        tally.add_places(page, [place for place in page if place in busy])
    assert tally.forecast() == counted.forecast()


def test_by_priority_and_by_status() -> None:
    """The smallest priority first; a status that nobody has is 0."""
    rows = at(1, 2, priority=100) + at(3, priority=0) + at(4, 5, priority=0, status="P")
    step = forecast(rows, now=NOW).steps[0]
    assert list(step.by_priority.items()) == [(0, 3), (100, 2)]
    assert (step.by_status, step.waiting, step.total) == ({"W": 3, "P": 2}, 3, 5)
    assert step.counts == {(0, "P"): 2, (0, "W"): 1, (100, "W"): 2}
    assert forecast([], now=NOW).steps[0].by_status == {"W": 0, "P": 0}


def test_counts_may_come_in_sums() -> None:
    """Somebody who has counted already says so once; nothing is nothing."""
    tally = ForecastTally(NOW, step="1m", horizon="2m")
    tally.add(NOW + 1, 100, "W", 1000)
    tally.add(NOW + 1, 100, "W")
    tally.add(NOW + 1, 50, "W", 0)
    assert tally.forecast().steps[0].counts == {(100, "W"): 1001}


def test_a_forecast_stays_as_it_was() -> None:
    """What is counted afterwards is in the next one only."""
    tally = ForecastTally(NOW)
    first = tally.forecast()
    tally.add(NOW + 1, 100, "W")
    assert (first.total, tally.forecast().total) == (0, 1)


def test_dates_and_durations_as_everywhere() -> None:
    """Integers, datetimes, timedeltas, text; a horizon that is no multiple is rounded up to a whole step."""
    now = datetime.fromtimestamp(NOW / 1000, UTC)
    assert forecast([], now=now, step=timedelta(minutes=1), horizon=3_600_000) == forecast([], now=NOW)
    assert len(forecast([], now=NOW, step="7s", horizon="1m").steps) == 9
    assert len(forecast([], now=NOW, step="1h", horizon="1m").steps) == 1


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 3), st.sampled_from("WP"))),
    st.integers(0, 2000),
    st.integers(1, 300),
    st.integers(1, 2000),
)
def test_a_plain_count_agrees(rows: Rows, now: int, step: int, horizon: int) -> None:
    """Every entry in one place, found by comparing dates."""
    found = forecast(rows, now=now, step=step, horizon=horizon)
    assert found.end - step < now + horizon <= found.end
    assert found.total == len(rows)
    for load in (found.overdue, *found.steps, found.later):
        start = -1 if load is found.overdue else load.start
        expected = Counter((p, s) for date, p, s in rows if start < date <= load.end)
        assert load.counts == dict(expected)
        assert sum(load.by_priority.values()) == sum(load.by_status.values()) == load.total


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"step": 0}, "step"), ({"step": "x"}, "step"), ({"horizon": 0}, "horizon"), ({"horizon": None}, "horizon"),
        ({"now": -1}, "now"), ({"now": None}, "now"), ({"step": 1, "horizon": STEPS_MAX + 1}, "longer steps"),
    ],
    ids=repr,
)  # fmt: skip
def test_wrong_arguments(options: dict[str, Any], name: str) -> None:
    """Named, with what is allowed."""
    with pytest.raises(Invalid, match=name):
        forecast([], **{"now": NOW, **options})


@pytest.mark.parametrize("row", [(NOW, 100, "B"), (NOW, 100, None), (NOW, 256, "W"), (NOW, -1, "W")], ids=repr)
def test_wrong_entries(row: Any) -> None:
    """Buried ones do not fall due; priorities are bytes."""
    with pytest.raises(Invalid):
        forecast([row], now=NOW)


# -- what it says ------------------------------------------------------------------------------------------------------


def test_spikes_are_found_among_waiting_entries() -> None:
    """Those that are processing do not make one."""
    rows = [row for minute in range(60) for row in at(*[minute * 60 + 1] * 10)]
    assert forecast(rows + at(*[601] * 500, status="P"), now=NOW).spikes() == []
    spikes = forecast(rows + at(*[601] * 500) + at(*[661] * 500), now=NOW).spikes()
    assert [(s.start - NOW, s.end - NOW, s.total, s.usual) for s in spikes] == [(600_000, 720_000, 1020, 10)]


def test_hints_are_for_waiting_entries() -> None:
    """What is overdue and waiting, and what falls due; durations as everywhere."""
    rows = at(*[-1] * 60) + at(*[-1] * 1000, status="P") + at(*[61] * 600)
    found = forecast(rows, now=NOW, step="1m", horizon="4m").scaling(1, 1, late="1m", lead="1m")
    assert [need.consumers for need in found.needs] == [1, 6, 5, 0]
    assert (found.most, found.empty_at) == (6, NOW + 60_000)
    assert found.plan[0] == (NOW, 6)


def test_it_goes_through_json() -> None:
    """Everything in it, with the spikes."""
    rows = at(-1, 1, 500, 10**6) + at(*[61] * 50, priority=0)
    kept = json.loads(json.dumps(forecast(rows, now=NOW, step="1m", horizon="5m").to_dict()))
    assert (kept["now"], kept["step_ms"], kept["total"], len(kept["steps"])) == (NOW, 60_000, 54, 5)
    assert kept["steps"][1]["by_priority"] == {"0": 50}
    assert kept["later"]["by_status"] == {"W": 2, "P": 0}
    assert kept["spikes"] == [{"start": NOW + 60_000, "end": NOW + 120_000, "total": 50, "peak": 50, "usual": 0.0}]


# -- the table ---------------------------------------------------------------------------------------------------------


def test_the_table() -> None:
    """A line for each step, empty ones together, a bar to the largest, a mark at the spike."""
    rows = at(-1, -1) + at(-1, priority=20, status="P") + at(*[5] * 9) + at(*[65] * 40, priority=0) + at(9999)
    assert render(forecast(rows, now=NOW, step="1m", horizon="10m"), width=79).splitlines() == [
        "53 entries, in steps of 1m",
        "due (UTC)                       entries  processing  priorities",
        "overdue                               3           1  20: 1, 100: 2     #",
        "2023-11-14 22:13:20                   9              100: 9            ##",
        "2023-11-14 22:14:20                  40              0: 40          !  ########",
        "2023-11-14 22:15:20 and 7 more        0",
        "later                                 1              100: 1",
    ]


def test_it_is_what_a_forecast_prints() -> None:
    """`print(forecast)` is enough."""
    found = forecast(at(1, 2, 3), now=NOW)
    assert str(found) == render(found)


def test_many_priorities_are_summed_up() -> None:
    """The three with the most entries are named, in their order."""
    rows = (
        at(1, 1, 1, priority=9) + at(1, priority=1) + at(1, 1, priority=5) + at(1, 1, priority=200) + at(1, priority=7)
    )
    found = forecast(rows, now=NOW, horizon="1m")
    assert "  5: 2, 9: 3, 200: 2, others: 2  " in str(found)
    assert "  5: 2, 9: 3, others: 4  " in render(found, 80)
    assert "priorities" not in render(found, 60)


def test_short_steps_show_milliseconds() -> None:
    """And dates after the year 9999 are numbers."""
    assert "22:13:20.007" in str(forecast([(NOW + 8, 1, "W")], now=NOW, step=7, horizon=14))
    assert str(DATE_MAX - 1) in str(forecast([(DATE_MAX, 1, "W")], now=DATE_MAX - 1, step=1, horizon=1))


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 255), st.sampled_from("WP")), max_size=60),
    st.integers(90, 200),
)
def test_no_line_is_too_wide(rows: Rows, width: int) -> None:
    """Whatever is in it; ASCII, nothing at the ends, and every entry is in the sum of its lines."""
    found = forecast(rows, now=10**6, step="1m", horizon="1h")
    lines = render(found, width).splitlines()
    assert all(len(line) <= width and line.isascii() and line == line.rstrip() for line in lines)
    edge = lines[1].index("entries") + len("entries")
    assert sum(int(line[:edge].split()[-1]) for line in lines[2:]) == len(rows)


@given(st.integers(1, 10**10))
def test_a_duration_is_written_as_it_may_be_given(ms: int) -> None:
    """In the largest unit that fits."""
    assert duration_ms(duration_text(ms)) == ms
    assert duration_text(3_600_000) == "1h" and duration_text(90_000) == "90s"
