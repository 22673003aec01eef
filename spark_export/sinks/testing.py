"""
What every sink must keep, as tests that third parties run for their own: inherit from `SinkContract` in a test module of pytest.

    class TestMine(SinkContract):
        def make_sink(self, tmp_path):
            return MySink(path=str(tmp_path / "out"))

        def read_back(self, tmp_path, spark):
            return [row for row in …]           # the data of the messages that the target has, as dicts

It wants a fixture `spark`, a session. `BatchOf` is a batch made of tables, for these tests and others.

K1  Nothing here imports pytest: it is part of the library.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from spark_export.pipelines.contract import PipelineSink
from spark_export.pipelines.message import ID, NAMESPACE, key_of, table_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: dict[str, pa.DataType] = {
    "n": pa.int64(),
    "word": pa.string(),
    "price": pa.decimal128(20, 4),
    "at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "raw": pa.binary(),
    "numbers": pa.list_(pa.int64()),
}
NAMESPACE_NAME = "public.people"


class Broken(Exception):
    """Raised by a batch that is made to fail."""


class BatchOf:
    """A batch of these tables; `fails_after`: its tables raise Broken behind so many, its frames at once."""

    def __init__(
        self,
        tables: Sequence[pa.Table],
        first: int | None = None,
        last: int | None = None,
        spark: SparkSession | None = None,
        *,
        is_small: bool = True,
        fails_after: int | None = None,
    ) -> None:
        ids = [number for table in tables for number in table.column(ID).to_pylist()]
        self.first = min(ids) if first is None else first
        self.last = max(ids) if last is None else last
        self._tables, self._spark, self._is_small, self._fails_after = tables, spark, is_small, fails_after

    @property
    def is_small(self) -> bool:
        """As it was made."""
        return self._is_small

    def tables(self) -> Iterator[pa.Table]:
        """The tables."""
        for number, table in enumerate(self._tables):
            if number == self._fails_after:
                raise Broken
            yield table
        if self._fails_after == len(self._tables):
            raise Broken

    def frames(self) -> Sequence[tuple[str, tuple[str, ...], DataFrame]]:
        """The tables as frames of Spark, one for each namespace and set of columns."""
        if self._fails_after is not None:
            raise Broken
        assert self._spark is not None, "a batch whose frames are wanted needs a session"
        groups: list[list[pa.Table]] = []
        for table in self._tables:
            alike = (
                group
                for group in groups
                if group[0].schema == table.schema and group[0].column(NAMESPACE)[0] == table.column(NAMESPACE)[0]
            )
            found = next(alike, None)
            if found is None:
                groups.append([table])
            else:
                found.append(table)
        return [
            (
                group[0].column(NAMESPACE)[0].as_py(),
                key_of(group[0].schema),
                self._spark.createDataFrame(pa.concat_tables(group)),
            )
            for group in groups
        ]


def row_of(n: int) -> dict[str, Any]:
    """A row with a value of each type; every third one has nulls, some are before 1970."""
    if n % 3 == 2:
        return {"n": n, **dict.fromkeys(list(COLUMNS)[1:])}
    return {
        "n": n,
        "word": f"wörd {n}\n",
        "price": Decimal(n - 3).scaleb(-4) + Decimal("1234567890123.4567"),
        "at": datetime(1969 if n % 2 else 1581, 12, 31, 23, 59, 59, 123456, UTC),
        "day": date(1581 if n % 2 else 1969, 12, 31),
        "raw": bytes([0, 255, n % 256]),
        "numbers": [n, None, -n],
    }


def people(first: int, last: int) -> pa.Table:
    """Inserts with the ids first to last, of rows whose n is the id."""
    rows = [row_of(n) for n in range(first, last + 1)]
    return table_of(NAMESPACE_NAME, rows, COLUMNS, key=["n"], timestamps=1000, first=first)


class SinkContract:
    """The tests. A sink that is at least once sets `is_exactly_once = False`: then rows may come twice, none may be missing."""

    is_exactly_once: ClassVar[bool] = True

    def make_sink(self, tmp_path: Path) -> PipelineSink:
        """A sink; each call of one test gives a sink of the same target, empty at first."""
        raise NotImplementedError

    def read_back(self, tmp_path: Path, spark: SparkSession) -> list[dict[str, Any]]:
        """The data of what the target has; none when it was never written."""
        raise NotImplementedError

    def begun(self, tmp_path: Path, spark: SparkSession) -> PipelineSink:
        """A sink as a pipeline begins it."""
        sink = self.make_sink(tmp_path)
        sink.check()
        sink.start(spark, "pipeline", "sink")
        return sink

    def assert_has(self, last: int, tmp_path: Path, spark: SparkSession) -> None:
        """The target has the rows from 0 to `last`, with all their values."""
        found = sorted(self.read_back(tmp_path, spark), key=lambda row: int(row["n"]))
        if not self.is_exactly_once:
            found = [row for before, row in zip([None, *found], found, strict=False) if row != before]
        assert found == [row_of(n) for n in range(last + 1)]

    def test_check_changes_nothing(self, tmp_path: Path, spark: SparkSession) -> None:
        """`check` of a target that is there, and of one that is not, leaves no row and no file."""
        before = sorted(tmp_path.rglob("*"))
        sink = self.make_sink(tmp_path)
        sink.check()
        sink.close()
        assert sorted(tmp_path.rglob("*")) == before
        assert self.read_back(tmp_path, spark) == []

    def test_small_and_large_batches_are_written_whole(self, tmp_path: Path, spark: SparkSession) -> None:
        """contract C4 for both ways, with ids missing in between, every type of value, and a batch of which all was dropped."""
        sink = self.begun(tmp_path, spark)
        assert sink.resume(-1) == -1
        sink.write(BatchOf([people(0, 2), people(3, 4)], 0, 9, spark))
        sink.write(BatchOf([], 10, 12, spark))
        large = [people(5, 6), people(7, 9)]
        sink.write(BatchOf([_moved(table, 8) for table in large], 13, 20, spark, is_small=False))
        sink.close()
        self.assert_has(9, tmp_path, spark)
        again = self.begun(tmp_path, spark)
        assert again.resume(20) == 20
        again.close()
        again.close()
        self.assert_has(9, tmp_path, spark)

    def test_written_but_not_acknowledged_comes_again_one_at_a_time(self, tmp_path: Path, spark: SparkSession) -> None:
        """contract C5: what was not acknowledged is removed, or remembered; each message is there at the end, once if that is promised."""
        sink = self.begun(tmp_path, spark)
        sink.resume(-1)
        sink.write(BatchOf([people(0, 2)], spark=spark))
        sink.write(BatchOf([people(3, 5)], spark=spark))
        sink.close()
        again = self.begun(tmp_path, spark)
        has = again.resume(2)
        assert has in (2, 5)
        for n in range(has + 1, 8):
            again.write(BatchOf([people(n, n)], spark=spark))
        again.write(BatchOf([people(8, 9)], spark=spark))
        again.close()
        self.assert_has(9, tmp_path, spark)

    def test_batches_may_be_cut_anew(self, tmp_path: Path, spark: SparkSession) -> None:
        """A batch that was written comes again as a part of a larger one."""
        sink = self.begun(tmp_path, spark)
        sink.resume(-1)
        sink.write(BatchOf([people(0, 3)], spark=spark))
        sink.write(BatchOf([people(4, 4)], spark=spark))
        sink.close()
        again = self.begun(tmp_path, spark)
        has = again.resume(-1)
        again.write(BatchOf([people(has + 1, 9)], spark=spark, is_small=False))
        again.close()
        self.assert_has(9, tmp_path, spark)

    def test_error_in_the_middle_is_raised_and_what_came_before_stays(
        self, tmp_path: Path, spark: SparkSession
    ) -> None:
        """contract C4: the error of a batch reaches the pipeline; after `resume` the same messages can be written."""
        for is_small in (True, False):
            sink = self.begun(tmp_path, spark)
            first = 0 if is_small else 3
            assert sink.resume(first - 1) == first - 1
            sink.write(BatchOf([people(first, first)], spark=spark))
            tables = [people(first + 1, first + 1), people(first + 2, first + 2)]
            try:
                sink.write(BatchOf(tables, spark=spark, is_small=is_small, fails_after=1))
            except Broken:
                pass
            else:
                raise AssertionError("the sink hides the error of a batch")
            sink.close()
            again = self.begun(tmp_path, spark)
            assert again.resume(first) == first
            again.write(BatchOf(tables, spark=spark, is_small=is_small))
            again.close()
        self.assert_has(5, tmp_path, spark)


def _moved(table: pa.Table, by: int) -> pa.Table:
    """The same rows with higher ids."""
    ids = pa.array([number + by for number in table.column(ID).to_pylist()], pa.int64())
    return table.set_column(0, table.schema.field(ID), ids)
