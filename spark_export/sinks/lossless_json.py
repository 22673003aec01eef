"""
Messages as JSON without loss, one line each: {"id":5,"op":"insert","timestamp":0,"namespace":"a","data":{…}}.

Values that JSON has not are written as spark_export.columns.json_codec does ($bytes, $float, $map), and beside those:

    {"$decimal": "1.50"}                          a decimal, with its scale
    {"$timestamp": "1969-12-31T23:59:59+00:00"}   an instant; without a zone: the reading of a clock
    {"$date": "1969-12-31"}    {"$time": "23:59:59"}    {"$us": 1500000}, a duration in microseconds

N1  `message_of(line_of(m))` is m, type by type.
N2  A line begins with its id, so that a reader can cut a file at an id without the rest of the line.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from spark_export.pipelines.message import Message

_MICROSECOND = timedelta(microseconds=1)


def line_of(message: Message) -> str:
    """A message as a line, without its end."""
    return _dumps({**message._asdict(), "data": {name: plain(value) for name, value in message.data.items()}})


def message_of(line: str | bytes) -> Message:
    """The message of a line."""
    found = json.loads(line)
    data = {name: real(value) for name, value in found["data"].items()}
    return Message(found["id"], found["op"], found["timestamp"], found["namespace"], data)


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, dict):
        if all(type(name) is str for name in value) and not (len(value) == 1 and next(iter(value)).startswith("$")):
            return {name: plain(each) for name, each in value.items()}
        return {"$map": [[plain(name), plain(each)] for name, each in value.items()]}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    for kind, name, text in _WRITTEN:
        if isinstance(value, kind):
            return {name: text(value)}
    return value


def real(value: Any) -> Any:
    """The value that JSON stands for."""
    if isinstance(value, list):
        return [real(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        name, inner = next(iter(value.items()))
        if name in _READ:
            return _READ[name](inner)
    return {name: real(each) for name, each in value.items()}


_dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
# A datetime is a date as well: it comes first.
_WRITTEN: tuple[tuple[type, str, Callable[[Any], Any]], ...] = (
    (bytes, "$bytes", lambda value: base64.b64encode(value).decode()),
    (Decimal, "$decimal", str),
    (datetime, "$timestamp", datetime.isoformat),
    (date, "$date", date.isoformat),
    (time, "$time", time.isoformat),
    (timedelta, "$us", lambda value: value // _MICROSECOND),
)
_READ: dict[str, Callable[[Any], Any]] = {
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$decimal": Decimal,
    "$timestamp": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$time": time.fromisoformat,
    "$us": lambda count: count * _MICROSECOND,
    "$float": float,
    "$map": lambda pairs: {real(name): real(each) for name, each in pairs},
}
