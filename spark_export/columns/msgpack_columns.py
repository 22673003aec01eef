"""
Columns packed as msgpack, a whole column at a time: what `msgpack.Packer` gives for a map of each row, byte for byte.

A value is a head, which numpy makes for all rows, and for texts and bytes what Arrow has of it already. What lies between two texts is
one *ragged* column: rows of a matrix of bytes of which some are left out.

K1  Of a type that is not known here, each value is packed by msgpack itself. What that cannot pack is the caller's: `Invalid`.
K2  A field that is null is left out of its row's map (rows R3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute as pc
from pyarrow import types as kinds

from journal.errors import Invalid
from spark_export.columns.arrow_values import milliseconds, values_of
from spark_export.columns.mapping import FieldColumn

Octets = NDArray[np.uint8]
Mask = NDArray[np.bool_]
_FIX_MAP_MAX = 15
_INT_STEPS = np.array([1 << 7, 1 << 8, 1 << 16, 1 << 32], np.uint64)
_NEGATIVE_STEPS = np.array([1 << 5, 1 << 7, 1 << 15, 1 << 31], np.uint64)
_SIZES = np.array([1, 2, 3, 5, 9])
_HEADS = np.array([0, 0xCC, 0xCD, 0xCE, 0xCF], np.uint8)
_NEGATIVE_HEADS = np.array([0, 0xD0, 0xD1, 0xD2, 0xD3], np.uint8)


class Ragged:
    """Bytes that are made for all rows at once, piece by piece, until they are taken as a column."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._pieces: list[Octets] = []
        self._masks: list[Mask | None] = []

    def add(self, octets: Octets | bytes, mask: Mask | None = None) -> None:
        """Add bytes to each row: the same, or a matrix; `mask` has what counts of them, for a row or for each byte."""
        if isinstance(octets, bytes):
            octets = np.broadcast_to(np.frombuffer(octets, np.uint8), (self._rows, len(octets)))
        self._pieces.append(octets)
        self._masks.append(None if mask is None else np.broadcast_to(mask, octets.shape))

    def taken(self) -> pa.Array:
        """All of it, as a column."""
        matrix = np.concatenate(self._pieces, axis=1)
        if all(mask is None for mask in self._masks):
            body, sizes = matrix, np.full(self._rows, matrix.shape[1])
        else:
            masks = [
                np.ones(piece.shape, np.bool_) if mask is None else mask
                for piece, mask in zip(self._pieces, self._masks, strict=True)
            ]
            whole = np.concatenate(masks, axis=1)
            body, sizes = matrix[whole], np.count_nonzero(whole, axis=1)
        self._pieces, self._masks = [], []
        return binary_of(body, sizes)


def binary_of(octets: Octets, sizes: NDArray[Any]) -> pa.Array:
    """A column of bytes out of those of all rows, and how many each has."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(octets))]
    )


def packed_fields(batch: pa.RecordBatch, fields: Sequence[FieldColumn]) -> list[pa.Array]:
    """Columns that, joined, are the packed maps of a batch (K2)."""
    columns = [batch.column(one.column) for one in fields]
    ragged = Ragged(batch.num_rows)
    _add_map_head(ragged, columns)
    found: list[pa.Array] = []
    for one, column in zip(fields, columns, strict=True):
        there = None if not column.null_count else np.asarray(column.is_valid())[:, None]
        ragged.add(msgpack.packb(one.field), there)
        texts = _add_value(ragged, column, there)
        if texts is not None:
            found += (ragged.taken(), texts)
    if ragged._pieces:
        found.append(ragged.taken())
    return found


def _add_map_head(ragged: Ragged, columns: Sequence[pa.Array]) -> None:
    size = len(columns)
    counts = np.full(len(columns[0]) if columns else 0, size)
    for column in columns:
        if column.null_count:
            counts -= np.asarray(column.is_null())
    if size <= _FIX_MAP_MAX:
        ragged.add((0x80 + counts).astype(np.uint8)[:, None])
        return
    heads = np.concatenate(
        [np.full((len(counts), 1), 0xDE, np.uint8), counts.astype(">u2").view(np.uint8).reshape(-1, 2)], axis=1
    )
    small = counts <= _FIX_MAP_MAX
    heads[small, 0] = 0x80 + counts[small]
    ragged.add(heads, np.stack([np.ones_like(small), ~small, ~small], axis=1))


def _add_value(ragged: Ragged, column: pa.Array, there: Mask | None) -> pa.Array | None:
    """Add a column's values, or only what comes before them: then they are returned, to be joined next."""
    kind = column.type
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        column.validate(full=True)
        return _add_bytes(ragged, column, there, (0xD9, 0xDA, 0xDB), fixed=0xA0)
    if kinds.is_binary(kind) or kinds.is_large_binary(kind):
        return _add_bytes(ragged, column, there, (0xC4, 0xC5, 0xC6), fixed=None)
    if kinds.is_timestamp(kind):
        column, kind = milliseconds(column), pa.int64()
    if kinds.is_boolean(kind):
        values = np.asarray(pc.fill_null(column, False))
        ragged.add((0xC2 + values.astype(np.uint8))[:, None], there)
    elif kinds.is_integer(kind):
        _add_ints(ragged, pc.fill_null(column, 0).to_numpy(zero_copy_only=False), there)
    elif kinds.is_float32(kind) or kinds.is_float64(kind):
        values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False).astype(">f8")
        ragged.add(b"\xcb", there)
        ragged.add(values.view(np.uint8).reshape(-1, 8), there)
    else:
        return _packed_each(column)
    return None


