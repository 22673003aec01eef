"""
The types of parameters: what a value on the wire may be, how it is checked, how it is read from the text of a line.

P1  A check is total: any plain value is accepted as it is or refused with Invalid. It converts nothing: what passes is what was sent.
P2  Dates and durations are whole milliseconds on the wire; a client converts "5s" before it sends.
P3  A kind is a value of the table; nothing else in the package decides whether an argument is well-formed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from journal.core import limits
from journal.core.buckets import BUCKETS_MAX, Range
from journal.core.loads.session import LOAD_ID, PART_NAME
from journal.core.settings import NAME as JOURNAL_NAME
from journal.core.snapshot_blocks import PARTS_MAX, RANGES_MAX, checked_ranges
from journal.errors import Invalid
from journal.net.wire.frames import ID_MAX
from journal.net.wire.limits import LIST_MAX, TEXT_BYTES_MAX
from journal.net.wire.message import NAME, PLACE
from journal.net.wire.quoting import shown

Check = Callable[[str, Any], None]
Read = Callable[[str, str], Any]
U64_MAX = (1 << 64) - 1
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
"""As a line has it: neither an exponent, nor nan and inf, which would be numbers to Python."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of parameters (P3)."""

    name: str
    meaning: str
    check: Check
    """Raises Invalid; gets the parameter's name for the message."""
    read: Read | None = None
    """The value of a text; None: it cannot stand in a line."""


def _refuse(name: str, value: Any, meaning: str) -> Invalid:
    return Invalid(f"{name} is {shown(value)}: it must be {meaning}")


def integer(name: str, low: int, high: int, meaning: str = "") -> Kind:
    """An int in a range."""
    text = f"an int from {low} to {high}" + (f", {meaning}" if meaning else "")

    def check(parameter: str, value: Any) -> None:
        if type(value) is not int or not low <= value <= high:
            raise _refuse(parameter, value, text)

    def read(parameter: str, written: str) -> int:
        if not (written.isascii() and written.removeprefix("-").isdigit() and len(written) <= 20):
            raise _refuse(parameter, written, text)
        return int(written)

    return Kind(name, text, check, read)


def text(name: str, low: int, high: int, meaning: str = "") -> Kind:
    """A text of so many bytes."""
    said = f"a text of {low} to {high} bytes" + (f", {meaning}" if meaning else "")

    def check(parameter: str, value: Any) -> None:
        if type(value) is not str or not low <= len(value.encode("utf-8", "replace")) <= high:
            raise _refuse(parameter, value, said)

    return Kind(name, said, check, lambda _, written: written)


def one_of(name: str, *words: str) -> Kind:
    """One of some words."""
    said = " or ".join(f'"{word}"' for word in words)

    def check(parameter: str, value: Any) -> None:
        if type(value) is not str or value not in words:
            raise _refuse(parameter, value, said)

    return Kind(name, said, check, lambda _, written: written)


def list_of(kind: Kind, high: int = LIST_MAX) -> Kind:
    """A list of values of one kind."""
    said = f"a list of up to {high}: {kind.name}"

    def check(parameter: str, value: Any) -> None:
        if type(value) is not list or len(value) > high:
            raise _refuse(parameter, value, said)
        for item in value:
            kind.check(parameter, item)

    def read(parameter: str, written: str) -> list[Any]:
        assert kind.read is not None
        return [kind.read(parameter, part) for part in written.split(",") if part]

    return Kind(f"[{kind.name}]", said, check, None if kind.read is None else read)


def or_null(kind: Kind) -> Kind:
    """A value of a kind, or null."""

    def check(parameter: str, value: Any) -> None:
        if value is not None:
            kind.check(parameter, value)

    return Kind(f"{kind.name} or null", f"{kind.meaning}, or null", check)


def _check_key(parameter: str, value: Any) -> None:
    size = len(value) if type(value) is bytes else len(value.encode("utf-8", "replace")) if type(value) is str else 0
    if not 0 < size <= limits.KEY_BYTES_MAX:
        raise _refuse(parameter, value, KEY.meaning)


def _check_prefix(parameter: str, value: Any) -> None:
    if type(value) not in (str, bytes) or len(value) > limits.KEY_BYTES_MAX:
        raise _refuse(parameter, value, PREFIX.meaning)


def _check_packed(parameter: str, value: Any) -> None:
    if type(value) is not bytes or not value:
        raise _refuse(parameter, value, PACKED.meaning)


