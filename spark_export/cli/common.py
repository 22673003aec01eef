"""What the commands share: a Spark session for the time of a command, and options as words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from spark_export.api.session import check_spark, found_session, session
from spark_export.errors import OPTION_INVALID, invalid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def running(master: str, app: str) -> Iterator[SparkSession]:
    """A session of the command's own; one that runs in this process already is used, and goes on."""
    check_spark()
    before = found_session()
    spark = session(app, master)
    if before is None:
        spark.sparkContext.setLogLevel("OFF")  # the command itself reports each error, once
    try:
        yield spark
    finally:
        if before is None:
            spark.stop()


def pairs(words: Sequence[str]) -> dict[str, str]:
    """Options that were written as NAME=VALUE."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise invalid(OPTION_INVALID, f"{word!r} is no option: write NAME=VALUE")
        found[name] = value
    return found
