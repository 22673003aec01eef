"""SQLite: typed copies of one moment, and changes by triggers, each with its own data."""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from journal.errors import Invalid, JournalError, NotFound
from spark_export.pipelines.contract import COMPLETE, NamespaceState, SourcePart
from spark_export.pipelines.message import messages_of
from spark_export.pipelines.testing import Rows, SourceContract
from spark_export.sources import sqlite
from spark_export.sources.sqlite import SqliteSource

PEOPLE = (
    "CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR(20), score REAL, photo BLOB, is_new BOOLEAN, "
    "price DECIMAL(10,2), born DATETIME)"
)
NO_SPARK: Any = None  # SQLite is read on the driver


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database in WAL mode with three people and two pairs."""
    made = tmp_path / "people.db"
    run(
        made,
        "PRAGMA journal_mode=WAL",
        PEOPLE,
        "CREATE TABLE pairs (a TEXT, b TEXT, n INT, PRIMARY KEY (a, b)) WITHOUT ROWID",
    )
    run(
        made,
        "INSERT INTO people VALUES (1, 'Ada', 0.1, x'00ff', 1, 1.10, '1815-12-10 00:00:00'), (2, NULL, NULL, NULL, NULL, NULL, NULL)",
    )
    run(made, "INSERT INTO people VALUES (-9223372036854775808, 'é' || char(0) || 'x', 1e308, x'', 0, -3, 'now')")
    run(made, "INSERT INTO pairs VALUES ('x', 'y', 1), ('x', 'z', 2)")
    return made


def run(path: Path, *statements: str) -> None:
    """As another program."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def rows_of(path: Path, table: str) -> list[dict[str, Any]]:
    """What is there, as SQLite says it."""
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    found = [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]
    connection.close()
    return found


def prepared(path: Path, **options: Any) -> SqliteSource:
    """A source that follows."""
    source = SqliteSource(path, **options)
    source.check(prepare=True)
    source.start(NO_SPARK, {}, "sync")
    return source


def said(parts: Any) -> list[tuple[str, dict[str, Any]]]:
    """Ops and data."""
    return [(message.op, message.data) for message in messages_of(part.table for part in parts)]


class TestSqliteContract(SourceContract):
    """The published suite."""

    @pytest.fixture(autouse=True)
    def place(self, path: Path) -> None:
        """Two tables."""
        self.path = path
        self.count = 0

    def make_source(self) -> SqliteSource:
        """As after a restart."""
        return SqliteSource(self.path)

    def change(self) -> None:
        """Inserts, updates of a key and of a value, and a delete."""
        self.count += 1
        n = self.count * 10
        run(
            self.path,
            f"INSERT INTO people VALUES ({n}, 'p{n}', {n}.5, x'0{self.count}', 1, 2.25, NULL), ({n + 1}, 'q', 1, NULL, 0, 1, 'x')",
            f"UPDATE pairs SET n = {n}",
            f"UPDATE people SET id = {n + 2} WHERE id = {n + 1}",
            f"DELETE FROM people WHERE id = {n - 10}",
        )

    def rows(self) -> Rows:
        """With the types that the source declares."""
        people = rows_of(self.path, "people")
        for row in people:
            row["is_new"] = None if row["is_new"] is None else bool(row["is_new"])
            row["price"] = None if row["price"] is None else Decimal(repr(row["price"])).quantize(Decimal("0.01"))
        return {"pairs": rows_of(self.path, "pairs"), "people": people}

    def fingerprint(self) -> Any:
        """All of it."""
        connection = sqlite3.connect(self.path)
        found = list(connection.iterdump())
        connection.close()
        return found