def _check_bytes(parameter: str, value: Any) -> None:
    if type(value) is not bytes or not 0 < len(value) <= 256:
        raise _refuse(parameter, value, BYTES.meaning)


def _check_bool(parameter: str, value: Any) -> None:
    if type(value) is not bool:
        raise _refuse(parameter, value, BOOL.meaning)


def _read_bool(parameter: str, written: str) -> bool:
    if written not in ("true", "false"):
        raise _refuse(parameter, written, BOOL.meaning)
    return written == "true"


def _read_number(parameter: str, written: str) -> int | float:
    if len(written) > 40 or _NUMBER.fullmatch(written) is None:
        raise _refuse(parameter, written, NUMBER.meaning)
    return float(written) if "." in written else int(written)


def _check_number(parameter: str, value: Any) -> None:
    if type(value) not in (int, float) or not abs(value) < 1e18:
        raise _refuse(parameter, value, NUMBER.meaning)


def _check_map(parameter: str, value: Any) -> None:
    if type(value) is not dict or not all(NAME.fullmatch(name) for name in value):
        raise _refuse(parameter, value, MAP.meaning)


def _check_cursor(parameter: str, value: Any) -> None:
    if (
        type(value) is not list
        or [type(part) for part in value] != [int, int]
        or not (0 <= value[0] < 1 << 32 and -1 <= value[1] < 1 << 40)
    ):
        raise _refuse(parameter, value, CURSOR.meaning)


def _check_start(parameter: str, value: Any) -> None:
    if value not in ("BEGIN", "END"):
        if type(value) is str:
            raise _refuse(parameter, value, START.meaning)
        _check_cursor(parameter, value)


def _pattern(name: str, pattern: Any, meaning: str, high: int = 64) -> Kind:
    def check(parameter: str, value: Any) -> None:
        if type(value) is not str or len(value) > high or pattern.fullmatch(value) is None:
            raise _refuse(parameter, value, meaning)

    return Kind(name, meaning, check, lambda _, written: written)


def _check_journal(parameter: str, value: Any) -> None:
    if value != "*" and (type(value) is not str or JOURNAL_NAME.fullmatch(value) is None):
        raise _refuse(parameter, value, JOURNAL.meaning)


def _check_buckets(parameter: str, value: Any) -> None:
    try:
        Range.parse(value)
    except Invalid as e:
        raise _refuse(parameter, value, BUCKETS.meaning) from e


def _check_piece(parameter: str, value: Any) -> None:
    if type(value) is not bytes:
        raise _refuse(parameter, value, PIECE.meaning)


def _check_once(parameter: str, value: Any) -> None:
    if type(value) is not list or len(value) != 2:
        raise _refuse(parameter, value, ONCE.meaning)
    LOAD_NAME.check(parameter, value[0])
    DATE.check(parameter, value[1])


def _check_ranges(parameter: str, value: Any) -> None:
    try:
        checked_ranges(value)
    except Invalid as e:
        raise Invalid(f"{parameter}: {e}") from e


