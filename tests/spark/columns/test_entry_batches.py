"""Stored bytes become columns: every type, every filter, and what no timestamp can be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from journal import Field, Invalid, Schema
from journal.core.entry.rows import WAITING, pack_data
from journal.core.limits import DATE_MAX
from spark_export.columns.json_codec import value_of
from spark_export.columns.layout import Column, RowFilter, layout
from tests.spark.blocks import NOW, Made, block

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'journal[spark]'")
from spark_export.columns import entry_arrays  # noqa: E402 - numpy and pyarrow are needed for it
from spark_export.columns.entry_arrays import of_block  # noqa: E402
from spark_export.columns.entry_batches import BatchShaper  # noqa: E402
from spark_export.columns.field_columns import ARROW  # noqa: E402

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def date(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def rows_of(made: Made, schema: Schema | None = None, decode: str = "auto", **rows: Any) -> list[dict[str, Any]]:
    """The rows of a block, as Python has them, checked as Arrow does."""
    columns: tuple[Column, ...] = layout(schema, decode)
    arrow = pa.schema([(column.name, ARROW[column.kind]) for column in columns])
    shaper = BatchShaper(arrow, columns, RowFilter(**rows), NOW, data=schema, decode=decode)
    found: list[dict[str, Any]] = []
    for batch in filter(None, map(shaper.batch, of_block(made))):
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


def keys(made: Made, **rows: Any) -> list[str]:
    return [row["key"] for row in rows_of(made, **rows)]


def test_a_row_has_all_columns_of_an_entry() -> None:
    """Dates are instants, never is null, and no lease is null."""
    made = block({"key": "/home", "data": {"n": 1}, "priority": 10, "date": NOW + 5, "insertion": NOW, "owner": "web"})
    assert rows_of(made) == [
        {
            "key": "/home",
            "key_bytes": None,
            "data": '{"n":1}',
            "priority": 10,
            "process_date": date(NOW + 5),
            "insertion_date": date(NOW),
            "expiration": None,
            "status": "W",
            "timeouts": 0,
            "owner": "web",
            "version": 1,
            "start_date": None,
            "deadline": None,
            "consumer": None,
        }
    ]


def test_a_lease_says_who_and_until_when() -> None:
    """The version and the timeouts of the lease row count; one that was lost is waiting again."""
    made = block(
        {"lease": ("backend-1", NOW + 1, NOW + 2, 9, 3)},
        {},
        {"lease": ("backend-1", NOW + 1, NOW + 2, 4, 2), "status": WAITING, "version": 1},
    )
    held, plain, lost = rows_of(made)
    assert (held["status"], held["consumer"], held["version"], held["timeouts"]) == ("P", "backend-1", 9, 3)
    assert (held["start_date"], held["deadline"]) == (date(NOW + 1), date(NOW + 2))
    assert (plain["status"], plain["consumer"], plain["version"]) == ("W", None, 1)
    assert (lost["status"], lost["consumer"], lost["version"], lost["timeouts"]) == ("W", None, 4, 2)


def test_text_and_bytes_keys_have_a_column_each() -> None:
    """A text key and the same bytes are two keys."""
    made = block({"key": "é"}, {"key": "é".encode()}, {"key": b"\xff\x00"})
    assert [(row["key"], row["key_bytes"]) for row in rows_of(made)] == [
        ("é", None),
        (None, "é".encode()),
        (None, b"\xff\x00"),
    ]
    assert [row["key_bytes"] for row in rows_of(block({"key": b"a"}, {"key": b"b"}))] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ({"status": "waiting"}, ["a", "d", "e"]),
        ({"status": "available"}, ["a", "e"]),
        ({"status": "processing"}, ["b"]),
        ({"priorities": (1, 3)}, ["b", "e"]),
        ({"since": NOW + 1}, ["d"]),
        ({"until": NOW}, ["e"]),
        ({"key_prefix": "d"}, ["d"]),
        ({"key_prefix": "x"}, []),
        ({"priorities": (3,), "since": NOW}, []),
        ({}, ["a", "b", "d", "e"]),
    ],
)
def test_filters(rows: dict[str, Any], found: list[str]) -> None:
    """Each option leaves what it says; an entry that has expired is no row, unless a consumer works on it."""
    made = block(
        {"key": "a", "priority": 0},
        {"key": "b", "priority": 1, "expiration": NOW, "lease": ("c", NOW, NOW + 9, 2, 0)},
        {"key": "c", "priority": 2, "expiration": NOW},
        {"key": "d", "priority": 2, "date": NOW + 9, "expiration": NOW + 1},
        {"key": "e", "priority": 3, "date": NOW - 9},
        {"key": b"d"},
    )
    assert [key for key in keys(made, **rows) if key is not None] == found


def test_a_lease_that_is_over_does_not_count() -> None:
    """B3: its entry waits, whether it was taken back yet or not; one that has expired meanwhile is no row."""
    made = block(
        {"key": "a", "lease": ("c", NOW - 9, NOW, 2, 0)},
        {"key": "b", "lease": ("c", NOW - 9, NOW + 1, 2, 0)},
        {"key": "c", "expiration": NOW, "lease": ("c", NOW - 9, NOW, 2, 0)},
    )
    assert [(row["key"], row["status"], row["consumer"], row["deadline"]) for row in rows_of(made)] == [
        ("a", "W", None, None),
        ("b", "P", "c", date(NOW + 1)),
    ]
    assert keys(made, status="available") == ["a"] and keys(made, status="processing") == ["b"]


def test_leases_stay_with_their_rows_when_others_are_left_out() -> None:
    """Filtering moves rows, not leases."""
    made = block({"key": "a", "priority": 9}, {"key": "b", "lease": ("c", NOW, NOW + 9, 2, 0)}, {"key": "c"})
    assert [(row["key"], row["consumer"]) for row in rows_of(made, priorities=(100,))] == [("b", "c"), ("c", None)]


def test_a_date_beyond_timestamps_is_an_error() -> None:
    """B4: it names the key, and is not another date."""
    with pytest.raises(Invalid, match=r"^\[JOURNAL_DATE_RANGE\] the process date of 'far'"):
        rows_of(block({}, {"key": "far", "date": DATE_MAX}))
    last = ((1 << 63) - 1) // 1000
    assert rows_of(block({"date": last, "insertion": 0}), until=0) == []


def test_a_block_of_large_entries_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's offsets have 32 bits; rows and leases stay together."""
    monkeypatch.setattr(entry_arrays, "BYTES_MAX", 1000)
    made = block(*({"data": "x" * 400, "lease": (f"c{n}", 0, NOW + 9, 1, 0)} if n % 3 == 1 else {} for n in range(9)))
    assert [row["consumer"] for row in rows_of(made)] == [f"c{n}" if n % 3 == 1 else None for n in range(9)]


