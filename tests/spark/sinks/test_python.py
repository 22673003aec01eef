"""A function of the user's as a sink."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from journal.errors import Invalid
from spark_export.pipelines.message import Message, messages_of
from spark_export.sinks.python import PythonSink
from spark_export.sinks.testing import BatchOf, people

NO_SPARK = cast(SparkSession, None)
GIVEN: list[Any] = []


def keep(given: Any) -> None:
    """The function that the tests name."""
    GIVEN.append(given)


def test_the_function_gets_the_batch_or_its_messages() -> None:
    """As the declaration says."""
    GIVEN.clear()
    batch = BatchOf([people(0, 1)])
    for gives in ("batch", "messages"):
        sink = PythonSink(f"{__name__}:keep", gives=gives)
        sink.check()
        sink.start(NO_SPARK, "p", "s")
        assert sink.resume(-1) == -1
        assert GIVEN == [] or gives == "messages"
        sink.write(batch)
    assert [batch, list(messages_of(batch.tables()))] == GIVEN
    assert isinstance(GIVEN[1][0], Message)


def test_what_the_function_raises_reaches_the_pipeline() -> None:
    """So that it stops the sink."""

    def fail(batch: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        PythonSink(fail).write(BatchOf([people(0, 1)]))


@pytest.mark.parametrize("name", ["keep", "no_such_module:keep", f"{__name__}:none", f"{__name__}:GIVEN", ":"])
def test_a_name_without_a_function_is_refused_by_check(name: str) -> None:
    """Before a batch is there."""
    with pytest.raises(Invalid, match="foreach_batch is"):
        PythonSink(name).check()


def test_what_it_gives_is_one_of_two() -> None:
    """Another word is refused."""
    with pytest.raises(Invalid, match="batch, messages"):
        PythonSink(keep, gives="rows")
