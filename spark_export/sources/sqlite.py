"""
SQLite as a source: `type = "sqlite"`. A namespace is a table's name, without its schema: "people".

The copy is read in one read transaction. A database in WAL mode is written meanwhile; in the other modes writers wait for its end.
Changes are noted by triggers (spark_export.sources.sqlite_tables) that `check(prepare=True)` writes. A position is a number of a change.

What triggers do not see: a row that INSERT OR REPLACE removes because of another unique column than the key, unless the writer has set
PRAGMA recursive_triggers. One pipeline follows a table: advance deletes its changes.

S1  All copies of a start show one moment, and their position is the last change before it.
S2  Changes of a namespace that are not after its own position are not given; those after it are, also when another one is further on.
S3  Only changes that `sync` has given, or that every namespace is past, are deleted.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from journal.errors import NotFound, StorageError
from spark_export.errors import COLUMN_TYPE, OPTION_INVALID, STORAGE, STORE_NOT_FOUND, invalid, problem
from spark_export.pipelines.contract import COPY, NamespaceState, SourceCopy, SourcePart
from spark_export.sources.arrow_rows import PART_ROWS, message_table
from spark_export.sources.sqlite_tables import (
    CHANGES,
    SqliteTable,
    arrays_of,
    arrow_type,
    changes_ddl,
    quoted,
    table_names,
    table_of_name,
    triggers_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUSY_S = 30.0
"""How long a statement waits for other writers."""


class SqliteSource:
    """
    Tables of a database of SQLite.

    tables     their names; None: all that there are
    types      "table.column" to int64, float64, string, binary, bool or decimal(p,s), where the declared type is not what is stored
    timeline   what the times of changes mean; None: external(<name of the file>)
    """

    modes: ClassVar[Sequence[str]] = ("copy", "sync", "copy+sync")

    def __init__(
        self,
        path: str | os.PathLike[str],
        tables: Sequence[str] | None = None,
        types: Mapping[str, str] | None = None,
        timeline: str | None = None,
    ) -> None:
        self._path = Path(path)
        self._names = None if tables is None else list(tables)
        self._types = dict(types or {})
        for name in self._types.values():
            arrow_type(name)
        self.timeline = timeline or f"external({self._path.name})"
        self._positions: dict[str, int] = {}
        self._reached = 0
        self._reading: sqlite3.Connection | None = None

    def check(self, *, prepare: bool = False) -> Sequence[str]:
        """Reach the database; the tables."""
        with _told(self._path), contextlib.closing(self._opened(is_written=prepare)) as connection:
            tables = self._tables(connection)
            if prepare:
                self._prepare(connection, tables)
            self._check_prepared(connection, tables)
            return [table.name for table in tables]

    def start(self, spark: SparkSession, states: Mapping[str, NamespaceState], mode: str) -> None:
        """Begin where each namespace is."""
        with _told(self._path), contextlib.closing(self._opened()) as connection:
            tables = self._tables(connection)
            if mode == "copy":
                return
            self._check_prepared(connection, tables)
            known = {name: state.position for name, state in states.items() if state.mode != COPY}
            self._positions = {name: int(at) for name, at in known.items() if at is not None}
            # A namespace without a position is copied first, or has all changes that are noted.
            self._reached = min((self._positions.get(table.name, 0) for table in tables), default=0)
            last = _last_change(connection)
            if any(at > last for at in self._positions.values()):
                raise problem(
                    StorageError,
                    STORAGE,
                    f"{self._path} has noted {last} changes, and {max(self._positions.values())} have been read: it is another database, "
                    "or an older copy of it. Begin with a new pipeline",
                )

    def copies(self, namespaces: Sequence[str]) -> Iterator[SourceCopy]:
        """The rows of tables (S1)."""
        with _told(self._path):
            self._end_reading()
            connection = self._reading = self._opened()
            connection.execute("BEGIN")
            known = {table.name: table for table in self._tables(connection)}
            at = _last_change(connection)
        for name in namespaces:
            if name not in known:
                raise problem(NotFound, OPTION_INVALID, f"{self._path} has no table {name!r} any more")
            table = known[name]
            with _told(self._path):
                (rows,) = connection.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()
            self._positions[name] = at
            yield SourceCopy(name, table.key, parts=self._rows(connection, table, at), rows=rows, position=at)

    def sync(self) -> Iterator[Sequence[SourcePart]]:
        """Changes, up to PART_ROWS of them at a time."""
        self._end_reading()
        with _told(self._path), contextlib.closing(self._opened()) as connection:
            names = [table.name for table in self._tables(connection)]
        after = min((self._positions.get(name, 0) for name in names), default=0)
        while True:
            with _told(self._path), contextlib.closing(self._opened()) as connection:
                found = _changes(connection, names, after)
                keys = {table.name: table.key for table in self._tables(connection)}
            if not found:
                yield []
                continue
            after = found[-1][0]
            fresh = [change for change in found if change[0] > self._positions.get(change[2], 0)]
            self._reached = after
            if fresh:
                yield list(_parts(fresh, keys))

    def advance(self, position: Any) -> None:
        """Delete the changes up to there (S3)."""
        upto = min(int(position), self._reached)
        with _told(self._path), contextlib.closing(self._opened(is_written=True)) as connection:
            names = [table.name for table in self._tables(connection)]
            marks = ", ".join("?" * len(names))
            connection.execute(f"DELETE FROM {CHANGES} WHERE seq <= ? AND name IN ({marks})", [upto, *names])

    def close(self) -> None:
        """End the read transaction."""
        self._end_reading()

    def _end_reading(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _opened(self, *, is_written: bool = False) -> sqlite3.Connection:
        if not self._path.is_file():
            raise problem(NotFound, STORE_NOT_FOUND, f"{self._path} is no file: give the path of a database of SQLite")
        address = f"{self._path.resolve().as_uri()}?mode={'rw' if is_written else 'ro'}"
        made = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        # Bytes that are no UTF-8 come as surrogates, which Arrow refuses: so the row and the column can be named.
        made.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        return made

    def _tables(self, connection: sqlite3.Connection) -> list[SqliteTable]:
        there = table_names(connection)
        missing = [name for name in self._names or () if name not in there]
        if missing:
            raise problem(
                NotFound,
                OPTION_INVALID,
                f"{self._path} has no table {', '.join(map(repr, missing))}: it has {', '.join(there) or 'none'}",
            )
        return [
            table_of_name(connection, name, self._types) for name in (there if self._names is None else self._names)
        ]

    def _check_prepared(self, connection: sqlite3.Connection, tables: Sequence[SqliteTable]) -> None:
        _check_keys(tables)
        there = _triggers(connection)
        stale = [table.name for table in tables if not triggers_of(table).items() <= there.items()]
        if stale:
            raise invalid(
                OPTION_INVALID,
                f"{self._path} does not note the changes of {', '.join(stale)} as these tables are now: "
                "run `journal pipeline check --prepare`, which writes triggers, or copy only",
            )

    def _prepare(self, connection: sqlite3.Connection, tables: Sequence[SqliteTable]) -> None:
        _check_keys(tables)
        connection.execute("BEGIN IMMEDIATE")
        has = [row[1] for row in connection.execute(f"PRAGMA table_info({CHANGES})")]
        for statement in changes_ddl(max((len(table.columns) for table in tables), default=0), has):
            connection.execute(statement)
        there = _triggers(connection)
        for table in tables:
            for name, sql in triggers_of(table).items():
                if there.get(name) == sql:
                    continue
                connection.execute(f"DROP TRIGGER IF EXISTS {quoted(name)}")
                connection.execute(sql)
        connection.execute("COMMIT")

    def _rows(self, connection: sqlite3.Connection, table: SqliteTable, at: int) -> Iterator[SourcePart]:
        names = ", ".join(quoted(name) for name in table.columns)
        fields = [pa.field(name, arrow_type(kind)) for name, kind in table.columns.items()]
        with _told(self._path):
            place = "rowid" if _has_rowid(connection, table.name) else "NULL"
            found = connection.execute(f"SELECT {place}, {names} FROM {quoted(table.name)}")
        while True:
            with _told(self._path):
                some = found.fetchmany(PART_ROWS)
            if not some:
                return
            rows = [row[1:] for row in some]
            places = [_place(row[0], row[1:], table) for row in some]
            arrays = arrays_of(table.name, table.columns, rows, places)
            yield SourcePart(message_table(table.name, arrays, fields, key=table.key), at)


def _check_keys(tables: Sequence[SqliteTable]) -> None:
    without = [table.name for table in tables if not table.key]
    if without:
        raise invalid(
            COLUMN_TYPE,
            f"without a primary key a row cannot be followed: {', '.join(without)}. Declare one, leave the table out (tables = […]), "
            "or copy only",
        )


def _triggers(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))


def _last_change(connection: sqlite3.Connection) -> int:
    """The number of the last change that was ever noted; 0: none."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'").fetchone():
        return 0
    found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", [CHANGES]).fetchone()
    return int(found[0]) if found else 0


