"""
`spark_export.Pipeline`: a pipeline as a program has it, from a file or from a table of the same words.

    spark_export.Pipeline("people.toml").run(spark, until_caught_up=True)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import journal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_export.pipelines.contract import PipelineSink, PipelineSource
    from spark_export.pipelines.runtime.run import PipelineRun, RunReport


class Pipeline:
    """A declared pipeline. Nothing is opened before `check` or `run`."""

    def __init__(self, declared: str | os.PathLike[str] | Mapping[str, Any]) -> None:
        """`declared` is a file of TOML, or {"pipeline": {…}, "source": {…}, "sink": [{…}]} with the same words."""
        from spark_export.api.session import check_spark

        check_spark(is_needed=False)
        from spark_export.pipelines.declaration import declaration_of, read_declaration

        self.declared = declaration_of(declared) if isinstance(declared, Mapping) else read_declaration(declared)

    def parts(self) -> tuple[PipelineSource, dict[str, PipelineSink]]:
        """The source and the sinks, made anew; nothing is opened yet."""
        from spark_export.sinks.registry import make_sink
        from spark_export.sources.registry import source_of

        return source_of(self.declared.source_type, self.declared.source), {
            sink.name: make_sink(sink.type, sink.keywords) for sink in self.declared.sinks
        }

    def check(self, *, prepare: bool = False) -> list[str]:
        """Reach the source and the sinks; the namespaces that match. Nothing is changed, unless `prepare` sets up the source."""
        import re

        source, sinks = self.parts()
        with ExitStack() as held:
            held.callback(source.close)
            for sink in sinks.values():
                held.callback(sink.close)
            found = [name for name in source.check(prepare=prepare) if re.search(self.declared.namespace, name)]
            for sink in sinks.values():
                sink.check()
        return found

    def run(
        self,
        spark: SparkSession | None = None,
        *,
        until_caught_up: bool = False,
        on_progress: Callable[[str, int, int | None], None] | None = None,
        on_start: Callable[[PipelineRun], None] | None = None,
    ) -> RunReport:
        """
        Copy and follow, until `stop` of the run that `on_start` is given, or until nothing is new.

        Without a session every batch is made in this process.
        """
        from spark_export.pipelines.runtime.run import PipelineRun

        source, sinks = self.parts()
        with journal.open(self.declared.store) as store:
            run = PipelineRun(store, self.declared, source, sinks, spark=spark, on_progress=on_progress)
            if on_start is not None:
                on_start(run)
            return run.run(until_caught_up=until_caught_up)

    def __str__(self) -> str:
        """The pipeline, drawn."""
        left = f"R {self.declared.source_type} ({self.declared.mode}) ──► commit log "
        lines = []
        for number, sink in enumerate(self.declared.sinks):
            is_last = number == len(self.declared.sinks) - 1
            joint = ("───" if is_last else "─┬─") if number == 0 else (" └─" if is_last else " ├─")
            steps = "".join(f"► {function.word} ─" for function in sink.functions)
            start = left if number == 0 else " " * len(left)
            lines.append(f"{start}{joint}{steps}► W {sink.name} ({sink.type}, {sink.namespace})")
        return "\n".join(lines)
