"""What is measured: a journal of many entries, read, exported and loaded; and the same without us."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lmdb
import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

import journal
import spark_export
from benchmarks.spark.sources import register_constant, register_drain

JOURNAL = "pages"
NOW = 1_700_000_000_000
SPREAD_MS = 86_400_000
PARTITIONS = 2
BATCH_ROWS = 4_096


def frame(spark: SparkSession, count: int) -> DataFrame:
    """Rows that a data engineer would load: a key, a priority, a date, and three fields."""
    return spark.range(0, count, 1, PARTITIONS).selectExpr(
        "format_string('page-%09d', id) as key",
        "cast(pmod(hash(id), 4) * 60 as int) as priority",
        f"timestamp_millis({NOW} + pmod(hash(id, 1), {SPREAD_MS})) as process_date",
        "format_string('https://example.org/%d/%s', id, md5(cast(id as string))) as uri",
        "id as number",
        "cast(id as double) / 7 as weight",
    )


class Stores:
    """Journals of different sizes, each filled once; and fresh ones to load into."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark, self._directory = spark, directory
        self._numbers = itertools.count()

    def full(self, count: int) -> Path:
        path = self._directory / f"full-{count}.journal"
        if not path.exists():
            self._make(path)
            load(frame(self._spark, count), path)
        return path

    def twin(self, count: int) -> Path:
        """The same as a full one, to be changed."""
        path = self._directory / f"twin-{count}.journal"
        if not path.exists():
            shutil.copytree(self.full(count), path)
        return path

    def fresh(self) -> Path:
        path = self._directory / f"fresh-{next(self._numbers)}.journal"
        self._make(path)
        return path

    def _make(self, path: Path) -> None:
        with journal.open(path) as store:
            store.journal(JOURNAL)


# --- ours -------------------------------------------------------------------------------------------------------------


def read(spark: SparkSession, path: Path) -> DataFrame:
    reader = spark.read.format("journal").option("journal", JOURNAL).option("decode", "msgpack")
    return reader.option("partitions", PARTITIONS).load(str(path))


def to_nothing(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def change(path: Path) -> None:
    """Another entry, the same again and again."""
    with journal.open(path) as store:
        store.journal(JOURNAL).put("another", 1)


def export(spark: SparkSession, path: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    spark_export.export(
        path, JOURNAL, target, read={"decode": "msgpack"}, partitions=PARTITIONS, spark=spark, progress=False
    )


def load(df: DataFrame, path: Path) -> None:
    df.write.format("journal").mode("append").option("journal", JOURNAL).save(str(path))


# --- without us -------------------------------------------------------------------------------------------------------


class Constant:
    """Spark, handed one batch again and again: as many rows, with the same columns."""

    def __init__(self, spark: SparkSession, path: Path, count: int) -> None:
        df = read(spark, path)
        arrow = to_arrow_schema(df.schema, timezone="UTC")
        with journal.open(path) as store, store.journal(JOURNAL).snapshot() as shot:
            (batch,) = itertools.islice(batches(shot, arrow), 1)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        repeats = max(1, count // (batch.num_rows * PARTITIONS))
        self.rows = repeats * batch.num_rows * PARTITIONS
        register_constant(spark, df.schema, sink.getvalue().to_pybytes(), repeats, PARTITIONS)
        self._spark = spark

    def read(self) -> None:
        to_nothing(self._spark.read.format("constant").load())


def batches(shot: Any, arrow: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The entries of a snapshot as Arrow, in this process."""
    from spark_export.columns.entry_arrays import of_block
    from spark_export.columns.entry_batches import BatchShaper
    from spark_export.columns.layout import RowFilter, layout

    shaper = BatchShaper(arrow, layout(None, "msgpack"), RowFilter(), shot.taken, data=None, decode="msgpack")
    for part in shot.parts(1):
        for block in part.read():
            yield from filter(None, map(shaper.batch, of_block(block)))


def alone(path: Path, arrow: pa.Schema, target: Path) -> None:
    """Parquet by pyarrow, from LMDB, in one process and without Spark."""
    with (
        journal.open(path) as store,
        store.journal(JOURNAL).snapshot() as shot,
        parquet.ParquetWriter(target, arrow, compression="snappy") as writer,
    ):
        for batch in batches(shot, arrow):
            writer.write_batch(batch)


class Index:
    """The rows of an index as LMDB has them, in the order of their keys; and the least that writing them takes."""

    def __init__(self, path: Path) -> None:
        (file,) = path.glob(f"{JOURNAL}/*/rows.mdb")
        self._rows: dict[bytes, list[tuple[bytes, bytes]]] = {}
        env = lmdb.open(
            str(file), subdir=False, lib_version=0, readonly=True, max_dbs=16, lock=False, map_size=64 << 30
        )
        with env.begin() as txn:
            for name in (b"entries", b"keys", b"expirations", b"owners"):
                database = env.open_db(name, txn=txn, create=False)
                self._rows[name] = list(txn.cursor(db=database))
        env.close()

    def append(self, path: Path) -> None:
        """All of them, sorted as they are, in one synced transaction."""
        env = lmdb.open(str(path), subdir=False, lib_version=0, map_size=64 << 30, max_dbs=16)
        with env.begin(write=True) as txn:
            for name, rows in self._rows.items():
                database = env.open_db(name, txn=txn)
                with txn.cursor(db=database) as cursor:
                    consumed, added = cursor.putmulti(rows, append=True)
                    assert consumed == added == len(rows)
        env.close()
        path.unlink()
        Path(f"{path}-lock").unlink(missing_ok=True)


class Drained:
    """An Arrow writer that drops what it is given, then a raw append of the index entries: what a load cannot do without."""

    def __init__(self, spark: SparkSession, df: DataFrame, index: Index, path: Path) -> None:
        register_drain(spark)
        self._df, self._index, self._path = df, index, path

    def load(self) -> None:
        self._df.write.format("drain").mode("append").save()
        self._index.append(self._path)
