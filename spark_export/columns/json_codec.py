"""
An entry's data as JSON, without loss: what msgpack has and JSON has not is written as an object with one name that begins with $.

    {"$bytes": "AAEC"}                  bytes, in base64
    {"$float": "nan"}                   nan, inf, -inf
    {"$ext": [5, "AAEC"]}               an extension type and its bytes
    {"$map": [[1, "a"], …]}             a map with a key that is no text, or whose only key begins with $

X1  `value_of(to_json(packed))` is the same value, type by type, as `packed` unpacks to.
X2  Texts with lone surrogates do not exist: msgpack does not pack them.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable
from json.encoder import c_make_encoder, encode_basestring  # type: ignore[attr-defined] # as json.JSONEncoder uses them
from typing import Any

import msgpack

from journal.core.entry.rows import unpack_data
from journal.errors import Invalid

_SPECIAL = ("$bytes", "$float", "$ext", "$map")
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _default(value: Any) -> Any:
    """Encodes the values that the encoder does not support."""
    if type(value) is bytes:
        return {"$bytes": base64.b64encode(value).decode()}
    raise TypeError


def _encoder() -> Callable[[Any], str]:
    """The standard library's encoder, made once: `JSONEncoder.encode` makes a new one for each value, 3 of 5 µs."""
    made = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_default)
    if c_make_encoder is None:
        return made.encode
    chunks = c_make_encoder(None, _default, encode_basestring, None, ":", ",", False, False, False)
    return lambda value: "".join(chunks(value, 0))


_encode = _encoder()


def to_json(packed: bytes) -> str:
    """The JSON of packed data."""
    if b"$" not in packed:  # then no map in it can look like one of ours
        try:
            # Keys that are no text, extension types, nan and inf raise here.
            return _encode(msgpack.unpackb(packed, strict_map_key=True, ext_hook=_no_ext))
        except (TypeError, ValueError):
            pass
    return json_of(unpack_data(packed))


def json_of(value: Any) -> str:
    """The JSON of data."""
    if isinstance(value, str | int | None):
        return _encode(value)
    return _encode(_plain(value))


def _no_ext(code: int, data: bytes) -> Any:
    raise TypeError


def value_of(text: str) -> Any:
    """The data of JSON; Invalid when it is none."""
    try:
        return _real(json.loads(text, parse_constant=_refused))
    except (ValueError, RecursionError) as e:
        raise Invalid(f"the data is no JSON of ours: {e}") from e


def real_of(value: Any) -> Any:
    """The data that a value of JSON, parsed by the caller, stands for; Invalid when it is none."""
    try:
        return _real(value)
    except (ValueError, RecursionError) as e:
        raise Invalid(f"the data is no JSON of ours: {e}") from e


def _refused(word: str) -> Any:
    raise ValueError(f'{word} is no JSON: write {{"$float": "nan"}}, "inf" or "-inf"')


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        is_special = len(value) == 1 and str(next(iter(value)))[:1] == "$"
        if is_special or not all(type(name) is str for name in value):
            return {"$map": [[_plain(name), _plain(each)] for name, each in value.items()]}
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple) and not isinstance(value, msgpack.ExtType):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    if isinstance(value, msgpack.Timestamp):
        return {"$ext": [-1, base64.b64encode(value.to_bytes()).decode()]}
    if isinstance(value, msgpack.ExtType):
        return {"$ext": [value.code, base64.b64encode(value.data).decode()]}
    return value


def _real(value: Any) -> Any:
    if isinstance(value, list):
        return [_real(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        name = next(iter(value))
        if name[:1] == "$":
            try:
                return _READ[name](value[name])
            except (KeyError, TypeError, binascii.Error) as e:
                raise ValueError(f"{name} has no such value here; the names with $ are {', '.join(_SPECIAL)}") from e
    return {name: _real(each) for name, each in value.items()}


def _ext(value: Any) -> Any:
    code, text = value
    raw = base64.b64decode(text, validate=True)
    return msgpack.Timestamp.from_bytes(raw) if code == -1 else msgpack.ExtType(code, raw)


_READ: dict[str, Callable[[Any], Any]] = {
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$float": lambda word: _FLOATS[word],
    "$ext": _ext,
    "$map": lambda pairs: {_real(name): _real(each) for name, each in pairs},
}
