"""The same data: what a repetition is recognised by."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.entry.equality import is_same, is_same_packed
from journal.core.entry.rows import pack_data, unpack_data

DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)


@given(DATA, DATA)
def test_the_same_data_is_what_is_stored_alike(a: Any, b: Any) -> None:
    """As many bytes as they are, but for the order of keys."""

    def ordered(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: ordered(value[key]) for key in sorted(value)}
        return [ordered(one) for one in value] if isinstance(value, list) else value

    assert is_same(unpack_data(pack_data(a)), a)
    assert is_same(a, b) == is_same_packed(pack_data(a), pack_data(b))
    is_zero = repr(a).replace("-0.0", "0.0") != repr(a) or repr(b).replace("-0.0", "0.0") != repr(b)
    if not is_zero:  # they are equal, and differ in a bit
        assert is_same(a, b) == (pack_data(ordered(a)) == pack_data(ordered(b)))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ([1, 2], [2, 1], False),
        (1, 1.0, False),
        (1, True, False),
        ("a", b"a", False),
        (float("nan"), float("nan"), True),
    ],
    ids=["order of keys", "a key more", "order of a list", "int and float", "int and bool", "text and bytes", "nan"],
)
def test_types_count_and_the_order_of_keys_does_not(a: Any, b: Any, expected: bool) -> None:
    """Alone, within a list and within a map."""
    for wrap in (lambda x: x, lambda x: [x], lambda x: {"k": x}):
        assert is_same(wrap(a), wrap(b)) is expected
        assert is_same_packed(pack_data(wrap(a)), pack_data(wrap(b))) is expected
