"""Acknowledgements: exact cursors, and the position below which nothing is missing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.acks import Acks
from journal.core.cursor import Cursor
from journal.errors import Invalid


def at(offset: int, order: int = 1) -> Cursor:
    return Cursor(order, offset)


def delivered(high: int, *acked: int) -> Acks:
    """A consumer that was given 0 … high and has acknowledged some of them."""
    acks = Acks(at(-1), at(high))
    for offset in acked:
        acks.ack(at(offset))
    return acks


def test_the_position_is_where_nothing_is_missing() -> None:
    """Acknowledged out of order, it waits for the first that is missing, then passes all that are there."""
    acks = delivered(9, 1, 2, 4)
    assert (acks.position, acks.unacked, acks.above) == (at(-1), 7, 3)
    acks.ack(at(0))
    assert (acks.position, acks.runs()) == (at(2), ((1, 4, 4),))
    acks.ack(at(3))
    assert (acks.position, acks.runs(), acks.unacked) == (at(4), (), 5)


def test_an_acknowledgement_says_nothing_of_others() -> None:
    """The last one of ten leaves the nine before it."""
    acks = delivered(9, 9)
    assert (acks.position, acks.unacked) == (at(-1), 9)
    assert [offset for offset in range(10) if acks.has(at(offset))] == [9]


def test_repeating_is_harmless() -> None:
    """Below the position and above it."""
    acks = delivered(9, 0, 5)
    before = (acks.position, acks.runs(), acks.unacked)
    assert not acks.ack(at(0))
    assert not acks.ack(at(5))
    assert (acks.position, acks.runs(), acks.unacked) == before


def test_what_was_never_delivered_is_refused() -> None:
    """With the last one that was."""
    with pytest.raises(Invalid, match="000000000000000009"):
        delivered(9).check(at(10))


def test_one_that_is_missing_costs_no_memory_for_the_rest() -> None:
    """A thousand acknowledged ones after it are one run."""
    assert delivered(1000, *range(1, 1001)).runs() == ((1, 1, 1000),)


def test_what_is_kept_is_read_back() -> None:
    """Position, high and runs are all that there is to keep."""
    acks = delivered(20, 0, 3, 4, 9)
    again = Acks(acks.position, acks.high, acks.runs())
    assert (again.position, again.high, again.runs(), again.unacked) == (at(0), at(20), acks.runs(), acks.unacked)


def test_the_position_goes_over_the_end_of_a_generation() -> None:
    """When it is known where that is; what was named behind the end never was."""
    acks = Acks(at(-1), at(1, order=3))
    for cursor in (at(0), at(1), at(7), at(0, order=3)):
        acks.ack(cursor)
    assert acks.position == at(1)
    acks.cross(at(1), at(-1, order=3))
    assert (acks.position, acks.runs(), acks.unacked) == (at(0, order=3), (), 1)


def test_unacknowledged_ones_are_counted_over_generations() -> None:
    """Two are left in the first, one in the second."""
    acks = Acks(at(-1), at(1, order=2))
    acks.cross(at(2), at(-1, order=2))
    acks.ack(at(1))
    acks.ack(at(0, order=2))
    assert acks.unacked == 3


def test_a_gap_is_passed_when_all_before_it_is_acknowledged() -> None:
    """It is nobody's to acknowledge, and does not count as unacknowledged once something behind it was delivered."""
    acks = Acks(at(-1), at(2))
    acks.cross(at(2), at(5))
    acks.cross(at(7), at(9))
    assert acks.unacked == 3
    acks.high = at(10)
    assert acks.unacked == 6
    for offset in (10, 6, 7, 0, 1):
        assert acks.ack(at(offset))
    assert (acks.position, acks.unacked) == (at(1), 1)
    acks.ack(at(2))
    assert (acks.position, acks.unacked, acks.runs()) == (at(10), 0, ())
    acks.cross(at(10), at(12))
    assert (acks.position, acks.high) == (at(12), at(12))


def test_a_skipped_one_counts_as_delivered() -> None:
    """Everything before it is redelivery from then on."""
    acks = Acks(at(-1))
    assert acks.skip(at(4))
    assert (acks.position, acks.high, acks.unacked) == (at(-1), at(4), 4)


@given(st.integers(0, 40), st.lists(st.integers(0, 40)), st.booleans())
def test_a_plain_set_agrees(high: int, order: list[int], is_reread: bool) -> None:
    """Whatever is acknowledged in whatever order, also when it was written and read back in between."""
    acks = Acks(at(-1), at(high))
    model: set[int] = set()
    for offset in order:
        if offset > high:
            with pytest.raises(Invalid):
                acks.check(at(offset))
            continue
        assert acks.ack(at(offset)) == (offset not in model)
        model.add(offset)
        if is_reread:
            acks = Acks(acks.position, acks.high, acks.runs())
        position = next(n - 1 for n in range(high + 2) if n not in model)
        assert acks.position == at(position)
        assert acks.above == len([n for n in model if n > position])
        assert acks.unacked == high + 1 - len(model)
        assert [acks.has(at(n)) for n in range(high + 1)] == [n in model for n in range(high + 1)]
        runs = acks.runs()
        assert all(a[2] + 1 < b[1] for a, b in pairwise(runs))
