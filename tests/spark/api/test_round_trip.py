"""Export, drop, load: the same entries, types and dates."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

import journal
from journal.cli import main
from journal.core.entry.equality import is_same

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")

import spark_export

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = 1_700_000_000_123
LATE = 253_402_300_799_999
"""The end of the year 9999, the last that ISO 8601 writes as any other."""
VALUES: list[Any] = [
    None, True, False, 0, -1, (1 << 63), (1 << 64) - 1, -(1 << 63), 0.0, -0.0, 1.5, math.nan, math.inf, "", "text ü \u2028 \"'\\",
    b"", b"\x00\xff", [], [1, [2.0, [None]]], {}, {"a": {"b": [b"x", {"c": None}]}}, {1: "int", b"k": 2, None: 3}, {"$bytes": "AA=="},
    {"$float": "nan", "x": 1}, msgpack.ExtType(5, b"ext"), {"when": NOW}, "1", "null", "{}", 1e300, [math.nan],
]  # fmt: skip
SCHEMA = journal.Schema(
    [
        journal.Field("text", "text"), journal.Field("bytes", "bytes"), journal.Field("bool", "bool"), journal.Field("int", "int"),
        journal.Field("uint8", "uint8"), journal.Field("uint64", "uint64"), journal.Field("float", "float"),
        journal.Field("date", "date_ms"), journal.Field("list", "list"), journal.Field("map", "map"), journal.Field("any", "any"),
        journal.Field("priority", "int32"), journal.Field("filled", "int", default=7),
    ]
)  # fmt: skip
TYPED: list[dict[str, Any]] = [
    {"text": "ü", "bytes": b"\xff", "bool": True, "int": -(1 << 63), "uint8": 255, "uint64": (1 << 64) - 1, "float": 1.5,
     "date": NOW, "list": [1, None, b"x"], "map": {"a": {1: 2}}, "any": "text", "priority": -5},
    {"text": "", "any": None}, {"bool": None}, {}, {"float": math.inf, "int": 0, "filled": None}, {"list": [], "map": {}, "any": [1.0]},
]  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A store with all that an entry can be."""
    with journal.open(tmp_path / "work.journal") as store:
        pages = store.journal("pages")
        for n, value in enumerate(VALUES):
            pages.put(
                f"key-{n}" if n % 3 else b"\xff" + bytes((n,)), value, priority=n * 8, process_date=NOW + 86_400_000 * n,
                insertion_date=NOW - n, expiration=0 if n % 2 else LATE, owner=None if n % 5 else f"owner-{n}",
            )  # fmt: skip
        typed = store.journal("typed", schema=SCHEMA)
        for n, data in enumerate(TYPED):
            typed.put(f"key-{n}", data, process_date=NOW + n, insertion_date=NOW)
    yield tmp_path / "work.journal"
    with journal.open(tmp_path / "work.journal") as store:
        assert store.check() == []


Image = dict[Any, tuple[Any, ...]]


def image(path: Path, name: str) -> Image:
    """All that an export carries of each entry, in the order of work."""
    with journal.open(path) as store:
        pages = store.journal(name)
        return {
            key: (entry.data, entry.priority, entry.process_date, entry.insertion_date, entry.expiration, entry.owner)
            for key in [entry.key for entry in pages.scan()]
            if (entry := pages.get(key)) is not None
        }


def dropped(path: Path, name: str) -> None:
    with journal.open(path) as store:
        store.drop(name)
        store.journal(name, **({"schema": SCHEMA} if name == "typed" else {}))


def check_same(before: Image, after: Image) -> None:
    assert list(before) == list(after)
    for key, value in before.items():
        assert is_same(list(value), list(after[key])), key


@pytest.mark.parametrize("name", ["pages", "typed"])
@pytest.mark.parametrize("decode", ["auto", "msgpack"])
def test_through_parquet(spark: SparkSession, path: Path, tmp_path: Path, name: str, decode: str) -> None:
    """Back by Spark, and by `journal load`."""
    before = image(path, name)
    spark_export.export(path, name, tmp_path / "out", read={"decode": decode}, spark=spark)
    dropped(path, name)
    result = spark_export.load(spark.read.parquet(str(tmp_path / "out")), path, name)
    assert result.inserted == len(before)
    check_same(before, image(path, name))
    dropped(path, name)
    assert main(["load", str(path), name, str(tmp_path / "out")]) == 0
    check_same(before, image(path, name))


def test_a_merged_journal(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """As any other, while others share its files; it may become one that has its own."""
    with journal.open(path) as store:
        store.journal("other", merged=True).put("key-1", "another's")
        merged = store.journal("merged", merged=True)
        for n, value in enumerate(VALUES):
            merged.put(f"key-{n}", value, priority=n, process_date=NOW + n, insertion_date=NOW, owner=f"owner-{n}")
    before = image(path, "merged")
    assert len(before) == len(VALUES)
    spark_export.export(path, "merged", tmp_path / "out", spark=spark)
    for is_merged in (True, False, True):
        with journal.open(path) as store:
            store.drop("merged")
            store.journal("merged", merged=is_merged)
        assert spark_export.load(spark.read.parquet(str(tmp_path / "out")), path, "merged").inserted == len(before)
        check_same(before, image(path, "merged"))
    assert list(image(path, "other")) == ["key-1"]


def test_through_json_lines(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """Lines of JSON keep all of it too; and so do partitions, whose column is in the name of a directory."""
    for name in ("pages", "typed"):
        before = image(path, name)
        spark_export.export(path, name, tmp_path / name, format="json", partition_by="priority", spark=spark)
        dropped(path, name)
        assert main(["load", str(path), name, str(tmp_path / name)]) == 0
        check_same(before, image(path, name))


def test_from_one_journal_to_another(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """Without files between: what is read is what is written."""
    shutil.copytree(path, tmp_path / "other.journal")
    dropped(tmp_path / "other.journal", "pages")
    df = spark.read.format("journal").option("journal", "pages").load(str(path))
    df.write.format("journal").mode("append").option("journal", "pages").save(str(tmp_path / "other.journal"))
    check_same(image(path, "pages"), image(tmp_path / "other.journal", "pages"))
