"""Files of JSON lines: the contract, and where they are cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from journal.errors import Invalid
from spark_export.pipelines.contract import PipelineSink
from spark_export.pipelines.message import Message, table_of
from spark_export.sinks.json_lines import JsonLinesSink
from spark_export.sinks.lossless_json import line_of, message_of
from spark_export.sinks.testing import BatchOf, SinkContract, people

NO_SPARK = cast(SparkSession, None)


class TestOneFile(SinkContract):
    """One file for all namespaces."""

    name = "out.jsonl"

    def make_sink(self, tmp_path: Path) -> PipelineSink:
        return JsonLinesSink(str(tmp_path / "lines" / self.name))

    def read_back(self, tmp_path: Path, spark: SparkSession) -> list[dict[str, Any]]:
        return [
            message_of(line).data
            for path in (tmp_path / "lines").glob("*.jsonl")
            for line in path.read_bytes().splitlines()
        ]


class TestFileForEach(TestOneFile):
    """A file for each namespace."""

    name = "{namespace}.jsonl"


@pytest.mark.parametrize(("position", "kept"), [(-1, []), (0, [0]), (2, [0, 1, 2]), (9, [0, 1, 2, 3])])
def test_files_are_cut_at_the_position_and_torn_lines_go(tmp_path: Path, position: int, kept: list[int]) -> None:
    """Lines up to the position stay byte by byte."""
    path = tmp_path / "out.jsonl"
    sink = JsonLinesSink(str(path))
    sink.write(BatchOf([people(0, 3)]))
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole) + b'{"id":4,"op":"ins')
    assert sink.resume(position) == position
    assert path.read_bytes().splitlines(keepends=True) == [whole[number] for number in kept]


def test_a_file_of_another_is_refused_and_stays(tmp_path: Path) -> None:
    """Its lines are no messages."""
    path = tmp_path / "out.jsonl"
    path.write_text('{"name":"x"}\n')
    with pytest.raises(Invalid, match="another's file"):
        JsonLinesSink(str(path)).resume(-1)
    assert path.read_text() == '{"name":"x"}\n'


def test_namespaces_have_their_own_files(tmp_path: Path) -> None:
    """Names that are no names of files are written as ones."""
    sink = JsonLinesSink(str(tmp_path / "x-{namespace}.jsonl"))
    sink.write(
        BatchOf([table_of("a/b", [{"k": 1}], {"k": pa.int64()}), table_of("c", [{"k": 1}], {"k": pa.int64()}, first=1)])
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x-a%2Fb.jsonl", "x-c.jsonl"]
    sink.resume(0)
    assert [path.read_text().count("\n") for path in sorted(tmp_path.iterdir())] == [1, 0]


def test_maps_and_floats_that_json_has_not_come_back() -> None:
    """A map that looks like one of ours is no trap."""
    data = {"m": {"$bytes": "AA=="}, "k": {1: "x"}, "f": float("inf"), "t": '{"id":1,'}
    message = Message(1, "insert", 0, "a", data)
    assert message_of(line_of(message)) == message
