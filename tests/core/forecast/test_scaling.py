"""How many consumers the load takes, and when."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.forecast.scaling import Scaling, scaling
from journal.errors import Invalid

MINUTE = 60_000


def hints(
    due: list[int], *, overdue: int = 0, rate: float = 1, consumers: int = 1, late: int = 0, lead: int = 0
) -> Scaling:
    """Steps of a minute from 0 on; `late` and `lead` in minutes."""
    return scaling(
        due, overdue=overdue, start=0, step_ms=MINUTE, rate=rate, consumers=consumers,
        late_ms=late * MINUTE, lead_ms=lead * MINUTE,
    )  # fmt: skip


def needed(*args: Any, **options: Any) -> list[int]:
    return [need.consumers for need in hints(*args, **options).needs]


def left(*args: Any, **options: Any) -> list[int]:
    return [need.left for need in hints(*args, **options).needs]


def test_each_step_needs_what_finishes_it() -> None:
    """A consumer of 1/s does 60 a minute; nothing due needs nobody."""
    assert needed([60, 61, 0, 600]) == [1, 2, 0, 10]


def test_what_is_overdue_belongs_to_the_first_step() -> None:
    """In the need and in the count."""
    scaled = hints([60, 60], overdue=120)
    assert [(need.start, need.due, need.consumers) for need in scaled.needs] == [(0, 180, 3), (MINUTE, 60, 1)]
    assert scaled.most == 3


def test_who_may_be_late_needs_fewer() -> None:
    """A spike of 600 that may take three minutes more is four times 150."""
    assert needed([0, 600, 0, 0, 0, 0], late=3) == [0, 3, 3, 3, 3, 0]
    assert needed([0, 0], overdue=120, late=1) == [1, 1]


def test_thirds_cost_no_consumer() -> None:
    """A sum that is a whole number but for the last bit is that number."""
    assert needed([10, 10, 10], rate=1 / 6, late=2) == [1, 1, 1]
    assert needed([6], rate=0.1) == [1]


def test_what_is_left_is_carried_on() -> None:
    """With the consumers of now."""
    assert left([120, 60, 0, 0], consumers=1) == [60, 60, 0, 0]
    assert left([120, 60, 0, 0], consumers=0) == [120, 180, 180, 180]
    assert left([90, 90], rate=0.7, consumers=1) == [48, 96]


@pytest.mark.parametrize(
    ("due", "overdue", "consumers", "empty_at"),
    [
        ([0, 0], 0, 0, 0),
        ([600, 0], 0, 1, 0),
        ([0, 0], 30, 1, 30_000),
        ([0, 0], 60, 1, 60_000),
        ([30, 0], 45, 1, 75_000),
        ([60, 0], 30, 1, 90_000),
        ([60, 60], 1, 1, None),
        ([0, 0], 1, 0, None),
        ([0, 0], 120, 1, 120_000),
        ([0, 0], 121, 1, None),
    ],
)
def test_when_it_is_worked_off(due: list[int], overdue: int, consumers: int, empty_at: int | None) -> None:
    """To the millisecond, with what flows in meanwhile; None when the horizon ends before."""
    assert hints(due, overdue=overdue, consumers=consumers).empty_at == empty_at


def test_consumers_are_asked_for_in_advance() -> None:
    """A spike in the sixth minute, and three to start: from the third minute on, and until it is over."""
    plan = hints([60, 60, 60, 60, 60, 600, 60, 60], lead=3).plan
    assert plan == ((2 * MINUTE, 10), (6 * MINUTE, 1))


def test_nobody_is_sent_home_for_one_quiet_step() -> None:
    """The plan looks a step ahead at least."""
    assert hints([120, 60, 120, 60, 120], consumers=2).plan == ()
    assert hints([120, 60, 60, 120], consumers=2).plan == ((MINUTE, 1), (2 * MINUTE, 2))


def test_what_is_just_right_needs_no_plan() -> None:
    """Nothing to change is nothing to say."""
    assert hints([60, 60, 60]).plan == ()


def test_hints_are_readable() -> None:
    """What to do, how many, when."""
    assert str(hints([60, 60, 60, 600, 0, 0], overdue=60, lead=1)).splitlines() == [
        "consumers: 1, of 1 entries/s each; needed at most: 10",
        "not worked off within the horizon: 480 entries are left at its end",
        "now: add 1, to have 2",
        "in 60 s: let go 1, to have 1",
        "in 120 s: add 9, to have 10",
        "in 240 s: let go 10, to have 0",
    ]
    assert str(hints([0, 0], overdue=30)).splitlines()[1] == "what is overdue is worked off in 30 s"
    assert "worked off" not in str(hints([0, 0]))


@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=30),
    st.integers(0, 5000),
    st.sampled_from([0.1, 0.5, 1, 3, 10]),
    st.integers(0, 6),
    st.integers(0, 6),
)
def test_who_follows_the_plan_is_in_time(due: list[int], overdue: int, rate: float, late: int, lead: int) -> None:
    """With the consumers of the plan every entry is done within its step and `late` steps more."""
    scaled = hints(due, overdue=overdue, rate=rate, consumers=3, late=late, lead=lead)
    plan = dict(scaled.plan)
    have, done, fallen = 3, 0.0, []
    for n, count in enumerate(due):
        have = plan.get(n * MINUTE, have)
        assert have >= scaled.needs[n].consumers
        fallen.append(count + (overdue if n == 0 else 0))
        done += min(have * rate * 60, sum(fallen) - done)
        assert done >= sum(fallen[: max(0, n + 1 - late)]) - 1e-6


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=20),
    st.integers(0, 1000),
    st.integers(1, 5),
    st.integers(0, 20),
)
def test_a_fine_simulation_agrees(due: list[int], overdue: int, rate: int, consumers: int) -> None:
    """What is left at the end of each step, taken second by second."""
    scaled = hints(due, overdue=overdue, rate=rate, consumers=consumers)
    level = float(overdue)
    for need, count in zip(scaled.needs, due, strict=True):
        for _ in range(60):
            level = max(0.0, level + count / 60 - rate * consumers)
        assert abs(need.left - ceil(level - 1e-6)) <= 1


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20), st.integers(0, 1000))
def test_without_being_late_the_need_is_exact(due: list[int], overdue: int) -> None:
    """So many finish, one fewer would not."""
    for need in hints(due, overdue=overdue).needs:
        assert (need.consumers - 1) * 60 < need.due <= need.consumers * 60 or need.due == need.consumers == 0


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"rate": 0}, "rate"), ({"rate": -1}, "rate"), ({"rate": float("nan")}, "rate"), ({"rate": "1"}, "rate"),
        ({"rate": True}, "rate"), ({"consumers": -1}, "consumers"), ({"consumers": 1.5}, "consumers"), ({"due": []}, "steps"),
    ],
    ids=repr,
)  # fmt: skip
def test_wrong_arguments(options: dict[str, Any], name: str) -> None:
    """Named, with what is allowed."""
    with pytest.raises(Invalid, match=name):
        hints(**{"due": [1], **options})
