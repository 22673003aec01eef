"""
Load Parquet, CSV or JSON lines into a journal: all rows as one change, or none.

Columns named key, priority, process_date, insertion_date, expiration, owner and data are what their names say; what `journal export`
wrote is loaded as it is. All other columns are fields of the data. A directory is all of its files.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from journal.cli.command import JOURNAL
from journal.cli.common import show
from journal.connect_or_open import connect_or_open
from spark_export.api.session import check_spark

if TYPE_CHECKING:
    from journal.core.schema.schema import Schema
    from spark_export.files.csv import CsvOptions
    from spark_export.files.tables import DataFile
    from spark_export.loads.plan import LoadPlan, TaskPart
    from spark_export.loads.rows import LoadRows
    from spark_export.options.load import WriteOptions

COLUMNS = ("key", "key_bytes", "priority", "process_date", "insertion_date", "expiration", "owner", "data")
STEP_S = 0.5


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    JOURNAL(sub)
    sub.add_argument("files", metavar="FILE", nargs="+", help="files, or directories of them")
    sub.add_argument("--format", choices=("parquet", "csv", "jsonl"), help="by default what the names end with")
    for name in COLUMNS:
        option = f"--{name.replace('_', '-')}"
        sub.add_argument(option, metavar="COLUMN", help=f"the column that is the {name}, when it has another name")
    sub.add_argument(
        "--data-format", choices=("auto", "value", "json", "msgpack"), default="auto",
        help="how the data is written in its column; auto: JSON in texts, msgpack in bytes, as an export writes it",
    )  # fmt: skip
    sub.add_argument(
        "--on-conflict",
        choices=("merge", "replace", "skip", "error"),
        default="merge",
        help="what becomes of keys that are there",
    )
    sub.add_argument("--rejects", metavar="FILE", help="load the good rows, and list the others here with the reason")
    sub.add_argument(
        "--once",
        nargs=2,
        metavar=("NAME", "NUMBER"),
        help="change nothing if NAME has loaded this NUMBER, or a higher one",
    )
    sub.add_argument("--delay", help="when rows without a process date are due, e.g. 500ms, 30s, 2m, 1h")
    sub.add_argument("--create", action="store_true", help="make the store and the journal when they are not there")
    sub.add_argument("--delimiter", default=",", help="between the columns of CSV; default: a comma")
    sub.add_argument("--escape", help="what stands before a quote in CSV, when it is not doubled")
    sub.add_argument(
        "--null", default="", help="how CSV writes a value that is not given; default: nothing, without quotes"
    )
    sub.add_argument(
        "--types", choices=("text", "infer"), default="text",
        help="of columns of CSV that no schema declares: text, as they stand, or what their first values look like",
    )  # fmt: skip
    sub.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Load."""
    check_spark(is_needed=False)
    from spark_export.loads.plan import commit
    from spark_export.loads.rejects import check_path
    from spark_export.options.load import WriteOptions

    given = {
        "path": args.store,
        "journal": args.journal,
        "on_conflict": args.on_conflict,
        "data_format": args.data_format,
    }
    given |= {name: getattr(args, name) for name in (*COLUMNS, "delay") if getattr(args, name) is not None}
    if args.rejects is not None:
        given |= {"on_reject": "list", "rejects": args.rejects}
    if args.once is not None:
        given |= {"txn_app_id": args.once[0], "txn_version": args.once[1]}
    options = WriteOptions.parse(given)
    check_path(options.rejects)
    if args.create:
        with connect_or_open(args.store) as store:
            store.journal(args.journal)
    plan, parts = _staged(args, options)
    done = commit(plan, parts, options.once)
    counts = {name: value for name, value in asdict(done).items() if name not in ("cursor", "is_repeated", "rejected")}
    if args.json:
        show(counts | {"rejected": len(done.rejected), "is_repeated": done.is_repeated, "cursor": str(done.cursor)})
    elif done.is_repeated:
        print(f"{' '.join(args.once or [])} was loaded before: nothing was changed")
    else:
        counted = ", ".join(f"{value:,} {name}" for name, value in counts.items() if value or name == "inserted")
        print(f"{counted}{f', {len(done.rejected):,} rejected' if done.rejected else ''} {done.cursor}")
    return 0


def _staged(args: argparse.Namespace, options: WriteOptions) -> tuple[LoadPlan, list[TaskPart]]:
    """Write the rows of each file into a part."""
    from spark_export.files.csv import CsvOptions
    from spark_export.files.tables import files_of
    from spark_export.loads.plan import LoadPlan, stage_made
    from spark_export.loads.staging import begin
    from spark_export.stores.open_store import looked_at

    files = files_of(args.files, args.format)
    with looked_at(options.place) as pages:
        schema, now = pages.schema, pages.now()
    due = None if options.delay is None else now + options.delay
    csv = CsvOptions(args.delimiter, args.escape, args.null, args.data_format, args.types)
    sources = [_Source(file, options, schema, due, csv) for file in files]  # all of them are looked at first
    plan = LoadPlan(options, sources[0].columns, due, begin(options))
    progress = _Progress(not (args.quiet or args.json))
    try:
        parts = [stage_made(progress.over(source.made()), plan, number) for number, source in enumerate(sources)]
    except BaseException:
        plan.staging.remove()
        raise
    finally:
        progress.end()
    return plan, parts


class _Source:
    """A file, and what its columns are."""

    def __init__(
        self, found: DataFile, options: WriteOptions, schema: Schema | None, due: int | None, csv: CsvOptions
    ) -> None:
        from spark_export.columns.mapping import ColumnMapping, columns_of
        from spark_export.files.json_lines import JsonLines
        from spark_export.files.tables import FileTable

        self._path, self._due = found.path, due
        self._shared = {name: value.as_py() for name, value in found.partitions.items()}
        self._table: FileTable | None = None
        self._lines: JsonLines | None = None
        self.columns = ColumnMapping()
        if found.kind == "jsonl":
            self._lines = JsonLines(options.named, schema, options.data_format, due)
        else:
            self._table = FileTable(found, options.named, schema, csv)
            self.columns = columns_of(self._table.schema, options.named, schema, options.data_format)

    def made(self) -> Iterator[LoadRows]:
        """Its rows."""
        from spark_export.files.csv import opened
        from spark_export.loads.rows import rows_of

        if self._lines is not None:
            with opened(self._path) as file:
                yield from self._lines.made(file, self._shared)
        elif self._table is not None:
            for batch in self._table.batches():
                yield rows_of(batch, self.columns, self._due)


class _Progress:
    """Rows and rate, on a terminal only: a line that is written over."""

    def __init__(self, is_wanted: bool) -> None:
        self._is_shown = is_wanted and sys.stderr.isatty()
        self._began = self._shown = time.monotonic()
        self._rows = 0

    def over(self, source: Iterator[LoadRows]) -> Iterator[LoadRows]:
        """The same, counted."""
        for made in source:
            yield made
            self._rows += made.size
            now = time.monotonic()
            if self._is_shown and now - self._shown >= STEP_S:
                self._shown = now
                rate = self._rows / (now - self._began)
                print(f"\r\x1b[K{self._rows:,} rows, {rate:,.0f} rows/s", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line."""
        if self._is_shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
