"""
Verbs as methods: a function that makes a call, or the steps of one (journal.net.client.calls.call), becomes a method that carries it out.

The method has the function's signature and text, without the journal's name in front.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from journal.net.client.calls.call import Call, Steps

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


def asked(function: Callable[Concatenate[str, P], Call[R]]) -> Callable[Concatenate[Any, P], R]:
    """The method of a verb that is one call."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        call = function(self.name, *args, **kwargs)
        result = self._link.ask(call, None if call.is_slow else self._timeout_ms)
        return call.read(result)

    return dressed(method, function)


def walked(function: Callable[Concatenate[str, P], Steps[R]]) -> Callable[Concatenate[Any, P], R]:
    """The method of a verb that is several calls."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._walk(function(self.name, *args, **kwargs))
        return result

    return dressed(method, function)


def dressed(method: F, function: Callable[..., Any]) -> F:
    """The method, with the name, the text and the signature of its verb."""
    method.__name__ = function.__name__
    method.__qualname__ = function.__qualname__
    method.__doc__ = function.__doc__
    signature = inspect.signature(function)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    shown = signature.replace(parameters=[own, *list(signature.parameters.values())[1:]])
    method.__signature__ = shown  # type: ignore[attr-defined]
    return method
