"""
Which function carries out each request of a journal. Functions that need the pipeline alone register themselves, where they are; those
that need more of a journal are in journal.engine.backend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from journal.core.requests.request import Request
from journal.engine.caller import Caller

F = TypeVar("F", bound=Callable[..., Any])

HANDLERS: dict[type[Request[Any]], Callable[[Any, Any, Caller], Any]] = {}
"""From a journal, a request and its caller to what the request comes to."""


def handles(request: type[Request[Any]]) -> Callable[[F], F]:
    """The function carries out such requests: from the pipeline, the request and its caller to what that comes to."""

    def register(handle: F) -> F:
        HANDLERS[request] = lambda journal, asked, caller: handle(journal.p, asked, caller)
        return handle

    return register
