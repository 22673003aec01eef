"""Sinks by their types."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from journal.errors import Invalid
from spark_export.sinks.python import PythonSink
from spark_export.sinks.registry import BUILT_IN, make_sink, sink_types


def test_every_type_of_ours_can_be_made() -> None:
    """What the table names is there."""
    for module, name, _ in BUILT_IN.values():
        assert hasattr(__import__(f"spark_export.sinks.{module}", fromlist=[name]), name)


def test_unknown_types_and_keywords_are_refused_with_what_there_is() -> None:
    """A misspelt word is found before anything is made."""
    with pytest.raises(Invalid, match=r"'parket'.* parquet, python"):
        make_sink("parket", {})
    with pytest.raises(Invalid, match=r"no 'foreach'.* takes foreach_batch, gives"):
        make_sink("python", {"foreach": "a:b"})
    with pytest.raises(Invalid, match="no 'format'"):
        make_sink("parquet", {"path": "x", "format": "orc"})
    with pytest.raises(Invalid, match="needs 'path'"):
        make_sink("jsonl", {})


def test_third_parties_are_found_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is installed adds a type; ours keep their names."""
    info = tmp_path / "their_sinks-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-sinks\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[journal.sinks]\ntheirs = spark_export.sinks.python:PythonSink\njsonl = none:none\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert "theirs" in sink_types()
    assert isinstance(make_sink("theirs", {"foreach_batch": "a:b"}), PythonSink)
    assert not isinstance(make_sink("jsonl", {"path": str(tmp_path / "x")}), PythonSink)