def _add_ints(ragged: Ragged, values: NDArray[Any], there: Mask | None) -> None:
    """The shortest form of each."""
    is_negative = values < 0
    numbers = values.astype(np.uint64)
    steps = np.searchsorted(_INT_STEPS, numbers, side="right")
    heads = _HEADS[steps]
    if is_negative.any():
        below = ~numbers[is_negative]  # -1 is 0, -2 is 1, …
        steps[is_negative] = np.searchsorted(_NEGATIVE_STEPS, below, side="right")
        heads[is_negative] = _NEGATIVE_HEADS[steps[is_negative]]
    width = int(_SIZES[steps].max())
    octets = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
    if width == 1:
        ragged.add(octets[:, 7:], there)
        return
    sizes = _SIZES[steps]
    matrix = np.concatenate([heads[:, None], octets[:, 9 - width :]], axis=1)
    if int(sizes.min()) == width:  # all of one size, as numbers that count something often are
        ragged.add(matrix, there)
        return
    places = np.arange(width)
    mask = places > width - sizes[:, None]
    mask[:, 0] = sizes > 1
    mask[sizes == 1, width - 1] = True
    ragged.add(matrix, mask if there is None else mask & there)


def _add_bytes(
    ragged: Ragged, column: pa.Array, there: Mask | None, heads: tuple[int, int, int], fixed: int | None
) -> pa.Array:
    sizes = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    low, high = (int(sizes.min()), int(sizes.max())) if len(sizes) else (0, 0)
    classes = [0, 32, 1 << 8, 1 << 16] if fixed is not None else [0, 0, 1 << 8, 1 << 16]
    first, last = (int(np.searchsorted(classes, size, side="right")) - 1 for size in (low, high))
    octets = sizes.astype(">u4").view(np.uint8).reshape(-1, 4)
    if first == last:  # all of one kind, the usual case
        if first == 0:
            ragged.add((np.uint8(fixed or 0) + sizes.astype(np.uint8))[:, None], there)
        else:
            ragged.add(bytes((heads[first - 1],)), there)
            ragged.add(octets[:, (3, 2, 0)[first - 1] :], there)
    else:
        steps = np.searchsorted(classes, sizes, side="right") - 1
        matrix = np.concatenate([np.array([0, *heads], np.uint8)[steps][:, None], octets], axis=1)
        short = steps == 0
        matrix[short, 0] = (fixed or 0) + sizes[short]
        mask = np.arange(5) >= np.array([5, 4, 3, 1])[steps][:, None]
        mask[:, 0] = True
        ragged.add(matrix, mask if there is None else mask & there)
    values = column.cast(pa.binary())
    return pc.fill_null(values, b"") if column.null_count else values


def _packed_each(column: pa.Array) -> pa.Array:
    """Each value packed by msgpack (K1); of a null nothing."""
    pack = msgpack.Packer().pack
    try:
        found = [b"" if value is None else pack(value) for value in values_of(column, None)]
        for one in found:
            if one:
                msgpack.unpackb(one, strict_map_key=False)
    except (TypeError, ValueError, OverflowError, RecursionError) as e:
        raise Invalid(f"a value cannot be packed: {e}") from e
    return pa.array(found, pa.binary())
