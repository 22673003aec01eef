"""Puts that are read in one loop: the same events as by the decoder that knows all records, or none."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.entry import effects as fx
from journal.core.entry.keys import PRIMARY_BYTES, SLOT_AT, TURN_AT
from journal.core.entry.rows import encode_row, pack_data
from journal.core.log.events import Event, Where, events_of
from journal.core.log.put_decoder import SMALL_BYTES, puts_decoder
from journal.core.log.record import decode, encoder, payload
from tests.core.rows_of import NOW, row

FIRST = 5
WHERE = Where(3, 0, "sync", "pages", {"n": None})
DECODE, AHEAD = puts_decoder(b"pages")
ENCODE = encoder(b"pages")


def put(size: int = 0, **columns: Any) -> fx.PutEffect:
    """A put with so many bytes of data."""
    entry = row(data=pack_data(b"x" * size), **columns)
    return fx.PutEffect(entry.primary, encode_row(entry))


def puts(*sizes: int) -> fx.PutsEffect:
    return fx.PutsEffect([part for size in sizes for part in put(size)])


def log(*effects: fx.Effect, behind: int = 1, date: int = NOW) -> bytes:
    """The records of effects, the first at FIRST; each second has another time."""
    offset, records = FIRST, b""
    for number, effect in enumerate(effects):
        changes = fx.changes(effect)
        records += ENCODE(offset, date + number // 2, behind, changes, effect)
        offset += changes
    return records


def read(buffer: bytes, last: int = 1 << 40) -> tuple[int, int, list[Event]]:
    """What the loop reads from the beginning of a buffer, behind which there is nothing."""
    at, wanted, events = DECODE(buffer + bytes(AHEAD), 0, FIRST, last, WHERE)
    return at, wanted, list(events)


def one_by_one(buffer: bytes) -> list[Event]:
    """The events by the decoder of all records."""
    at, events = 0, []
    while record := decode(buffer, at):
        events += events_of(record, payload(record), WHERE.order, WHERE.blank)
        at = record.end
    return events


sizes = st.sampled_from([0, 1, 100, 150, 160, 170, 250, 255, 256, SMALL_BYTES - 200, SMALL_BYTES, 65_400, 70_000])
some_puts = st.one_of(sizes.map(put), st.lists(sizes, min_size=1, max_size=4).map(lambda each: puts(*each)))


@given(
    st.lists(some_puts, max_size=6), st.sampled_from([1, 127, 128, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**40])
)
def test_puts_are_read_as_by_the_decoder_of_all_records(effects: list[fx.Effect], behind: int) -> None:
    """Large and small, alone and in groups, at each length of what is in front of them."""
    buffer = log(*effects, behind=behind)
    at, wanted, events = read(buffer)
    assert (at, wanted) == (len(buffer), FIRST + len(events))
    assert events == one_by_one(buffer)


@pytest.mark.parametrize("key", ["a" * 255, "a" * 256, "ä" * 200, b"a", b"a" * 300], ids=range(5))
@pytest.mark.parametrize("owner", [b"", b"shop"], ids=["none", "shop"])
def test_fields_of_every_kind_of_entry(key: Any, owner: bytes) -> None:
    """Short and long keys, text and bytes; data that is small, large, a map."""
    for data in (b"", b"x" * 255, b"x" * 256, "text", None, 7, {"m": 1}, [{}]):
        entry = row(key=key, owner=owner, data=pack_data(data))
        (event,) = read(log(fx.PutEffect(entry.primary, encode_row(entry))))[2]
        assert (event.key, event.owner) == (key, owner.decode() or None)
        assert event.data == ({"n": None, "m": 1} if data == {"m": 1} else data)


def test_it_ends_before_any_other_change() -> None:
    """What it does not know is left to who knows it."""
    before = log(put(1), put(2))
    for other in (fx.DeleteEffect(b"p" * PRIMARY_BYTES, "a"), fx.RetryEffect(b"n", *put(3)), fx.Group([[1, *put(4)]])):
        buffer = log(put(1), put(2), other, put(5))
        assert read(buffer)[:2] == (len(before), FIRST + 2)
        assert read(buffer)[2] == one_by_one(before)


def test_puts_of_the_former_format_are_left_to_the_decoder_of_all_records() -> None:
    """Their primary keys had no turn; a log of them can still be read."""
    old = row(3, NOW + 1, key="old")
    primary = old.primary[:TURN_AT] + old.primary[SLOT_AT:]
    buffer = log(fx.PutEffect(primary, encode_row(old._replace(primary=primary))), put(2))
    assert read(buffer) == (0, FIRST, [])
    event = one_by_one(buffer)[0]
    assert (event.key, event.priority, event.process_date) == ("old", 3, NOW + 1)


def test_it_reads_no_further_than_it_may() -> None:
    """The last offset that may be seen; a record that is cut; a record that nothing follows in the buffer."""
    buffer = log(put(1), put(2), put(3))
    two = len(log(put(1), put(2)))
    assert read(buffer, FIRST + 1)[:2] == (two, FIRST + 2)
    assert read(buffer, FIRST - 1) == (0, FIRST, [])
    at, wanted, events = DECODE(buffer[:-1], 0, FIRST, 1 << 40, WHERE)
    assert (at, wanted, len(list(events))) == (two, FIRST + 2, 2)
    for size in range(AHEAD + 1):
        at, wanted, events = DECODE(buffer[:size], 0, FIRST, 1 << 40, WHERE)
        assert (at, wanted, list(events)) == (0, FIRST, [])


def test_another_offset_is_not_read() -> None:
    """A record of an earlier or later time."""
    buffer = log(put(1), put(2)) + bytes(AHEAD)
    for wanted in (FIRST - 1, FIRST + 1):
        at, offset, events = DECODE(buffer, 0, wanted, 1 << 40, WHERE)
        assert (at, offset, list(events)) == (0, wanted, [])


@pytest.mark.parametrize("attribute", [0x01, 0x20, 0x22, 0x25], ids=["unchecked", "copy", "complete", "update"])
def test_another_attribute_is_not_read(attribute: int) -> None:
    """A put as it happened, with a checksum: whatever else a record may say of itself is for who knows it."""
    record = log(put(100))[:-4]
    record = record[:20] + bytes((attribute,)) + record[21:]
    assert read(record + crc32(record).to_bytes(4, "big")) == (0, FIRST, [])


@given(st.sampled_from([put(100), put(300), put(SMALL_BYTES), puts(1, 2, 3)]), st.data())
def test_a_flipped_bit_ends_it(effect: fx.Effect, data: st.DataObject) -> None:
    """No byte of a record can change without its checksum telling."""
    good, bad = log(put(7)), bytearray(log(put(7), effect, put(8)))
    size = len(log(put(7), effect)) - len(good)
    bad[len(good) + data.draw(st.integers(0, size - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert read(bytes(bad)) == (len(good), FIRST + 1, one_by_one(good))


@pytest.mark.parametrize(
    "parts",
    [
        7,
        [],
        [1],
        [1, 1, 1],
        [2, 1, 1],
        [2, 1, 2, [b"p", b"v"]],
        [2, 1, 1, 5],
        [3, 1, 1, *put(3)],
        [1, 1, 1, b"p" * 90, 9],
    ],
    ids=range(9),
)
def test_a_whole_record_that_holds_no_put_is_left(parts: Any) -> None:
    """Its checksum is right and its content is not: the decoder of all records says what is wrong."""
    packed = msgpack.packb(parts)
    head = log(put(7))[:20] + b"\x21" + (5).to_bytes(4, "big") + b"pages" + (len(packed) + 4).to_bytes(4, "big")
    record = head[:8] + (len(head) - 21 + len(packed) + 4).to_bytes(4, "big") + head[12:] + packed
    assert read(record + crc32(record).to_bytes(4, "big")) == (0, FIRST, [])
