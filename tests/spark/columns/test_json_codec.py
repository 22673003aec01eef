"""Data as JSON and back: nothing is lost, and what is no JSON of ours is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.entry.rows import pack_data, unpack_data
from journal.errors import Invalid
from spark_export.columns.json_codec import json_of, to_json, value_of

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)  # one nan is as good as another: their bits may differ
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=9))
    | st.builds(msgpack.Timestamp, st.integers(0, 1 << 40), st.integers(0, 999_999_999))
)
NAMES = (
    st.sampled_from(["$bytes", "$map", "$", "a"]) | st.text(st.characters(exclude_categories=["Cs"])) | st.integers()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


def packable(value: Any) -> bool:
    try:
        pack_data(value)
    except Invalid:
        return False
    return True


@given(VALUES.filter(packable))
def test_json_and_back_gives_the_same_bytes(value: Any) -> None:
    """X1: values and their types, whatever msgpack can hold."""
    packed = pack_data(value)
    text = to_json(packed)
    json.loads(text)
    again = pack_data(unpack_data(packed))
    assert pack_data(value_of(text)) == again


@pytest.mark.parametrize("value", [math.inf, -math.inf, {"a": b"\0"}, {"$map": 1}, {1: 2}, [{"$x": [1.0, 1]}], 1.0, 1])
def test_types_stay_apart(value: Any) -> None:
    """1 and 1.0, text and bytes, a map that looks like one of ours."""
    again = value_of(json_of(value))
    assert again == value and type(again) is type(value)
    assert math.isnan(value_of(json_of(math.nan)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "NaN",
        '{"$bytes": 5}',
        '{"$bytes": "?"}',
        '{"$what": 1}',
        '{"$map": [1]}',
        '{"$ext": [1]}',
        '{"$map": [[[], 1]]}',
    ],
)
def test_what_is_no_json_of_ours_is_refused(text: str) -> None:
    """An error of ours, not one of a library."""
    with pytest.raises(Invalid):
        value_of(text)
