"""Rows that tasks have made ready: the same entries as by any other way, and never believed without their seal."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import journal
from journal.core.entry.keys import SLOT_AT, TURN_AT
from journal.core.loads.sealed_blocks import FRONT, HEAD, shape_of
from journal.loads import SealedPart, decode_block, encode_block
from tests.engine.helpers import collide
from tests.engine.loads.blocks import NOW, counts, log_size, many, shown

pa = pytest.importorskip("pyarrow", reason="pip install 'journal[spark]'")

from spark_export.columns.mapping import columns_of  # noqa: E402 - needs pyarrow
from spark_export.loads.sealed_rows import ready_of  # noqa: E402
from tests.spark.ready import KEY, Parts, ready, some, stored  # noqa: E402

Copy = Callable[[journal.Store], Path]


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    """For tests that load parts."""
    return Parts(tmp_path, monkeypatch)


# --- the same entries -------------------------------------------------------------------------------------------------

DATES = st.integers(NOW - 3, NOW + 3) | st.sampled_from([0, 1 << 40, (1 << 63) - 1])
KINDS = {
    "priority": (st.integers(0, 255), pa.int16()),
    "process_date": (DATES, pa.int64()),
    "insertion_date": (st.integers(0, NOW + 3), pa.int64()),
    "expiration": (st.sampled_from([0, NOW + 50_000, NOW + 60_000]), pa.int64()),
    "owner": (st.sampled_from(["", "me", "ü" * 20]), pa.string()),
}
FIELDS = {
    "n": (st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-300, 300) | st.none(), pa.int64()),
    "u": (st.integers(0, (1 << 64) - 1), pa.uint64()),
    "f": (st.floats(allow_nan=False) | st.none(), pa.float64()),
    "is": (st.booleans() | st.none(), pa.bool_()),
    "text": (st.text(max_size=40) | st.sampled_from(["é" * 200, "x" * 70_000]) | st.none(), pa.string()),
    "raw": (st.binary(max_size=300), pa.binary()),
    "tags": (st.lists(st.integers(0, 9), max_size=3) | st.none(), pa.list_(pa.int64())),
}


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """Columns of a table that has a key, and any of the others."""
    keys = draw(st.lists(st.text(min_size=1, max_size=12) | st.just("k" * 1024), min_size=1, max_size=8, unique=True))
    kinds = KINDS | FIELDS
    names = draw(st.lists(st.sampled_from(sorted(kinds)), unique=True))
    found = {"key": pa.array(keys)}
    for name in names:
        values, kind = kinds[name]
        found[name] = pa.array(draw(st.lists(values, min_size=len(keys), max_size=len(keys))), kind)
    if "insertion_date" in found:
        if "process_date" not in found:
            del found["insertion_date"]
        else:
            dates = zip(found["insertion_date"].to_pylist(), found["process_date"].to_pylist(), strict=True)
            found["insertion_date"] = pa.array([min(pair) for pair in dates], pa.int64())
    return found


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(), cut=st.integers(0, 8), due=st.none() | st.just(NOW + 7))
def test_they_become_the_same_rows(
    store: journal.Store, parts: Parts, table: dict[str, Any], cut: int, due: int | None
) -> None:
    """As those of the way that looks at each row, byte for byte; and the entries are those of puts."""
    batch = pa.record_batch(table)
    columns = columns_of(batch.schema, {}, None)
    blocks = []
    for piece in (batch.slice(0, cut), batch.slice(cut)):
        if piece.num_rows:
            made = ready_of(piece, columns, due)
            assert made is not None and made.size == piece.num_rows
            blocks.append(made.block())
    rows = [row for block in blocks for row in decode_block(block)]
    found = []
    parts.ways.clear()
    for name in store.journals():
        store.drop(name)
    for number, given_parts in enumerate(([parts.sealed(block) for block in blocks], [encode_block(rows)])):
        pages = store.journal(f"pages{number}")
        first = pages.put("before").cursor.offset
        pages.delete("before")
        loaded = pages.load(given_parts)
        assert counts(loaded) == {"inserted": len(rows)} and loaded.cursor.offset == first + 1 + len(rows)
        found.append((stored(pages), list(pages.scan())))
    assert parts.ways == ["ReadyLoad", "OneLoad"]
    assert found[0] == found[1]
    put = store.journal("put")
    results = put.put_many(
        [
            journal.Put(
                row.key,
                msgpack.unpackb(row.data, strict_map_key=False),
                priority=row.priority,
                process_date=row.process_date,
                insertion_date=row.insertion_date,
                expiration=row.expiration or None,
                owner=row.owner or None,
            )
            for row in rows
        ]
    )
    assert all(isinstance(result, journal.PutResult) for result in results)
    assert list(put.scan()) == found[0][1]
    assert store.check() == []


@pytest.mark.parametrize("n", [1, 40_000])
def test_few_or_many(store: journal.Store, pages: journal.Journal, parts: Parts, crashed: Copy, n: int) -> None:
    """In one record, in the order of work, seen by followers, and there after a crash and a reopen."""
    dates = pa.array([NOW + (i * 7919) % 1000 for i in range(n)], pa.int64())
    half = n // 2
    blocks = [some(n - half, 0, process_date=dates.slice(0, n - half))]
    blocks += [some(half, n - half, process_date=dates.slice(n - half))] if half else []
    loaded = pages.load([parts.sealed(*blocks)], once=("n", 1))
    assert parts.ways == ["ReadyLoad"] and counts(loaded) == {"inserted": n}
    copy = crashed(store)
    expected = shown(pages)
    assert len(expected) == n and expected["k0"].data == 0 and expected[f"k{n - 1}"].data == n - 1
    assert pages.load([parts.sealed(*blocks)], once=("n", 1)).is_repeated
    assert pages.put("after").cursor.offset == loaded.cursor.offset + 1
    with journal.open(copy) as again:
        there = again.journal("pages")
        assert shown(there) == expected
        assert there.load([parts.sealed(*blocks)], once=("n", 1)).is_repeated
        assert again.check() == []


@pytest.mark.parametrize("has_dates", [False, True])
def test_rows_of_one_date_keep_their_order(pages: journal.Journal, parts: Parts, has_dates: bool) -> None:
    """That of the parts, then that of the rows in a part, however many blocks it has; behind what was put before."""
    pages.put("first", priority=3)
    rows, blocks, some = [], [], random.Random(5)
    for number in range(4):
        block = [(f"{number}-{n}", some.choice([3, 5]), NOW - some.choice([0, 2, 9]) * has_dates) for n in range(300)]
        keys, priorities, dates = zip(*block, strict=True)
        more = {"process_date": pa.array(dates, pa.int64())} if has_dates else {}
        blocks.append(ready({"key": list(keys), "priority": pa.array(priorities, pa.int16()), **more}))
        rows += block
    loaded = pages.load([parts.sealed(*blocks[:2]), parts.sealed(*blocks[2:])])
    assert counts(loaded) == {"inserted": 1200} and parts.ways == ["ReadyLoad"]
    pages.put("last", priority=3)
    expected = sorted([("first", 3, NOW), *rows, ("last", 3, NOW)], key=lambda row: row[1:])
    assert [lease.key for lease in pages.claim_many(2000)] == [row[0] for row in expected]


def test_merged_journals_and_old_values(store: journal.Store, parts: Parts) -> None:
    """Records of merged journals have their name, and a log that keeps old values has none of new keys."""
    for name, options in (("one", {"merged": True}), ("two", {"merged": True}), ("old", {"log_old": True})):
        pages = store.journal(name, **options)
        for start in (0, 100):
            pages.load([parts.sealed(some(100, start, owner=["me"] * 100))])
        assert parts.ways == ["ReadyLoad"] * 2
        parts.ways.clear()
        assert shown(pages)["k150"].owner == "me"
    assert store.check() == []


# --- what else there may be -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_conflict", ["merge", "replace", "skip", "error"])
@pytest.mark.parametrize("is_twice", [False, True])
def test_keys_that_are_there(store: journal.Store, parts: Parts, on_conflict: str, is_twice: bool) -> None:
    """Or come twice: decided row by row, as ever, in the order given."""
    found = []
    blocks = [some(30), some(30, 15 if is_twice else 30)]
    for name in ("sealed", "open"):
        pages = store.journal(name)
        if not is_twice:
            pages.put("k7", "old")
        given_parts = [parts.sealed(*blocks)] if name == "sealed" else list(blocks)
        try:
            found.append((counts(pages.load(given_parts, on_conflict=on_conflict)), list(pages.scan()), None))
        except journal.KeyExists as e:
            found.append(({}, list(pages.scan()), str(e)))
    assert found[0] == found[1]
    assert parts.ways[-1] == "OneLoad"


def test_collisions(
    monkeypatch: pytest.MonkeyPatch, store: journal.Store, pages: journal.Journal, parts: Parts
) -> None:
    """A journal that has some looks at each row."""
    collide(monkeypatch)
    pages.put("a", 1)
    pages.put("b", 2)
    assert pages.load([parts.sealed(some(20))]).inserted == 20
    assert parts.ways == ["ReadyLoad", "OneLoad"]


def test_a_schema_looks_at_all_rows(store: journal.Store, parts: Parts) -> None:
    """Ready or not."""
    pages = store.journal("pages", schema=journal.Schema({"depth": int}))
    block = ready({"key": ["a", "b"], "depth": [1, 2], "more": [1, 2]})
    with pytest.raises(journal.Invalid, match="more"):
        pages.load([parts.sealed(block)])
    assert parts.ways == [] and pages.count() == 0


def test_entries_that_are_too_large(store: journal.Store, parts: Parts) -> None:
    """The limit of the journal counts, and the error names the row that was given."""
    pages = store.journal("pages", entry_bytes_max=1000)
    block = ready({"key": ["z", "a", "b"], "text": ["x", "y" * 2000, "z"]})
    with pytest.raises(journal.Invalid, match="row 1 of part 0: the entry 'a' has"):
        pages.load([parts.sealed(block)])
    loaded = pages.load([parts.sealed(block)], on_reject="list")
    assert (loaded.inserted, [one[:2] for one in loaded.rejected]) == (2, [(0, 1)])


def test_without_numpy(monkeypatch: pytest.MonkeyPatch, pages: journal.Journal, parts: Parts) -> None:
    """Ready blocks can be read all the same."""
    monkeypatch.setitem(sys.modules, "journal.engine.loads.sealed_rows", None)
    assert pages.load([parts.sealed(some(20), some(20, 20))]).inserted == 40
    assert parts.ways == ["OneLoad"]


def test_blocks_of_both_kinds(pages: journal.Journal, parts: Parts) -> None:
    """Some rows were not ready, so all are looked at."""
    assert pages.load([parts.sealed(some(20), many(20, 20)), parts.sealed(some(5, 40))]).inserted == 45
    assert parts.ways == ["OneLoad"]
    assert pages.load([]).inserted == 0


# --- what is not believed ---------------------------------------------------------------------------------------------


def changed(block: bytes, at: int, value: bytes) -> bytes:
    """A ready block with other bytes at a place, and a checksum that fits."""
    block = block[:at] + value + block[at + len(value) :]
    return block[:4] + struct.pack(">I", crc32(block[8:])) + block[8:]


BLOCK = ready(
    {"key": ["ab", "cd", "ef"], "n": [1, 2, 3], "process_date": pa.array([NOW, NOW + 1, NOW + 2], pa.int64())}
)
SHAPE = shape_of(BLOCK)
ROW = SHAPE.body + 5
ENTRY = ROW + FRONT + SHAPE.header
"""Where the first row and its entry are."""
HARMLESS = {
    "hash": changed(changed(BLOCK, SHAPE.primaries + SLOT_AT, bytes(16)), ROW + 2 + SLOT_AT, bytes(16)),
    "order": changed(BLOCK, SHAPE.primaries, b"\xff"),
    "checksum": changed(BLOCK, ENTRY, b"abcd"),
    "at": changed(BLOCK, ENTRY + 28, b"abcdefgh"),
    "turn": changed(BLOCK, ROW + 2 + TURN_AT, b"abcdefgh"),
    "version": changed(BLOCK, ENTRY + 36, b"abcde"),
    "msgpack header": changed(BLOCK, ROW + FRONT, b"\x00\x00"),
}
"""What is made anew: of such a block the rows are good."""
REFUSED = {
    "key is no text": (changed(BLOCK, ENTRY + 44, b"\xff"), "no text|text that is none"),
    "data is no msgpack": (
        changed(BLOCK, ENTRY + 46, b"\xc1"),
        "row 0 of part 0: the data is not one packed msgpack value",
    ),
    "two values": (changed(BLOCK, ENTRY + 46, b"\x01"), "row 0 of part 0: the data is not one packed msgpack value"),
    "no key": (changed(BLOCK, ENTRY + 42, b"\0\0"), "row 0 of part 0: a key has 1 to"),
    "key beyond the row": (changed(BLOCK, ENTRY + 42, b"\x03\0"), "shorter than its owner and its key"),
    "owner beyond the row": (changed(BLOCK, ENTRY + 41, b"\xff"), "shorter than its owner and its key"),
    "process date": (changed(BLOCK, ROW + 3, b"\xff"), "row 0 of part 0: process_date is"),
    "expiration": (changed(BLOCK, ENTRY + 12, b"\xff"), "row 0 of part 0: expiration is"),
    "length": (changed(BLOCK, SHAPE.lengths + 3, b"\x01"), "rows of other lengths"),
    "lengths that make up": (
        changed(changed(BLOCK, SHAPE.lengths + 3, b"\x01"), SHAPE.lengths + 4, struct.pack(">I", 1 << 31)),
        "rows of other lengths",
    ),
    "places": (changed(BLOCK, SHAPE.places, bytes(12)), "which rows it has"),
    "rows": (changed(BLOCK, 8, struct.pack(">I", 1 << 30)), "cannot hold its"),
    "no rows": (changed(BLOCK, 8, bytes(4)), "cannot hold its"),
    "header": (changed(BLOCK, HEAD.size - 1, b"\x04"), "cannot hold its"),
    "marks": (changed(BLOCK, HEAD.size - 2, b"\x08"), "cannot hold its"),
}


@pytest.mark.parametrize("name", HARMLESS)
@pytest.mark.parametrize("way", ["block", "unsealed", "another key"])
def test_hashes_and_checksums_are_made_anew(
    store: journal.Store, pages: journal.Journal, parts: Parts, name: str, way: str
) -> None:
    """Without its seal a ready block is rows like any others, whatever its maker says of them."""
    block = HARMLESS[name]
    given_parts = {
        "block": [block],
        "unsealed": [SealedPart(parts.path(block, key=None), KEY)],
        "another key": [SealedPart(parts.path(block, key=b"another"), KEY)],
    }[way]
    assert pages.load(given_parts).inserted == 3
    other = store.journal("other")
    other.load([encode_block(decode_block(BLOCK))])
    assert stored(pages) == stored(other) and parts.ways == ["OneLoad"] * 2
    assert store.check() == []


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_refused(store: journal.Store, pages: journal.Journal, parts: Parts, name: str) -> None:
    """With the reason, and nothing is changed."""
    block, reason = REFUSED[name]
    before = log_size(store)
    for part in (block, _unchecked(parts, block)):
        with pytest.raises(journal.Invalid, match=reason):
            pages.load([part])
    assert pages.count() == 0 and log_size(store) == before
    assert pages.load([BLOCK]).inserted == 3


def _unchecked(parts: Parts, block: bytes) -> SealedPart:
    """A part with a block that its writer would not have taken, sealed with another key."""
    path = parts.path(BLOCK, key=b"another")
    raw = path.read_bytes().replace(BLOCK, block)
    raw = raw[:-4] + struct.pack(">I", crc32(raw[:-4]))
    path.write_bytes(raw)
    return SealedPart(path, KEY)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 1 << 12), value=st.integers(0, 255), cut=st.none() | st.integers(0, 1 << 12))
def test_damage_is_noticed(parts: Parts, pages: journal.Journal, at: int, value: int, cut: int | None) -> None:
    """Whatever byte of a sealed part is another one, or however much of it is missing."""
    path = parts.path(BLOCK)
    whole = path.read_bytes()
    raw = bytearray(whole)
    raw[at % len(raw)] = value
    path.write_bytes(raw if cut is None else raw[: cut % len(raw)])
    if path.read_bytes() != whole:
        with pytest.raises(journal.Invalid):
            pages.load([SealedPart(path, KEY)])
    assert pages.count() == 0


@pytest.mark.parametrize("size", [0, 3, 20, 45])
def test_a_part_that_is_hardly_one(pages: journal.Journal, tmp_path: Path, size: int) -> None:
    """Or is not there."""
    (tmp_path / "p").write_bytes((b"JLP2" + bytes(99))[:size])
    with pytest.raises(journal.Invalid):
        pages.load([SealedPart(tmp_path / "p", KEY)])
    with pytest.raises(journal.NotFound):
        pages.load([SealedPart(tmp_path / "none", KEY)])
