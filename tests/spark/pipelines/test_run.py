"""Whole pipelines: SQLite to files, copied and followed, stopped, killed and gone on with."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import journal
from journal.cli import main
from journal.errors import Invalid
from spark_export.pipelines.declaration import Declaration, declaration_of, read_declaration
from spark_export.pipelines.functions import function_of
from spark_export.pipelines.runtime import sink_loop
from spark_export.pipelines.runtime.pipeline import Pipeline
from spark_export.pipelines.runtime.run import PipelineRun, RunReport
from spark_export.sinks.registry import make_sink
from spark_export.sources.registry import source_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOML = """
[pipeline]
name = "people"
store = "{here}/work.journal"

[source]
type = "sqlite"
path = "{here}/people.db"

[[sink]]
name = "all"
type = "jsonl"
path = "{here}/all.jsonl"

[[sink]]
name = "few"
type = "jsonl"
path = "{here}/few.jsonl"
functions = [{{opfilter = {{allow = ["insert"]}}}}, {{skip = {{field = "id", op = "<=", match = 3}}}}, {{omit = {{fields = ["name"]}}}}]
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A database with ten people that is prepared for sync, and a declaration."""
    with sqlite3.connect(tmp_path / "people.db") as db:
        db.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
        db.executemany("INSERT INTO people VALUES (?, ?)", [(n, f"p{n}") for n in range(1, 11)])
    db.close()
    (tmp_path / "people.toml").write_text(TOML.format(here=tmp_path))
    source = source_of("sqlite", {"path": str(tmp_path / "people.db")})
    source.check(prepare=True)
    source.close()
    return tmp_path


def _run(here: Path, spark: SparkSession | None = None, **changed: Any) -> RunReport:
    declared = Declaration(**{**vars(read_declaration(here / "people.toml")), **changed})
    source = source_of(declared.source_type, declared.source)
    sinks = {one.name: make_sink(one.type, one.keywords) for one in declared.sinks}
    with journal.open(declared.store) as store:
        return PipelineRun(store, declared, source, sinks, spark=spark).run(until_caught_up=True)


def _execute(here: Path, *statements: str) -> None:
    db = sqlite3.connect(here / "people.db")
    with db:
        for statement in statements:
            db.execute(statement)
    db.close()


def _lines(here: Path, name: str = "all") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (here / f"{name}.jsonl").read_text().splitlines()]


def _mirror(here: Path) -> dict[int, str]:
    """The table that the messages of the first sink make."""
    found: dict[int, str] = {}
    for line in _lines(here):
        if line["op"] == "delete":
            found.pop(line["data"]["id"], None)
        else:
            found[line["data"]["id"]] = line["data"]["name"]
    return found


def _table(here: Path) -> dict[int, str]:
    db = sqlite3.connect(here / "people.db")
    found = dict(db.execute("SELECT id, name FROM people").fetchall())
    db.close()
    return found


def test_copy_then_sync_without_gap_or_repeat(here: Path) -> None:
    """Ten are copied; then each change comes once, in order, also over a restart; each sink has its own functions."""
    assert _run(here).is_whole
    assert [line["id"] for line in _lines(here)] == list(range(10))
    _execute(
        here,
        "UPDATE people SET name = 'x' WHERE id = 1",
        "DELETE FROM people WHERE id = 2",
        "INSERT INTO people VALUES (11, 'q')",
    )
    report = _run(here)
    assert report.is_whole and report.last == 12
    assert [line["op"] for line in _lines(here)[10:]] == ["update", "delete", "insert"]
    assert _mirror(here) == _table(here)
    assert [line["data"] for line in _lines(here, "few")] == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert _run(here).sinks["all"].written == 0


def test_strict_reads_nothing_new_while_a_sink_is_behind(here: Path) -> None:
    """Strict: the change is not read while a sink has stopped. Without it the other sink gets it, and the stopped one keeps its place."""
    good = read_declaration(here / "people.toml").sinks
    bad = (good[0], replace(good[1], functions=(function_of({"cast": {"fields": {"name": "int64"}}}),)))
    report = _run(here, strict=True, sinks=bad)
    assert "message 0" in str(report.sinks["few"].error) and report.sinks["few"].position == -1
    _execute(here, "INSERT INTO people VALUES (11, 'new')")
    assert _run(here, strict=True, sinks=bad).last == 9
    assert len(_lines(here)) == 10
    report = _run(here, sinks=bad)
    assert (report.last, report.sinks["all"].position, report.sinks["few"].position) == (10, 10, -1)
    assert _run(here, strict=True).is_whole
    assert [line["data"] for line in _lines(here, "few")] == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_the_command_line_runs_shows_and_operates(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """check draws and changes nothing; run, status, show, skip, mark, replay and next do what their names say."""
    file = str(here / "people.toml")
    assert main(["pipeline", "check", file]) == 0
    drawn = capsys.readouterr().out
    assert "R sqlite (copy+sync) ──► commit log ─┬─► W all (jsonl, .*)" in drawn
    assert "└─► opfilter ─► skip ─► omit ─► W few (jsonl, .*)" in drawn
    assert not (here / "work.journal").exists() and not (here / "all.jsonl").exists()
    assert main(["pipeline", "status", file]) != 0
    assert main(["pipeline", "run", file, "--until-caught-up", "--no-spark", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["last"] == 9
    assert main(["pipeline", "show", file, "--from", "3", "--to", "4"]) == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == [3, 4]
    assert main(["pipeline", "replay", file, "all", "8"]) == 0
    assert main(["pipeline", "skip", file, "all", "9"]) == 0
    assert main(["pipeline", "status", file, "--json"]) == 0
    status = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (status["sinks"]["all"]["position"], status["sinks"]["all"]["lag"], status["is_running"]) == (7, 2, False)
    assert main(["pipeline", "next", file, "all"]) == 0
    assert [line["id"] for line in _lines(here)] == list(range(9))
    assert main(["pipeline", "mark", file, "all", "99"]) != 0
    assert main(["pipeline", "skip", file, "nowhere", "9"]) != 0
    assert main(["pipeline", "mark", file, "all", "9"]) == 0


def test_killed_at_any_moment_nothing_is_lost_and_nothing_comes_twice(here: Path) -> None:
    """Runs are killed with -9 while the table changes; the one after them brings the sink up to the table, each change once."""
    _run(here)
    program = [sys.executable, "-m", "journal", "pipeline", "run", str(here / "people.toml"), "--no-spark"]
    changes = 0
    for turn in range(4):
        run = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        db = sqlite3.connect(here / "people.db", timeout=30)
        before = _size(here)
        while _size(here) <= before + turn * 500 and run.poll() is None and changes < 20_000:
            with db:
                db.execute("INSERT INTO people VALUES (?, 'k')", (100 + changes,))
                db.execute("UPDATE people SET name = ? WHERE id = 1", (str(changes),))
            changes += 1
        db.close()
        run.send_signal(signal.SIGKILL)
        out, _ = run.communicate()
        assert run.returncode == -signal.SIGKILL, out
        assert _size(here) > before
    assert _run(here).is_whole
    assert _mirror(here) == _table(here)
    lines = _lines(here)
    assert [line["id"] for line in lines] == list(range(len(lines)))
    assert sum(line["op"] == "update" for line in lines) == changes
    assert sum(line["op"] == "insert" for line in lines) == changes + 10


def _size(here: Path) -> int:
    return (here / "all.jsonl").stat().st_size


def test_sigterm_lets_the_sinks_finish(here: Path) -> None:
    """The exit code is 0, and what is in the commit log is in the sinks."""
    _run(here)
    program = [sys.executable, "-m", "journal", "pipeline", "run", str(here / "people.toml"), "--no-spark"]
    run = subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    _execute(here, "INSERT INTO people VALUES (50, 'late')")
    while len(_lines(here)) < 11 and run.poll() is None:
        pass
    run.send_signal(signal.SIGTERM)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 0, out
    assert _mirror(here) == _table(here)


def test_large_batches_go_through_spark(here: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """30,000 messages are read, filtered and written by tasks; the Parquet files equal the table."""
    monkeypatch.setattr(sink_loop, "SMALL", 1000)
    db = sqlite3.connect(here / "people.db")
    with db:
        db.executemany("INSERT INTO people VALUES (?, ?)", [(n, f"p{n}") for n in range(11, 30_001)])
    db.close()
    sink = {
        "name": "lake",
        "type": "parquet",
        "path": str(here / "lake"),
        "functions": [{"rename": {"fields": {"name": "who"}}}],
    }
    declared = declaration_of(
        {
            "pipeline": {"name": "people", "store": str(here / "work.journal")},
            "source": {"type": "sqlite", "path": str(here / "people.db")},
            "sink": [sink],
        }
    )
    assert _run(here, spark, sinks=declared.sinks).is_whole
    (found,) = [path for path in (here / "lake").iterdir() if path.is_dir()]
    frame = spark.read.parquet(str(found))
    assert frame.count() == 30_000
    assert frame.where("id = 29999").select("who", "_op").first() == ("p29999", "insert")


def test_spark_copies_files_in_its_tasks(tmp_path: Path, spark: SparkSession) -> None:
    """Rows with decimals, dates before 1970, nulls, bytes and arrays are packed by tasks and arrive with their types."""
    frame = spark.range(1000).selectExpr(
        "id",
        "cast(id as decimal(20,3)) as amount",
        "timestamp_micros(-id * 1000001) as at",
        "if(id % 2 = 0, null, unhex('00ff')) as raw",
        "array(id, null) as several",
    )
    frame.repartition(3).write.parquet(str(tmp_path / "in"))
    for path in (tmp_path / "in").iterdir():
        os.utime(
            path, (1_700_000_000, 1_700_000_000)
        )  # a file that was written just now is taken for one that is not finished
    pipeline = Pipeline(
        {
            "pipeline": {"name": "lake", "store": str(tmp_path / "work.journal")},
            "source": {
                "type": "files",
                "path": str(tmp_path / "in"),
                "format": "parquet",
                "key": ["id"],
                "mode": "copy",
            },
            "sink": [{"name": "out", "type": "parquet", "path": str(tmp_path / "out")}],
        }
    )
    assert pipeline.check() == ["in"]
    report = pipeline.run(spark)
    assert report.is_whole and report.last == 999
    found = spark.read.parquet(str(tmp_path / "out" / "in")).select(frame.columns)
    assert found.schema.simpleString() == frame.schema.simpleString()
    assert found.exceptAll(frame).count() == frame.exceptAll(found).count() == 0
    assert pipeline.run(spark).sinks["out"].written == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[source]", "[sourse]", "'sourse', which is not known"),
        ('name = "people"', 'name = "a b"', "it must be 1 to 40 letters"),
        ('name = "few"', 'name = "all"', "two sinks are called 'all'"),
        ('type = "sqlite"', 'type = "sqlite"\nmode = "follow"', "copy, sync, copy+sync"),
        ('type = "sqlite"', 'type = "sqlite"\nnamespace = "("', "no regular expression"),
        ("{here}/few.jsonl", "${NOT_SET_AT_ALL}", "the variable NOT_SET_AT_ALL is not set"),
        ("opfilter", "opsfilter", "there is no function 'opsfilter'"),
        ('name = "few"', 'name = "few"\non_error = "ignore"', "stop, skip"),
    ],
)
def test_wrong_declarations_are_refused_with_what_is_allowed(tmp_path: Path, old: str, new: str, said: str) -> None:
    """Before anything is touched."""
    text = TOML.format(here=tmp_path).replace(old.format(here=tmp_path), new)
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(Invalid) as caught:
        read_declaration(tmp_path / "bad.toml")
    assert said in str(caught.value) and "bad.toml" in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.toml"]
