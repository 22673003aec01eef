"""
The copy that a consumer takes before it follows: all entries as they were at one cursor.

A read transaction of LMDB at a checkpoint is such a copy, and says itself which change it has applied last. A long one
pins pages, and a consumer may be slow; so its rows are first written to an unnamed file beside the offset log, and
delivered from there. The file has no name: a crash leaves nothing of it.

I1  The copy shows exactly the changes up to its cursor: following from there on misses nothing and repeats nothing.
I2  The read transaction is begun, read and ended on the keeper, a page at a time: it cannot meet a close of the file.
I3  Its events have cursors of their own, (0, n) for the n-th, so that they can be acknowledged one by one. No generation
    has the order 0. The event that ends it has the cursor of the copy.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

import msgpack

from journal.core.entry.keys import SLOT_BYTES
from journal.core.entry.rows import decode_entry, decode_lease, decode_successor
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event, Where, completed, copied
from journal.engine.feed.log_tail import FollowedJournal
from journal.engine.files.posix import make_directory, storage_error
from journal.engine.snapshots.take import CopiedHost
from journal.engine.state.file import GenerationRows

ORDER = 0
"""The order of the cursors of a copy (I3)."""
PAGE = 1000
"""Rows that are read on the keeper at a time: some milliseconds."""


class CopiedJournal(FollowedJournal, CopiedHost, Protocol):
    """A journal whose entries are copied before its log is followed."""


class Copy:
    """The entries of a journal at one cursor. For one thread at a time."""

    def __init__(self, p: CopiedJournal, directory: Path) -> None:
        self.size = 0
        """How many events it has, the one that ends it not counted."""
        self._name = p.name
        self._taken = p.time.now()
        self._where = Where(ORDER, self._taken, "copy", p.name, p.generations.blank)
        make_directory(directory)
        self._file: IO[bytes] | None = None
        try:
            self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed by `close`
            self.cursor = self._fill(p, self._file)
            self._file.flush()
        except OSError as e:
            raise storage_error(e, f"cannot copy the entries of journal {p.name} to {directory}") from e
        self.last = Cursor(ORDER, self.size - 1)

    def _fill(self, p: CopiedJournal, file: IO[bytes]) -> Cursor:
        """Write all rows to the file; the cursor of the copy (I1, I2)."""
        packer = msgpack.Packer()
        call = p.keeper.call
        call(p.checkpoint)
        reader = call(lambda: _Snapshot(p))
        try:
            while rows := call(reader.page):
                file.write(b"".join(map(packer.pack, rows)))
                self.size += len(rows)
        finally:
            if p.trouble is None:
                call(reader.close)
        return reader.cursor

    def events(self, after: int) -> Iterator[list[Event]]:
        """Pages of events behind the n-th, from the first (-1) on, then the one that ends the copy."""
        assert self._file is not None
        self._file.seek(0)
        unpacker = msgpack.Unpacker(self._file, strict_map_key=False, max_buffer_size=0)
        page: list[Event] = []
        for number in range(self.size):
            primary, value, version, timeouts, is_successor = unpacker.unpack()
            if number <= after:
                continue
            page.append(self._event(number, primary, value, version, timeouts, is_successor))
            if len(page) == PAGE:
                yield page
                page = []
        yield [*page, completed(self.cursor, self._taken, self._name)]

    def _event(
        self, number: int, primary: bytes, value: bytes, version: Any, timeouts: Any, is_successor: bool
    ) -> Event:
        row = decode_successor(primary, value) if is_successor else decode_entry(primary, value)
        if version is not None:
            row = row._replace(version=version, timeouts=timeouts)
        return copied(row, Cursor(ORDER, number), self._where, is_successor=is_successor)

    def close(self) -> None:
        """Forget the copy."""
        if self._file is not None:
            self._file.close()

    def __del__(self) -> None:
        self.close()


class _Snapshot:
    """Read transactions over the last checkpoint, one for each generation; on the keeper."""

    def __init__(self, p: CopiedJournal) -> None:
        self._p = p
        self._parts = [_Part(rows) for rows in p.rows_now()]
        with p.lock:
            p.pin_rows()
        applied = msgpack.unpackb(self._parts[-1].applied())  # older ones have it too (checkpoints V6)
        self.cursor = Cursor(applied[0], applied[1] - 1)

    def page(self) -> list[tuple[Any, ...]]:
        """The next rows: (key, value, version, timeouts, is it a successor); none at the end."""
        for part in self._parts:
            if rows := part.page():
                return rows
        return []

    def close(self) -> None:
        """End the transactions."""
        with self._p.lock:
            self._p.unpin_rows()
        for part in self._parts:
            part.close()


class _Part:
    """A read transaction over the rows of one generation."""

    def __init__(self, rows: GenerationRows) -> None:
        self._databases = rows.file.databases
        self._txn = rows.file.env.begin()
        self._entries = self._txn.cursor(db=self._databases[b"entries"])
        self._has_leases = bool(self._txn.stat(self._databases[b"leases"])["entries"])
        self._prefix = rows.prefix
        self._is_at_row = self._entries.set_range(self._prefix) if self._prefix else self._entries.first()

    def page(self) -> list[tuple[Any, ...]]:
        """The next rows of this generation."""
        rows: list[tuple[Any, ...]] = []
        while self._is_at_row and len(rows) < PAGE:
            name, value = self._entries.item()
            if not name.startswith(self._prefix):
                self._is_at_row = False
                break
            primary = name[len(self._prefix) :]
            version = timeouts = successor = None
            if self._has_leases and (lease := self.get(b"leases", primary)) is not None:
                row = decode_lease(primary, lease)
                version, timeouts = row.version, row.timeouts
                successor = self.get(b"successors", primary[-SLOT_BYTES:])
            rows.append((primary, value, version, timeouts, False))
            if successor is not None:
                rows.append((primary[-SLOT_BYTES:], successor, None, None, True))
            self._is_at_row = self._entries.next()
        return rows

    def get(self, database: bytes, key: bytes) -> Any:
        """A row."""
        return self._txn.get(self._prefix + key, db=self._databases[database])

    def applied(self) -> Any:
        """What the file says of the place in the log that it stands for."""
        return self._txn.get(b"applied", db=self._databases[b"meta"])

    def close(self) -> None:
        """End the transaction."""
        self._txn.abort()
