"""
The limits: what the disk and LMDB take for the same bytes with nothing around them.

`RawLog` is the least that a durable append can cost: one pwrite and one fdatasync over space that was written and
synced before, so that no sync writes file metadata. `RawIndex` is LMDB writing the rows that we write, in one synced
transaction, with keys and values made beforehand.
"""

from __future__ import annotations

import os
import secrets
import struct
import time
from dataclasses import dataclass
from pathlib import Path

import lmdb

_STEP_BYTES = 1 << 20
_PREPARED_BYTES = 32 << 20
_ENTRY_BYTES = 190
"""Our entries row for 100 bytes of data: the data, the key, dates and a checksum."""


class RawLog:
    """A preallocated file that records are appended to."""

    def __init__(self, path: Path, record_bytes: int) -> None:
        self._record = b"\xa5" * record_bytes
        self._at = 0
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        zeros = bytes(_STEP_BYTES)
        for at in range(0, _PREPARED_BYTES, _STEP_BYTES):
            os.pwrite(self._fd, zeros, at)
        os.fsync(self._fd)

    def append_repeatedly(self, times: int) -> None:
        for _ in range(times):
            self.append()

    def append(self) -> None:
        os.pwrite(self._fd, self._record, self._at)
        os.fdatasync(self._fd)
        self._at = (self._at + len(self._record)) % (_PREPARED_BYTES - _STEP_BYTES)

    def close(self) -> None:
        os.close(self._fd)


@dataclass(frozen=True)
class Batch:
    """Rows as our index has them: the primary key, the key of the `keys` row, and both values."""

    primary_keys: list[bytes]
    keys: list[bytes]
    entry: bytes
    lease: bytes

    @classmethod
    def of(cls, size: int) -> Batch:
        murmurs = [secrets.token_bytes(16) for _ in range(size)]
        now_ms = time.time_ns() // 1_000_000
        primary_keys = [struct.pack(">BQQ16sB", 100, now_ms, turn, murmur, 0) for turn, murmur in enumerate(murmurs)]
        return cls(primary_keys, [murmur + b"\0" for murmur in murmurs], b"\xa5" * _ENTRY_BYTES, b"\xa5" * 60)


class RawIndex:
    """LMDB with the rows of an entry, each batch in one synced transaction."""

    def __init__(self, path: Path) -> None:
        self._env = lmdb.open(
            str(path), subdir=False, lib_version=0, map_size=16 << 30, max_dbs=16, mode=0o600, max_spare_txns=0
        )
        self._entries = self._env.open_db(b"entries")
        self._keys = self._env.open_db(b"keys")
        self._leases = self._env.open_db(b"leases")

    def put(self, batch: Batch) -> None:
        with self._env.begin(write=True) as txn:
            for primary_key, key in zip(batch.primary_keys, batch.keys, strict=True):
                txn.put(primary_key, batch.entry, db=self._entries)
                txn.put(key, primary_key, db=self._keys)

    def claim(self, batch: Batch) -> None:
        with self._env.begin(write=True) as txn:
            for primary_key in batch.primary_keys:
                txn.put(primary_key, batch.lease, db=self._leases)

    def done(self, batch: Batch) -> None:
        with self._env.begin(write=True) as txn:
            for primary_key, key in zip(batch.primary_keys, batch.keys, strict=True):
                txn.delete(primary_key, db=self._entries)
                txn.delete(key, db=self._keys)
                txn.delete(primary_key, db=self._leases)

    def close(self) -> None:
        self._env.close()
