"""
The types of a request's fields: what callers may give, what stands in the request, and what is sent.

    accept      callers' argument -> the request's value: "5s" becomes 5000; what is wrong is refused with Invalid
    to_wire     the request's value -> a plain value; from_wire: the way back
    check       whether a plain value that was sent is well-formed
    read        the plain value of a text in a line

P1  A check is total: any plain value is accepted as it is or refused with Invalid. It converts nothing: what passes is what was sent.
P2  Dates and durations are whole milliseconds in a request and on the wire.
P3  A kind is a value of the table; nothing else decides whether an argument is well-formed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from journal.core import arguments, limits
from journal.core.buckets import BUCKETS_MAX, Range
from journal.core.entry.keys import key_bytes
from journal.core.entry.rows import pack_data
from journal.core.lifecycle import check_lease
from journal.core.limits import ID_MAX, LIST_MAX, TEXT_BYTES_MAX
from journal.core.loads.session import LOAD_ID, PART_NAME, load_id, part_name
from journal.core.log.cursor import Cursor
from journal.core.quoting import shown
from journal.core.settings import NAME as JOURNAL_NAME
from journal.core.snapshot_blocks import PARTS_MAX, RANGES_MAX, checked_ranges
from journal.core.times import date_ms, duration_ms
from journal.errors import Invalid

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
PLACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
"""A server or a service. A journal is a service: every name of a journal is one."""
Check = Callable[[str, Any], None]
Read = Callable[[str, str], Any]
Accept = Callable[[str, Any], Any]
Convert = Callable[[Any], Any]
U64_MAX = (1 << 64) - 1
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
"""As a line has it: neither an exponent, nor nan and inf, which would be numbers to Python."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """A type of parameters (P3)."""

    name: str
    meaning: str
    check: Check
    """Raises Invalid; gets the parameter's name for the message."""
    read: Read | None = None
    """The value of a text; None: it cannot stand in a line."""
    accept: Accept | None = None
    """The request's value of a caller's argument, by the parameter's name; None: as it is, checked by the backend."""
    to_wire: Convert | None = None
    from_wire: Convert | None = None
    """None: the request has what is sent."""
    words: tuple[str, ...] = ()
    """All values, when it is one of some words."""


def refuse(name: str, value: Any, meaning: str) -> Invalid:
    """What is wrong with a value that was sent."""
    return Invalid(f"{name} is {shown(value)}: it must be {meaning}")


def integer(name: str, low: int, high: int, meaning: str = "", accept: Accept | None = None) -> FieldType:
    """An int in a range."""
    text = f"an int from {low} to {high}" + (f", {meaning}" if meaning else "")

    def check(parameter: str, value: Any) -> None:
        if type(value) is not int or not low <= value <= high:
            raise refuse(parameter, value, text)

    def read(parameter: str, written: str) -> int:
        if not (written.isascii() and written.removeprefix("-").isdigit() and len(written) <= 20):
            raise refuse(parameter, written, text)
        return int(written)

    return FieldType(name, text, check, read, accept)


def text(name: str, low: int, high: int, meaning: str = "", accept: Accept | None = None) -> FieldType:
    """A text of so many bytes."""
    said = f"a text of {low} to {high} bytes" + (f", {meaning}" if meaning else "")

    def check(parameter: str, value: Any) -> None:
        if type(value) is not str or not low <= len(value.encode("utf-8", "replace")) <= high:
            raise refuse(parameter, value, said)

    return FieldType(name, said, check, lambda _, written: written, accept)


def one_of(name: str, *words: str, **ways: Any) -> FieldType:
    """One of some words."""
    said = " or ".join(f'"{word}"' for word in words)

    def check(parameter: str, value: Any) -> None:
        if type(value) is not str or value not in words:
            raise refuse(parameter, value, said)

    def accept(parameter: str, value: Any) -> str:
        if type(value) is not str or value not in words:
            raise Invalid(f"{parameter} is {value!r}: it must be one of {', '.join(words)}")
        return value

    return FieldType(name, said, check, lambda _, written: written, words=words, **{"accept": accept, **ways})


