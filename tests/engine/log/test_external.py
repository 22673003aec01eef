"""Log files that are not ours to write: those of other programs, and our own beside the process that owns them."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import journal
from journal.engine.log import external
from journal.engine.log.external import FoundRecord, LogFiles
from journal.engine.log.reader import list_segments, segment_path
from journal.errors import LogDamaged, StorageError
from tests.top import top


def record(
    offset: int, data: bytes = b"{}", *, namespace: bytes = b"ns", timestamp: int = 9, attribute: int = 1
) -> bytes:
    """A record as the format says, without a checksum."""
    head = struct.pack(">QIQB", offset, 8 + len(namespace) + len(data), timestamp, attribute)
    return head + struct.pack(">I", len(namespace)) + namespace + struct.pack(">I", len(data)) + data


def segment(directory: Path, first: int, *parts: bytes) -> Path:
    """A segment file of another program."""
    path = directory / f"{first:020d}.log"
    path.write_bytes(b"".join(parts))
    return path


def read(directory: Path, start: int = 0, stop: int | None = None) -> list[tuple[int, bytes]]:
    """Offsets and data."""
    return [(found.record.offset, found.record.data) for found in LogFiles(directory).read(start, stop)]


def damage(directory: Path) -> tuple[list[int], str]:
    """The offsets that were given before the damage, and what it said."""
    before: list[int] = []
    with pytest.raises(LogDamaged) as error:
        before.extend(found.record.offset for found in LogFiles(directory).read())
    return before, str(error.value)


# --- for programs ---------------------------------------------------------------------------------------------------------


def test_a_program_reads_the_log_of_another(tmp_path: Path) -> None:
    """Bytes as they stand; bits that nobody has named are told so. Damage comes after all that is before it."""
    segment(tmp_path, 0, record(0, b"\xff\0", namespace=b"n\xfe"), record(1, b"", attribute=0x1F))
    segment(tmp_path, 2, record(2, b"c", attribute=2 | 4 << 2)[:-1])
    (tmp_path / "notes.txt").write_text("left alone")
    found = list(journal.read_log(tmp_path))
    assert found == [
        journal.LogRecord(0, 9, "sync", "insert", b"n\xfe", b"\xff\0", ()),
        journal.LogRecord(1, 9, "unknown 3", "unknown 7", b"ns", b"", ()),
    ]
    assert [each.offset for each in journal.read_log(tmp_path, start=1, stop=2)] == [1]
    segment(tmp_path, 2, record(1))
    with pytest.raises(LogDamaged):
        list(journal.read_log(tmp_path))


def test_a_program_reads_ours_with_their_changes(tmp_path: Path) -> None:
    """Also while the store is in use."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages", merged=False)
        pages.put("a", 1)
        pages.put_many([journal.Put("b", 2), journal.Put("c", 3)])
        found = list(journal.read_log(pages._backend.p.log.directory))
    assert [each.offset for each in found] == [0, 1]
    assert [(event.cursor.offset, event.key, event.data) for each in found for event in each.events] == [
        (0, "a", 1),
        (1, "b", 2),
        (2, "c", 3),
    ]


def test_what_is_no_log_is_said_at_once(tmp_path: Path) -> None:
    """Not when the first record is asked for."""
    with pytest.raises(journal.NotFound):
        journal.read_log(tmp_path / "nothing")
    for options in ({"start": -1}, {"stop": "x"}):
        with pytest.raises(journal.Invalid):
            journal.read_log(tmp_path, **options)  # type: ignore[arg-type]


# --- another program's files ------------------------------------------------------------------------------------------


def test_records_without_checksum_are_read_over_segments(tmp_path: Path) -> None:
    """In order, with any bytes as data, from and to any offset; no effect is seen in them."""
    segment(tmp_path, 0, record(0, b"\xff\0"), record(1, b""))
    segment(tmp_path, 2, record(2, b"c"))
    assert read(tmp_path) == [(0, b"\xff\0"), (1, b""), (2, b"c")]
    assert read(tmp_path, 1, 2) == [(1, b"")]
    assert read(tmp_path, 2) == [(2, b"c")]
    assert read(tmp_path, 3) == []
    assert all(found.payload is None for found in LogFiles(tmp_path).read())


def test_compacted_segments_skip_offsets(tmp_path: Path) -> None:
    """Numbers that are missing were taken out: no damage."""
    segment(tmp_path, 0, record(14), record(16))
    segment(tmp_path, 20, record(22))
    assert [offset for offset, _ in read(tmp_path)] == [14, 16, 22]
    assert [offset for offset, _ in read(tmp_path, 15)] == [16, 22]


