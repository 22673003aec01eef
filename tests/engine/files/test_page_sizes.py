"""Files with the pages of other systems: 16 KiB, as on Apple's processors, 32 KiB, as LMDB takes where the system has 64."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.engine.files import lmdb
from journal.errors import StoreDamaged
from tests.top import top

ROWS = 5_000


@pytest.fixture(params=[4096, 16_384, 32_768])
def page_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """New files have pages of this size: LMDB goes by what an empty file says, not by the system."""
    size: int = request.param
    opened = lmdb.lmdb.open

    def open_with(path: str, *args: Any, **options: Any) -> Any:
        if not options.get("readonly") and (not os.path.exists(path) or not os.path.getsize(path)):
            Path(path).write_bytes(b"".join(_empty(number, size, options["map_size"]) for number in (0, 1)))
        return opened(path, *args, **options)

    monkeypatch.setattr(lmdb.lmdb, "open", open_with)
    return size


def _empty(number: int, size: int, map_bytes: int) -> bytes:
    """A first page as LMDB writes it into a new file: head, magic, version, address, map, free and main database, last page, commit."""
    none = (1 << 64) - 1
    head = struct.pack("<QHHHH", number, 0, 8, 0, 0)
    databases = [struct.pack("<IHHQQQQQ", pad, flags, 0, 0, 0, 0, 0, none) for pad, flags in ((size, 8), (0, 0))]
    meta = struct.pack("<IIQQ", 0xBEEFC0DE, 1, 0, map_bytes) + b"".join(databases) + struct.pack("<QQ", 1, 0)
    return (head + meta).ljust(size, b"\0")


@pytest.fixture
def path(tmp_path: Path, page_bytes: int) -> Path:
    """A store with one generation of some thousand rows, closed."""
    with journal.open(tmp_path / "work.journal") as store:
        pages = store.journal("pages")
        pages.put_many([journal.Put(f"k{n}", b"x" * (n % 50), priority=n % 3) for n in range(ROWS)])
        pages.put("large", bytes(200_000))
        assert pages._backend.p.state.file.env.stat()["psize"] == page_bytes
    return tmp_path / "work.journal"


def test_a_store_is_opened_again_and_checked(path: Path) -> None:
    """Also when it was not closed, so that its size is all that is known."""
    with journal.open(path) as store:
        assert store.check() == [] and store.journal("pages").count() == ROWS + 1


def test_a_file_that_was_cut_is_found_out(path: Path, page_bytes: int) -> None:
    """A read behind its end would be a signal, not an error."""
    rows = path / top() / "000001" / "rows.mdb"
    size = rows.stat().st_size
    assert size % page_bytes == 0
    os.truncate(rows, size - page_bytes)
    with pytest.raises(StoreDamaged):
        lmdb.check_before_open(rows, None)


def test_parts_of_a_snapshot_are_even(path: Path) -> None:
    """Their ends are estimated from keys all over the pages."""
    with journal.open(path) as store, store.journal("pages").snapshot() as shot:
        sizes = [sum(len(block.primaries) for block in part.read()) for part in shot.parts(4)]
    assert sum(sizes) == ROWS + 1 and len(sizes) == 4 and max(sizes) < ROWS // 2


def test_spark_reads_the_pages(path: Path) -> None:
    """As they lie there, the same rows that LMDB gives."""
    pytest.importorskip("pyarrow", reason="pip install 'journal[spark]'")
    from spark_export.columns.entry_arrays import of_part

    with journal.open(path) as store, store.journal("pages").snapshot() as shot:
        for part in (*shot.parts(1), *shot.parts(3)):
            found = [primary.tobytes() for packed in of_part(part) for primary in packed.primaries]
            assert found == [primary for block in part.read() for primary in block.primaries]
