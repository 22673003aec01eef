"""The types of sources: `source_class("sqlite")`, `source_of("sqlite", {"path": …})`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from spark_export.pipelines.registry import class_of, made

if TYPE_CHECKING:
    from spark_export.pipelines.contract import PipelineSource

GROUP = "journal.sources"
BUILT_IN = {
    "files": "spark_export.sources.files:FilesSource",
    "spark": "spark_export.sources.spark_frames:SparkSource",
    "sqlite": "spark_export.sources.sqlite:SqliteSource",
}


def source_class(kind: str) -> Any:
    """The class of a type of sources."""
    return class_of(kind, GROUP, BUILT_IN)


def source_of(kind: str, options: Mapping[str, Any]) -> PipelineSource:
    """A source, from the keywords of its declaration."""
    return cast("PipelineSource", made(kind, options, GROUP, BUILT_IN))