DATE = integer("date", 0, limits.DATE_MAX, "milliseconds since the epoch")
DURATION = integer("duration", 0, limits.DURATION_MAX, "milliseconds")
LEASE = integer("lease", 1, limits.DURATION_MAX, "milliseconds")
SPAN = integer("span", 1, limits.DURATION_MAX, "milliseconds")
PRIORITY = integer("priority", 0, limits.PRIORITY_MAX)
VERSION = integer("version", 0, limits.VERSION_MAX)
TOKEN = integer("token", 0, U64_MAX)
COUNT = integer("count", 1, LIST_MAX)
PARTS = integer("parts", 1, PARTS_MAX)
CREDIT = integer("credit", 0, LIST_MAX)
STEPS = integer("steps", -(1 << 53), 1 << 53)
PORT = integer("port", 1, 65_535)
ID = integer("id", 1, ID_MAX)
LEVEL = one_of("durability", "full", "interval", "none")
STATUS = one_of("status", "waiting", "processing", "available", "buried")
CONSUMER = text("consumer", 0, limits.CONSUMER_BYTES_MAX, "one that this identity may act under")
OWNER = text("owner", 1, limits.OWNER_BYTES_MAX, "a group that this identity may act under")
FEED_CONSUMER = text("feed consumer", 1, limits.CONSUMER_BYTES_MAX, "one that this identity may act under")
FLAG = text("flag", 1, limits.FLAG_BYTES_MAX)
TEXT = text("text", 0, TEXT_BYTES_MAX)
PLACES = _pattern("name", PLACE, "1 to 64 letters, digits, _ . and -")
KEY = Kind("key", f"a text or bytes of 1 to {limits.KEY_BYTES_MAX} bytes", _check_key)
PREFIX = Kind("prefix", f"a text or bytes of up to {limits.KEY_BYTES_MAX} bytes: what a key begins with", _check_prefix)
PACKED = Kind("packed", "bytes: one packed msgpack value, which the daemon passes on as it is", _check_packed)
BYTES = Kind("bytes", "1 to 256 bytes, as the daemon gave them", _check_bytes)
BOOL = Kind("bool", "true or false", _check_bool, _read_bool)
NUMBER = Kind("number", "an int or a float", _check_number, _read_number)
MAP = Kind("map", "a map with names as keys", _check_map)
CURSOR = Kind("cursor", "a cursor: [order, offset], the offset -1 before the first", _check_cursor)
START = Kind("start", '"BEGIN", "END" or a cursor', _check_start)
RANGES = Kind(
    "ranges",
    f"up to {RANGES_MAX} ranges of primary keys, in order and apart: [[first, end], …], bytes each, the end not among them",
    _check_ranges,
)
BUCKETS = Kind(
    "buckets", f'a text: the first and the last bucket, "0-3", or one, "5"; below {BUCKETS_MAX}', _check_buckets
)
LOAD = _pattern("load", LOAD_ID, "the id of a load: 32 hexadecimal digits, as LOAD_BEGIN gave them")
PART = _pattern(
    "part", PART_NAME, "1 to 200 letters, digits, _ . = and -, beginning with a letter, a digit or _", high=200
)
PLACE_IN_PART = integer("place", 0, 1 << 48, "bytes from the beginning of the part")
PIECE = Kind("piece", "bytes of a part file of a load, as many as a frame holds", _check_piece)
LOAD_NAME = text("load name", 1, limits.LOAD_NAME_BYTES_MAX)
ONCE = Kind("once", "a name of 1 to 255 bytes and a number: [name, number]", _check_once)
ON_CONFLICT = one_of("conflict", "merge", "replace", "skip", "error")
ON_REJECT = one_of("reject", "fail", "list")
JOURNAL = Kind("journal", 'the name of a journal, or "*" for all', _check_journal, lambda _, written: written)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a command."""

    name: str
    kind: Kind
    is_required: bool = False


class Parameters(dict[str, Parameter]):
    """The parameters of a command, by name. What each request is checked with is made once."""

    __slots__ = ("checks", "required")

    def __init__(self, parameters: Iterable[Parameter]) -> None:
        super().__init__((parameter.name, parameter) for parameter in parameters)
        self.checks = {name: (parameter.kind.check, parameter.is_required) for name, parameter in self.items()}
        self.required = tuple(name for name, parameter in self.items() if parameter.is_required)


def check_parameters(command: str, known: Parameters, given: Mapping[str, Any]) -> None:
    """Refuse parameters that a command does not have, or that are missing or not well-formed (P1)."""
    checks = known.checks
    for name, value in given.items():
        if name not in checks:
            raise Invalid(f"{command} has no parameter {shown(name)}: it has {', '.join(known) or 'none'}")
        check, is_required = checks[name]
        if value is not None or is_required:
            check(name, value)
    for name in known.required:
        if name not in given:
            raise Invalid(f"{command} needs the parameter {name}: {known[name].kind.meaning}")


def read_parameters(command: str, known: Parameters, written: Mapping[str, str]) -> dict[str, Any]:
    """The values of a line's texts, checked."""
    read: dict[str, Any] = {}
    for name, value in written.items():
        parameter = known.get(name)
        if parameter is None:
            raise Invalid(f"{command} has no parameter {shown(name)}: it has {', '.join(known) or 'none'}")
        if parameter.kind.read is None:
            raise Invalid(f"{name} of {command} cannot be written in a line: use frames")
        read[name] = parameter.kind.read(name, value)
    check_parameters(command, known, read)
    return read


def one_of_group(name: str, fields: Parameters) -> Kind:
    """One put, move or delete of a group: a map with the parameters of that command."""

    def check(parameter: str, value: Any) -> None:
        if type(value) is not dict:
            raise _refuse(parameter, value, f"a list of maps with the parameters of {name.upper()}")
        check_parameters(parameter, fields, value)

    return Kind(name, f"a map with the parameters of {name.upper()} except durability", check)