def list_of(kind: FieldType, high: int = LIST_MAX) -> FieldType:
    """A list of values of one kind."""
    said = f"a list of up to {high}: {kind.name}"

    def check(parameter: str, value: Any) -> None:
        if type(value) is not list or len(value) > high:
            raise refuse(parameter, value, said)
        for item in value:
            kind.check(parameter, item)

    def read(parameter: str, written: str) -> list[Any]:
        assert kind.read is not None
        return [kind.read(parameter, part) for part in written.split(",") if part]

    accept, to_wire, from_wire = kind.accept, kind.to_wire, kind.from_wire
    return FieldType(
        f"[{kind.name}]", said, check, None if kind.read is None else read,
        None if accept is None else lambda name, items: [accept(name, item) for item in arguments.listed(items, name)],
        None if to_wire is None else lambda items: [to_wire(item) for item in items],
        None if from_wire is None else lambda items: [from_wire(item) for item in items],
    )  # fmt: skip


def or_null(kind: FieldType) -> FieldType:
    """A value of a kind, or null."""

    def check(parameter: str, value: Any) -> None:
        if value is not None:
            kind.check(parameter, value)

    to_wire, from_wire = kind.to_wire, kind.from_wire
    return FieldType(
        f"{kind.name} or null", f"{kind.meaning}, or null", check,
        to_wire=None if to_wire is None else lambda value: None if value is None else to_wire(value),
        from_wire=None if from_wire is None else lambda value: None if value is None else from_wire(value),
    )  # fmt: skip


def _check_key(parameter: str, value: Any) -> None:
    size = len(value) if type(value) is bytes else len(value.encode("utf-8", "replace")) if type(value) is str else 0
    if not 0 < size <= limits.KEY_BYTES_MAX:
        raise refuse(parameter, value, KEY.meaning)


def _check_prefix(parameter: str, value: Any) -> None:
    if type(value) not in (str, bytes) or len(value) > limits.KEY_BYTES_MAX:
        raise refuse(parameter, value, PREFIX.meaning)


def _check_packed(parameter: str, value: Any) -> None:
    if type(value) is not bytes or not value:
        raise refuse(parameter, value, PACKED.meaning)


def _check_bytes(parameter: str, value: Any) -> None:
    if type(value) is not bytes or not 0 < len(value) <= 256:
        raise refuse(parameter, value, BYTES.meaning)


def _check_bool(parameter: str, value: Any) -> None:
    if type(value) is not bool:
        raise refuse(parameter, value, BOOL.meaning)


def _read_bool(parameter: str, written: str) -> bool:
    if written not in ("true", "false"):
        raise refuse(parameter, written, BOOL.meaning)
    return written == "true"


def _read_number(parameter: str, written: str) -> int | float:
    if len(written) > 40 or _NUMBER.fullmatch(written) is None:
        raise refuse(parameter, written, NUMBER.meaning)
    return float(written) if "." in written else int(written)


def _check_number(parameter: str, value: Any) -> None:
    if type(value) not in (int, float) or not abs(value) < 1e18:
        raise refuse(parameter, value, NUMBER.meaning)


def _check_map(parameter: str, value: Any) -> None:
    if type(value) is not dict or not all(NAME.fullmatch(name) for name in value):
        raise refuse(parameter, value, MAP.meaning)


def _check_cursor(parameter: str, value: Any) -> None:
    if (
        type(value) is not list
        or [type(part) for part in value] != [int, int]
        or not (0 <= value[0] < 1 << 32 and -1 <= value[1] < 1 << 40)
    ):
        raise refuse(parameter, value, CURSOR.meaning)


def _check_start(parameter: str, value: Any) -> None:
    if value not in ("BEGIN", "END"):
        if type(value) is str:
            raise refuse(parameter, value, START.meaning)
        _check_cursor(parameter, value)


def _pattern(name: str, pattern: Any, meaning: str, high: int = 64, accept: Accept | None = None) -> FieldType:
    def check(parameter: str, value: Any) -> None:
        if type(value) is not str or len(value) > high or pattern.fullmatch(value) is None:
            raise refuse(parameter, value, meaning)

    return FieldType(name, meaning, check, lambda _, written: written, accept)


def _check_journal(parameter: str, value: Any) -> None:
    if value != "*" and (type(value) is not str or JOURNAL_NAME.fullmatch(value) is None):
        raise refuse(parameter, value, JOURNAL.meaning)


def _check_buckets(parameter: str, value: Any) -> None:
    try:
        Range.parse(value)
    except Invalid as e:
        raise refuse(parameter, value, BUCKETS.meaning) from e


def _check_piece(parameter: str, value: Any) -> None:
    if type(value) is not bytes:
        raise refuse(parameter, value, PIECE.meaning)


def _check_once(parameter: str, value: Any) -> None:
    if type(value) is not list or len(value) != 2:
        raise refuse(parameter, value, ONCE.meaning)
    LOAD_NAME.check(parameter, value[0])
    DATE.check(parameter, value[1])


