"""
The daemon's log: one event a line, with its fields.

    2026-01-31T12:00:00.000Z INFO journal.daemon peer_ended peer=uid-1000 error="the proof of …"
    {"time": "2026-01-31T12:00:00.000Z", "level": "INFO", "logger": "journal.daemon", "event": "peer_ended", "peer": "uid-1000", …}

Callers log a constant event and its fields, `log.info("peer_ended peer=%s error=%s", …)`: the fields are parsed from that format, so
that none is lost in a sentence. A record in another form has the event `message`.

G1  A record is one line, whatever is in its values: they cannot forge a line, a field or a terminal's control sequence.
G2  Fields keep their types in JSON.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any

FORMATS = ("text", "json")
LEVELS = ("debug", "info", "warning", "error")
_EVENT = re.compile(r"(?P<event>[a-z][a-z0-9_]*)(?P<fields>(?: [a-z_]+=%[-+0-9.]*[sdrfgx])*)")
_FIELD = re.compile(r" (?P<name>[a-z_]+)=(?P<spec>%[-+0-9.]*[sdrfgx])")
_BARE = re.compile(r"[A-Za-z0-9_./:@%+,*{}\[\]-]+", re.ASCII)
_PRIORITY = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
_OWN = frozenset({"time", "level", "logger", "event"})


def fields_of(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    """The event of a record, and its fields."""
    args = record.args if isinstance(record.args, tuple) else ()
    match = _EVENT.fullmatch(record.msg) if type(record.msg) is str else None
    written = [] if match is None else _FIELD.findall(match["fields"])
    if match is None or len(written) != len(args):
        return _with_error(record, "message", {"message": record.getMessage()})
    fields: dict[str, Any] = {}
    for (name, spec), value in zip(written, args, strict=True):
        is_number = type(value) in (int, float, bool) or value is None
        fields[f"{name}_" if name in _OWN else name] = value if is_number else spec % (value,)
    return _with_error(record, match["event"], fields)


def _with_error(record: logging.LogRecord, event: str, fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if record.exc_info and record.exc_info[0] is not None:
        fields["traceback"] = logging.Formatter().formatException(record.exc_info)
    return event, fields


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormat(logging.Formatter):
    """Lines for people; for the system's journal without what it adds itself, and with the priority that it understands."""

    def __init__(self, *, is_for_journald: bool = False) -> None:
        super().__init__()
        self._is_for_journald = is_for_journald

    def format(self, record: logging.LogRecord) -> str:
        """One line (G1)."""
        event, fields = fields_of(record)
        if self._is_for_journald:
            words = [f"<{_PRIORITY.get(record.levelname, 5)}>{record.name}", event]
        else:
            words = [_time(record), record.levelname, record.name, event]
        return " ".join([*words, *(f"{name}={_word(value)}" for name, value in fields.items())])


class JsonFormat(logging.Formatter):
    """An object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line (G1, G2)."""
        event, fields = fields_of(record)
        head = {"time": _time(record), "level": record.levelname, "logger": record.name, "event": event}
        return json.dumps(head | fields)


def _word(value: Any) -> str:
    """A value as it stands in a line: bare where it is plain, else quoted, escaped and in ASCII."""
    text = str(value)
    return text if _BARE.fullmatch(text) is not None else json.dumps(text)


@contextmanager
def logged(form: str, level: str, stream: IO[str] | None = None) -> Iterator[None]:
    """Everything of this process is logged to a stream, standard error unless told, until the end of the block."""
    handler = logging.StreamHandler(stream or sys.stderr)
    if form == "json":
        handler.setFormatter(JsonFormat())
    else:
        handler.setFormatter(TextFormat(is_for_journald=_is_journald(handler.stream)))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(level.upper())
    try:
        yield
    finally:
        handler.flush()
        root.removeHandler(handler)
        root.setLevel(before)


def _is_journald(stream: IO[str]) -> bool:
    """Whether a stream leads to the system's journal (systemd.exec, JOURNAL_STREAM)."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"
