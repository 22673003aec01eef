"""A session that the user made, with the user's settings, in a process of its own: ours was never there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")

PROGRAM = """
import os, sys, threading
from pathlib import Path
import journal, spark_export
from journal.cli import main
from spark_export.java import java_home

top = Path(sys.argv[1])
if (home := java_home()) is not None:
    os.environ["JAVA_HOME"] = home
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
from pyspark.sql import SparkSession

own = (
    SparkSession.builder.master("local[1]").appName("mine")
    .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false").config("spark.driver.memory", "512m")
    .config("spark.sql.session.timeZone", "Europe/Berlin").config("spark.sql.shuffle.partitions", "3")
    .getOrCreate()
)
own.sparkContext.setLogLevel("FATAL")
logs = own.sparkContext._jvm.org.apache.logging.log4j.LogManager

def settings():
    return dict(own.conf.getAll), str(logs.getRootLogger().getLevel())

with journal.open(top / "work.journal") as store:
    store.journal("pages").put("a", {"n": 1}, process_date=1_700_000_000_123)
before = settings()
made = spark_export.export(top / "work.journal", "pages", top / "one")
assert settings() == before
assert spark_export.manifest_of(top / "one") == made
assert main(["export", str(top / "work.journal"), "pages", str(top / "two")]) == 0
assert settings() == before
assert spark_export.session(app="other", master="local[7]") is own
assert settings() == before
thread = threading.Thread(target=lambda: spark_export.export(top / "work.journal", "pages", top / "three"))
thread.start()
thread.join()
assert (top / "three").exists() and settings() == before

row = own.read.format("journal").option("journal", "pages").load(str(top / "work.journal")).collect()[0]
assert int(row.process_date.timestamp() * 1000) == 1_700_000_000_123
with journal.open(top / "work.journal") as store:
    store.journal("again")
spark_export.load(own.read.parquet(str(top / "one")), top / "work.journal", "again")
assert main(["load", str(top / "work.journal"), "more", str(top / "one"), "--create"]) == 0
with journal.open(top / "work.journal") as store:
    for name in ("again", "more"):
        (entry,) = store.journal(name).scan()
        assert (entry.key, entry.data, entry.process_date) == ("a", {"n": 1}, 1_700_000_000_123)

spark_export.session(spark__sql__shuffle__partitions=5)
assert own.conf.get("spark.sql.shuffle.partitions") == "5" and own.conf.get("spark.sql.session.timeZone") == "Europe/Berlin"
own.stop()
"""


def test_a_session_of_the_users_own_stays_as_it_is(tmp_path: Path) -> None:
    """S4: exports, commands and loads use it, and change none of its settings; what is read and loaded in its zone is the same instant."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=600, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
