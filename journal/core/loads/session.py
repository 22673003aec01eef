"""
Loads whose parts are written by many processes: the objects that each process holds, wherever the store is.

The process that has the journal begins a load and hands out its id; every other process opens parts of it by name and writes
blocks; the first process commits the parts that count. The code that makes these objects decides where the bytes go: to a file
beside the store, or to its daemon.

T1  A part is sent in pieces, each with the place where it begins, so a piece that is sent twice is one.
T2  A part counts when it was closed, and only if the commit names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Self

from journal.core.loads.blocks import PartEncoder
from journal.core.values import Loaded
from journal.errors import Invalid

PART_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=-]{0,199}")
LOAD_ID = re.compile(r"[0-9a-f]{32}")
PIECE_BYTES = 512 << 10
"""What is sent at a time: well below what a frame may have."""
Send = Callable[[int, bytes], object]
"""Sends a piece that begins at this byte of the part."""


def part_name(name: Any) -> str:
    """The name of a part, which is that of a file."""
    if type(name) is not str or PART_NAME.fullmatch(name) is None:
        raise Invalid(
            f"the part is called {name!r:.250}: it must be 1 to 200 of A-Z a-z 0-9 _ . = - , beginning with a letter, a digit "
            "or _"
        )
    return name


def part_names(names: Iterable[str]) -> list[str]:
    """The parts that a commit names: each once."""
    if isinstance(names, (str, bytes)):
        raise Invalid("parts is one name: give a list of names")
    try:
        found = [part_name(name) for name in names]
    except TypeError as e:
        raise Invalid(f"parts is {names!r:.60}: it must be a list of names") from e
    if len(set(found)) != len(found):
        twice = next(name for name in found if found.count(name) > 1)
        raise Invalid(f"the part {twice!r} is named twice: nothing was changed")
    return found


def load_id(load: Any) -> str:
    """The id of a load, which `load_begin` made."""
    if type(load) is not str or LOAD_ID.fullmatch(load) is None:
        raise Invalid(f"the load is {load!r:.60}: it must be the id of what load_begin gave")
    return load


class LoadPart:
    """Writes one part of a load. A context manager; for one thread at a time."""

    def __init__(self, name: str, send: Send, piece_bytes: int = PIECE_BYTES) -> None:
        self.name = name
        self._piece_bytes = piece_bytes
        self._send = send
        self._encoder = PartEncoder()
        self._waiting = [self._encoder.begin()]
        self._waiting_bytes = self._encoder.bytes
        self._sent = 0
        self._result: tuple[int, int, int] | None = None
        self._is_over = False

    def write(self, block: bytes) -> None:
        """Add a block of rows. After an error the part is given up: write it anew, under another name."""
        if self._is_over:
            raise Invalid(f"the part {self.name} is closed")
        pieces = self._encoder.block(block)
        self._is_over = True
        for piece in pieces:
            self._add(piece)
        self._is_over = False

    def close(self) -> tuple[int, int, int]:
        """Make it whole: how many rows and bytes it has, and its checksum. Repeating it is harmless."""
        if not self._is_over:
            self._is_over = True
            self._waiting.append(self._encoder.end())
            self._result = self._encoder.rows, self._encoder.bytes, self._encoder.crc
        if self._result is None:
            raise Invalid(f"the part {self.name} was given up")
        while self._waiting:
            self._send_piece()
        return self._result

    def copy(self, pieces: Iterable[bytes]) -> None:
        """Take the bytes of a part file in place of blocks; the reader of the part checks whether they are one."""
        self._is_over = True
        self._waiting.clear()
        self._waiting_bytes = 0
        for piece in pieces:
            self._add(piece)
        while self._waiting:
            self._send_piece()

    def _add(self, piece: bytes) -> None:
        self._waiting.append(piece)
        self._waiting_bytes += len(piece)
        while self._waiting_bytes >= self._piece_bytes:
            self._send_piece()

    def _send_piece(self) -> None:
        waiting = b"".join(self._waiting)
        self._send(self._sent, waiting[: self._piece_bytes])
        rest = waiting[self._piece_bytes :]
        self._sent += len(waiting) - len(rest)
        self._waiting, self._waiting_bytes = [rest] if rest else [], len(rest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        self._is_over = True


class LoadSession:
    """
    A load that was begun. Its id is all that another process needs to add parts.

    A context manager: left without a commit, the load is given up.
    """

    def __init__(self, journal: Any, load: str) -> None:
        self.id = load
        self._journal = journal
        self._is_over = False

    def __repr__(self) -> str:
        return f"<LoadSession {self.id}>"

    def part(self, name: str) -> LoadPart:
        """Begin a part; give each attempt to write it a name of its own."""
        part: LoadPart = self._journal.load_part(self.id, name)
        return part

    def commit(
        self,
        parts: Iterable[str],
        *,
        on_conflict: str = "merge",
        once: tuple[str, int] | None = None,
        on_reject: str = "fail",
        durability: str | None = None,
    ) -> Loaded:
        """Load these parts as one change: see `Journal.load`."""
        loaded: Loaded = self._journal.load_commit(
            self.id, parts, on_conflict=on_conflict, once=once, on_reject=on_reject, durability=durability
        )
        self._is_over = True
        return loaded

    def abort(self) -> None:
        """Give the load up; its parts go. Repeating it is harmless."""
        self._is_over = True
        self._journal.load_abort(self.id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_over:
            self.abort()
