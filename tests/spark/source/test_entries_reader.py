"""`spark.read.format("journal")`: one moment of a journal, typed, filtered by options, with errors that have codes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import journal
import spark_export
from journal import Field, Invalid, Schema
from journal.net.wire.tokens import parse_tokens
from spark_export.columns.json_codec import value_of
from spark_export.columns.layout import FIELD, TIMELINE, TYPE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")

SECRET = "0123456789abcdef" * 4
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ms(moment: datetime | None) -> int:
    """Milliseconds of a timestamp as Spark's driver gives it: naive, in the zone of this process."""
    return 0 if moment is None else (moment.astimezone(UTC) - EPOCH) // timedelta(milliseconds=1)


def read(spark: SparkSession, path: Path | str, name: str = "pages", **options: Any) -> DataFrame:
    """A load."""
    reader = spark.read.format("journal").option("journal", name)
    for word, value in options.items():
        reader = reader.option(word.removesuffix("_"), str(value))
    return reader.load(str(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store of a test is; it has no owner."""
    return tmp_path / "work.journal"


def test_rows_are_what_scan_gives(spark: SparkSession, path: Path) -> None:
    """Every entry, with text and bytes keys, owners, expirations and leases; of a store without an owner."""
    with journal.open(path) as store:
        pages = store.journal("pages")
        now = pages.now()
        pages.put("/home", {"n": 1, "raw": b"\0"}, priority=10, owner="web")
        pages.put(b"\xff\x00", [1.5, None], process_date=now + 3_600_000, expiration=now + 7_200_000)
        pages.put("/held", None, priority=0)
        assert pages.claim(consumer="backend-1", lease="1h") is not None
        expected = {entry.key: entry for entry in pages.scan()}
        held = pages.leases()[0]
    rows = read(spark, path).collect()
    assert len(rows) == len(expected) == 3
    for row in rows:
        entry = expected[row.key if row.key is not None else bytes(row.key_bytes)]
        assert value_of(row.data) == entry.data
        assert (row.priority, row.status, row.timeouts, row.version) == (
            entry.priority,
            entry.status,
            entry.timeouts,
            entry.version,
        )
        assert (ms(row.process_date), ms(row.insertion_date)) == (entry.process_date, entry.insertion_date)
        assert (ms(row.expiration), row.owner, ms(row.start_date)) == (entry.expiration, entry.owner, entry.start_date)
        is_held = row.status == "P"
        assert (ms(row.deadline), row.consumer) == ((held.deadline, "backend-1") if is_held else (0, None))


def test_fields_of_all_generations_are_typed_columns(spark: SparkSession, path: Path) -> None:
    """The union of the schemas; what was put before a field existed has null there."""
    old = Schema([Field("uri", "text", required=True), Field("depth", "uint8"), Field("priority", "text")])
    new = Schema([*old.fields, Field("seen", "date_ms"), Field("tags", "list")])
    with journal.open(path) as store:
        pages = store.journal("pages", schema=old, timeline="counter-7")
        pages.put("a", {"uri": "/a", "depth": 1, "priority": "low"})
        pages = store.journal("pages", schema=new)
        pages.rotate()
        pages.put("b", {"uri": "/b", "seen": 1_700_000_000_000, "tags": ["x"]})
    frame = read(spark, path)
    columns = {field.name: field for field in frame.schema}
    assert [columns[name].dataType.simpleString() for name in ("uri", "depth", "data_priority", "seen", "tags")] == [
        "string",
        "smallint",
        "string",
        "timestamp",
        "string",
    ]
    assert columns["data_priority"].metadata == {FIELD: "priority", TYPE: "text"}
    assert {columns[name].metadata[TIMELINE] for name in ("process_date", "seen", "deadline")} == {"counter-7"}
    a, b = sorted(frame.collect(), key=lambda row: str(row.key))
    assert (a.uri, a.depth, a.data_priority, a.seen, a.tags, a.data) == ("/a", 1, "low", None, None, None)
    assert (b.uri, b.depth, ms(b.seen), b.tags, b.data) == ("/b", None, 1_700_000_000_000, '["x"]', None)


def test_options_choose_rows_and_columns(spark: SparkSession, path: Path) -> None:
    """Pushed down: tasks see nothing else."""
    with journal.open(path) as store:
        pages = store.journal("pages")
        pages.put_many(
            [
                journal.Put(f"{'ab'[n % 2]}{n}", n, priority=n % 5, process_date=1_700_000_000_000 + n)
                for n in range(100)
            ]
        )
    frame = read(
        spark,
        path,
        priority="1-2,4",
        from_=1_700_000_000_010,
        to="2023-11-14T22:13:20.090Z",
        keyPrefix="a",
        columns="Data,KEY",
        partitions=3,
    )
    assert frame.columns == ["data", "key"]
    expected = {(str(n), f"a{n}") for n in range(10, 90, 2) if n % 5 in (1, 2, 4)}
    assert {(row.data, row.key) for row in frame.collect()} == expected
    assert 1 <= frame.rdd.getNumPartitions() <= 3
    assert read(spark, path, status="processing").count() == 0


def test_union_of_two_filters_over_one_view(spark: SparkSession, path: Path) -> None:
    """Each side has its own rows. A source that takes filters itself gets this wrong in Spark 4.3."""
    with journal.open(path) as store:
        store.journal("pages").put_many([journal.Put(f"k{n}", n, priority=n % 5) for n in range(50)])
    frame = read(spark, path, columns="key,priority")
    both = frame.filter("priority = 3").union(frame.filter("priority = 4"))
    assert sorted(row.priority for row in both.collect()) == [3] * 10 + [4] * 10
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW work USING journal OPTIONS (path '{path}', journal 'pages')")
    found = spark.sql(
        "SELECT priority, count(*) AS n FROM (SELECT * FROM work WHERE priority = 1 UNION ALL SELECT * FROM work WHERE priority = 2) "
        "GROUP BY priority ORDER BY priority"
    )
    assert [(row.priority, row.n) for row in found.collect()] == [(1, 10), (2, 10)]


def test_a_frame_is_one_moment(spark: SparkSession, store: journal.Store, pages: journal.Journal) -> None:
    """R2: however often it is used; a new load sees what came. The owner is this process, without a daemon: its last checkpoint is seen."""
    pages.put("a", 1)
    store.checkpoint()
    frame = read(spark, store.path)
    assert frame.count() == 1
    pages.put("b", 2)
    store.checkpoint()
    assert frame.count() == 1
    assert read(spark, store.path).count() == 2


def test_an_unchanged_journal_is_copied_once(spark: SparkSession, path: Path) -> None:
    """R5: and again when it has changed; a frame of before still shows what was there."""
    from pyspark import SparkFiles

    def copies() -> int:
        return len(list(Path(SparkFiles.getRootDirectory()).rglob("*.mdb")))

    with journal.open(path) as store:
        store.journal("pages").put("a", 1)
    before = copies()
    frame = read(spark, path)
    assert [frame.count(), read(spark, path).count(), read(spark, path, priority="0-50").count()] == [1, 1, 0]
    assert copies() == before + 1
    with journal.open(path) as store:
        store.journal("pages").put("b", 2)
    assert [read(spark, path).count(), frame.count()] == [2, 1] and copies() == before + 2


def test_several_loads_share_a_snapshot(spark: SparkSession, store: journal.Store, pages: journal.Journal) -> None:
    """They show the same moment, whose cursor is known; when it is closed, that is said."""
    last = pages.put("a", 1)
    with spark_export.snapshot(store, "pages") as shot:
        assert shot.cursor == last.cursor and shot.size == 1 and shot.taken == pages.now()
        pages.put("b", 2)
        assert read(spark, store.path, snapshot=shot.name).count() == 1
        assert [row.key for row in read(spark, store.path, snapshot=shot.name, columns="key").collect()] == ["a"]
        with pytest.raises(Exception, match=r"\[JOURNAL_SNAPSHOT_GONE\]"):
            read(spark, store.path, "other", snapshot=shot.name)
    assert not Path(shot.name).exists()
    with pytest.raises(Exception, match=r"\[JOURNAL_SNAPSHOT_GONE\]"):
        read(spark, store.path, snapshot=shot.name)


def test_what_an_executor_cannot_see_is_said(spark: SparkSession, path: Path) -> None:
    """With what to do, not as a missing file."""
    with journal.open(path) as store:
        store.journal("pages").put("a", 1)
    with spark_export.snapshot(path, "pages") as shot:
        frame = read(spark, path, snapshot=shot.name)
        frame.schema  # noqa: B018 - the plan is made; the rows are not read
        for file in Path(shot.name).rglob("*.mdb"):
            file.unlink()
        with pytest.raises(Exception, match=r"\[JOURNAL_SNAPSHOT_NOT_VISIBLE\].*through its daemon"):
            frame.collect()


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("pages", {"stauts": "waiting"}, "JOURNAL_OPTION_UNKNOWN"),
        ("pages", {"priority": "high"}, "JOURNAL_OPTION_INVALID"),
        ("pages", {"columns": "kye"}, "JOURNAL_COLUMN_UNKNOWN"),
        ("pages", {"decode": "fields"}, "JOURNAL_OPTION_INVALID"),
        ("nothing", {}, "JOURNAL_NOT_FOUND"),
    ],
)
def test_mistakes_are_told_early(
    spark: SparkSession, path: Path, name: str, options: dict[str, str], code: str
) -> None:
    """By load(), before anything is read."""
    with journal.open(path) as store:
        store.journal("pages")
    with pytest.raises(Exception, match=rf"\[{code}\]"):
        read(spark, path, name, **options)


def test_a_store_that_is_not_there_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """And nothing is made."""
    with pytest.raises(Exception, match=r"\[JOURNAL_STORE_NOT_FOUND\]"):
        read(spark, tmp_path / "none.journal")
    assert list(tmp_path.iterdir()) == []


def test_a_schema_of_the_users_own_is_refused(spark: SparkSession, path: Path) -> None:
    """R4: its columns would have lost their meaning."""
    with journal.open(path) as store:
        store.journal("pages").put("a", 1)
    frame = spark.read.schema("key string, n int").format("journal").option("journal", "pages").load(str(path))
    with pytest.raises(Exception, match=r"\[JOURNAL_SCHEMA_GIVEN\]"):
        frame.collect()


def test_different_timelines_are_not_brought_together(spark: SparkSession, path: Path) -> None:
    """Dates mean something only beside dates of the same timeline."""
    with journal.open(path) as store:
        store.journal("pages").put("a", 1)
        store.journal("more").put("a", 1)
        store.journal("steps", timeline="steps of the press").put("a", 1)
    pages, more, steps = (read(spark, path, name) for name in ("pages", "more", "steps"))
    assert spark_export.same_timeline(pages, more.filter("priority < 200")) == "epoch-ms"
    assert spark_export.same_timeline(steps, pages.select("key")) == "steps of the press"
    assert spark_export.same_timeline(pages.select("key")) is None
    with pytest.raises(Invalid, match=r"^\[JOURNAL_TIMELINE\] .*'steps of the press'"):
        spark_export.same_timeline(pages, steps.withColumnRenamed("process_date", "step"))


class Transfers:
    """A writer that moves amounts between accounts, two entries in one change: the sum of all never changes."""

    ACCOUNTS = 200
    SUM = ACCOUNTS * 100

    def __init__(self, pages: journal.Journal) -> None:
        self._pages = pages
        self._amounts = [100] * self.ACCOUNTS
        pages.put_many([journal.Put(f"account-{n}", 100) for n in range(self.ACCOUNTS)])
        self._is_over = threading.Event()
        self._moved = threading.Condition()
        self.count = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Transfers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.is_set():
            one, other = self.count * 7 % self.ACCOUNTS, (self.count * 13 + 1) % self.ACCOUNTS
            if one != other:
                self._amounts[one] -= 1
                self._amounts[other] += 1
                self._pages.put_many([journal.Put(f"account-{n}", self._amounts[n]) for n in (one, other)])
            with self._moved:
                self.count += 1
                self._moved.notify_all()

    def wait_for(self, more: int) -> None:
        """Return when so many more transfers were made."""
        with self._moved:
            goal = self.count + more
            assert self._moved.wait_for(lambda: self.count >= goal, 120)


@pytest.fixture
def transfers(tmp_path: Path) -> Iterator[tuple[journal.Store, Transfers]]:
    """A store under a writer; checkpoints come as they come."""
    with journal.open(tmp_path / "work.journal", durability="interval") as store:
        with Transfers(store.journal("pages", rotate_bytes=1 << 20)) as writer:
            yield store, writer
        assert store.check() == []


@pytest.mark.parametrize("is_served", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_reads_under_a_writer_are_not_torn(
    spark: SparkSession, transfers: tuple[journal.Store, Transfers], is_served: bool
) -> None:
    """An invariant over all rows holds in every snapshot, with several tasks, while transfers go on; with a daemon and without."""
    store, writer = transfers
    if is_served:
        store.serve()
    seen: set[int] = set()
    for _ in range(3):
        writer.wait_for(50)
        store.checkpoint()
        rows = read(spark, store.path, columns="key,data,version", partitions=4).collect()
        assert len(rows) == writer.ACCOUNTS
        assert sum(int(row.data) for row in rows) == writer.SUM
        seen.add(sum(row.version for row in rows))
    assert len(seen) > 1, "the writer must have changed something between two loads"


def test_a_daemon_is_asked(spark: SparkSession, store: journal.Store, pages: journal.Journal) -> None:
    """By the store's path, and by an address with a token: what is newest, without a checkpoint, from any machine."""
    tokens = parse_tokens(f"spark {SECRET} consume * -\nnobody {SECRET[::-1]} consume other -\n")
    with store.serve(tcp=[("127.0.0.1", 0)], tokens=tokens) as server:
        pages.put_many([journal.Put(f"k{n}", n) for n in range(50)])
        assert read(spark, store.path).count() == 50
        pages.put("more", None)
        address = next(each for each in server.addresses if each.startswith("tcp:"))
        frame = read(spark, address, token=f"spark:{SECRET}", partitions=3, priority="100", columns="key")
        assert frame.count() == 51
        assert SECRET not in frame._jdf.queryExecution().toString()  # type: ignore[operator]
        with pytest.raises(Exception, match=r"\[JOURNAL_(STORE_UNREACHABLE|NOT_FOUND)\]"):
            read(spark, address, token=f"nobody:{SECRET[::-1]}")
        with pytest.raises(Exception, match=r"\[JOURNAL_STORE_UNREACHABLE\]"):
            read(spark, address, token=f"spark:{SECRET[::-1]}")
        with spark_export.snapshot(address, "pages", token=f"spark:{SECRET}") as shot:
            pages.put("late", None)
            assert shot.size == 51
            assert read(spark, address, token=f"spark:{SECRET}", snapshot=shot.name).count() == 51
    with pytest.raises(Exception, match=r"\[JOURNAL_STORE_UNREACHABLE\]"):
        read(spark, address, token=f"spark:{SECRET}")