def test_msgpack_is_as_it_is_stored() -> None:
    """The bytes, untouched."""
    data = {"a": b"\0", 1: [1.0, None]}
    assert rows_of(block({"data": data}), decode="msgpack")[0]["data"] == pack_data(data)


def test_an_empty_block_has_no_batch() -> None:
    """No rows, no batch."""
    assert rows_of(block()) == []


EVERY = Schema(
    [
        Field("t", "text"),
        Field("b", "bytes"),
        Field("o", "bool"),
        Field("i8", "int8"),
        Field("u64", "uint64"),
        Field("f", "float"),
        Field("d", "date_ms"),
        Field("l", "list"),
        Field("m", "map"),
        Field("priority", "int"),
        Field("Key", "any"),
    ]
)


def test_fields_have_types_and_columns_of_their_own() -> None:
    """L1, L2: each field is a column, also one that is named as a column of ours; data is null when that is all."""
    data = {
        "t": "é", "b": b"\0", "o": True, "i8": -8, "u64": (1 << 64) - 1, "f": 0.5, "d": NOW, "l": [1, b"x"], "m": {"1": {}},
        "priority": 7, "Key": 1.5,
    }  # fmt: skip
    full, empty = rows_of(block({"data": data}, {"data": {}}), EVERY)
    assert full["data"] is None and empty["data"] is None
    assert {name: full[name] for name in "tboif" if name in full} == {"t": "é", "b": b"\0", "o": True, "f": 0.5}
    assert (full["i8"], int(full["u64"]), full["d"]) == (-8, (1 << 64) - 1, date(NOW))
    assert value_of(full["l"]) == [1, b"x"] and value_of(full["m"]) == {"1": {}}
    assert (full["priority"], full["data_priority"], full["data_Key"]) == (100, 7, "1.5")
    assert {empty[column.name] for column in layout(EVERY, "auto") if column.field} == {None}


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"t": None}, None),
        ({"t": "x", "strange": 1}, "x"),
        ({"t": 5}, None),
        ([1, 2], None),
        (None, None),
        ({"t": "x", "f": 1}, "x"),
        ({"t": "x", "i8": 1000}, "x"),
        ({"t": "x", "d": DATE_MAX}, "x"),
        ({"t": "x", "o": 1}, "x"),
    ],
)
def test_what_fields_cannot_say_is_in_data(data: Any, shown: str | None) -> None:
    """L1: the row beside it is not touched by it, and nothing is lost."""
    first, odd, last = rows_of(block({"data": {"t": "a"}}, {"data": data}, {"data": {"f": 0.5}}), EVERY)
    assert first["data"] is None and last["data"] is None
    assert (first["t"], last["f"]) == ("a", 0.5)
    assert value_of(odd["data"]) == data and odd["t"] == shown


def test_an_int_in_a_float_field_is_shown_and_kept() -> None:
    """The column has the number; `data` that it was an int."""
    (row,) = rows_of(block({"data": {"f": 1}}), EVERY)
    assert row["f"] == 1.0 and row["data"] == '{"f":1}'