def _check_ranges(parameter: str, value: Any) -> None:
    try:
        checked_ranges(value)
    except Invalid as e:
        raise Invalid(f"{parameter}: {e}") from e


def _accept_key(_: str, key: Any) -> Any:
    key_bytes(key)
    return key


def _accept_owner(_: str, owner: Any) -> str:
    if owner is None:
        raise Invalid("owner is None: entries without an owner are in no index; give the name of a producer group")
    arguments.owner_bytes(owner)
    return str(owner)


def _accept_cursor(_: str, cursor: Any) -> Cursor:
    if not isinstance(cursor, Cursor):
        raise Invalid(f"{cursor!r} is no journal.Cursor")
    return cursor


def _accept_int(name: str, value: Any) -> int:
    if type(value) is not int:
        raise Invalid(f"{name} is {value!r}: it must be an int")
    return value


def _accept_span(name: str, span: Any) -> int:
    ms = duration_ms(span, name)
    if ms < 1:
        raise Invalid(f"{name} must be at least 1 ms")
    return ms


def _accept_token(_: str, lease: Any) -> int:
    token = arguments.token_of(lease)
    if not 0 <= token <= U64_MAX:
        check_lease(token, None, 0, 0)  # no lease has such a number
    return token


def _accept_buckets(_: str, buckets: Any) -> Range:
    if not isinstance(buckets, Range):
        raise Invalid(f"buckets is {buckets!r}: it must be a journal.Range, e.g. journal.Range.parse('0-3'), or None")
    return buckets


def _accept_feed_consumer(_: str, consumer: Any) -> str:
    if not arguments.consumer_name(consumer):
        raise Invalid("a feed consumer has a name of at least one character")
    return str(consumer)


def _accept_once(_: str, once: Any) -> tuple[str, int]:
    if not isinstance(once, (tuple, list)) or len(once) != 2:
        raise Invalid(f'once is {once!r}: it must be a name and a number, e.g. ("nightly", 7)')
    name, number = once
    arguments.name_text(name, "the name of a load", limits.LOAD_NAME_BYTES_MAX)
    if type(number) is not int or not 0 <= number <= limits.DATE_MAX:
        raise Invalid(f"the number of a load is {number!r}: it must be an int from 0 to {limits.DATE_MAX}")
    return name, number


_STATUS_WORDS = {"W": "waiting", "P": "processing", arguments.AVAILABLE: "available", arguments.BURIED: "buried"}
_STATUS_OF = {word: status for status, word in _STATUS_WORDS.items()}


@lru_cache(maxsize=4096)
def range_of(buckets: str) -> Range:
    """The range that a text means; the same object each time, which the engine recognises."""
    return Range.parse(buckets)


def _start_from(value: Any) -> str | Cursor:
    return value if type(value) is str else Cursor(*value)


