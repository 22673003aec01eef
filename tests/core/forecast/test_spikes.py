"""Spikes: found where they are, and nowhere else."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.forecast.spikes import MINIMUM, Spike, spikes, threshold
from journal.errors import Invalid


def found(counts: list[int], **options: Any) -> list[tuple[int, int]]:
    """First and last step of each spike."""
    return [(spike.start, spike.end - 1) for spike in spikes(counts, start=0, step_ms=1, **options)]


def test_a_spike_is_found() -> None:
    """With its size, its time and what is usual."""
    counts = [100, 98, 103, 100, 900, 99, 101]
    assert spikes(counts, start=1000, step_ms=60_000) == [Spike(241_000, 301_000, 900, 900, 100.0)]


def test_neighbours_are_one_spike() -> None:
    """The sum of both, the peak of the higher one; a step between makes two."""
    counts = [10] * 10 + [500, 800, 10, 600] + [10] * 10
    assert [(s.start, s.end, s.total, s.peak) for s in spikes(counts, start=0, step_ms=1)] == [
        (10, 12, 1300, 800),
        (13, 14, 600, 600),
    ]


def test_a_spike_does_not_hide_another() -> None:
    """However large: a mean would follow it."""
    assert found([10] * 20 + [10**9] + [10] * 20 + [100]) == [(20, 20), (41, 41)]


@pytest.mark.parametrize(
    "counts",
    [[], [0] * 60, [100] * 60, [100] * 59 + [101], [100] * 59 + [149], [5], [1000], [1000, 2], list(range(1000, 1060))],
    ids=["nothing", "zeros", "flat", "one more", "chance", "one step", "one large step", "two steps", "rising"],
)
def test_there_is_no_spike(counts: list[int]) -> None:
    """In what is flat, rises slowly, or has too few steps to tell."""
    assert found(counts) == []


def test_a_few_entries_in_a_quiet_hour_are_no_spike() -> None:
    """Unless one asks for so few."""
    counts = [0] * 30 + [MINIMUM - 1] + [0] * 30
    assert found(counts) == []
    assert found(counts, minimum=6) == [(30, 30)]
    assert found([0] * 30 + [MINIMUM] + [0] * 30) == [(30, 30)]


def test_a_high_load_is_no_spike() -> None:
    """Half of the time is usual (P2)."""
    assert found([10] * 30 + [1000] * 30) == []
    assert found([10] * 31 + [1000] * 29) == [(31, 59)]


def test_k_says_how_much_is_far() -> None:
    """In units of the scatter: √100 here."""
    assert threshold([100] * 60, 5) == 150
    assert found([100] * 60 + [149]) == []
    assert found([100] * 60 + [149], k=4.5) == [(60, 60)]


@given(st.lists(st.integers(0, 1000), max_size=80), st.floats(0.5, 20), st.integers(1, 100))
def test_the_rule_holds(counts: list[int], k: float, minimum: int) -> None:
    """Exactly the steps over the threshold and of the least size; spikes never touch each other."""
    marked = {step for first, last in found(counts, k=k, minimum=minimum) for step in range(first, last + 1)}
    limit = threshold(counts, k)
    assert marked == {n for n, count in enumerate(counts) if count > limit and count >= minimum}
    spans = found(counts, k=k, minimum=minimum)
    assert all(a[1] + 1 < b[0] for a, b in pairwise(spans))
    assert sum(s.total for s in spikes(counts, start=0, step_ms=1, k=k, minimum=minimum)) == sum(
        counts[n] for n in marked
    )
    assert 2 * len(marked) <= len(counts) + 1


@pytest.mark.parametrize("k", [0, -1, float("nan"), float("inf"), None, "5", True], ids=repr)
def test_wrong_k(k: Any) -> None:
    """A number above 0."""
    with pytest.raises(Invalid, match="k is"):
        found([1, 2, 3], k=k)


@pytest.mark.parametrize("minimum", [0, -1, 1.5, None], ids=repr)
def test_wrong_minimum(minimum: Any) -> None:
    """At least one entry."""
    with pytest.raises(Invalid, match="minimum"):
        found([1, 2, 3], minimum=minimum)
