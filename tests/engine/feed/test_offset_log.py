"""The offset log: what counts, what a crash leaves, and what is damage."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.log.cursor import Cursor
from journal.core.log.record import decode
from journal.engine.feed import offset_log
from journal.engine.feed.offset_log import COPY, SYNC, KeptConsumer, OffsetLog
from journal.errors import LogDamaged, StorageError, StoreDamaged, StoreFull
from tests.engine.helpers import Failing

NOW = 1_700_000_000_000


def kept(
    name: str, offset: int, high: int | None = None, *runs: tuple[int, int, int], mode: int = SYNC
) -> KeptConsumer:
    return KeptConsumer(name, mode, Cursor(1, offset), Cursor(1, offset if high is None else high), runs)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "offsets"


@pytest.fixture
def log(directory: Path) -> OffsetLog:
    return OffsetLog(directory, b"pages")


def read(directory: Path) -> dict[str, KeptConsumer]:
    """What another process would find."""
    return {each.name: each for each in OffsetLog(directory, b"pages").load()}


def only_file(directory: Path) -> Path:
    (path,) = directory.iterdir()
    return path


def test_what_was_written_is_read_back(log: OffsetLog, directory: Path) -> None:
    """Position, high, runs and mode of each consumer; the last record of each counts."""
    audit = kept("audit", 9, 30, (1, 12, 14), (1, 20, 20))
    log.write([kept("audit", 4), kept("mirror", 7, mode=COPY)], [], NOW)
    log.write([audit], [], NOW)
    assert read(directory) == {"audit": audit, "mirror": kept("mirror", 7, mode=COPY)}


def test_a_removed_consumer_is_unknown(log: OffsetLog, directory: Path) -> None:
    """Also after the file was written anew; one of that name can come again."""
    log.write([kept("audit", 4), kept("mirror", 7)], [], NOW)
    log.write([], ["audit"], NOW)
    assert read(directory).keys() == {"mirror"}
    log.write([], ["mirror"], NOW)
    assert read(directory) == {}
    log.write([kept("audit", 1)], [], NOW)
    assert read(directory) == {"audit": kept("audit", 1)}


def test_nothing_is_made_before_there_is_something_to_keep(log: OffsetLog, directory: Path) -> None:
    """A journal that nobody follows has no such directory."""
    assert log.load() == []
    assert not directory.exists()


def test_files_are_ours_alone(log: OffsetLog, directory: Path) -> None:
    """0600 and 0700, and named by their first record."""
    log.write([kept("audit", 4)], [], NOW)
    assert only_file(directory).name == "00000000000000000000.log"
    assert stat.S_IMODE(only_file(directory).stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_records_have_the_format_of_the_log(log: OffsetLog, directory: Path) -> None:
    """Numbered, under the namespace, with a checksum."""
    log.write([kept("audit", 4)], [], NOW)
    log.write([kept("audit", 5)], [], NOW)
    data = only_file(directory).read_bytes()
    first = decode(data)
    assert first is not None
    second = decode(data, first.end)
    assert second is not None
    assert (first.offset, second.offset, second.end) == (0, 1, len(data))
    assert (first.namespace, first.timestamp, first.attribute) == (b"pages", NOW, 0x20 | 1 | 1 << 2)


def test_a_torn_tail_is_cut(log: OffsetLog, directory: Path) -> None:
    """Wherever the last write was torn, what was durable before it counts, and writing goes on."""
    log.write([kept("audit", 4)], [], NOW)
    before = only_file(directory).stat().st_size
    log.write([kept("audit", 5)], [], NOW)
    whole = only_file(directory).read_bytes()
    for end in range(before, len(whole)):
        only_file(directory).write_bytes(whole[:end])
        again = OffsetLog(directory, b"pages")
        assert again.load() == [kept("audit", 4)]
        assert only_file(directory).stat().st_size == before
        again.write([kept("audit", 6)], [], NOW)
        assert read(directory) == {"audit": kept("audit", 6)}


def test_of_a_torn_group_any_sector_may_be_there(log: OffsetLog, directory: Path) -> None:
    """A whole record behind a bad one that was written with it proves nothing."""
    log.write([kept("audit", 4)], [], NOW)
    before = only_file(directory).stat().st_size
    log.write([kept("audit", 5), kept("mirror", 6)], [], NOW)
    data = bytearray(only_file(directory).read_bytes())
    data[before + 30] ^= 1
    only_file(directory).write_bytes(data)
    assert read(directory) == {"audit": kept("audit", 4)}


def test_damage_in_the_middle_is_named(log: OffsetLog, directory: Path) -> None:
    """Every byte of a record that a later one calls durable; a look does not pass over it either."""
    log.write([kept("audit", 4)], [], NOW)
    first = only_file(directory).stat().st_size
    log.write([kept("audit", 5)], [], NOW)
    second = only_file(directory).stat().st_size
    log.write([kept("audit", 6)], [], NOW)
    good = only_file(directory).read_bytes()
    for at in range(first, second):
        data = bytearray(good)
        data[at] ^= 0x40
        only_file(directory).write_bytes(data)
        with pytest.raises(LogDamaged, match=r"0\.log is damaged at byte"):
            OffsetLog(directory, b"pages").load()
    with pytest.raises(LogDamaged):
        OffsetLog(directory, b"pages").load(is_owner=False)


def test_a_file_without_its_first_record_is_damage(log: OffsetLog, directory: Path) -> None:
    """A file gets its name when its first record is durable."""
    log.write([kept("audit", 4)], [], NOW)
    path = only_file(directory)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LogDamaged, match="damaged at byte 0"):
        read(directory)
    path.write_bytes(b"")
    with pytest.raises(LogDamaged):
        read(directory)


def test_a_lost_part_of_a_new_file_is_damage(log: OffsetLog, directory: Path) -> None:
    """All records that a file was born with are durable: none of them may be missing."""
    log.write([kept("audit", 4), kept("mirror", 5)], [], NOW)
    path = only_file(directory)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LogDamaged):
        read(directory)


def test_a_look_changes_nothing(log: OffsetLog, directory: Path) -> None:
    """A torn tail may be a write of the owner's that is under way."""
    log.write([kept("audit", 4)], [], NOW)
    with only_file(directory).open("ab") as file:
        file.write(b"torn")
    before = only_file(directory).read_bytes()
    assert OffsetLog(directory, b"pages").load(is_owner=False) == [kept("audit", 4)]
    assert only_file(directory).read_bytes() == before


