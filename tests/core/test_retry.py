"""Retries: waits that grow, scatter and are bounded, and an end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import journal
from journal import Retry


def test_waits_double_up_to_the_cap() -> None:
    """Without jitter they are exact."""
    retry = Retry(first="1s", factor=2, cap="10s", jitter=0)
    assert [retry.delay_ms(n, 0.7) for n in range(1, 8)] == [1000, 2000, 4000, 8000, 10000, 10000, 10000]


def test_jitter_only_shortens() -> None:
    """Chance leaves out up to its part of a wait."""
    retry = Retry(first=1000, jitter=0.5)
    assert [retry.delay_ms(1, chance) for chance in (0, 0.5, 1)] == [1000, 750, 500]
    assert Retry(first=1000, jitter=1).delay_ms(1, 1) == 0


def test_a_constant_wait() -> None:
    """A factor of 1 never grows, and first=0 is at once."""
    assert [Retry(first="3s", factor=1, jitter=0).delay_ms(n, 0) for n in (1, 2, 500)] == [3000] * 3
    assert [Retry(first=0, jitter=0).delay_ms(n, 0) for n in (1, 2, 500)] == [0] * 3
    assert [Retry(first="5m", cap="5m", jitter=0).delay_ms(n, 0) for n in (1, 9)] == [300_000] * 2


def test_it_ends() -> None:
    """After failures_max, or never."""
    assert [Retry(failures_max=3).is_over(n) for n in (1, 2, 3, 4)] == [False, False, True, True]
    assert not Retry(failures_max=None).is_over(10**6)


@given(
    first=st.integers(0, 10**6),
    more=st.integers(0, 10**9),
    factor=st.floats(1, 1e6),
    jitter=st.floats(0, 1),
    failures=st.integers(1, 10**6),
    chance=st.floats(0, 1),
)
def test_a_wait_is_within_its_bounds(
    first: int, more: int, factor: float, jitter: float, failures: int, chance: float
) -> None:
    """Never more than the cap, never less than the jitter leaves, and never shorter after more failures."""
    retry = Retry(first=first, cap=first + more, factor=factor, jitter=jitter)
    delay = retry.delay_ms(failures, chance)
    assert int(first * (1 - jitter)) <= delay <= first + more
    assert delay <= retry.delay_ms(failures + 1, chance)


@pytest.mark.parametrize(
    "options",
    [
        {"first": "1h", "cap": "1m"},
        {"factor": 0.5},
        {"factor": float("inf")},
        {"factor": "2"},
        {"jitter": 1.5},
        {"jitter": -1},
        {"failures_max": 0},
        {"failures_max": True},
        {"first": -1},
    ],
    ids=str,
)
def test_wrong_policies(options: dict[str, Any]) -> None:
    """What makes no sense is refused when it is written, not when something fails."""
    with pytest.raises(journal.Invalid):
        Retry(**options)


def test_it_says_what_it_is() -> None:
    """For logs."""
    assert repr(Retry()) == "Retry(first=1000, factor=2.0, cap=300000, jitter=0.5, failures_max=10)"
