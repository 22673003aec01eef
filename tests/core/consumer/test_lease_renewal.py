"""When a lease is extended, warned of, and over."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import journal
from journal.core.consumer.lease_renewal import Care, Step

NOW = 1_700_000_000_000
CARE = Care.of("30s", True, "1m", "5s")


def test_extended_at_half() -> None:
    """To a whole lease from then on."""
    assert CARE.plan(NOW, NOW + 30_000, NOW, is_warned=False) == (Step.EXTEND, NOW + 15_000)
    assert CARE.extended(NOW, NOW + 30_000, NOW + 15_000) == NOW + 45_000


def test_never_beyond_the_limit() -> None:
    """The last extension is a shorter one; then it is warned, and ends."""
    assert CARE.extended(NOW, NOW + 45_000, NOW + 40_000) == NOW + 60_000
    assert CARE.plan(NOW, NOW + 60_000, NOW + 40_000, is_warned=False) == (Step.WARN, NOW + 55_000)
    assert CARE.plan(NOW, NOW + 60_000, NOW + 55_000, is_warned=True) == (Step.END, NOW + 60_000)
    assert CARE.extended(NOW, NOW + 60_000, NOW + 59_000) == NOW + 60_000


def test_without_extension() -> None:
    """A warning, and the end."""
    care = Care.of("30s", False, "1m", "5s")
    assert care.plan(NOW, NOW + 30_000, NOW, is_warned=False) == (Step.WARN, NOW + 25_000)
    assert care.plan(NOW, NOW + 30_000, NOW, is_warned=True) == (Step.END, NOW + 30_000)


def test_what_is_over_is_not_extended() -> None:
    """At the very millisecond."""
    assert CARE.plan(NOW, NOW + 30_000, NOW + 30_000, is_warned=False)[0] is Step.END
    assert CARE.plan(NOW, NOW + 30_000, NOW + 29_999, is_warned=False)[0] is Step.EXTEND


def test_a_short_lease_is_warned_of_in_its_second_half() -> None:
    """Five seconds before the end of a lease of two would be before its beginning."""
    assert Care.of("2s", False, "1m", "5s").plan(NOW, NOW + 2000, NOW, is_warned=False) == (Step.WARN, NOW + 1000)


def test_a_failed_extension_is_tried_again_in_time() -> None:
    """Several times, and not after the deadline."""
    assert CARE.again(NOW + 30_000, NOW + 15_000) == NOW + 16_875
    assert CARE.again(NOW + 30_000, NOW + 29_999) == NOW + 30_000


@given(lease=st.integers(4, 10**6), factor=st.integers(1, 50), late=st.floats(0, 0.9))
def test_a_lease_is_kept_until_its_limit_and_no_longer(lease: int, factor: int, late: float) -> None:
    """Whoever comes in time each time has it for extend_max, to the millisecond."""
    care = Care.of(lease, True, lease * factor, 0)
    now, deadline = NOW, NOW + lease
    while (planned := care.plan(NOW, deadline, now, is_warned=True))[0] is Step.EXTEND:
        now = max(now, planned[1]) + int(late * (lease // 2))
        extended = care.extended(NOW, deadline, now)
        assert now < deadline < extended <= now + lease
        deadline = extended
    assert deadline == NOW + lease * factor


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease": 0},
        {"lease": "soon"},
        {"extend_max": "1s"},
        {"extend": 1},
        {"warn": -1},
    ],
    ids=str,
)
def test_wrong_care(wrong: dict[str, Any]) -> None:
    """Refused at once; a limit below the lease only when it is to be extended."""
    options: dict[str, Any] = {"lease": "30s", "extend": True, "extend_max": "1m", "warn": "5s"}
    with pytest.raises(journal.Invalid):
        Care.of(**{**options, **wrong})
    Care.of(**{**options, "extend": False, "extend_max": "1s"})
