"""
The types that a field of a schema may have: their names, what each accepts, and what two of them have in common.

    text  bytes  bool  float  date_ms  list  map  any
    int (signed, 64 bits)  int8  int16  int32  uint8  uint16  uint32  uint64

T1  A type has one name. Other spellings (Python's types, C's, those of table declarations) are turned into it on the way in.
T2  What a check returns passes the same check unchanged.
T3  `joined` is commutative, associative and idempotent, and `any` absorbs: the order of generations does not matter.
T4  No join loses a digit, but for int and float, which is float. uint64 meets signed integers and floats only in `any`:
    no integer type holds both, and a float would round what is often a hash or an id.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from journal.core.limits import DATE_MAX
from journal.core.times import date_ms
from journal.errors import Invalid

Check = Callable[[Any], Any]

# By size: the first one that holds a range is the smallest.
INTEGERS: dict[str, tuple[int, int]] = {
    "uint8": (0, (1 << 8) - 1),
    "int8": (-(1 << 7), (1 << 7) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint64": (0, (1 << 64) - 1),
    "int": (-(1 << 63), (1 << 63) - 1),
}
TYPES = ("text", "bytes", "bool", *INTEGERS, "float", "date_ms", "list", "map", "any")
KEY_TYPES = frozenset({"text", "bytes", "bool", "date_ms", *INTEGERS})
"""What a key can be made of: values with one spelling. 0.0 and -0.0 are equal floats with two."""

_SPELLINGS: dict[str, str] = {
    **{name: name for name in TYPES},
    **{f"{name}_t": name for name in INTEGERS if name != "int"},
    **{f"bits{size}": f"uint{size}" for size in (8, 16, 32, 64)},
    **{f"bits{size}": "bytes" for size in (128, 256, 512)},
    "int64": "int", "int64_t": "int", "oid": "uint64",
    "string": "text", "str": "text", "char": "text", "binary": "bytes", "dict": "map",
    "float32": "float", "float64": "float", "double": "float",
    "time_milliseconds": "date_ms", "time_ms_t": "date_ms", "datetime": "date_ms",
    # Dates in another unit stay numbers: as date_ms they would be read as a date in 1970, or far ahead.
    "time_seconds": "int", "time_t": "int", "time_microseconds": "int",
}  # fmt: skip
_PYTHON: dict[Any, str] = {
    str: "text", bytes: "bytes", bool: "bool", int: "int", float: "float", datetime: "date_ms",
    list: "list", tuple: "list", dict: "map", object: "any", Any: "any",
}  # fmt: skip
_TOO_WIDE = re.compile(r"u?int(128|256|512)(_t)?|float128")

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 100


def shown(value: Any) -> str:
    """A value in a message: short, whatever it is."""
    try:
        return _REPR.repr(value)
    except ValueError:  # an int of thousands of digits has no text
        return f"a value of type {type(value).__name__} with too many digits to show"


def type_name(given: Any) -> str:
    """The name of a type, from any of its spellings (T1)."""
    if isinstance(given, str):
        found = _SPELLINGS.get(given)
    else:
        found = next((name for python, name in _PYTHON.items() if given is python), None)
    if found is not None:
        return found
    hint = ""
    if isinstance(given, str) and _TOO_WIDE.fullmatch(given):
        hint = ". Nothing is wider than 64 bits: keep it as bytes or text"
    raise Invalid(f"{shown(given)} is not a type of a field: the types are {', '.join(TYPES)}{hint}")


def joined(a: str, b: str) -> str:
    """The narrowest type that holds the values of both (T3, T4)."""
    if a == b:
        return a
    if a in INTEGERS and b in INTEGERS:
        low = min(INTEGERS[a][0], INTEGERS[b][0])
        high = max(INTEGERS[a][1], INTEGERS[b][1])
        return next((name for name, (least, most) in INTEGERS.items() if least <= low and high <= most), "any")
    if "float" in (a, b) and (a in INTEGERS or b in INTEGERS) and "uint64" not in (a, b):
        return "float"
    return "any"


def check_of(kind: str, name: str) -> Check:
    """The check of a field: takes a value that is not None, returns it as it is stored, or raises Invalid."""
    if kind in INTEGERS:
        return _integer(kind, name)
    return _CHECKS[kind](name)


def _wrong(name: str, value: Any, kind: str, wanted: str) -> Invalid:
    found = type(value).__name__
    return Invalid(f"the field {name!r} ({kind}) is {shown(value)}, which is {found}: it must be {wanted}")


def _integer(kind: str, name: str) -> Check:
    low, high = INTEGERS[kind]

    def check(value: Any) -> int:
        if type(value) is int and low <= value <= high:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            plain = int.__int__(value)  # an IntEnum's member is stored as its number
            if low <= plain <= high:
                return plain
        raise _wrong(name, value, kind, f"an int from {low} to {high}")

    return check


def _text(name: str) -> Check:
    def check(value: Any) -> str:
        if type(value) is str and value.isascii():
            return value
        if isinstance(value, str):
            plain = str.__str__(value)  # a StrEnum's member is stored as its text
            try:
                plain.encode()
            except UnicodeEncodeError as e:
                raise Invalid(f"the field {name!r} (text) has lone surrogates: declare it as bytes") from e
            return plain
        raise _wrong(name, value, "text", "a str")

    return check


def _bytes(name: str) -> Check:
    def check(value: Any) -> bytes:
        if type(value) is bytes:
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        raise _wrong(name, value, "bytes", "bytes")

    return check


def _bool(name: str) -> Check:
    def check(value: Any) -> bool:
        if value is True or value is False:
            return value
        raise _wrong(name, value, "bool", "True or False")

    return check


def _float(name: str) -> Check:
    def check(value: Any) -> float:
        if type(value) is float:
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError as e:
                raise _wrong(name, value, "float", "a float, or an int that is not larger than any float") from e
        raise _wrong(name, value, "float", "a float or an int")

    return check


def _date(name: str) -> Check:
    what = f"the field {name!r} (date_ms)"

    def check(value: Any) -> int:
        if type(value) is int and 0 <= value <= DATE_MAX:
            return value
        if isinstance(value, datetime):
            return date_ms(value, what)
        raise _wrong(name, value, "date_ms", f"0 to {DATE_MAX} milliseconds since the epoch, or an aware datetime")

    return check


def _list(name: str) -> Check:
    def check(value: Any) -> list[Any]:
        if type(value) is list:
            return value
        if isinstance(value, list | tuple):
            return list(value)
        raise _wrong(name, value, "list", "a list or a tuple")

    return check


def _map(name: str) -> Check:
    def check(value: Any) -> dict[Any, Any]:
        if type(value) is dict:
            return value
        if isinstance(value, Mapping):
            return dict(value)
        raise _wrong(name, value, "map", "a dict")

    return check


def _any(name: str) -> Check:
    def check(value: Any) -> Any:
        return value

    return check


_CHECKS: dict[str, Callable[[str], Check]] = {
    "text": _text,
    "bytes": _bytes,
    "bool": _bool,
    "float": _float,
    "date_ms": _date,
    "list": _list,
    "map": _map,
    "any": _any,
}
