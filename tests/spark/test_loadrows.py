"""Rows of a load out of Arrow batches: good, or listed with the reason."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgpack
import pytest

import journal

pa = pytest.importorskip("pyarrow", reason="pip install 'journal[spark]'")

from spark_export.loadrows import rows_of  # noqa: E402 - needs pyarrow
from spark_export.mapping import columns_of  # noqa: E402

NOW = 1_700_000_000_123
MOMENT = datetime.fromtimestamp(NOW // 1000, UTC).replace(microsecond=123_999)


def made(
    columns: dict[str, Any], schema: journal.Schema | None = None, *, due: int | None = None, **options: str
) -> Any:
    batch = pa.record_batch(columns)
    data_format = options.pop("data_format", "auto")
    return rows_of(batch, columns_of(batch.schema, options, schema, data_format), due)


def data(row: Any) -> Any:
    return msgpack.unpackb(row[1], strict_map_key=False)


def test_a_key_alone_is_an_entry() -> None:
    """What is not given is what a put has by default."""
    rows, positions, rejected = made({"key": ["a", "b"]})
    assert rows == [("a", b"\xc0", 100, None, None, 0, ""), ("b", b"\xc0", 100, None, None, 0, "")]
    assert list(positions) == [0, 1] and rejected == []


def test_every_column_is_taken() -> None:
    """Timestamps are cut to the millisecond; nulls are what a put has by default."""
    rows, _, rejected = made(
        {
            "key": pa.array(["a", None]),
            "key_bytes": pa.array([None, b"\xff"]),
            "priority": pa.array([0, None], pa.int16()),
            "process_date": pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
            "insertion_date": pa.array([NOW - 5, None], pa.int64()),
            "expiration": pa.array([NOW + 5, None], pa.int64()),
            "owner": pa.array(["billing", None]),
        },
        due=NOW + 1,
    )
    assert rejected == []
    assert rows == [
        ("a", b"\xc0", 0, NOW, NOW - 5, NOW + 5, "billing"),
        (b"\xff", b"\xc0", 100, NOW + 1, None, 0, ""),
    ]


def test_other_columns_are_fields_of_the_data() -> None:
    """A null is a field that is not there."""
    rows, _, _ = made(
        {"key": ["a", "b"], "n": pa.array([1, None], pa.int32()), "uri": ["/a", "/b"], "on": [True, False]}
    )
    assert [data(row) for row in rows] == [{"n": 1, "uri": "/a", "on": True}, {"uri": "/b", "on": False}]


def test_nested_values_keep_their_form() -> None:
    """Moments become milliseconds wherever they are; a day is a text."""
    kind = pa.struct([("at", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string()))])
    rows, _, rejected = made(
        {
            "key": ["a"],
            "deep": pa.array([[{"at": MOMENT, "tags": ["x", None]}, None]], pa.list_(kind)),
            "map": pa.array([[("k", MOMENT)]], pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
            "day": pa.array([date(2024, 2, 29)]),
            "big": pa.array([Decimal((1 << 64) - 1)], pa.decimal128(20, 0)),
            "raw": pa.array([b"\x00"]),
        }
    )
    assert rejected == []
    assert data(rows[0]) == {
        "deep": [{"at": NOW, "tags": ["x", None]}, None], "map": {"k": NOW}, "day": "2024-02-29", "big": (1 << 64) - 1,
        "raw": b"\x00",
    }  # fmt: skip


def test_data_is_json_or_msgpack_or_what_it_is() -> None:
    """As a reader gives it, unless it is said that a text is a text."""
    assert data(made({"key": ["a"], "data": ['{"b": {"$bytes": "AA=="}}']}).rows[0]) == {"b": b"\x00"}
    assert data(made({"key": ["a"], "data": [msgpack.packb([1, 2.5])]}).rows[0]) == [1, 2.5]
    assert data(made({"key": ["a"], "data": ["{"]}, data_format="value").rows[0]) == "{"
    assert data(made({"key": ["a"], "data": [b"\xff"]}, data_format="value").rows[0]) == b"\xff"
    assert data(made({"key": ["a"], "data": pa.array([None], pa.string())}).rows[0]) is None


def test_beside_fields_the_data_counts_where_it_is_given() -> None:
    """What fields cannot say is in the data."""
    schema = journal.Schema({"n": "int", "tags": "list"})
    rows, _, rejected = made(
        {
            "key": ["a", "b", "c"],
            "n": pa.array([1, None, 3]),
            "tags": ["[1, null]", None, None],
            "data": pa.array([None, '{"n": null}', None]),
        },
        schema,
    )
    assert rejected == []
    assert [data(row) for row in rows] == [{"n": 1, "tags": [1, None]}, {"n": None}, {"n": 3}]


def test_bad_rows_are_listed_and_good_ones_stay() -> None:
    """Each with its position and the reason; the good ones know where they were."""
    made_of = made(
        {
            "key": pa.array(["a", None, "", "d", "e", "x" * 1025, "g", "h"]),
            "priority": pa.array([1, 1, 1, 256, 1, 1, 1, 1]),
            "process_date": pa.array([NOW, NOW, NOW, NOW, -1, NOW, NOW, NOW]),
            "owner": pa.array(["", "", "", "", "", "", "o" * 256, ""]),
            "data": pa.array(["1", "2", "3", "4", "5", "6", "7", "{"]),
        }
    )
    assert [row[0] for row in made_of.rows] == ["a"] and list(made_of.positions) == [0]
    assert [(one.row, one.key) for one in made_of.rejected] == [
        (1, None), (2, ""), (3, "d"), (4, "e"), (5, "x" * 1025), (6, "g"), (7, "h"),
    ]  # fmt: skip
    reasons = [one.reason for one in made_of.rejected]
    assert reasons[0] == "there is no key: every entry has one"
    assert reasons[2] == "the priority is 256: it must be from 0 to 255"
    assert reasons[3].startswith("the process_date is -1 ms") and reasons[5].startswith("the owner has 256 bytes")
    assert reasons[6].startswith("the data is no JSON")


def test_a_key_in_two_columns_is_refused() -> None:
    """Nobody can say which one is meant."""
    found = made({"key": ["a"], "key_bytes": [b"a"]})
    assert found.rows == [] and "both have a key" in found.rejected[0].reason


def test_a_moment_before_1970_is_cut_downwards_and_refused() -> None:
    """-1 µs is not 0 ms."""
    found = made({"key": ["a"], "process_date": pa.array([-1], pa.timestamp("us", "UTC"))})
    assert "is -1 ms" in found.rejected[0].reason


def test_a_field_that_is_no_json_is_refused_by_row() -> None:
    """A list in a column of text is JSON."""
    found = made({"key": ["a", "b"], "tags": ["[", "[1]"]}, journal.Schema({"tags": "list"}))
    assert [data(row) for row in found.rows] == [{"tags": [1]}]
    assert found.rejected[0].row == 0 and "the field 'tags'" in found.rejected[0].reason
