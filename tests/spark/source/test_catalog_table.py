"""Tables of the catalog, and what Spark's API keeps from us: the latter is pinned, so that a Spark that lifts it is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import journal

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "kept_pages"
SIZE_UNKNOWN = (1 << 63) - 1


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with five entries, without an owner; its path has a sign that a URI quotes."""
    made = tmp_path / "my work.journal"
    with journal.open(made) as store:
        for n in range(5):
            store.journal("pages").put(f"page-{n}", {"n": n}, priority=n)
        store.journal("copies")
    return made


@pytest.fixture
def _no_table(spark: SparkSession) -> Iterator[None]:
    yield
    spark.sql(f"DROP TABLE IF EXISTS {NAME}")


def names(spark: SparkSession) -> list[str]:
    return [table.name for table in spark.catalog.listTables()]


@pytest.mark.usefixtures("_no_table")
class TestTable:
    """CREATE TABLE … USING journal."""

    @pytest.mark.parametrize(
        "rest",
        ["OPTIONS (journal 'pages') LOCATION '{}'", "OPTIONS (path '{}', journal 'pages') TBLPROPERTIES (a 'b')"],
    )
    def test_is_read_as_it_is_now(self, spark: SparkSession, path: Path, rest: str) -> None:
        """By every query anew, with the options of the table, and of the query above them (C1, C3)."""
        spark.sql(f"CREATE TABLE {NAME} USING journal {rest.format(path)}")
        assert spark.table(NAME).count() == 5
        with journal.open(path) as store:
            store.journal("pages").put("late", 1, priority=1)
        assert spark.table(NAME).count() == 6
        found = spark.sql(f"SELECT key FROM {NAME} WITH (priority '1') ORDER BY key").collect()
        assert [row.key for row in found] == ["late", "page-1"]

    def test_may_be_of_changes(self, spark: SparkSession, path: Path) -> None:
        """Up to the end of the log when it is read, not when the table was made."""
        spark.sql(f"CREATE TABLE {NAME} USING journal OPTIONS (journal 'pages', changes 'true') LOCATION '{path}'")
        assert spark.table(NAME).count() == 5
        with journal.open(path) as store:
            store.journal("pages").put("late", 1)
        assert spark.table(NAME).count() == 6

    def test_drop_leaves_the_store(self, spark: SparkSession, path: Path) -> None:
        """The table goes; the work does not."""
        for rest in (f"OPTIONS (journal 'pages') LOCATION '{path}'", f"OPTIONS (path '{path}', journal 'pages')"):
            spark.sql(f"CREATE TABLE {NAME} USING journal {rest}")
            spark.sql(f"DROP TABLE {NAME}")
            with journal.open(path) as store:
                assert store.journal("pages").count() == 5

    @pytest.mark.parametrize(
        ("rest", "says"),
        [
            ("OPTIONS (journl 'pages') LOCATION '{}'", r"\[JOURNAL_OPTION_UNKNOWN\].*did you mean 'journal'"),
            ("OPTIONS (journal 'pages', token 'a:b') LOCATION '{}'", r"\[JOURNAL_OPTION_INVALID\].*JOURNAL_TOKEN"),
            ("OPTIONS (journal 'pages')", r"\[JOURNAL_OPTION_MISSING\]"),
            ("OPTIONS (journal 'copies', path '{}') AS SELECT 'a' AS key", r"\[JOURNAL_OPTION_MISSING\]"),
        ],
    )
    def test_refusals_make_none(self, spark: SparkSession, path: Path, rest: str, says: str) -> None:
        """C1, C2: and CREATE TABLE … AS, whose options Spark does not hand on."""
        with pytest.raises(Exception, match=says):
            spark.sql(f"CREATE TABLE {NAME} USING journal {rest.format(path)}")
        assert NAME not in names(spark)

    def test_without_its_place_says_what_to_do(self, spark: SparkSession, path: Path) -> None:
        """C4: Spark makes these without asking. When it asks, or hands on options, they can be refused, or read."""
        rows = spark.createDataFrame([("a",)], "key string").write.format("journal").option("journal", "copies")
        rows.option("path", str(path)).saveAsTable(NAME)
        with pytest.raises(Exception, match=r"\[JOURNAL_OPTION_MISSING\].*saveAsTable.*CREATE TABLE"):
            spark.table(NAME).count()
        spark.sql(f"DROP TABLE {NAME}")
        with journal.open(path) as store:
            assert store.journal("copies").count() == 1
        spark.sql(f"CREATE TABLE {NAME} (key string) USING journal OPTIONS (journal 'pages') LOCATION '{path}'")
        with pytest.raises(Exception, match=r"\[JOURNAL_OPTION_MISSING\].*CREATE TABLE"):
            spark.table(NAME).count()


def test_spark_prunes_no_columns_and_knows_no_size(spark: SparkSession, path: Path) -> None:
    """What docs/SPARK.md says of Spark's API: when this fails, a newer one allows more, and we should use it."""
    df = spark.read.format("journal").option("journal", "pages").load(str(path))
    few: Any = df.select("key").limit(1)
    scan = few._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert scan.output().size() == len(df.columns)
    assert df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() == SIZE_UNKNOWN
