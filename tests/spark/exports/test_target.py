"""A target appears whole or not at all, whatever was left behind; on this machine's file systems and on those that Hadoop knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from journal import Busy, Invalid
from spark_export.exports.target import ExportTarget, HadoopTarget, LocalTarget

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")

Make = Callable[[Path], ExportTarget]


@pytest.fixture(params=["local", "hadoop"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes the target of a path; Hadoop's is tried on the local file system, which it knows too."""
    if request.param == "local":
        return lambda path: LocalTarget(str(path))
    spark: SparkSession = request.getfixturevalue("spark")
    return lambda path: HadoopTarget(path.as_uri(), spark)


def names(place: Path) -> set[str]:
    """What is there, but for Hadoop's checksums of single files."""
    return {path.name for path in place.iterdir() if not path.name.endswith(".crc")}


def written(place: Path, word: str) -> None:
    """As Spark leaves a directory."""
    place.mkdir()
    (place / "priority=1").mkdir()
    (place / "priority=1" / "part-0").write_text(word)
    (place / "_SUCCESS").touch()


def test_it_appears_with_its_manifest(make: Make, tmp_path: Path) -> None:
    """G1: one rename; nothing is left beside it."""
    target = make(tmp_path / "out")
    with target.locked():
        target.clean()
        written(tmp_path / ".out.exporting", "new")
        assert target.files() == {"priority=1/part-0": 3}
        assert not target.is_there() and target.manifest() is None
        target.write_manifest("é")
        assert target.manifest(is_new=True) == "é"
        target.finish()
    assert target.manifest() == "é" and target.is_there()
    assert names(tmp_path) == {"out"}
    assert (tmp_path / "out" / "priority=1" / "part-0").read_text() == "new"


def test_an_old_one_goes_when_the_new_one_has_its_name(make: Make, tmp_path: Path) -> None:
    """G4."""
    written(tmp_path / "out", "old")
    target = make(tmp_path / "out")
    written(tmp_path / ".out.exporting", "new")
    target.write_manifest("{}")
    target.finish()
    assert (tmp_path / "out" / "priority=1" / "part-0").read_text() == "new"
    assert names(tmp_path) == {"out"}


@pytest.mark.parametrize("is_there", [True, False])
def test_what_an_interrupted_one_left_is_cleaned(make: Make, tmp_path: Path, is_there: bool) -> None:
    """G3: the half-written goes; an old one that was being replaced comes back when nothing took its place."""
    if is_there:
        written(tmp_path / "out", "new")
    written(tmp_path / ".out.replaced", "old")
    written(tmp_path / ".out.exporting", "half")
    make(tmp_path / "out").clean()
    assert names(tmp_path) == {"out"}
    assert (tmp_path / "out" / "priority=1" / "part-0").read_text() == ("new" if is_there else "old")


def test_one_at_a_time(tmp_path: Path) -> None:
    """G2: the second is told, and the lock goes with the first."""
    one, other = LocalTarget(str(tmp_path / "out")), LocalTarget(str(tmp_path / "out"))
    with one.locked():
        with pytest.raises(Busy, match=r"^\[JOURNAL_TARGET_BUSY\]"), other.locked():
            pass
        with LocalTarget(str(tmp_path / "another")).locked():
            pass
    with other.locked():
        pass
    assert names(tmp_path) == set()


def test_what_cannot_be_a_target() -> None:
    """The root of a file system; a place that cannot be written to."""
    with pytest.raises(Invalid, match=r"^\[JOURNAL_TARGET_INVALID\]"):
        LocalTarget("/")
    with pytest.raises(Invalid, match=r"^\[JOURNAL_TARGET_INVALID\]"), LocalTarget("/proc/self/none/out").locked():
        pass
