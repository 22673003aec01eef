"""
`python -m benchmarks spark`: reading, exporting and loading with Spark, against Spark, pyarrow and LMDB with nothing of ours between.

The session and its workers are warm: each side runs once before it counts, so the session has a copy of the journal's rows already. What a
read takes that must copy them, because the journal has changed, has a line of its own. Ratios from this run are what matters; the times are
those of this machine.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Contender, Times, interleave, say
from benchmarks.plan import Plan
from benchmarks.table import Row, us

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.spark.work import Stores

TARGET = 0.5
"""At most twice the time."""
LINEAR = 1.25
"""What a row may cost more in a journal three times as large."""
REFERENCE = "a draining writer and a raw append"


def spark(directory: Path, plan: Plan) -> list[Row]:
    """Every line of the report."""
    import spark_export

    say("a Spark session")
    session = spark_export.session(app="benchmarks", master="local[2]", conf={"spark.driver.memory": "2g"})
    try:
        from benchmarks.spark.work import Stores

        stores = Stores(session, directory)
        rows = [
            *_read(session, stores, plan),
            _export(session, stores, directory, plan),
            _load(session, stores, directory, plan),
        ]
        return rows + _linear(session, stores, directory, plan)
    finally:
        session.stop()


def _read(session: SparkSession, stores: Stores, plan: Plan) -> list[Row]:
    from benchmarks.spark.work import Constant, change, read, to_nothing

    count = plan.many
    path = stores.full(count)
    changed = stores.twin(count)
    say(f"reading {count:,} entries")
    constant = Constant(session, path, count)
    reference, after = "Spark, one constant batch", "ours, after a change"
    times = interleave(
        [
            Contender("ours", count, lambda: to_nothing(read(session, path))),
            Contender(after, count, lambda: to_nothing(read(session, changed)), lambda: change(changed)),
            Contender(reference, constant.rows, constant.read),
        ],
        plan.spark_rounds,
    )
    return [
        _row("read to noop, each entry", times, reference, count),
        _row("the same, when the journal has changed", times, reference, count, name=after, target=None),
    ]


def _export(session: SparkSession, stores: Stores, directory: Path, plan: Plan) -> Row:
    from pyspark.sql.pandas.types import to_arrow_schema

    from benchmarks.spark.work import alone, export, read

    count = plan.many
    path = stores.full(count)
    say(f"exporting {count:,} entries")
    arrow = to_arrow_schema(read(session, path).schema, timezone="UTC")
    times = interleave(
        [
            Contender("ours", count, lambda: export(session, path, directory / "exported")),
            Contender("pyarrow alone from LMDB", count, lambda: alone(path, arrow, directory / "alone.parquet")),
        ],
        plan.spark_rounds,
    )
    return _row("export to Parquet, each entry", times, "pyarrow alone from LMDB", count)


def _load(session: SparkSession, stores: Stores, directory: Path, plan: Plan) -> Row:
    from benchmarks.spark.work import Drained, Index, frame, load

    count = plan.many
    df = frame(session, count)
    say(f"loading {count:,} rows")
    drained = Drained(session, df, Index(stores.full(count)), directory / "raw.mdb")
    fresh = _Fresh(stores)
    times = interleave(
        [
            Contender("ours", count, lambda: load(df, fresh.path), fresh.renew),
            Contender(REFERENCE, count, drained.load),
        ],
        plan.spark_rounds,
    )
    return _row("load, each row", times, REFERENCE, count)


class _Fresh:
    """A journal to load into; another one after each round."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self.path = stores.fresh()

    def renew(self) -> None:
        shutil.rmtree(self.path)
        self.path = self._stores.fresh()


def _row(
    what: str, times: dict[str, Times], reference: str, count: int, *, name: str = "ours", target: float | None = TARGET
) -> Row:
    ours = times[name]
    return Row.compare(what, ours, times[reference], target, note=f"{ours.median_us * count / 1e6:.2f} s for {count:,}")


def _linear(session: SparkSession, stores: Stores, directory: Path, plan: Plan) -> list[Row]:
    """
    What a row costs more in a large journal than in a small one: without what every job costs, however small it is.

    A load's reference has a line too: where memory must be brought back by a host, it is not linear either.
    """
    from benchmarks.spark.work import Drained, Index, export, frame, load, read, to_nothing

    fresh = _Fresh(stores)
    drained: dict[int, Drained] = {}
    jobs: dict[str, Callable[[int], None]] = {
        "read": lambda count: to_nothing(read(session, stores.full(count))),
        "export": lambda count: export(session, stores.full(count), directory / "exported"),
        "load": lambda count: load(frame(session, count), fresh.path),
        REFERENCE: lambda count: drained[count].load(),
    }
    small, middle, large = plan.spark_sizes
    rows = []
    for name, job in jobs.items():
        say(f"{name} at {small:,}, {middle:,} and {large:,}")
        seconds: dict[int, list[float]] = {count: [] for count in plan.spark_sizes}
        for _ in range(plan.spark_rounds):
            for count in plan.spark_sizes:
                if name != "load":
                    stores.full(count)
                if name == REFERENCE and count not in drained:
                    index = Index(stores.full(count))
                    drained[count] = Drained(session, frame(session, count), index, directory / "raw.mdb")
                began = time.perf_counter()
                job(count)
                seconds[count].append(time.perf_counter() - began)
                if name == "load":
                    fresh.renew()
        best = {count: min(found) for count, found in seconds.items()}
        first = (best[middle] - best[small]) / (middle - small)
        second = (best[large] - best[middle]) / (large - middle)
        note = ", ".join(f"{count:,}: {value:.2f} s" for count, value in best.items())
        what = f"{name}: a row between {middle:,} and {large:,}"
        against = f"one between {small:,} and {middle:,}"
        rows.append(
            Row(
                what,
                us(second * 1e6),
                against,
                us(first * 1e6),
                second / first,
                None,
                None if name == REFERENCE else LINEAR,
                is_at_most=True,
                note=note,
            )
        )
    return rows