@pytest.mark.parametrize(
    "tail", [b"", bytes(3), bytes(21), bytes(4096), record(2)[:-1], record(2)[:5], record(2)[:23], record(2)[:28]],
    ids=["nothing", "few zeros", "a zero header", "zeros", "no last byte", "no size", "no key length", "no data length"],
)  # fmt: skip
def test_the_last_segment_may_end_anywhere(tmp_path: Path, tail: bytes) -> None:
    """At the end of the file, at zeros, at a record that is not whole."""
    segment(tmp_path, 0, record(0))
    segment(tmp_path, 1, record(1), tail)
    assert [offset for offset, _ in read(tmp_path)] == [0, 1]


def test_a_segment_may_end_with_zeros_or_a_torn_record_when_nothing_is_missing(tmp_path: Path) -> None:
    """The next one goes on with the next offset."""
    segment(tmp_path, 0, record(0), bytes(100))
    segment(tmp_path, 1, record(1), record(2)[:-1])
    segment(tmp_path, 2, record(2))
    assert [offset for offset, _ in read(tmp_path)] == [0, 1, 2]


def test_a_cut_segment_before_the_last_is_damage(tmp_path: Path) -> None:
    """The next segment shows that changes are missing; the message names file and byte."""
    path = segment(tmp_path, 0, record(0), record(1)[:-1])
    segment(tmp_path, 5, record(5))
    before, text = damage(tmp_path)
    assert before == [0]
    assert str(path) in text and f"byte {path.stat().st_size}" in text and f"byte {len(record(0))}" in text


@pytest.mark.parametrize(
    "bad",
    [
        record(2)[:8] + struct.pack(">I", 3) + bytes(20),
        record(2)[:21] + struct.pack(">I", 1) + record(2)[25:],
        record(2, attribute=0x21),
        record(1),
        record(0),
        record(9),
    ],
    ids=[
        "size too small",
        "lengths disagree",
        "wrong checksum",
        "offset again",
        "offset goes back",
        "beyond the segment",
    ],
)
def test_anything_else_is_damage_with_its_place(tmp_path: Path, bad: bytes) -> None:
    """File and byte; what came before has been given."""
    path = segment(tmp_path, 0, record(0), record(1), bad, record(3))
    segment(tmp_path, 5, record(5))
    before, text = damage(tmp_path)
    assert before == [0, 1]
    assert f"{path} is damaged at byte {2 * len(record(0))}" in text


def test_large_records_and_many_small_ones(tmp_path: Path) -> None:
    """Records lie over the borders of what is read at once."""
    sizes = [0, 1 << 20, 5, (1 << 20) - 29, 3 << 20, 7]
    segment(tmp_path, 0, *(record(n, b"x" * size) for n, size in enumerate(sizes)))
    segment(tmp_path, 6, *(record(6 + n, b"y" * 50) for n in range(30_000)))
    found = read(tmp_path)
    assert [len(data) for _, data in found[:6]] == sizes
    assert [offset for offset, _ in found] == list(range(30_006))
    assert read(tmp_path, 30_005) == [(30_005, b"y" * 50)]


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    """What a compaction left behind, an index, a directory; and no such directory is an error of ours."""
    segment(tmp_path, 0, record(0))
    for name in ("00000000000000000000.cleaned", "00000000000000000001.log.swap", "1.log", "README"):
        (tmp_path / name).write_bytes(b"?")
    assert LogFiles(tmp_path).segments() == [0]
    assert read(tmp_path) == [(0, b"{}")]
    with pytest.raises(StorageError, match="missing"):
        LogFiles(tmp_path / "missing")


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    """A pipe of a segment's name neither holds the reader nor is read."""
    os.mkfifo(tmp_path / f"{0:020d}.log")
    with pytest.raises(StorageError, match="not a regular file"):
        LogFiles(tmp_path)


def test_the_newest_record_is_found_from_the_end(tmp_path: Path) -> None:
    """Over empty segments, and of one namespace."""
    segment(tmp_path, 0, record(0, namespace=b"a"), record(1, namespace=b"b"))
    segment(tmp_path, 2, record(2, namespace=b"b"))
    segment(tmp_path, 3, bytes(64))

    def newest(namespace: bytes | None = None) -> int | None:
        found = LogFiles(tmp_path).newest(namespace)
        return found and found.record.offset

    assert [newest(), newest(b"a"), newest(b"b"), newest(b"c")] == [2, 0, 2, None]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(st.data())
