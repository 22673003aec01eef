"""The examples of docs/SPARK.md run, one after the other, in the tests' session and an empty directory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_export import errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "SPARK.md"
BLOCK = re.compile(r"^```python spark\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_examples_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader pastes works. Line numbers are those of the document."""
    monkeypatch.chdir(tmp_path)
    text = DOCUMENT.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "docs"}
    blocks = list(BLOCK.finditer(text))
    assert blocks
    for block in blocks:
        lines = text.count("\n", 0, block.start(1))
        exec(compile("\n" * lines + _here(block[1], tmp_path), str(DOCUMENT), "exec"), names)
    assert spark.range(1).count() == 1  # no block ends the session


def _here(block: str, place: Path) -> str:
    """Spark's Java has a directory of its own, that of the tests: paths are made whole."""
    return re.sub(
        r"(?<=['\"])(?:work\.journal|exports/\w+|checkpoints/\w+|warehouse)(?=['\"])",
        lambda match: str(place / match[0]),
        block,
    )


def test_every_code_is_in_the_document() -> None:
    """The codes are part of the interface."""
    text = DOCUMENT.read_text(encoding="utf-8")
    codes = {value for name, value in vars(errors).items() if name.isupper() and str(value).startswith("JOURNAL_")}
    assert sorted(code for code in codes if f"`{code}`" not in text) == []
