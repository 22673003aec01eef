"""Frames."""

from __future__ import annotations

import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import FrameError, Invalid
from journal.net.wire.frames import (
    ID_MAX,
    KINDS,
    LENGTH,
    Alive,
    Bye,
    Credit,
    Decoder,
    Encoder,
    Failure,
    Frame,
    Hello,
    Prove,
    Push,
    Reply,
    RequestFrame,
    Welcome,
    name_of,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | TEXT
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)
MAPS = st.dictionaries(TEXT, PLAIN, max_size=4)
NUMBERS = st.integers(1, ID_MAX)
FRAMES: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Hello, TEXT, st.integers(0, 9), st.integers(0, 9), MAPS),
    st.builds(Prove, TEXT, st.binary(max_size=40)),
    st.builds(Welcome, TEXT, st.lists(TEXT, max_size=3), st.binary(max_size=40)),
    st.builds(RequestFrame, NUMBERS, st.sampled_from(["PUT", "A_1"]), st.sampled_from(["", "pages", "0.a-b"]), MAPS),
    st.builds(Reply, NUMBERS, PLAIN),
    st.builds(Failure, st.integers(0, ID_MAX), TEXT, TEXT, MAPS),
    st.builds(Push, NUMBERS, NUMBERS, st.lists(PLAIN, max_size=3)),
    st.builds(Credit, NUMBERS, NUMBERS),
    st.builds(Bye, TEXT),
    st.builds(Alive, NUMBERS),
)