def _changes(connection: sqlite3.Connection, names: Sequence[str], after: int) -> list[tuple[Any, ...]]:
    marks = ", ".join("?" * len(names))
    return connection.execute(
        f"SELECT * FROM {CHANGES} WHERE seq > ? AND name IN ({marks}) ORDER BY seq LIMIT ?", [after, *names, PART_ROWS]
    ).fetchall()


def _parts(changes: Sequence[tuple[Any, ...]], keys: Mapping[str, tuple[str, ...]]) -> Iterator[SourcePart]:
    """Changes that follow each other in one table, with one set of columns, are a part."""
    for (name, layout), found in groupby(changes, key=lambda change: (change[2], change[4])):
        some = list(found)
        columns: dict[str, str] = json.loads(layout)
        fields = [pa.field(column, arrow_type(kind)) for column, kind in columns.items()]
        rows = [change[5 : 5 + len(columns)] for change in some]
        places = [f"change {change[0]}" for change in some]
        table = message_table(
            name,
            arrays_of(name, columns, rows, places),
            fields,
            key=[column for column in keys[name] if column in columns],
            ops=[change[3] for change in some],
            timestamps=[change[1] for change in some],
        )
        yield SourcePart(table, some[-1][0])


def _has_rowid(connection: sqlite3.Connection, name: str) -> bool:
    try:
        connection.execute(f"SELECT rowid FROM {quoted(name)} LIMIT 0")
    except sqlite3.OperationalError:
        return False  # WITHOUT ROWID
    return True


def _place(rowid: Any, row: Sequence[Any], table: SqliteTable) -> str:
    if rowid is not None:
        return f"rowid {rowid}"
    values = dict(zip(table.columns, row, strict=True))
    return f"key {', '.join(repr(values[name]) for name in table.key)}"


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as e:
        raise problem(StorageError, STORAGE, f"{path}: SQLite says: {e}") from e
