"""
What a traced program asked of the kernel, as far as a disk can tell.

The events of one recording form a list in the order in which they happened. A write is *pending* from its `WriteBegun` on (the kernel
may put any part of it on the disk from then), and a sync has done its work only at its `SyncEnded`, for the writes that had ended before
its `SyncBegun`. Calls that failed have no event, since they changed nothing; but a sync that failed may have lost what it covered. A call
cut short by the end of the program has begun and never ends, unless the system goes on without the program (trace T4).

A handle is an open file description: `dup` keeps it, opening the same path twice gives two.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Opened:
    """A file or directory was opened; `creates` means that it is made if it is not there."""

    handle: int
    path: str
    creates: bool = False
    truncates: bool = False
    dsync: bool = False


@dataclass(frozen=True, slots=True)
class WriteBegun:
    """Bytes are on their way to a file; an offset of None is the end of the file (O_APPEND)."""

    call: int
    handle: int
    offset: int | None
    data: bytes


@dataclass(frozen=True, slots=True)
class WriteEnded:
    """The write returned: a sync that begins later covers it."""

    call: int


@dataclass(frozen=True, slots=True)
class SyncBegun:
    """fsync or fdatasync of a file or directory was called."""

    call: int
    handle: int


@dataclass(frozen=True, slots=True)
class SyncEnded:
    """That sync returned success."""

    call: int


@dataclass(frozen=True, slots=True)
class SyncFailed:
    """That sync returned an error: what it covered may be dropped, and no later sync writes it."""

    call: int


@dataclass(frozen=True, slots=True)
class Resized:
    """ftruncate, to less or more."""

    handle: int
    size: int


@dataclass(frozen=True, slots=True)
class Allocated:
    """fallocate that may grow the file; new bytes read as zeros."""

    handle: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Zeroed:
    """fallocate that punches a hole or zeroes a range."""

    handle: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Renamed:
    """A name moved, replacing whatever had the new name."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Linked:
    """A second name for a file."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Unlinked:
    """A name of a file, or an empty directory, went away."""

    path: str


@dataclass(frozen=True, slots=True)
class MadeDirectory:
    """An empty directory appeared."""

    path: str


@dataclass(frozen=True, slots=True)
class Marked:
    """One line that the program wrote to its file of marks: what it told the world by then."""

    text: str


Event = (
    Opened | WriteBegun | WriteEnded | SyncBegun | SyncEnded | SyncFailed | Resized | Allocated | Zeroed
    | Renamed | Linked | Unlinked | MadeDirectory | Marked
)  # fmt: skip
