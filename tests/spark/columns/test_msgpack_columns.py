"""Columns packed at once: the bytes that msgpack gives for each row."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="pip install 'journal[spark]'")
from pyarrow import compute as pc  # noqa: E402 - needs pyarrow

from journal.errors import Invalid  # noqa: E402
from spark_export.columns.mapping import FieldColumn  # noqa: E402
from spark_export.columns.msgpack_columns import packed_fields  # noqa: E402

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BORDERS = [
    sign * (1 << bits) + step for bits in (0, 5, 7, 8, 15, 16, 31, 32, 62) for sign in (1, -1) for step in (-1, 0, 1)
]
INTS = st.sampled_from([*BORDERS, -(1 << 63), (1 << 63) - 1]) | st.integers(-200, 200)
TEXTS = st.sampled_from([0, 1, 31, 32, 255, 256, 65_535, 65_536]).map(lambda size: "x" * size) | st.text(max_size=9)
KINDS: list[tuple[Any, Any]] = [
    (INTS, pa.int64()),
    (st.integers(-128, 127), pa.int8()),
    (st.integers(0, 127), pa.int32()),
    (st.integers(0, (1 << 64) - 1), pa.uint64()),
    (TEXTS, pa.string()),
    (TEXTS, pa.large_string()),
    (TEXTS.map(str.encode), pa.binary()),
    (st.floats(allow_nan=False), pa.float64()),
    (st.floats(allow_nan=False, width=32), pa.float32()),
    (st.booleans(), pa.bool_()),
    (st.lists(st.integers(0, 300), max_size=3), pa.list_(pa.int64())),
    (st.integers(-(1 << 48), 1 << 51).map(lambda us: EPOCH + us * datetime.resolution), pa.timestamp("us", "UTC")),
    (st.dates(date(1960, 1, 1)), pa.date32()),
]  # fmt: skip


def packed(columns: dict[str, Any]) -> list[bytes]:
    batch = pa.record_batch(columns)
    found = packed_fields(batch, tuple(FieldColumn(name, name) for name in columns))
    rows: list[bytes] = (pc.binary_join_element_wise(*found, b"") if len(found) > 1 else found[0]).to_pylist()
    return rows


def expected(columns: dict[str, Any]) -> list[bytes]:
    rows = []
    for row in pa.record_batch(columns).to_pylist():
        values = {
            name: (value - EPOCH) // (datetime.resolution * 1000)
            if isinstance(value, datetime)
            else value.isoformat()
            if isinstance(value, date)
            else value
            for name, value in row.items()
            if value is not None
        }
        rows.append(msgpack.packb(values))
    return rows


@settings(max_examples=120)
@given(data=st.data(), rows=st.integers(1, 6), columns=st.integers(1, 20))
def test_rows_are_those_of_msgpack(data: st.DataObject, rows: int, columns: int) -> None:
    """Of any types, with and without nulls, with few and many fields."""
    table = {}
    for number in range(columns):
        values, kind = data.draw(st.sampled_from(KINDS))
        some = values if data.draw(st.booleans()) else values | st.none()
        table[f"f{number}"] = pa.array(data.draw(st.lists(some, min_size=rows, max_size=rows)), kind)
    assert packed(table) == expected(table)


def test_a_slice_is_packed_as_it_is() -> None:
    """Whatever Arrow keeps before and behind it."""
    table = {"n": pa.array([1, None, 300]), "t": pa.array(["a", "b", None]), "is": pa.array([True, None, False])}
    sliced = {name: column.slice(1) for name, column in table.items()}
    assert packed(sliced) == expected(table)[1:]


def test_what_cannot_be_packed() -> None:
    """A text that is none, or a number that msgpack does not have."""
    torn = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    with pytest.raises(pa.ArrowInvalid):
        packed({"t": torn})
    with pytest.raises(Invalid):
        packed({"d": pa.array([10**30], pa.decimal128(38, 0))})
