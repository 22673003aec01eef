"""What makes Spark start sooner in tests: most of what they took was starting."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QUICK = Path(__file__).with_name("quick")
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A Java that lives for a minute has no use for code that is compiled well."""
CONF = {
    "spark.driver.extraJavaOptions": JAVA,
    "spark.executor.extraJavaOptions": JAVA,
    "spark.sql.shuffle.partitions": 2,
}


def environment(**more: str) -> dict[str, str]:
    """For a process that starts Spark: this one's, with our path for its workers (quick/sitecustomize.py), and more."""
    path = os.pathsep.join([str(QUICK), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **more}
