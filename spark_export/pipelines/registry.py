"""
Sources and sinks by the `type` of a declaration: those that are built in, and third parties' by entry point.

R1  A class is imported when it is asked for, so that what another one needs need not be installed.
R2  A built-in type cannot be replaced by an entry point: a declaration means the same wherever it is run.
R3  Keywords that a class does not take are refused, with those that it takes: an option that is ignored gives wrong data.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any

from spark_export.errors import OPTION_INVALID, OPTION_MISSING, OPTION_UNKNOWN, invalid

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def class_of(kind: str, group: str, built_in: Mapping[str, str]) -> Any:
    """The class of a type: "module:Class" among the built-in ones, else an entry point of the group."""
    if kind in built_in:
        return _imported(kind, built_in[kind])
    found = {each.name: each for each in entry_points(group=group)}
    if kind not in found:
        known = sorted({*built_in, *found})
        near = get_close_matches(kind, known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise invalid(
            OPTION_INVALID,
            f"unknown type {kind!r}: {hint}There are {', '.join(known)}; a package adds one with an entry point of the group {group!r}",
        )
    try:
        return found[kind].load()
    except (ImportError, AttributeError) as e:
        raise invalid(OPTION_INVALID, f"the type {kind!r} is {found[kind].value}, which cannot be imported: {e}") from e


def made(kind: str, options: Mapping[str, Any], group: str, built_in: Mapping[str, str]) -> Any:
    """An object of a type, from the keywords of its declaration (R3)."""
    what = class_of(kind, group, built_in)
    taken = inspect.signature(what).parameters.values()
    names = [each.name for each in taken if each.kind in _NAMED]
    if not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken):
        unknown = [name for name in options if name not in names]
        if unknown:
            raise invalid(
                OPTION_UNKNOWN, f"the type {kind!r} does not take {', '.join(unknown)}: it takes {', '.join(names)}"
            )
    missing = [
        each.name for each in taken if each.kind in _NAMED and each.default is each.empty and each.name not in options
    ]
    if missing:
        raise invalid(
            OPTION_MISSING,
            f"the type {kind!r} needs {', '.join(missing)}, which is missing. It takes {', '.join(names)}",
        )
    return what(**options)


def _imported(kind: str, place: str) -> Any:
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as e:
        missing = e.name or ""
        if missing.startswith("spark_export"):
            raise
        raise invalid(
            OPTION_INVALID,
            f"the type {kind!r} needs the package {missing!r}, which is not installed: pip install {missing}",
        ) from e
