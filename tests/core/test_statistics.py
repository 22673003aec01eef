"""The middle, and how far numbers lie from it."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.statistics import deviation, median


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=50))
def test_the_standard_library_agrees(numbers: list[int]) -> None:
    """On the median of any numbers, and on that of their distances from it."""
    middle = statistics.median(numbers)
    assert median(numbers) == middle
    assert deviation(numbers) == statistics.median(abs(number - middle) for number in numbers)


@pytest.mark.parametrize("measure", [median, deviation])
def test_of_nothing_it_is_nothing(measure: object) -> None:
    """0, not an error: a horizon may be empty."""
    assert callable(measure) and measure([]) == 0


def test_a_few_that_are_far_off_change_nothing() -> None:
    """That is why it is not the mean."""
    assert (median([10, 11, 9, 10, 10**9]), deviation([10, 11, 9, 10, 10**9])) == (10, 1)
