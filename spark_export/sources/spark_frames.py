"""
Anything that Spark reads, as a source: `type = "spark"`, with a format and its options. Copy only: Spark does not say what has changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from spark_export.errors import COLUMN_UNKNOWN, OPTION_INVALID, invalid, spark_at
from spark_export.pipelines.contract import NamespaceState, SourceCopy, SourcePart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkSource:
    """
    A load of Spark's.

    format      as of spark.read.format
    namespace   the name of its messages
    options     as of spark.read.options; `path` among them
    schema      the columns in Spark's DDL, for formats that need it
    """

    modes: ClassVar[Sequence[str]] = ("copy",)

    def __init__(
        self,
        format: str,  # noqa: A002 - the word of Spark and of the declaration
        namespace: str,
        options: Mapping[str, Any] | None = None,
        key: Sequence[str] = (),
        schema: str | None = None,
        timeline: str | None = None,
    ) -> None:
        if not namespace:
            raise invalid(OPTION_INVALID, "namespace is empty: name the messages of this source")
        self._format, self._namespace, self._schema = format, namespace, schema
        self._options = {name: str(value) for name, value in (options or {}).items()}
        self._key = (key,) if isinstance(key, str) else tuple(key)
        self.timeline = timeline or f"external({namespace})"
        self._spark: SparkSession | None = None

    def check(self, *, prepare: bool = False) -> Sequence[str]:
        """Its one namespace. With an active session of Spark, that the columns can be had."""
        from pyspark.sql import SparkSession

        session = self._spark or SparkSession.getActiveSession()
        if session is not None:
            self._frame(session)
        return [self._namespace]

    def start(self, spark: SparkSession, states: Mapping[str, NamespaceState], mode: str) -> None:
        """Refuses all modes but the copy."""
        if mode not in self.modes:
            raise invalid(
                OPTION_INVALID,
                f"the mode is {mode!r}, and a source of type 'spark' can only be copied: say mode = 'copy', or use a type that follows "
                "changes (postgres, sqlite, journal, files)",
            )
        self._spark = spark

    def copies(self, namespaces: Sequence[str]) -> Iterator[SourceCopy]:
        """The load, read in parallel."""
        assert self._spark is not None, "start comes first"
        if self._namespace in namespaces:
            yield SourceCopy(self._namespace, self._key, frame=self._frame(self._spark))

    def sync(self) -> Iterator[Sequence[SourcePart]]:
        """It never has more."""
        return iter(())

    def advance(self, position: Any) -> None:
        """Nothing is kept for it."""

    def close(self) -> None:
        """Nothing is open."""

    def _frame(self, spark: SparkSession) -> DataFrame:
        reader = spark.read.format(self._format).options(**self._options)
        if self._schema is not None:
            reader = reader.schema(self._schema)
        with spark_at(f"the source {self._namespace!r}"):
            frame = reader.load()
            missing = [name for name in self._key if name not in frame.columns]
        if missing:
            raise invalid(
                COLUMN_UNKNOWN,
                f"the source {self._namespace!r} has no column {', '.join(missing)} for the key: it has {', '.join(frame.columns)}",
            )
        return frame
