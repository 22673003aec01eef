"""
The declaration of a pipeline: what TOML and Python say with the same words, checked before anything is touched.

    [pipeline]  name, store, stop_timeout = "30s", strict = false, batch = 100000
    [source]    type, namespace = ".*", mode = "copy+sync", and the source's own keywords
    [[sink]]    name, type, namespace = ".*", functions = […], on_error = "stop", and the sink's own keywords

A namespace is a regular expression that is found anywhere in the name, as `re.search` does; `^` and `$` bind it. `${NAME}` in a text is
replaced by that variable of the environment, so secrets need not be in the file.

D1  A word that is not known is refused, and so is a variable that is not set.
D2  Texts that were replaced are not shown by errors: they show the word, not the value.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from journal.core.times import duration_ms
from journal.errors import Invalid
from spark_export.pipelines.functions import Function, function_of

MODES = ("copy", "sync", "copy+sync")
ON_ERROR = ("stop", "skip")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, kw_only=True)
class SinkDeclaration:
    """One sink: what reaches it, through what, and where it goes."""

    name: str
    type: str
    namespace: str = ".*"
    functions: tuple[Function, ...] = ()
    on_error: str = "stop"
    """"stop": the sink stops at a failure. "skip": the message that fails by itself is skipped, with a flag."""
    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A whole pipeline."""

    name: str
    store: str
    source_type: str
    sinks: tuple[SinkDeclaration, ...]
    source: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = ".*"
    mode: str = "copy+sync"
    strict: bool = False
    """The source reads nothing new until every sink has caught up."""
    stop_timeout_ms: int = 30_000
    batch: int = 100_000
    """Messages that a sink gets at a time, about."""


def read_declaration(path: str | os.PathLike[str]) -> Declaration:
    """The declaration in a file of TOML."""
    try:
        with open(path, "rb") as file:
            found = tomllib.load(file)
    except OSError as e:
        raise Invalid(f"{os.fspath(path)} cannot be read: {e.strerror}") from e
    except tomllib.TOMLDecodeError as e:
        raise Invalid(f"{os.fspath(path)} is no TOML: {e}") from e
    try:
        return declaration_of(found)
    except Invalid as e:
        raise Invalid(f"{Path(path).name}: {e}") from e


def declaration_of(given: Mapping[str, Any]) -> Declaration:
    """The declaration that a table of tables says: pipeline, source, and a list of sinks."""
    _known("the file", given, ("pipeline", "source", "sink"))
    whole, source, sinks = (given.get(word) for word in ("pipeline", "source", "sink"))
    if not isinstance(whole, Mapping) or not isinstance(source, Mapping) or not isinstance(sinks, list) or not sinks:
        raise Invalid("a pipeline has the tables [pipeline] and [source], and at least one [[sink]]")
    whole, source = dict(_replaced(whole)), dict(_replaced(source))
    _known("[pipeline]", whole, ("name", "store", "stop_timeout", "strict", "batch"))
    declared = [_sink(dict(_replaced(one)), number) for number, one in enumerate(sinks, 1)]
    names = [one.name for one in declared]
    if twice := {name for name in names if names.count(name) > 1}:
        raise Invalid(f"two sinks are called {sorted(twice)[0]!r}: each needs a name of its own, for its offsets")
    mode = source.pop("mode", "copy+sync")
    if mode not in MODES:
        raise Invalid(f"[source] mode is {mode!r}: it must be one of {', '.join(MODES)}")
    batch, strict = whole.get("batch", 100_000), whole.get("strict", False)
    if not isinstance(batch, int) or isinstance(batch, bool) or batch < 1:
        raise Invalid(f"[pipeline] batch is {batch!r}: it must be a number of messages from 1 on")
    if not isinstance(strict, bool):
        raise Invalid(f"[pipeline] strict is {strict!r}: it must be true or false")
    return Declaration(
        name=_name("[pipeline]", whole),
        store=_text("[pipeline]", whole, "store"),
        source_type=_text("[source]", source, "type"),
        namespace=_pattern("[source]", source),
        mode=mode,
        source={word: value for word, value in source.items() if word not in ("type", "namespace")},
        sinks=tuple(declared),
        strict=strict,
        stop_timeout_ms=duration_ms(whole.get("stop_timeout", "30s")),
        batch=batch,
    )


def _sink(given: dict[str, Any], number: int) -> SinkDeclaration:
    where = f"[[sink]] {number}"
    on_error = given.pop("on_error", "stop")
    if on_error not in ON_ERROR:
        raise Invalid(f"{where} on_error is {on_error!r}: it must be one of {', '.join(ON_ERROR)}")
    functions = given.pop("functions", [])
    if not isinstance(functions, list) or not all(isinstance(one, Mapping) for one in functions):
        raise Invalid(
            f"{where} functions is {functions!r}: it must be a list of tables, such as [{{omit = {{fields = ['a']}}}}]"
        )
    try:
        made = tuple(function_of(one) for one in functions)
    except Invalid as e:
        raise Invalid(f"{where}: {e}") from e
    return SinkDeclaration(
        name=_name(where, given),
        type=_text(where, given, "type"),
        namespace=_pattern(where, given),
        functions=made,
        on_error=on_error,
        keywords={word: value for word, value in given.items() if word not in ("name", "type", "namespace")},
    )


def _known(where: str, given: Mapping[str, Any], words: Sequence[str]) -> None:
    for word in given:
        if word not in words:
            raise Invalid(f"{where} has {word!r}, which is not known: it may have {', '.join(words)}")


def _text(where: str, given: Mapping[str, Any], word: str) -> str:
    value = given.get(word)
    if not isinstance(value, str) or not value:
        raise Invalid(f"{where} needs {word}, a text")
    return value


def _name(where: str, given: Mapping[str, Any]) -> str:
    name = _text(where, given, "name")
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{where} name is {name!r}: it must be 1 to 40 letters, digits, _ . or -, beginning with a letter or digit"
        )
    return name


def _pattern(where: str, given: Mapping[str, Any]) -> str:
    text = given.get("namespace", ".*")
    try:
        re.compile(text)
    except (re.error, TypeError) as e:
        raise Invalid(f"{where} namespace is {text!r}, which is no regular expression: {e}") from e
    return str(text)


def _replaced(value: Any) -> Any:
    """Variables of the environment in all texts (D1, D2)."""
    if isinstance(value, str):
        for name in _VARIABLE.findall(value):
            if name not in os.environ:
                raise Invalid(f"the variable {name} is not set: export it, or write the value in place of ${{{name}}}")
        return _VARIABLE.sub(lambda found: os.environ[found[1]], value)
    if isinstance(value, Mapping):
        return {word: _replaced(one) for word, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one) for one in value]
    return value
