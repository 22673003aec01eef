"""
The sinks by their types: ours, imported when they are first wanted, and those of third parties, by entry point.

G1  A type of ours cannot be taken over by an entry point.
G2  A keyword that the sink does not have, or that is missing, is refused before anything is made, with those that there are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from journal.errors import Invalid
from spark_export.pipelines.contract import PipelineSink

GROUP = "journal.sinks"


class _BuiltIn(NamedTuple):
    module: str
    name: str
    fixed: Mapping[str, Any] = {}


_FILES = ("spark_files", "SparkFilesSink")
BUILT_IN: dict[str, _BuiltIn] = {
    **{kind: _BuiltIn(*_FILES, {"format": kind}) for kind in ("parquet", "csv", "json")},
    "jsonl": _BuiltIn("json_lines", "JsonLinesSink"),
    "python": _BuiltIn("python", "PythonSink"),
}


def sink_types() -> list[str]:
    """All types that a declaration may name."""
    return sorted({*BUILT_IN, *(each.name for each in entry_points(group=GROUP))})


def make_sink(kind: str, keywords: Mapping[str, Any]) -> PipelineSink:
    """A sink of a type, with the keywords of its table in the declaration."""
    made, fixed = _found(kind)
    _check(kind, made, fixed, keywords)
    sink: PipelineSink = made(**fixed, **keywords)
    return sink


def _found(kind: str) -> tuple[Callable[..., Any], Mapping[str, Any]]:
    if kind in BUILT_IN:  # G1
        module, name, fixed = BUILT_IN[kind]
        return getattr(import_module(f"spark_export.sinks.{module}"), name), fixed
    for each in entry_points(group=GROUP, name=kind):
        return each.load(), {}
    raise Invalid(
        f"there is no sink of type {kind!r}: there are {', '.join(sink_types())}; others come by entry point, group {GROUP}"
    )


def _check(kind: str, made: Callable[..., Any], fixed: Mapping[str, Any], keywords: Mapping[str, Any]) -> None:
    """G2."""
    known = {name: each for name, each in inspect.signature(made).parameters.items() if name not in fixed}
    takes_any = any(each.kind is each.VAR_KEYWORD for each in known.values())
    named = [name for name, each in known.items() if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    unknown = [] if takes_any else [name for name in keywords if name not in named]
    if unknown:
        raise Invalid(f"a sink of type {kind!r} has no {', '.join(map(repr, unknown))}: it takes {', '.join(named)}")
    missing = [name for name in named if known[name].default is inspect.Parameter.empty and name not in keywords]
    if missing:
        raise Invalid(f"a sink of type {kind!r} needs {', '.join(map(repr, missing))}: it takes {', '.join(named)}")
