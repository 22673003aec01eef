"""The number of the format: a store of another one is refused with a text that says what to do, and stays as it is."""

from __future__ import annotations

import hashlib
from pathlib import Path
from zlib import crc32

import lmdb
import msgpack
import pytest

import journal
from journal.engine.catalog import _CRC, FORMAT
from journal.testing import ManualClock


def digests(path: Path) -> dict[str, str]:
    """All bytes of a store, but those of locks."""
    files = [
        each for each in path.rglob("*") if each.is_file() and "LOCK" not in each.name and "-lock" not in each.name
    ]
    return {str(each): hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


def made(path: Path, clock: ManualClock, number: int | None) -> None:
    """A store that says to be of this format; None: it has no number, as the first ones."""
    with journal.open(path, clock=clock) as store:
        store.journal("pages").put("a")
    with (
        lmdb.open(str(path / "catalog" / "catalog.mdb"), subdir=False, max_dbs=4, lib_version=0) as env,
        env.begin(write=True) as txn,
    ):
        meta = env.open_db(b"meta", txn=txn)
        assert txn.delete(b"format", db=meta)
        if number is not None:
            body = msgpack.packb(number)
            txn.put(b"format", _CRC.pack(crc32(body, crc32(b"format"))) + body, db=meta)


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    ("number", "says"),
    [
        (None, "format 1,.*Open it with the version that wrote it.*load them"),
        (FORMAT + 1, f"format {FORMAT + 1},.*Update"),
    ],
)
def test_another_format_is_refused(
    tmp_path: Path, clock: ManualClock, readonly: bool, number: int | None, says: str
) -> None:
    """Older and newer ones, for owners and for those who look; nothing is changed by it, and asking again says the same."""
    path = tmp_path / "work.journal"
    made(path, clock, number)
    before = digests(path)
    for _ in range(2):
        with pytest.raises(journal.StorageError, match=says):
            journal.open(path, clock=clock, readonly=readonly)
    assert digests(path) == before


def test_the_same_format_opens(tmp_path: Path, clock: ManualClock) -> None:
    """As often as one likes."""
    path = tmp_path / "work.journal"
    made(path, clock, FORMAT)
    for _ in range(3):
        with journal.open(path, clock=clock) as store:
            assert store.journal("pages").count() == 1