def test_a_look_follows_a_file_that_is_replaced(
    log: OffsetLog, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the moment when it was listed and the one when it is opened."""
    monkeypatch.setattr(offset_log, "GROWN_BYTES", 0)
    monkeypatch.setattr(offset_log, "GROWN_FACTOR", 1)
    log.write([kept("audit", 4)], [], NOW)
    real = offset_log.list_segments
    turns = iter((True, False))

    def listed(path: Path) -> list[int]:
        found = real(path)
        if next(turns):
            log.write([kept("audit", 5)], [], NOW)
        return found

    monkeypatch.setattr(offset_log, "list_segments", listed)
    assert OffsetLog(directory, b"pages").load(is_owner=False) == [kept("audit", 5)]


def test_it_is_written_anew_when_it_has_grown(log: OffsetLog, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays within a few times of what lives, and nothing is lost."""
    monkeypatch.setattr(offset_log, "GROWN_BYTES", 1000)
    log.write([kept("quiet", 1, 5, (1, 3, 4))], [], NOW)
    for offset in range(200):
        log.write([kept("busy", offset)], [], NOW)
        assert only_file(directory).stat().st_size <= 1000
    assert only_file(directory).name != "00000000000000000000.log"
    assert read(directory) == {"quiet": kept("quiet", 1, 5, (1, 3, 4)), "busy": kept("busy", 199)}


def test_a_crash_while_it_is_written_anew_leaves_the_old_or_the_new(
    log: OffsetLog, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied before each system call of the replacement: always a file that counts, and no rest after opening it."""
    monkeypatch.setattr(offset_log, "GROWN_BYTES", 100)
    monkeypatch.setattr(offset_log, "GROWN_FACTOR", 1)
    log.write([kept("quiet", 1)], [], NOW)
    log.write([kept("busy", 2)], [], NOW)
    copies: list[Path] = []
    for name in ("pwrite", "fsync", "rename", "unlink"):
        real = getattr(os, name)

        def copying(*args: object, real: object = real) -> object:
            copies.append(shutil.copytree(directory, tmp_path / f"copy-{len(copies)}"))
            return real(*args)  # type: ignore[operator]

        monkeypatch.setattr(os, name, copying)
    log.write([kept("busy", 3)], [], NOW)
    monkeypatch.undo()
    assert len(copies) >= 5
    found = []
    for copy in [*copies, directory]:
        state = read(copy)
        assert state["quiet"] == kept("quiet", 1)
        found.append(state["busy"].position.offset)
        assert len(list(copy.iterdir())) == 1
    assert sorted(found) == found
    assert set(found) == {2, 3}


def test_a_full_disk_changes_nothing(log: OffsetLog, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next write stands in the place of the one that failed."""
    log.write([kept("audit", 4)], [], NOW)
    with monkeypatch.context() as patch:
        Failing(patch, "pwrite", errno.ENOSPC)
        with pytest.raises(StoreFull):
            log.write([kept("audit", 5)], [], NOW)
    assert read(directory) == {"audit": kept("audit", 4)}
    log.write([kept("audit", 6)], [], NOW)
    assert read(directory) == {"audit": kept("audit", 6)}


def test_a_file_whose_sync_failed_is_left(log: OffsetLog, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of its bytes are on the disk is unknown: the next write makes another file."""
    log.write([kept("audit", 4), kept("mirror", 1)], [], NOW)
    with monkeypatch.context() as patch:
        Failing(patch, "fdatasync", errno.EIO)
        with pytest.raises(StorageError):
            log.write([kept("audit", 5)], [], NOW)
    log.write([kept("audit", 6)], [], NOW)
    assert only_file(directory).name != "00000000000000000000.log"
    assert read(directory) == {"audit": kept("audit", 6), "mirror": kept("mirror", 1)}


def test_foreign_files_are_refused(log: OffsetLog, directory: Path, tmp_path: Path) -> None:
    """A link, or a file that is none of ours."""
    log.write([kept("audit", 4)], [], NOW)
    (directory / "notes.txt").write_text("x")
    with pytest.raises(LogDamaged, match=r"notes\.txt"):
        read(directory)
    (tmp_path / "other").symlink_to(directory)
    with pytest.raises(StoreDamaged, match="symbolic link"):
        OffsetLog(tmp_path / "other", b"pages").load()


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes, is_behind: bool) -> None:
    """Never an exception of another kind, and never a consumer that was not written."""
    directory = tmp_path_factory.mktemp("any") / "offsets"
    log = OffsetLog(directory, b"pages")
    log.write([kept("audit", 4)], [], NOW)
    path = only_file(directory)
    path.write_bytes((path.read_bytes() if is_behind else b"") + data)
    try:
        found = read(directory)
    except LogDamaged:
        assert not is_behind
    else:
        assert is_behind
        assert found == {"audit": kept("audit", 4)}
