"""
Bulk loads, on the side that has the rows: blocks of rows, and part files, which `Journal.load` takes.

A program that has rows by the million (a Spark task, a dump) writes part files, on any machine and without the store; the
program that has the store, or a connection to its daemon, loads them all as one change.
"""

from __future__ import annotations

import errno
import os
from typing import Self

from journal.core.loads.blocks import LoadRow as LoadRow
from journal.core.loads.blocks import PartEncoder
from journal.core.loads.blocks import decode_block as decode_block
from journal.core.loads.blocks import encode_block as encode_block
from journal.core.loads.blocks import encode_columns as encode_columns
from journal.errors import Invalid, StorageError, StoreFull
from journal.shield import shielded

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SealedPart(os.PathLike[str]):
    """
    The path of a part file that was sealed under a key (PartWriter), for `Journal.load`.

    Rows that were checked when they were made are not checked again when the seal is right. When it is not, they are.
    """

    def __init__(self, path: str | os.PathLike[str], key: bytes) -> None:
        self._path = os.fspath(path)
        self.key = key

    def __fspath__(self) -> str:
        return self._path

    def __str__(self) -> str:
        return self._path


@shielded
class PartWriter:
    """
    Writes a part file. It must not be there yet; it is whole when it was closed.

    With a key it is sealed: it belongs to a load that is under way and is of no use to any other, so it is not synced.
    A context manager: left by an error, the file is removed.
    """

    def __init__(self, path: str | os.PathLike[str], key: bytes | None = None) -> None:
        self.path = os.fspath(path)
        self._encoder = PartEncoder(key)
        self._is_synced = key is None
        self._result: tuple[int, int, int] | None = None
        try:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError as e:
            raise Invalid(
                f"{self.path} is there already: give each part, and each attempt to write it, its own name"
            ) from e
        except OSError as e:
            raise _failure(e, self.path) from e
        self._write(self._encoder.begin())

    def write(self, block: bytes) -> None:
        """Add a block of rows."""
        if self._fd < 0:
            raise Invalid(f"the part {self.path} is closed")
        for piece in self._encoder.block(block):
            self._write(piece)

    def close(self) -> tuple[int, int, int]:
        """Make it whole: how many rows and bytes it has, and its checksum. Unless it is sealed, its bytes are on the disk."""
        if self._result is None:
            if self._fd < 0:
                raise Invalid(f"the part {self.path} was given up")
            self._write(self._encoder.end())
            try:
                if self._is_synced:
                    os.fsync(self._fd)
            except OSError as e:
                self.abort()
                raise _failure(e, self.path) from e
            os.close(self._fd)
            self._fd = -1
            self._result = self._encoder.rows, self._encoder.bytes, self._encoder.crc
        return self._result

    def abort(self) -> None:
        """Give it up: the file is removed."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            os.unlink(self.path)

    def _write(self, piece: bytes) -> None:
        view = memoryview(piece)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as e:
            self.abort()
            raise _failure(e, self.path) from e

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


def _failure(error: OSError, path: str) -> StorageError:
    reason = f"cannot write the part {path}: {error.strerror}. It was removed; free some room, or choose another place"
    return StoreFull(reason) if error.errno in _FULL else StorageError(reason)
