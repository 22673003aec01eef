"""
Kill this very process at a named point of the engine: `journal.engine.log.writer:LogWriter.append:before:3` is the third call there.

The method is wrapped where it is; nothing of the engine knows of it.
"""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable
from typing import Any


def find(dotted: str) -> tuple[Any, str]:
    """The object that holds a function, and the function's name: `package.module:Class.method` or `package.module:function`."""
    module, _, path = dotted.partition(":")
    holder: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        holder = getattr(holder, part)
    if not callable(getattr(holder, name, None)):
        raise AttributeError(f"{dotted} is not a function: the engine has changed, name another point")
    return holder, name


def install(point: str) -> None:
    """Arrange the death: `module:Class.method:before|after:count`."""
    module, path, when, count = point.split(":")
    if when not in ("before", "after"):
        raise ValueError(f"{point}: before or after, not {when}")
    holder, name = find(f"{module}:{path}")
    wrapped = _deadly(getattr(holder, name), is_before=when == "before", left=int(count))
    is_static = isinstance(vars(holder).get(name), staticmethod)
    setattr(holder, name, staticmethod(wrapped) if is_static else wrapped)


def _deadly(function: Callable[..., Any], *, is_before: bool, left: int) -> Callable[..., Any]:
    def wrapped(*args: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and is_before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*args, **options)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return wrapped
