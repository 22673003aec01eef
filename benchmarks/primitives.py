"""What the engine's building blocks cost alone, and how a profile names them."""

from __future__ import annotations

import os
import secrets
import statistics
import struct
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lmdb
import mmh3
import msgpack

from benchmarks.measure import DATA
from benchmarks.raw import Batch

_REPEAT = 5_000
_SYNCS = 300


@dataclass(frozen=True)
class Primitive:
    name: str
    marks: tuple[str, ...]
    """What the profiler calls it: all of these words occur in the function's name."""

    def is_in(self, function: str) -> bool:
        return all(mark in function for mark in self.marks)


PRIMITIVES = (
    Primitive("LMDB put", ("'put'", "Transaction")),
    Primitive("LMDB get", ("'get'", "Transaction")),
    Primitive("LMDB delete", ("'delete'", "Transaction")),
    Primitive("LMDB cursor made", ("'cursor'", "Transaction")),
    Primitive("LMDB seek", ("'set_range'",)),
    Primitive("pwrite", ("posix.pwrite",)),
    Primitive("fdatasync", ("posix.fdatasync",)),
    Primitive("crc32", ("zlib.crc32",)),
    Primitive("murmur", ("mmh3",)),
    Primitive("msgpack pack", ("packb",)),
    Primitive("msgpack unpack", ("unpackb",)),
    Primitive("struct pack", ("'pack'", "Struct")),
    Primitive("lock taken", ("'acquire'",)),
    Primitive("lock given back", ("'release'",)),
    Primitive("clock read", ("time.time_ns",)),
)


def alone_us(directory: Path, record_bytes: int) -> dict[str, float]:
    """Microseconds of each primitive in a loop of its own, over a few thousand rows and records of our size."""
    costs = {**_disk_costs(directory, record_bytes), **_lmdb_costs(directory), **_memory_costs(record_bytes)}
    return {primitive.name: costs.get(primitive.name, 0.0) for primitive in PRIMITIVES}


def _timed(run: Callable[[int], object], repeat: int = _REPEAT) -> float:
    """The median of ten pieces: the machine may be busy for one of them."""
    size = repeat // 10
    pieces = []
    for start in range(0, repeat, size):
        started = time.perf_counter()
        for number in range(start, start + size):
            run(number)
        pieces.append((time.perf_counter() - started) / size * 1e6)
    return statistics.median(pieces)


def _disk_costs(directory: Path, record_bytes: int) -> dict[str, float]:
    record = b"\xa5" * record_bytes
    fd = os.open(directory / "primitive.log", os.O_RDWR | os.O_CREAT, 0o600)
    os.pwrite(fd, bytes(record_bytes * _REPEAT), 0)
    os.fsync(fd)

    def synced(number: int) -> None:
        os.pwrite(fd, record, number * record_bytes)
        os.fdatasync(fd)

    pwrite = _timed(lambda number: os.pwrite(fd, record, number * record_bytes))
    os.fsync(fd)
    both = _timed(synced, _SYNCS)
    os.close(fd)
    return {"pwrite": pwrite, "fdatasync": both - pwrite}


def _lmdb_costs(directory: Path) -> dict[str, float]:
    batch = Batch.of(_REPEAT)
    env = lmdb.open(
        str(directory / "primitive.mdb"), subdir=False, lib_version=0, map_size=1 << 30, max_dbs=4, sync=False
    )
    rows = env.open_db(b"rows")
    keys = batch.primary_keys
    with env.begin(write=True, db=rows) as txn:
        put = _timed(lambda number: txn.put(keys[number], batch.entry, db=rows))
        get = _timed(lambda number: txn.get(keys[number], db=rows))
        made = _timed(lambda number: txn.cursor(rows))
        cursor = txn.cursor(rows)
        seek = _timed(lambda number: cursor.set_range(keys[number]))
        cursor.close()
        delete = _timed(lambda number: txn.delete(keys[number], db=rows))
    env.close()
    return {"LMDB put": put, "LMDB get": get, "LMDB delete": delete, "LMDB cursor made": made, "LMDB seek": seek}


def _memory_costs(record_bytes: int) -> dict[str, float]:
    record, key = secrets.token_bytes(record_bytes), b"page-123456"
    value = [1_700_000_000_000, 0, key, DATA, None]
    packed = msgpack.packb(value)
    header, lock = struct.Struct(">QIQBI"), threading.Lock()

    def lock_and_unlock(number: int) -> None:
        lock.acquire()
        lock.release()

    taken = _timed(lock_and_unlock) / 2
    return {
        "crc32": _timed(lambda number: zlib.crc32(record)),
        "murmur": _timed(lambda number: mmh3.hash_bytes(key)),
        "msgpack pack": _timed(lambda number: msgpack.packb(value)),
        "msgpack unpack": _timed(lambda number: msgpack.unpackb(packed)),
        "struct pack": _timed(lambda number: header.pack(number, 1, 2, 3, 4)),
        "lock taken": taken,
        "lock given back": taken,
        "clock read": _timed(lambda number: time.time_ns()),
    }
