"""
Reading the copies that a snapshot is made of: their entries by ranges of primary keys, in blocks, in any process that can read
the files.

C1  A file is compared with its digest before LMDB maps it, once in a process: LMDB trusts its pages, and a bad one would
    kill the process (lmdb D2). A file that was written a moment ago, and not touched since, is what the digest was taken of.
C2  LMDB opens a file once in a process: readers of several parts share it, and the last one closes it.
C3  Entries of several generations come as one, in the order of work. No primary key is in two of them.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import accumulate, islice
from operator import itemgetter
from pathlib import Path
from time import time
from typing import Any, NamedTuple
from zlib import crc32

from journal.core.entry.keys import PRIMARY_BYTES
from journal.core.snapshot_blocks import BLOCK_BYTES, BLOCK_ROWS, Block, KeyRange
from journal.engine.files.lmdb import LmdbCopy, check_before_open, file_digest, peeked_keys
from journal.engine.files.posix import open_file, storage_error
from journal.errors import NotFound, StorageError, StoreDamaged

STEP = 256
"""Rows that are read at a time, before it is known how large they are: fewer when those before were large …"""
STEP_BYTES = 256 << 10
"""… so that they have about so many bytes."""
SAMPLES = 64
"""So many keys are looked at for each part that is asked for: parts differ by a few hundredths."""
PEEK_ROWS_MIN = 100_000
RACY_S = 0.05
"""A write within some ms of another write may leave a file's date as it was; that of a large one is older at its digest."""
FRESH_S = 600
"""So long a file is still in memory; to read it once more would show nothing new, and takes as long as a quarter of its rows."""
_CHECKED_MAX = 1024


class Copied(NamedTuple):
    """The copy of one generation's rows."""

    path: str
    digest: int | None
    """Of all its bytes; None when it is too large for one."""
    size: int
    """How many entries it has."""
    state: tuple[int | None, ...] = ()
    """Of the file when it was written: which it is, and when it was changed last."""
    source: tuple[int | str, ...] = ()
    """What it is a copy of: which file, at which commit, and whose rows of it."""


class _Opened:
    def __init__(self, file: LmdbCopy) -> None:
        self.file = file
        self.users = 0


_lock = threading.Lock()
_opened: dict[str, _Opened] = {}
_checked: dict[str, tuple[int | None, ...]] = {}
"""Files that were as their digests say, with what would change if they were written again."""


