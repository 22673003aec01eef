"""Rows of a load out of Arrow batches: good, or listed with the reason."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import msgpack
import pytest

import journal
from journal.loads import decode_block

pa = pytest.importorskip("pyarrow", reason="pip install 'journal[spark]'")

from spark_export.columns.mapping import columns_of  # noqa: E402
from spark_export.loads.rows import rows_of  # noqa: E402 - needs pyarrow

NOW = 1_700_000_000_123
MOMENT = datetime.fromtimestamp(NOW // 1000, UTC).replace(microsecond=123_999)


class Rows(NamedTuple):
    rows: list[Any]
    rejected: list[Any]


def made(
    columns: dict[str, Any], schema: journal.Schema | None = None, *, due: int | None = None, **options: str
) -> Rows:
    batch = pa.record_batch(columns)
    data_format = options.pop("data_format", "auto")
    found = rows_of(batch, columns_of(batch.schema, options, schema, data_format), due)
    return Rows([tuple(row) for row in decode_block(found.block())], found.rejected)


def data(row: Any) -> Any:
    return msgpack.unpackb(row[1], strict_map_key=False)


def test_a_key_alone_is_an_entry() -> None:
    """What is not given is what a put has by default."""
    rows, rejected = made({"key": ["a", "b"]})
    assert rows == [("a", b"\xc0", 100, None, None, 0, ""), ("b", b"\xc0", 100, None, None, 0, "")]
    assert rejected == []


def test_every_column_is_taken() -> None:
    """Timestamps are cut to the millisecond; nulls are what a put has by default."""
    rows, rejected = made(
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
    rows, _ = made({"key": ["a", "b"], "n": pa.array([1, None], pa.int32()), "uri": ["/a", "/b"], "on": [True, False]})
    assert [data(row) for row in rows] == [{"n": 1, "uri": "/a", "on": True}, {"uri": "/b", "on": False}]


def test_nested_values_keep_their_form() -> None:
    """Moments become milliseconds wherever they are; a day is a text."""
    kind = pa.struct([("at", pa.timestamp("us", "UTC")), ("tags", pa.list_(pa.string()))])
    rows, rejected = made(
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
    rows, rejected = made(
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
    """Each with its position and the reason; the good ones stay."""
    found = made({"key": ["a", "b", "c"], "data": ["1", "{", "3"]})
    assert [(row[0], data(row)) for row in found.rows] == [("a", 1), ("c", 3)]
    assert [(one.row, one.key) for one in found.rejected] == [(1, "b")]
    assert found.rejected[0].reason.startswith("the data is no JSON")


def test_what_a_row_may_be_is_not_decided_here() -> None:
    """The journal refuses it, by the rules of a put: one place for one fact."""
    rows, rejected = made({"key": pa.array([None, "b"]), "priority": [256, -1], "expiration": [-1, 0]})
    assert rejected == [] and [(row[0], row[2], row[5]) for row in rows] == [(None, 256, -1), ("b", -1, 0)]


def test_a_key_in_two_columns_is_refused() -> None:
    """It is unknown which one is meant."""
    found = made({"key": ["a"], "key_bytes": [b"a"]})
    assert found.rows == [] and "both have a key" in found.rejected[0].reason


def test_a_moment_before_1970_is_cut_downwards() -> None:
    """-1 µs is not 0 ms, which is a date."""
    assert made({"key": ["a"], "process_date": pa.array([-1], pa.timestamp("us", "UTC"))}).rows[0][3] == -1


def test_a_field_that_is_no_json_is_refused_by_row() -> None:
    """A list in a column of text is JSON."""
    found = made({"key": ["a", "b"], "tags": ["[", "[1]"]}, journal.Schema({"tags": "list"}))
    assert [data(row) for row in found.rows] == [{"tags": [1]}]
    assert found.rejected[0].row == 0 and "the field 'tags'" in found.rejected[0].reason


def test_a_date_that_no_milliseconds_can_say_is_a_rejected_row() -> None:
    """It is not another date, and does not fail the rows beside it."""
    seconds = pa.array([1 << 60, 1_700_000_000], pa.timestamp("s", "UTC"))
    for name in ("expiration", "on"):
        batch = pa.record_batch({"key": ["a", "b"], name: seconds})
        made = rows_of(batch, columns_of(batch.schema, {}, None))
        assert made.keys == ["b"] and [(one.row, one.key) for one in made.rejected] == [(0, "a")]
        assert "63 bits" in made.rejected[0].reason