def test_any_bytes_give_records_or_damage(tmp_path: Path, data: st.DataObject) -> None:
    """Flipped and cut files: the reader is total, and what it gives before the change is what was written."""
    whole = b"".join(record(n, bytes([n]) * n) for n in range(5))
    rotten = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    at = data.draw(st.integers(0, len(rotten)))
    rotten[at : at + 1] = data.draw(st.binary(max_size=3))
    path = segment(tmp_path, 0, bytes(rotten))
    segment(tmp_path, 5, record(5))
    found: list[FoundRecord] = []
    complaint = str(path)
    try:
        found.extend(LogFiles(tmp_path).read())
    except LogDamaged as e:
        complaint = str(e)
    assert str(path) in complaint
    untouched = [(f.record.offset, f.record.data) for f in found if f.path == path and f.record.end <= at]
    assert untouched == [(n, bytes([n]) * n) for n in range(len(untouched))]
    offsets = [f.record.offset for f in found]
    assert offsets == sorted(set(offsets))


# --- our own files ----------------------------------------------------------------------------------------------------


def log_of(store: journal.Store) -> Path:
    """The directory of its log."""
    return store.path / top() / "000001" / "log"


def fill(store: journal.Store) -> int:
    """Several segments; the number of changes."""
    pages = store.journal("pages", segment_bytes_max=1 << 16)
    for n in range(400):
        pages.put(f"k{n}", "x" * 500, durability="none")
    pages.put_many([journal.Put(f"m{n}") for n in range(10)])
    return 410


def test_our_records_are_recognised_in_a_bare_directory(store: journal.Store) -> None:
    """With their effects; a group is one record of many changes."""
    count = fill(store)
    found = list(LogFiles(log_of(store)).read())
    assert [f.record.offset for f in found] == list(range(401))
    assert found[-1].payload is not None and found[-1].last == count - 1
    newest = LogFiles(log_of(store)).newest()
    assert newest is not None and newest.last == count - 1


def copy_of(store: journal.Store) -> Path:
    """A copy of the segments, which nobody owns."""
    copy = store.path.parent / "copy"
    copy.mkdir()
    for first in list_segments(log_of(store)):
        segment_path(copy, first).write_bytes(segment_path(log_of(store), first).read_bytes())
    return copy


def test_segments_that_the_owner_lets_go_are_a_gap(store: journal.Store) -> None:
    """The reader goes on with what is there, and says what it has missed."""
    fill(store)
    copy = copy_of(store)
    segments = list_segments(copy)
    assert len(segments) >= 4
    log = LogFiles(copy, namespace=b"pages")
    records = log.read()
    assert next(records).record.offset == 0
    for first in segments[:2]:
        segment_path(copy, first).unlink()
    rest = [found.record.offset for found in records]
    assert rest == [*range(1, segments[1]), *range(segments[2], 401)]
    assert log.let_go == [(segments[1], segments[2] - 1)]


def test_a_recycled_segment_gives_no_wrong_record(store: journal.Store) -> None:
    """The file gets a new name and new bytes while it is read."""
    fill(store)
    copy = copy_of(store)
    segments = list_segments(copy)
    log = LogFiles(copy, namespace=b"pages")
    records = log.read(segments[1] - 1)
    assert next(records).record.offset == segments[1] - 1
    recycled = segment_path(copy, segments[0])
    recycled.write_bytes(bytes(recycled.stat().st_size))
    recycled.rename(copy / "new.log")
    assert [found.record.offset for found in records] == list(range(segments[1], 401))
    assert log.let_go == []


def test_damage_counts_when_it_is_seen_twice(store: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that writes while we read is not damage: the second look finds its record whole."""
    fill(store)
    path = segment_path(copy_of(store), 0)
    source = path.read_bytes()
    place = list(LogFiles(path.parent).read(stop=5))[-1].position
    path.write_bytes(source[: place + 40] + b"?" + source[place + 41 :])

    with pytest.raises(LogDamaged, match=f"damaged at byte {place}"):
        list(LogFiles(path.parent).read())

    def finished(directory: Path) -> list[int]:
        path.write_bytes(source)
        return list_segments(directory)

    log = LogFiles(path.parent)
    records = log.read()
    next(records)
    monkeypatch.setattr(external, "list_segments", finished)
    assert [found.record.offset for found in records] == list(range(1, 401))
    assert log.let_go == []