def _after_fork() -> None:
    """A child goes on with the maps that it inherits; nothing in them is ever written."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def opened(copy: Copied) -> Iterator[LmdbCopy]:
    """The file, checked (C1) and open (C2)."""
    with _lock:
        shared = _opened.get(copy.path)
        if shared is None:
            check(copy)
            shared = _opened[copy.path] = _Opened(LmdbCopy(Path(copy.path)))
        shared.users += 1
    try:
        yield shared.file
    finally:
        with _lock:
            shared.users -= 1
            if not shared.users:
                del _opened[copy.path]
                shared.file.close()


def note(copy: Copied) -> Copied:
    """The digest was taken just now: it need not be compared for a while (C1)."""
    found = os.stat(copy.path)
    if time() - found.st_mtime < RACY_S:
        return copy
    return copy._replace(state=_state(copy, found))


def is_there(copy: Copied) -> bool:
    """Whether a copy can still be read."""
    try:
        check(copy)
    except (NotFound, StorageError):
        return False
    return True


def _state(copy: Copied, found: os.stat_result) -> tuple[int | None, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, copy.digest


def check(copy: Copied) -> None:
    """Compare a file with its digest, unless it is known that it is as it was (C1)."""
    path = Path(copy.path)
    try:
        found = os.stat(path)
        state = _state(copy, found)
        is_fresh = copy.state == state and 0 <= time() - found.st_mtime < FRESH_S
        if is_fresh or _checked.get(copy.path) == state:
            return
        check_before_open(path, None, is_live=True)
        fd = open_file(path, os.O_RDONLY)
        try:
            if copy.digest is not None and file_digest(fd, found.st_size) != copy.digest:
                raise StoreDamaged(f"{path} is not as it was when the snapshot was taken: take another one")
        finally:
            os.close(fd)
    except FileNotFoundError as e:
        raise NotFound(
            f"{path} is not there: its snapshot was closed, or lies on another machine. Keep it open until all parts are read, and "
            "have a directory that all readers see"
        ) from e
    except OSError as e:
        raise storage_error(e, f"cannot read {path}") from e
    if len(_checked) >= _CHECKED_MAX:
        _checked.clear()
    _checked[copy.path] = state


def sampled(copies: Sequence[Copied], ranges: Sequence[KeyRange], count: int) -> tuple[list[bytes], list[KeyRange]]:
    """Keys that split the entries of the ranges into about equal pieces, in order; and the ranges that have entries."""
    stride = max(1, sum(copy.size for copy in copies) // (count * SAMPLES))
    samples: list[bytes] = []
    used: set[KeyRange] = set()
    for copy in copies:
        with opened(copy) as file, file.env.begin() as txn:
            cursor = txn.cursor(db=file.entries)
            peeked = _peeked(copy, ranges, copy.size // stride)
            samples += peeked
            for low, high in ranges:
                if not cursor.set_range(low) or cursor.key() >= high:
                    continue
                used.add((low, high))
                if peeked:
                    continue
                names: Any = cursor.iternext(keys=True, values=False)
                key: bytes | None = next(names)
                while key is not None and key < high:
                    samples.append(key)
                    key = next(islice(names, stride - 1, None), None)
    samples.sort()
    return samples, [each for each in ranges if each in used]


def _peeked(copy: Copied, ranges: Sequence[KeyRange], wanted: int) -> list[bytes]:
    """
    About so many keys of a large file, of which those in the ranges are left, from some of its pages: a walk over a million keys takes a
    quarter of a second. None when they show too little, as when nearly all pages are those of large values.
    """
    if copy.size < PEEK_ROWS_MIN:
        return []
    found = sorted(peeked_keys(Path(copy.path), PRIMARY_BYTES, 4 * wanted))
    if len(found) < wanted:
        return []
    keys = [key for key, _ in found]
    so_far = list(accumulate(number for _, number in found))  # a page that is half empty counts half
    keys = [keys[bisect_right(so_far, so_far[-1] * number // wanted)] for number in range(wanted)]
    return [key for low, high in ranges for key in keys[bisect_left(keys, low) : bisect_left(keys, high)]]


def read_blocks(
    copies: Sequence[Copied], ranges: Sequence[KeyRange], rows_max: int = BLOCK_ROWS, bytes_max: int = BLOCK_BYTES
) -> Generator[Block, None, None]:
    """All entries in the ranges, in blocks of so many rows, fewer when these are large; their checksums are not looked at."""
    if not ranges:
        return
    with ExitStack() as stack:
        readers = [_Reader(stack, copy) for copy in copies if copy.size]
        leases: dict[bytes, bytes] = {}
        primaries: list[bytes] = []
        values: list[bytes] = []
        room = bytes_max
        for low, high in ranges:
            streams = [reader.rows(low, high, leases) for reader in readers]
            for some_keys, some_values in streams[0] if len(streams) == 1 else _joined(streams):
                primaries += some_keys
                values += some_values
                room -= sum(map(len, some_values))
                while len(primaries) >= rows_max or (primaries and room <= 0):
                    yield _block(primaries[:rows_max], values[:rows_max], leases)
                    del primaries[:rows_max], values[:rows_max]
                    room = bytes_max - sum(map(len, values))
        if primaries:
            yield _block(primaries, values, leases)


def _block(primaries: list[bytes], values: list[bytes], leases: dict[bytes, bytes]) -> Block:
    held: dict[int, bytes] = {}
    for primary in sorted(leases):
        if primary > primaries[-1]:
            break
        at = bisect_left(primaries, primary)
        value = leases.pop(primary)
        if primaries[at] != primary or len(value) < 4 or int.from_bytes(value[:4]) != crc32(value[4:], crc32(primary)):
            raise StoreDamaged(f"the lease of primary key {primary.hex()} does not match its checksum, or has no entry")
        held[at] = value
    return Block(primaries, values, held)


_Rows = tuple[list[bytes], list[bytes]]


class _Reader:
    """Reads one copy, in one transaction."""

    def __init__(self, stack: ExitStack, copy: Copied) -> None:
        self._file = stack.enter_context(opened(copy))
        self._txn = stack.enter_context(self._file.env.begin())
        self._has_leases = bool(self._txn.stat(self._file.leases)["entries"])

    def rows(self, low: bytes, high: bytes, leases: dict[bytes, bytes]) -> Iterator[_Rows]:
        """The entries of a range, some at a time; their lease rows are added to `leases`."""
        names, values = self._txn.cursor(db=self._file.entries), self._txn.cursor(db=self._file.entries)
        if not names.set_range(low) or not values.set_range(low):
            return
        # Keys and values one list each: pairs of them would be a tuple for each row, which Python's collector visits.
        each_name: Any = names.iternext(keys=True, values=False)
        each_value: Any = values.iternext(keys=False, values=True)
        step = 16
        while some := list(islice(each_name, step)):
            is_last = some[-1] >= high
            if is_last:
                del some[bisect_left(some, high) :]
                if not some:
                    return
            if self._has_leases:
                self._add_leases(some[0], some[-1], leases)
            some_values = list(islice(each_value, len(some)))
            yield some, some_values
            if is_last:
                return
            bytes_each = sum(map(len, some_values)) // len(some) + 1
            step = max(1, min(STEP, 2 * step, STEP_BYTES // bytes_each))

    def _add_leases(self, first: bytes, last: bytes, leases: dict[bytes, bytes]) -> None:
        cursor = self._txn.cursor(db=self._file.leases)
        if cursor.set_range(first):
            for primary, value in cursor.iternext():
                if primary > last:
                    return
                leases[primary] = value


def _joined(streams: list[Iterator[_Rows]]) -> Iterator[_Rows]:
    """Rows of several files as one (C3): up to the first end of what was read of each, sorted, and so on."""
    heads: list[tuple[Iterator[_Rows], list[bytes], list[bytes]]] = []
    for stream in streams:
        if (some := next(stream, None)) is not None:
            heads.append((stream, *some))
    while heads:
        bound = min(names[-1] for _, names, _ in heads)
        taken: list[_Rows] = []
        rest: list[tuple[Iterator[_Rows], list[bytes], list[bytes]]] = []
        for stream, names, values in heads:
            at = bisect_right(names, bound)
            if at:
                taken.append((names[:at], values[:at]))
            if at < len(names):
                rest.append((stream, names[at:], values[at:]))
            elif (some := next(stream, None)) is not None:
                rest.append((stream, *some))
        heads = rest
        if len(taken) == 1:
            yield taken[0]
        else:
            pairs = [pair for names, values in taken for pair in zip(names, values, strict=True)]
            pairs.sort(key=itemgetter(0))  # runs that are sorted: as many comparisons as rows
            yield [name for name, _ in pairs], [value for _, value in pairs]
