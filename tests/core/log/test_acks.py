"""Acknowledgements: exact cursors, and the position below which nothing is missing."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.log.acks import Acks
from journal.core.log.cursor import Cursor
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


@given(
    acked=st.lists(st.integers(0, 15)),
    passed=st.lists(st.tuples(st.integers(0, 15), st.integers(0, 4)), max_size=2),
    first=st.integers(0, 15),
    size=st.integers(1, 16),
    is_ended=st.booleans(),
)
def test_a_run_is_each_of_its_changes(
    acked: list[int], passed: list[tuple[int, int]], first: int, size: int, is_ended: bool
) -> None:
    """Whatever was acknowledged or passed over before, and where the generation ends."""
    last = min(first + size - 1, 15)
    alike = []
    for is_run in (True, False):
        acks = delivered(15, *acked)
        for start, length in sorted(passed):
            acks.pass_over(1, 16 + start, 16 + start + length)
        if is_ended:
            acks.cross(at(15), at(-1, 2))
        if is_run:
            acks.ack_run(1, first, last)
        else:
            for offset in range(first, last + 1):
                acks.ack(at(offset))
        alike.append((acks.position, acks.high, acks.runs(), acks.unacked, acks.edges))
    assert alike[0] == alike[1]


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


@given(
    kinds=st.lists(st.sampled_from("ep"), min_size=1, max_size=40),
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=10),
    data=st.data(),
)
def test_changes_without_an_event_count_as_acknowledged(
    kinds: list[str], sizes: list[int], data: st.DataObject
) -> None:
    """Whatever is acknowledged in whatever order, over two generations, with re-reading: as if they were, and no more."""
    split = data.draw(st.integers(0, len(kinds)))
    cursors = [at(i) for i in range(split)] + [at(i, 2) for i in range(len(kinds) - split)]
    acks = Acks(at(-1))
    acked: set[Cursor] = set()
    delivered_to = 0

    def read(begin: int, end: int) -> None:
        """What the tail tells of a page: where a generation ends, and runs without an event."""
        for i in range(begin, end):
            if i == split:
                acks.cross(cursors[i - 1] if split else at(-1), at(-1, 2))
            if kinds[i] == "p":
                acks.pass_over(cursors[i].order, cursors[i].offset, cursors[i].offset)
        acks.delivered(acks.high)

    while delivered_to < len(kinds):
        page = min(delivered_to + data.draw(st.sampled_from(sizes)), len(kinds))
        read(delivered_to, page)
        for i in range(delivered_to, page):
            if kinds[i] == "e":
                acks.delivered(cursors[i])
                if data.draw(st.booleans()):
                    acks.ack(cursors[i])
                    acked.add(cursors[i])
        delivered_to = page
        if data.draw(st.integers(0, 4)) == 0:  # something failed: read again from the position
            acks.rewind()
            begin = next((i for i, c in enumerate(cursors) if c > acks.position), len(cursors))
            read(begin, delivered_to)
        seen = cursors[:delivered_to]
        is_free = [kind == "p" or cursor in acked for kind, cursor in zip(kinds, seen, strict=False)]
        assert [acks.has(cursor) for cursor in seen] == is_free
        assert acks.unacked == is_free.count(False)
        stop = next((i for i, free in enumerate(is_free) if not free), len(seen))
        assert acks.position >= (cursors[stop - 1] if stop else at(-1))
        assert stop == len(seen) or acks.position < seen[stop]
