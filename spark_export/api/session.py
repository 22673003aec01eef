"""
A Spark session for journals: `session` makes one that works from a `pip install` alone, `register` takes one that the user made.

S1  A session on this machine listens on the loopback only, shows no UI, and says errors only.
S2  Times are UTC: a journal's dates are instants, and a session in another zone would show them otherwise than the journal does.
S3  What the caller gives (`**conf`, with __ for each dot, or a dict) wins over what is set here.
S4  A session that runs already belongs to the program: it gets the format, takes the settings that the caller gives now as far as a
    running session can, and stays as it is in all else.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_export.api.java import java_home
from spark_export.errors import OPTION_INVALID, SPARK_MISSING, invalid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
_HERE = re.compile(r"local(-cluster)?(\[.*\])?|spark://(localhost|127\.0\.0\.1|\[::1\])(:[0-9]+)?")
_DOTTED = {
    "spark.sql.session.timeZone": "UTC",  # S2
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # INT96, Spark's default, is read by few others
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
}


def session(
    app: str = "journal", master: str = "local[*]", conf: Mapping[str, Any] | None = None, **settings: Any
) -> SparkSession:
    """
    A Spark session with the format "journal"; the one that runs already, if there is one.

    app        its name
    master     "local[*]", "local-cluster[2,1,1024]", or the address of a cluster
    conf       Spark's settings by their own names; or as keywords with __ for each dot: spark__sql__shuffle__partitions=8
    """
    check_spark()
    from pyspark.sql import SparkSession

    wanted = settings_of(master, conf or {}, settings)
    if (there := found_session()) is not None:
        for name, value in texts(_given(conf or {}, settings)).items():
            if there.conf.isModifiable(name):
                there.conf.set(name, value)
        return register(there)  # S4
    builder = SparkSession.builder.appName(app).master(master)
    for name, value in wanted.items():
        builder = builder.config(name, value)
    if (home := java_home()) is not None:
        os.environ["JAVA_HOME"] = home
    if _HERE.fullmatch(master):
        # The setting spark.pyspark.python does not reach those parts of Spark that look for and plan data sources.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault(
            "SPARK_LOCAL_IP", LOOPBACK
        )  # where a local cluster's masters and workers show their pages
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return register(made)


def found_session() -> SparkSession | None:
    """The session that runs: that of this thread, else the one that this process began with."""
    from pyspark.sql import SparkSession

    if (
        is_remote()
    ):  # Spark Connect: it knows no context, and a local server of it has a classic session that is not the program's
        from pyspark.sql.connect.session import SparkSession as Connected

        remote: Any = Connected.getActiveSession() or Connected._default_session
        return None if remote is None or remote.is_stopped else remote
    there = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    return None if there is None or there.sparkContext._jsc is None else there


def is_remote() -> bool:
    """Whether sessions of this process are those of Spark Connect."""
    from pyspark.sql.utils import is_remote

    return bool(is_remote())


def register(spark: SparkSession) -> SparkSession:
    """Register the format "journal" with a session, however it was made."""
    from spark_export.source.source import JournalSource

    spark.dataSource.register(JournalSource)
    return spark


def check_spark(*, is_needed: bool = True) -> None:
    """Refuse to go on without the libraries, and say how to get them; `is_needed=False`: those but Spark."""
    try:
        for name in ("numpy", "pyarrow", *(("pyspark",) if is_needed else ())):
            import_module(name)
    except ImportError as e:
        raise invalid(SPARK_MISSING, f"{e.name} is not installed: pip install 'journal[spark]'") from e


def settings_of(master: str, conf: Mapping[str, Any], keywords: Mapping[str, Any]) -> dict[str, str]:
    """All settings of a session: ours, then what was given (S3)."""
    given = _given(conf, keywords)
    for name in given:
        if not name.startswith("spark."):
            raise invalid(
                OPTION_INVALID,
                f"{name!r} is no setting of Spark: they begin with spark. (as a keyword: spark__), e.g. spark__executor__memory",
            )
    ours = dict(_DOTTED)
    if _HERE.fullmatch(master):
        ours |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
        }
    java = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    if own := given.get("spark.driver.extraJavaOptions"):
        java = f"{java} {own}"
    return ours | texts(given) | {"spark.driver.extraJavaOptions": java}


def _given(conf: Mapping[str, Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    return {**conf, **{name.replace("__", "."): value for name, value in keywords.items()}}


def texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Options and settings as Spark writes them; None is one that was not given."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
        if value is not None
    }
