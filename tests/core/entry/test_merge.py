"""The merge table: each preset, column by column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.entry.keys import SLOT_AT, turn_of
from journal.core.entry.merge import PRESETS, Rule, Rules, merge
from journal.core.entry.rows import Row, pack_data, place
from tests.core.rows_of import NOW, row

OLD = row(50, NOW + 100, expiration=NOW + 500, timeouts=3, version=4, data=pack_data("old"), owner=b"o")
NEW = row(
    90, NOW + 40, insertion=NOW + 10, accepted=NOW + 10, expiration=NOW + 300, at=9, data=pack_data("new"), owner=b"n"
)


def columns(merged: Row) -> tuple[int, ...]:
    priority, date = place(merged.primary)
    return merged.insertion - NOW, merged.expiration - NOW, priority, date - NOW, merged.timeouts


@pytest.mark.parametrize(
    ("preset", "expected", "data"),
    [
        ("merge", (0, 500, 50, 100, 0), "new"),
        ("keep", (0, 500, 50, 100, 3), "old"),
        ("replace", (10, 300, 90, 40, 0), "new"),
        ("debounce", (0, 500, 50, 40, 0), "new"),
    ],
)
def test_each_preset_has_its_rules(preset: str, expected: tuple[int, ...], data: str) -> None:
    """Insertion, expiration, priority, process date, timeouts, data."""
    merged = merge(OLD, NEW, PRESETS[preset], None)
    assert (columns(merged), merged.data) == (expected, pack_data(data))


@pytest.mark.parametrize("preset", PRESETS)
def test_some_columns_are_under_no_rule(preset: str) -> None:
    """Slot, key and owner stay; the version rises; the last accepted date is the newest; `at` is the new record."""
    merged = merge(OLD, NEW, PRESETS[preset], None)
    assert (merged.primary[SLOT_AT:], merged.key, merged.owner) == (OLD.primary[SLOT_AT:], OLD.key, OLD.owner)
    assert (merged.version, merged.accepted, merged.at) == (5, NOW + 10, 9)


def test_the_presets_are_those_of_the_design() -> None:
    """No more and no less: a setting names one of them."""
    assert set(PRESETS) == {"merge", "keep", "replace", "debounce"}
    assert all(isinstance(rule, Rule) for rules in PRESETS.values() for rule in rules)
    assert len(Rules._fields) == 6


@pytest.mark.parametrize(
    ("old", "new", "longest"), [(0, 0, 0), (0, NOW, 0), (NOW, 0, 0), (NOW, NOW + 1, NOW + 1), (NOW + 1, NOW, NOW + 1)]
)
def test_expiration_zero_is_infinity(old: int, new: int, longest: int) -> None:
    """The largest of never and anything is never."""
    merged = merge(row(expiration=old), row(expiration=new), PRESETS["merge"], None)
    assert merged.expiration == longest


@pytest.mark.parametrize("preset", ["merge", "debounce", "replace"])
def test_postpone_max_bounds_a_push(preset: str) -> None:
    """However far a put asks, the date is at most the insertion date and the limit."""
    merged = merge(row(), row(date=NOW + 9000), PRESETS[preset], 5000)
    assert place(merged.primary)[1] == NOW + 5000


def test_postpone_max_pulls_nothing_to_an_earlier_date() -> None:
    """An entry that was put far ahead in the first place stays there."""
    merged = merge(row(date=NOW + 8000), row(date=NOW + 9000), PRESETS["merge"], 5000)
    assert place(merged.primary)[1] == NOW + 8000


def test_postpone_max_leaves_an_earlier_date_alone() -> None:
    """Only pushing is bounded: debounce may bring an entry forward."""
    merged = merge(row(date=NOW + 8000), row(date=NOW + 100), PRESETS["debounce"], 5000)
    assert place(merged.primary)[1] == NOW + 100


ROWS = st.builds(
    row, st.integers(0, 255), st.integers(NOW, NOW + 99), expiration=st.sampled_from([0, NOW + 1, NOW + 50]),
    insertion=st.integers(NOW - 50, NOW), timeouts=st.integers(0, 9), accepted=st.integers(NOW, NOW + 9),
)  # fmt: skip


@given(ROWS, ROWS, ROWS)
def test_merging_needs_no_order_of_the_pushes(a: Row, b: Row, c: Row) -> None:
    """With the default rules all but the data is the same whatever the order of the later puts."""
    rules = PRESETS["merge"]
    one = merge(merge(a, b, rules, None), c, rules, None)
    two = merge(merge(a, c, rules, None), b, rules, None)
    assert columns(one) == columns(two)
    assert (one.accepted, one.version) == (two.accepted, two.version)


@given(ROWS, ROWS, st.sampled_from(sorted(PRESETS)), st.none() | st.integers(0, 99))
def test_merging_changes_neither_of_the_two(a: Row, b: Row, preset: str, postpone_max: int | None) -> None:
    """Rules are functions: what they were given is as it was."""
    before = (tuple(a), tuple(b))
    merge(a, b, PRESETS[preset], postpone_max)
    assert (tuple(a), tuple(b)) == before


@pytest.mark.parametrize(
    ("priority", "date", "expected"),
    [
        (50, NOW + 100, (50, NOW + 100, 3)),
        (200, NOW, (50, NOW + 100, 3)),
        (50, NOW + 200, (50, NOW + 200, 9)),
        (7, NOW + 100, (7, NOW + 100, 9)),
        (7, NOW + 200, (7, NOW + 200, 9)),
        (200, NOW + 200, (50, NOW + 200, 40)),
        (7, NOW, (7, NOW + 100, 40)),
    ],
)
def test_who_keeps_priority_and_date_keeps_the_place(priority: int, date: int, expected: tuple[int, int, int]) -> None:
    """The place of the entry, that of the put when it has both, and else behind all others (M4)."""
    old, new = row(50, NOW + 100, at=3), row(priority, date, at=9)._replace(at=40)
    merged = merge(old, new, PRESETS["merge"], None)
    assert (*place(merged.primary), turn_of(merged.primary)) == expected