def test_typed_values_survive(path: Path) -> None:
    """Integers of 64 bits, floats, decimals, texts with a zero byte, bytes, nulls and old dates; in the copy and in changes."""
    source = prepared(path, tables=["people"])
    (copy,) = source.copies(["people"])
    data = {row["id"]: row for _, row in said(copy.parts)}
    assert data[1] == {
        "id": 1, "name": "Ada", "score": 0.1, "photo": b"\0\xff", "is_new": True, "price": Decimal("1.10"), "born": "1815-12-10 00:00:00",
    }  # fmt: skip
    assert set(data[2].values()) == {2, None}
    assert data[-(2**63)]["name"] == "é\0x" and data[-(2**63)]["score"] == 1e308 and data[-(2**63)]["photo"] == b""
    run(path, "UPDATE people SET score = score")
    assert {row["id"]: row for _, row in said(next(source.sync()))} == data
    assert (copy.rows, copy.key) == (3, ("id",))


def test_a_change_has_its_own_data(path: Path) -> None:
    """Not the row's later state; a change of the key is a delete and an insert."""
    source = prepared(path)
    run(
        path,
        "UPDATE pairs SET n = 7 WHERE b = 'y'",
        "UPDATE pairs SET n = 8 WHERE b = 'y'",
        "UPDATE pairs SET b = 'q' WHERE n = 8",
    )
    run(path, "DELETE FROM pairs WHERE n = 8")
    x = {"a": "x"}
    assert said(next(source.sync())) == [
        ("update", x | {"b": "y", "n": 7}),
        ("update", x | {"b": "y", "n": 8}),
        ("delete", x | {"b": "y", "n": 8}),
        ("insert", x | {"b": "q", "n": 8}),
        ("delete", x | {"b": "q", "n": 8}),
    ]


def test_changes_keep_the_order_of_the_source(path: Path) -> None:
    """Across tables: a part is what follows each other in one table."""
    source = prepared(path)
    for n in (5, 6):
        run(path, f"INSERT INTO pairs VALUES ('a', '{n}', {n})", f"INSERT INTO people (id) VALUES ({n})")
    parts = next(source.sync())
    assert [messages.table["namespace"][0].as_py() for messages in parts] == ["pairs", "people"] * 2
    assert [part.position for part in parts] == [1, 2, 3, 4]


def test_advance_deletes_what_was_given_only(path: Path) -> None:
    """S3: a position further on than what was read deletes nothing that a namespace still needs."""
    source = prepared(path)
    run(path, "UPDATE pairs SET n = 0")
    source.advance(2)
    assert len(rows_of(path, "_journal_changes")) == 2
    (part,) = next(source.sync())
    source.advance(part.position)
    assert rows_of(path, "_journal_changes") == []
    run(path, "UPDATE pairs SET n = 1")
    assert [row["seq"] for row in rows_of(path, "_journal_changes")] == [3, 4]


def test_namespaces_have_positions_of_their_own(path: Path) -> None:
    """S2: one that is behind gets its changes, one that is ahead gets none twice."""
    prepared(path)
    run(
        path,
        "INSERT INTO pairs VALUES ('a', '1', 1)",
        "INSERT INTO people (id) VALUES (5)",
        "INSERT INTO pairs VALUES ('a', '2', 2)",
    )
    source = SqliteSource(path)
    states = {"pairs": NamespaceState("pairs", COMPLETE, 1), "people": NamespaceState("people", COMPLETE, 2)}
    source.start(NO_SPARK, states, "copy+sync")
    assert [data.get("b", data.get("id")) for _, data in said(next(source.sync()))] == ["2"]
    states["people"] = NamespaceState("people", COMPLETE, 0)
    behind = SqliteSource(path)
    behind.start(NO_SPARK, states, "copy+sync")
    assert [data.get("b", data.get("id")) for _, data in said(next(behind.sync()))] == [5, "2"]


