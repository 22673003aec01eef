"""Which column is what: decided from names and types, before a row is read."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import journal

pa = pytest.importorskip("pyarrow", reason="pip install 'journal[spark]'")

from spark_export.columns.mapping import FieldColumn, columns_of  # noqa: E402 - needs pyarrow

PAGES = journal.Schema([("site", "text"), ("priority", "int"), ("tags", "list")], key="site")


def table(**columns: Any) -> Any:
    return pa.schema(list(columns.items()))


def test_columns_have_the_names_of_what_they_are() -> None:
    """The names of a reader's columns are understood, and what only a reader gives is passed over."""
    found = columns_of(
        table(
            key=pa.string(), data=pa.string(), priority=pa.int16(), process_date=pa.timestamp("us", "UTC"), status=pa.string(),
            version=pa.int64(), owner=pa.string(),
        ),
        {},
        None,
    )  # fmt: skip
    assert (found.key, found.data, found.data_format, found.fields) == ("key", "data", "json", ())
    assert (found.priority, found.owner, found.expiration) == ("priority", "owner", None)


def test_options_name_other_columns() -> None:
    """A column that an option names has that use; the others are fields of the data."""
    found = columns_of(
        table(id=pa.string(), due=pa.int64(), uri=pa.string()), {"key": "id", "process_date": "due"}, None
    )
    assert (found.key, found.process_date) == ("id", "due")
    assert found.fields == (FieldColumn("uri", "uri"),)


def test_it_travels_to_tasks() -> None:
    """It is a value, the same in every task."""
    found = columns_of(table(key=pa.string(), n=pa.int64()), {}, None)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize(
    ("columns", "named", "code", "says"),
    [
        ({"id": pa.string()}, {}, "COLUMN_UNKNOWN", "there is no column 'key' among 'id'"),
        ({"id": pa.string()}, {"key": "idd"}, "COLUMN_UNKNOWN", "did you mean 'id'?"),
        ({"key": pa.int64()}, {}, "COLUMN_TYPE", "'key' (key) is int64: it must be string or binary"),
        ({"key": pa.string(), "priority": pa.string()}, {}, "COLUMN_TYPE", "an integer from 0 to 255"),
        ({"key": pa.string(), "expiration": pa.timestamp("us")}, {}, "COLUMN_TYPE", "must be timestamp"),
        ({"key": pa.string(), "owner": pa.binary()}, {}, "COLUMN_TYPE", "it must be string"),
        ({"key": pa.string(), "price": pa.decimal128(10, 2)}, {}, "COLUMN_TYPE", "cast it to double or string"),
        ({"key": pa.string(), "x": pa.list_(pa.timestamp("us"))}, {}, "COLUMN_TYPE", "without a time zone"),
        ({"key": pa.string(), "data": pa.string(), "x": pa.int64()}, {}, "COLUMN_UNKNOWN", "'x' have no use"),
        ({"key": pa.string(), "Key": pa.string()}, {}, "COLUMN_UNKNOWN", "two columns have one name"),
        ({"key": pa.string()}, {"owner": "key"}, "COLUMN_UNKNOWN", "two uses"),
    ],
)
def test_what_cannot_be_taken_is_told_early(columns: Any, named: Any, code: str, says: str) -> None:
    """Nothing is left out in silence, and the message says what to do."""
    with pytest.raises(journal.Invalid) as found:
        columns_of(table(**columns), named, None)
    assert str(found.value).startswith(f"[JOURNAL_{code}] ") and says in str(found.value)


def test_a_schema_says_which_columns_are_fields() -> None:
    """A field with the name of a column of ours has `data_` in front; the data may stand beside the fields."""
    found = columns_of(
        table(site=pa.string(), data_priority=pa.int64(), tags=pa.string(), data=pa.string(), priority=pa.int16()),
        {},
        PAGES,
    )
    assert found.fields == (
        FieldColumn("site", "site", "text"),
        FieldColumn("data_priority", "priority", "int"),
        FieldColumn("tags", "tags", "list"),
    )
    assert found.key is None and found.data == "data"


def test_a_schema_refuses_other_columns_and_misses_required_ones() -> None:
    """What the engine would refuse row by row is told once."""
    with pytest.raises(journal.Invalid, match="'sites' is no field of the journal's schema: did you mean 'site'"):
        columns_of(table(sites=pa.string()), {}, PAGES)
    with pytest.raises(journal.Invalid, match="requires 'site'"):
        columns_of(table(key=pa.string(), tags=pa.string()), {}, PAGES)


def test_the_format_of_the_data_can_be_given() -> None:
    """A string is JSON and bytes are msgpack, as a reader gives them, unless it is said that they are what they are."""
    assert columns_of(table(key=pa.string(), data=pa.binary()), {}, None).data_format == "msgpack"
    assert columns_of(table(key=pa.string(), data=pa.string()), {}, None, "value").data_format == "value"
    assert columns_of(table(key=pa.string(), data=pa.int64()), {}, None).data_format == "value"
    with pytest.raises(journal.Invalid, match="needs binary"):
        columns_of(table(key=pa.string(), data=pa.string()), {}, None, "msgpack")
