"""
One Spark session for all tests of Spark in a process: it takes ten seconds to start, on a busy machine a minute.

It interprets what Spark would compile: their queries are many and small. Sessions with Spark's own settings are those of the clusters
(test_cluster, and `python -m tests.spark.clusters`) and of the benchmarks.

With pytest-xdist all of them run in one worker (tests/conftest.py sees to it), so that there is one Java at a time beside the other tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.setting import CONF, environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
TIMEOUT_S = 1200
"""For one test with the start of the session; a hang is found all the same."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each has time for a Java to start."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session made by `spark_export.session`, on two cores."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'journal[spark]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", environment()["PYTHONPATH"])  # Java keeps it
        made = _made(tmp_path_factory)
    made.sparkContext.setCheckpointDir(str(tmp_path_factory.mktemp("checkpoints")))
    os.environ.pop("SPARK_CONF_DIR", None)
    yield made
    made.stop()


def _made(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    import spark_export

    return spark_export.session(
        app="tests",
        master="local[2]",
        conf={
            **CONF,
            "spark.sql.codegen.wholeStage": False,
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.adaptive.enabled": False,
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.local.dir": str(tmp_path_factory.mktemp("local")),
        },
    )


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A place for exports."""
    made = tmp_path / "exports"
    made.mkdir()
    return made
