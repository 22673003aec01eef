"""What tests of ready rows need: blocks, part files, and how loads were made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pytest

import journal
from journal.engine.loads.apply import OneLoad
from journal.engine.loads.apply_sealed import ReadyLoad
from journal.loads import PartWriter, SealedPart
from spark_export.columns.mapping import columns_of
from spark_export.loads.sealed_rows import ready_of

KEY = bytes(range(32))
INDEXES = (b"entries", b"keys", b"expirations", b"owners")


def ready(columns: dict[str, Any], due: int | None = None) -> bytes:
    """The ready block of some columns."""
    batch = pa.record_batch(columns)
    found = ready_of(batch, columns_of(batch.schema, {}, None), due)
    assert found is not None
    return found.block()


def some(n: int, start: int = 0, **more: Any) -> bytes:
    """A ready block of n rows, as `many` has them."""
    numbers = range(start, start + n)
    return ready({"key": [f"k{i}" for i in numbers], "data": [msgpack.packb(i) for i in numbers], **more})


class Parts:
    """Writes part files and says how loads were made."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory, self._count = directory, 0
        self.ways: list[str] = []
        for kind in (OneLoad, ReadyLoad):
            monkeypatch.setattr(kind, "make", self._noted(kind.__name__, kind.make))

    def _noted(self, name: str, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def noted(load: Any) -> Any:
            self.ways.append(name)
            return make(load)

        return noted

    def path(self, *blocks: bytes, key: bytes | None = KEY) -> Path:
        """A part file."""
        self._count += 1
        path = self._directory / f"part-{self._count}"
        with PartWriter(path, key) as part:
            for block in blocks:
                part.write(block)
        return path

    def sealed(self, *blocks: bytes) -> SealedPart:
        """The same, and its key."""
        return SealedPart(self.path(*blocks), KEY)


def stored(pages: journal.Journal) -> dict[bytes, list[tuple[bytes, bytes]]]:
    """All rows of all indexes, byte for byte."""
    with pages._backend.p.lock:
        pages._backend.p.flush()
        return {name: list(pages._backend.p.state.rows(name)) for name in INDEXES}
