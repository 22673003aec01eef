"""Load blocks and part files: what comes out is what went in, and anything else is refused."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from journal.core.loads.blocks import (
    LoadRow,
    PartEncoder,
    columns_in,
    columns_of,
    decode_block,
    encode_block,
    encode_columns,
)
from journal.errors import Invalid

DATES = st.none() | st.integers(0, (1 << 63) - 1)
ROWS = st.lists(
    st.builds(
        LoadRow,
        st.none() | st.text(st.characters(codec="utf-8"), max_size=5) | st.binary(max_size=5),
        st.binary(max_size=9),
        st.integers(0, 255),
        DATES,
        DATES,
        st.integers(0, (1 << 63) - 1),
        st.text(st.characters(codec="utf-8"), max_size=3),
    ),
    max_size=9,
)
BLOCK = encode_block([LoadRow("a", b"\x01"), LoadRow(b"b", b"\x02", 7, 8, 9, 10, "me")])


def part(*blocks: bytes) -> bytes:
    encoder = PartEncoder()
    return b"".join([encoder.begin(), *(piece for block in blocks for piece in encoder.block(block)), encoder.end()])


@given(ROWS)
def test_rows_come_back(rows: list[LoadRow]) -> None:
    """Whatever they are."""
    assert decode_block(encode_block(rows)) == rows


def test_columns_are_rows() -> None:
    """One value stands for all rows, a list for each; the short row has the usual values."""
    block = encode_columns(["a", "b"], [b"\x01", b"\x02"], 7, [1, None], owner="me")
    assert decode_block(block) == [LoadRow("a", b"\x01", 7, 1, owner="me"), LoadRow("b", b"\x02", 7, owner="me")]
    assert decode_block(encode_block([("a", b"\x01")])) == [LoadRow("a", b"\x01", 100, None, None, 0, "")]


@pytest.mark.parametrize("data", [1, "text", None, bytearray(b"\x01")])
def test_data_must_be_packed(data: Any) -> None:
    """Data that is not bytes was forgotten to be packed."""
    with pytest.raises(Invalid, match="packed"):
        encode_block([("a", data)])


def test_columns_must_have_one_length() -> None:
    """A list that is too short, or too long, is no column."""
    with pytest.raises(Invalid, match="2 rows, but 3 values of priority"):
        encode_columns(["a", "b"], [b"\x01", b"\x02"], [1, 2, 3])
    with pytest.raises(Invalid, match="2 rows, but 1 values of keys"):
        encode_columns(["a"], [b"\x01", b"\x02"])


def test_what_cannot_be_packed_is_refused() -> None:
    """A value that msgpack does not know."""
    with pytest.raises(Invalid, match="no row can have"):
        encode_columns(["a", "\ud800"], [b"\x01", b"\x02"])
    with pytest.raises(Invalid, match="no row can have"):
        encode_columns(["a"], [b"\x01"], process_date=1 << 80)


@given(st.binary(max_size=60))
@example(b"")
@example(BLOCK[:8])
def test_any_bytes_are_a_block_or_invalid(block: bytes) -> None:
    """Never another error."""
    try:
        columns_of(block)
    except Invalid:
        pass


@given(st.integers(0, len(BLOCK) - 1), st.integers(1, 255))
def test_a_changed_block_is_refused(at: int, change: int) -> None:
    """Every byte counts."""
    with pytest.raises(Invalid):
        columns_of(BLOCK[:at] + bytes((BLOCK[at] ^ change,)) + BLOCK[at + 1 :])
    with pytest.raises(Invalid):
        columns_of(BLOCK[:at])


@pytest.mark.parametrize("body", [1, [1], [1, 2, 3, 4, 5, 6, 7], [[], [], [], [], [], []], {"a": 1}])
def test_a_block_of_something_else_is_refused(body: Any) -> None:
    """A good checksum does not make columns."""
    packed = msgpack.packb(body)
    with pytest.raises(Invalid):
        columns_of(b"JLB1" + crc32(packed).to_bytes(4, "big") + packed)


@given(st.lists(ROWS, max_size=4), st.integers(1, 50))
def test_a_part_gives_its_blocks(blocks: list[list[LoadRow]], size: int) -> None:
    """However its bytes come."""
    whole = part(*map(encode_block, blocks))
    pieces = (whole[at : at + size] for at in range(0, len(whole), size))
    assert [list(columns.each()) for columns in columns_in(pieces, "p")] == blocks


WHOLE = part(BLOCK, encode_block([]), BLOCK)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_changed_part_is_refused(at: int, change: int) -> None:
    """Changed, cut at any byte, or longer than it was."""
    for bad in (WHOLE[:at] + bytes((WHOLE[at] ^ change,)) + WHOLE[at + 1 :], WHOLE[:at], WHOLE + WHOLE[: at + 1]):
        with pytest.raises(Invalid):
            list(columns_in(iter([bad]), "p"))


def test_a_part_without_a_block_of_it_is_refused() -> None:
    """Each block is good, and one of them is missing."""
    bad = WHOLE[:4] + WHOLE[4 + 4 + len(BLOCK) :]
    with pytest.raises(Invalid, match="p is damaged"):
        list(columns_in(iter([bad]), "p"))