DATE = integer("date", 0, limits.DATE_MAX, "milliseconds since the epoch", lambda name, date: date_ms(date, name))
DURATION = integer("duration", 0, limits.DURATION_MAX, "milliseconds", lambda name, span: duration_ms(span, name))
LEASE = integer("lease", 1, limits.DURATION_MAX, "milliseconds", lambda _, lease: arguments.lease_ms(lease))
SPAN = integer("span", 1, limits.DURATION_MAX, "milliseconds", _accept_span)
PRIORITY = integer("priority", 0, limits.PRIORITY_MAX, accept=lambda _, priority: arguments.check_priority(priority))
VERSION = integer("version", 0, limits.VERSION_MAX, accept=lambda _, version: arguments.version_number(version))
TOKEN = integer("token", 0, U64_MAX, accept=_accept_token)
COUNT = integer("count", 1, LIST_MAX)
LIMIT = integer("count", 1, LIST_MAX, accept=lambda _, limit: arguments.limit_number(limit))
PARTS = integer("parts", 1, PARTS_MAX)
CREDIT = integer("credit", 0, LIST_MAX)
STEPS = integer("steps", -(1 << 53), 1 << 53, accept=_accept_int)
PORT = integer("port", 1, 65_535)
ID = integer("id", 1, ID_MAX)
LEVEL = one_of("durability", *arguments.LEVELS)
STATUS = one_of(
    "status", *_STATUS_OF, accept=lambda _, status: arguments.status_of(status),
    to_wire=_STATUS_WORDS.__getitem__, from_wire=_STATUS_OF.__getitem__,
)  # fmt: skip
CONSUMER = text(
    "consumer", 0, limits.CONSUMER_BYTES_MAX, "one that this identity may act under",
    lambda _, consumer: arguments.consumer_name(consumer),
)  # fmt: skip
OWNER = text("owner", 1, limits.OWNER_BYTES_MAX, "a group that this identity may act under", _accept_owner)
FEED_CONSUMER = text(
    "feed consumer", 1, limits.CONSUMER_BYTES_MAX, "one that this identity may act under", _accept_feed_consumer
)
FLAG = text(
    "flag", 1, limits.FLAG_BYTES_MAX, accept=lambda name, flag: arguments.name_text(flag, name, limits.FLAG_BYTES_MAX)
)
TEXT = text("text", 0, TEXT_BYTES_MAX)
REASON = text("text", 0, TEXT_BYTES_MAX, accept=lambda _, reason: arguments.reason_text(reason))
PLACES = _pattern("name", PLACE, "1 to 64 letters, digits, _ . and -")
KEY = FieldType("key", f"a text or bytes of 1 to {limits.KEY_BYTES_MAX} bytes", _check_key, accept=_accept_key)
PREFIX = FieldType(
    "prefix", f"a text or bytes of up to {limits.KEY_BYTES_MAX} bytes: what a key begins with", _check_prefix,
    accept=lambda _, prefix: arguments.check_prefix(prefix),
)  # fmt: skip
PACKED = FieldType(
    "packed", "bytes: one packed msgpack value, which the daemon passes on as it is", _check_packed, to_wire=pack_data
)
BYTES = FieldType("bytes", "1 to 256 bytes, as the daemon gave them", _check_bytes)
AFTER = FieldType(
    "bytes", BYTES.meaning, _check_bytes, accept=lambda _, after: arguments.page_start(after)[:-1],
)  # fmt: skip
"""Where a page of entries begins: behind a primary key."""
BURIED_AFTER = FieldType("bytes", BYTES.meaning, _check_bytes, accept=lambda _, after: arguments.buried_start(after))
BOOL = FieldType("bool", "true or false", _check_bool, _read_bool, accept=lambda _, value: bool(value))
NUMBER = FieldType("number", "an int or a float", _check_number, _read_number)
MAP = FieldType("map", "a map with names as keys", _check_map)
CURSOR = FieldType(
    "cursor", "a cursor: [order, offset], the offset -1 before the first", _check_cursor,
    accept=_accept_cursor, to_wire=list, from_wire=lambda value: Cursor(*value),
)  # fmt: skip
START = FieldType(
    "start", '"BEGIN", "END" or a cursor', _check_start,
    to_wire=lambda start: list(start) if isinstance(start, Cursor) else start, from_wire=_start_from,
)  # fmt: skip
RANGES = FieldType(
    "ranges",
    f"up to {RANGES_MAX} ranges of primary keys, in order and apart: [[first, end], …], bytes each, the end not among them",
    _check_ranges,
    to_wire=lambda ranges: [list(each) for each in ranges],
    from_wire=checked_ranges,
)
BUCKETS = FieldType(
    "buckets", f'a text: the first and the last bucket, "0-3", or one, "5"; below {BUCKETS_MAX}', _check_buckets,
    accept=_accept_buckets, to_wire=str, from_wire=range_of,
)  # fmt: skip
LOAD = _pattern(
    "load",
    LOAD_ID,
    "the id of a load: 32 hexadecimal digits, as LOAD_BEGIN gave them",
    accept=lambda _, load: load_id(load),
)
PART = _pattern(
    "part", PART_NAME, "1 to 200 letters, digits, _ . = and -, beginning with a letter, a digit or _", high=200,
    accept=lambda _, name: part_name(name),
)  # fmt: skip
PLACE_IN_PART = integer("place", 0, 1 << 48, "bytes from the beginning of the part")
PIECE = FieldType("piece", "bytes of a part file of a load, as many as a frame holds", _check_piece)
LOAD_NAME = text("load name", 1, limits.LOAD_NAME_BYTES_MAX)
ONCE = FieldType(
    "once", "a name of 1 to 255 bytes and a number: [name, number]", _check_once,
    accept=_accept_once, to_wire=list, from_wire=tuple,
)  # fmt: skip
ON_CONFLICT = one_of("conflict", "merge", "replace", "skip", "error")
ON_REJECT = one_of("reject", "fail", "list")
JOURNAL = FieldType("journal", 'the name of a journal, or "*" for all', _check_journal, lambda _, written: written)