def framed(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body


def nested(depth: int) -> Any:
    value: Any = 7
    for _ in range(depth):
        value = [value]
    return value


def taken(decoder: Decoder) -> list[Frame]:
    return list(iter(decoder.next, None))


@given(st.lists(FRAMES, max_size=6), st.lists(st.integers(1, 40), min_size=1))
def test_frames_come_back_however_they_are_cut(frames: list[Frame], sizes: list[int]) -> None:
    """The bytes of a stream come in any pieces; the frames are the same."""
    stream = b"".join(map(Encoder(1 << 20), frames))
    decoder, found, at, turn = Decoder(1 << 20), [], 0, 0
    while at < len(stream):
        size = sizes[turn % len(sizes)]
        decoder.feed(stream[at : at + size])
        found += taken(decoder)
        at, turn = at + size, turn + 1
    assert found == frames
    assert [type(frame) for frame in found] == [type(frame) for frame in frames]
    assert decoder.buffered == 0 and not decoder.has_part


@given(st.binary(max_size=80), st.booleans())
def test_any_bytes_give_frames_or_a_frame_error(raw: bytes, is_framed: bool) -> None:
    """Garbage is met with one error, and nothing else; after it the decoder is dead."""
    decoder = Decoder(1 << 16)
    try:
        decoder.feed(framed(raw or b"\x90") if is_framed else raw)
        taken(decoder)
    except FrameError:
        assert decoder.buffered == 0
        for use in (lambda: decoder.feed(b""), decoder.next):
            with pytest.raises(FrameError):
                use()


@given(FRAMES, st.data())
def test_damaged_frames(frame: Frame, data: st.DataObject) -> None:
    """A frame with a flipped byte is a frame or a FrameError; one that was cut is waited for."""
    raw = bytearray(Encoder(1 << 20)(frame))
    at = data.draw(st.integers(0, len(raw) - 1))
    decoder = Decoder(1 << 20)
    decoder.feed(raw[:at])
    assert decoder.next() is None and decoder.has_part == (at > 0)
    raw[at] ^= data.draw(st.integers(1, 255))
    decoder = Decoder(1 << 20)
    try:
        decoder.feed(raw)
        taken(decoder)
    except FrameError:
        pass


def test_a_length_is_checked_before_the_body_comes() -> None:
    """Four bytes are enough to refuse a frame; also when it follows a good one."""
    decoder = Decoder(4096)
    decoder.feed(b"\x00\x00\x10")
    with pytest.raises(FrameError, match="4097 bytes, and 1 to 4096"):
        decoder.feed(b"\x01")
    decoder = Decoder(4096)
    decoder.feed(Encoder(4096)(Bye("x")) + b"GET ")
    assert decoder.next() == Bye("x")
    with pytest.raises(FrameError, match="1195725856 bytes"):
        decoder.next()
    with pytest.raises(FrameError, match="0 bytes"):
        Decoder(4096).feed(b"\0\0\0\0")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({}, "a list that begins"),
        ([], "a list that begins"),
        ([10], "unknown kind 10"),
        ([True, "a", b""], "unknown kind True"),
        (["x"], "unknown kind 'x'"),
        ([3, 1, "PUT", ""], "4 fields, not 3"),
        ([3, True, "PUT", "", {}], "True where int"),
        ([3, 0, "PUT", "", {}], "from 1 to"),
        ([3, 1 << 53, "PUT", "", {}], "from 1 to"),
        ([3, 1, "put", "", {}], "command 'put'"),
        ([3, 1, "P" * 65, "", {}], "command"),
        ([3, 1, "PUT", "../x", {}], "journal '../x'"),
        ([3, 1, "PUT", "", []], "where dict"),
        ([3, 1, "PUT", "", {b"a": 1}], "no text"),
        ([3, 1, "PUT", "", {1: 1}], "not msgpack as it is used"),
        ([3, 1, "PUT", "", {"a": msgpack.ExtType(5, b"x")}], "not msgpack as it is used"),
        ([3, 1, "PUT", "", {"a": msgpack.ExtType(5, b"")}], "not msgpack as it is used"),
        ([3, 1, "PUT", "", {"a": msgpack.Timestamp(1)}], "not msgpack as it is used"),
        ([4, 1, nested(17)], "deeper"),
        ([4, 1, nested(300)], "deeper"),
        ([4, 1, [0] * 16_385], "not msgpack as it is used"),
        ([4, -1, 1], "from 0 to"),
        ([4, 1], "2 fields, not 1"),
        ([4, 1, 1, 1], "2 fields, not 3"),
        ([4, "1", 1], "'1' where int"),
        ([5, 1, "a", "b", [1]], "where dict"),
        ([7, 0, 1], "from 1 to"),
        ([7, 1, 0], "from 1 to"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_frame(value: Any, reason: str) -> None:
    """Exact types, known kinds, bounded depth."""
    decoder = Decoder(1 << 20)
    decoder.feed(framed(msgpack.packb(value)))
    with pytest.raises(FrameError, match=reason):
        decoder.next()


def test_limits_are_met_exactly() -> None:
    """What is just allowed passes."""
    for value in (nested(16), [0] * 16_384):
        decoder = Decoder(1 << 20)
        decoder.feed(Encoder(1 << 20)(Reply(1, value)))
        assert decoder.next() == Reply(1, value)
    raw = framed(b"\x92\x08\xa1x")
    decoder = Decoder(len(raw) - 4)
    decoder.feed(raw)
    assert decoder.next() == Bye("x")


@pytest.mark.parametrize(
    "body",
    [
        b"\xdd\x00\x00\x40\x00" * 1000,
        b"\xdd\xff\xff\xff\xff" * 1000,
        b"\xdf\xff\xff\xff\xff",
        b"\x93\x04\x01" + b"\xdc\x40\x00" * 1000,
        b"\x93\x04\x01\xdc\x40\x00" + b"\x80" * 16_384,
        b"\xdb\xff\xff\xff\xff",
    ],
    ids=["list32", "huge", "map32", "list16", "maps", "text32"],
)
def test_a_small_frame_takes_no_large_memory(body: bytes) -> None:
    """What a header claims is not believed."""
    decoder = Decoder(1 << 20)
    decoder.feed(framed(body))
    tracemalloc.start()
    try:
        taken(decoder)
    except FrameError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 160 << 20


def test_what_cannot_be_sent() -> None:
    """A frame that the other side would refuse is refused here, and the encoder goes on."""
    encode = Encoder(4096)
    for value in (object(), 1 << 64, "\ud800", {1: 2}, (1,), [0] * 16_385, nested(17)):
        with pytest.raises(Invalid, match="a reply cannot be sent"):
            encode(Reply(1, value))
    with pytest.raises(Invalid, match="more than one frame may have"):
        encode(Reply(1, b"x" * 4096))
    assert encode(Bye("x")) == framed(b"\x92\x08\xa1x")


def test_kinds_keep_their_numbers() -> None:
    """The numbers on the wire never change."""
    names = [name_of(kind).title() for kind in KINDS]
    assert names == ["Hello", "Prove", "Welcome", "Request", "Reply", "Failure", "Push", "Credit", "Bye", "Alive"]