def test_parts_of_a_copy_are_one_moment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1: rows that are written between two parts are not in it, but in the changes after its position."""
    monkeypatch.setattr(sqlite, "PART_ROWS", 2)
    source = prepared(path, tables=["people"])
    (copy,) = source.copies(["people"])
    parts: list[SourcePart] = []
    for part in copy.parts:
        parts.append(part)
        run(path, f"INSERT INTO people (id) VALUES ({100 + len(parts)})")
    assert [part.table.num_rows for part in parts] == [2, 1]
    assert [data["id"] for _, data in said(next(source.sync()))] == [101, 102]


@pytest.mark.parametrize(
    ("statement", "column"),
    [
        ("UPDATE people SET name = x'01' WHERE id = 2", "name"),
        ("UPDATE people SET score = 'high' WHERE id = 2", "score"),
        ("UPDATE people SET is_new = 2 WHERE id = 2", "is_new"),
        ("UPDATE people SET price = 0.125 WHERE id = 2", "price"),
        ("UPDATE people SET photo = 'text' WHERE id = 2", "photo"),
        ("UPDATE people SET name = CAST(x'ff' AS TEXT) WHERE id = 2", "name"),
    ],
)
def test_a_value_that_does_not_fit_is_named(path: Path, statement: str, column: str) -> None:
    """T1: table, rowid and column; nothing is rounded or cut."""
    run(path, statement)
    (copy,) = SqliteSource(path, tables=["people"]).copies(["people"])
    with pytest.raises(Invalid, match=rf"'people' has at rowid 2, column '{column}'.*types = "):
        list(copy.parts)


def test_types_can_be_named(path: Path) -> None:
    """Where what is declared is not what is stored."""
    run(path, "CREATE TABLE loose (k INTEGER PRIMARY KEY, v)", "INSERT INTO loose VALUES (1, 3)")
    (copy,) = SqliteSource(path, types={"loose.v": "int64"}).copies(["loose"])
    assert said(copy.parts) == [("insert", {"k": 1, "v": 3})]
    with pytest.raises(Invalid, match="unknown type 'money'"):
        SqliteSource(path, types={"loose.v": "money"})


def test_what_sync_needs_is_said(path: Path) -> None:
    """No triggers, triggers of former columns, no key; the error says what to do, and a copy goes without."""
    source = SqliteSource(path)
    with pytest.raises(Invalid, match=r"changes of pairs, people .*journal pipeline check --prepare"):
        source.check()
    with pytest.raises(Invalid, match="--prepare"):
        source.start(NO_SPARK, {}, "copy+sync")
    source.start(NO_SPARK, {}, "copy")
    source.check(prepare=True)
    run(path, "ALTER TABLE people ADD COLUMN email TEXT")
    with pytest.raises(Invalid, match=r"changes of people as"):
        source.check()
    run(path, "INSERT INTO people (id) VALUES (50)")
    source.check(prepare=True)
    run(path, "INSERT INTO people (id, email) VALUES (51, 'e')")
    source.start(NO_SPARK, {}, "sync")
    first, second = said(next(source.sync()))
    assert "email" not in first[1] and second[1]["email"] == "e"
    run(path, "CREATE TABLE bag (x TEXT)")
    with pytest.raises(Invalid, match="without a primary key a row cannot be followed: bag"):
        source.check(prepare=True)


def test_wrong_places_are_errors(path: Path, tmp_path: Path) -> None:
    """No file, no database, no such table, and a database that has noted less than was read."""
    with pytest.raises(NotFound, match="is no file"):
        SqliteSource(tmp_path / "none.db").check()
    (tmp_path / "text.db").write_text("no database at all, but long enough to be read" * 40)
    with pytest.raises(JournalError, match="SQLite says"):
        SqliteSource(tmp_path / "text.db").check()
    with pytest.raises(NotFound, match=r"has no table 'persons': it has pairs, people"):
        SqliteSource(path, tables=["persons"]).check()
    prepared(path)
    with pytest.raises(JournalError, match="has noted 0 changes, and 9 have been read"):
        SqliteSource(path).start(NO_SPARK, {"pairs": NamespaceState("pairs", COMPLETE, 9)}, "sync")


def test_the_timeline_is_external(path: Path) -> None:
    """Others stamp the changes; another one can be named."""
    assert SqliteSource(path).timeline == "external(people.db)"
    assert SqliteSource(path, timeline="epoch_ms").timeline == "epoch_ms"
