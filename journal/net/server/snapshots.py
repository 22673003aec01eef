"""
Snapshots over the stream: copies that the daemon keeps for readers on any number of connections.

S1  A copy is removed when it is closed, when it was not read for LEASE_S, and with the daemon; after a crash with the next opening of
    the store. A request that comes too late is refused with that reason.
S2  There are SNAPSHOTS_MAX at a time: each takes as much room on the disk as the entries do, and the
    engine refuses to fill the disk.
S3  A snapshot belongs to its journal: an identity without a right to the journal cannot name it.
S4  What is done here reads or writes much: on worker threads. A block fits into a frame.
"""

from __future__ import annotations

import logging
import secrets
import threading
from contextlib import ExitStack
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from journal.core.entry.keys import PRIMARY_BYTES
from journal.core.entry.rows import entry_key
from journal.core.quoting import shown
from journal.core.snapshot_blocks import BLOCK_ROWS, Block, KeyRange, checked_ranges, verify
from journal.engine.snapshots.reader import opened, read_blocks
from journal.engine.snapshots.snapshot import EngineSnapshot
from journal.errors import Busy, Invalid, NotFound
from journal.net.server.connection import Peer
from journal.net.server.verbs.pages import too_large
from journal.net.server.verbs.served_journal import room_of, served_of
from journal.net.wire.values import block_to, cursor_to

if TYPE_CHECKING:
    from journal.net.server.dispatcher import Hub

log = logging.getLogger("journal.daemon")

LEASE_S = 300.0
SNAPSHOTS_MAX = 64
ROW_BYTES = PRIMARY_BYTES + 6
"""What a row takes in a frame besides its bytes."""
LEASE_BYTES = 12


class _Kept:
    """A snapshot, and its files open as long as it is kept."""

    def __init__(self, journal: str, shot: EngineSnapshot) -> None:
        self.journal = journal
        self.shot = shot
        self.used_at = monotonic()
        self._stack = ExitStack()
        for copy in shot.copies:
            self._stack.enter_context(opened(copy))

    def close(self) -> None:
        self._stack.close()
        self.shot.close()


class Snapshotting:
    """The snapshots that a daemon keeps."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._making = 0
        self._is_closed = False
        self._is_armed = False
        hub.own |= {
            "SNAPSHOT_OPEN": self._open,
            "SNAPSHOT_SPLIT": self._split,
            "SNAPSHOT_READ": self._read,
            "SNAPSHOT_CLOSE": self._close,
        }

    @property
    def count(self) -> int:
        """How many are kept."""
        return len(self._kept)

    # -- on the daemon's thread ---------------------------------------------------------------------------------------

    def _open(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        make = partial(self._make, peer, journal)
        return self._hub.later(peer, number, "SNAPSHOT_OPEN", make, self._made)

    def _made(self, reply: dict[str, Any]) -> dict[str, Any]:
        self._arm(monotonic() + LEASE_S)
        return reply

    def _split(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        kept = self._found(journal, parameters)
        make = partial(self._divide, kept, parameters["parts"], checked_ranges(parameters["ranges"]))
        return self._hub.later(peer, number, "SNAPSHOT_SPLIT", make)

    def _read(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        kept = self._found(journal, parameters)
        make = partial(self._block, kept, checked_ranges(parameters["ranges"]))
        return self._hub.later(peer, number, "SNAPSHOT_READ", make)

    def _close(self, peer: Peer, number: int, journal: str, parameters: dict[str, Any]) -> Any:
        with self._lock:
            kept = self._kept.get(parameters["snapshot"])
            if kept is None or kept.journal != journal:
                return None
            del self._kept[parameters["snapshot"]]
        return self._hub.later(peer, number, "SNAPSHOT_CLOSE", kept.close)

    def _found(self, journal: str, parameters: dict[str, Any]) -> _Kept:
        with self._lock:
            kept = self._kept.get(parameters["snapshot"])
        if kept is None or kept.journal != journal or kept.shot.is_closed:  # S3; it was dropped
            raise NotFound(
                f"there is no snapshot {shown(parameters['snapshot'])} of {shown(journal)}: it was closed, it was not read for "
                f"{LEASE_S / 60:.0f} minutes, or the daemon has begun anew. Take another one"
            )
        kept.used_at = monotonic()
        return kept

    def _arm(self, at: float) -> None:
        if not self._is_armed:
            self._is_armed = True
            self._hub.loop.at(at, self._look)

    def _look(self) -> None:
        self._is_armed = False
        self.expire(monotonic())

    def expire(self, now: float) -> None:
        """Remove the copies that were not read for LEASE_S (S1)."""
        with self._lock:
            late = [name for name, kept in self._kept.items() if kept.used_at + LEASE_S <= now]
            gone = [self._kept.pop(name) for name in late]
            following = min((kept.used_at for kept in self._kept.values()), default=None)
        for kept in gone:
            log.warning("snapshot_expired journal=%s", kept.journal)
            self._hub.work(kept.close)
        if following is not None:
            self._arm(following + LEASE_S)

    def close(self) -> None:
        """The daemon ends, and nothing is being made any more."""
        with self._lock:
            self._is_closed = True
            gone = list(self._kept.values())
            self._kept.clear()
        for kept in gone:
            kept.close()

    # -- on worker threads --------------------------------------------------------------------------------------------

    def _make(self, peer: Peer, journal: str) -> dict[str, Any]:
        with self._lock:
            if len(self._kept) + self._making >= SNAPSHOTS_MAX:
                raise Busy(f"there are {SNAPSHOTS_MAX} snapshots already: close one, or try again later")  # S2
            self._making += 1
        try:
            shot = served_of(self._hub.store, journal, peer.connection.grant).journal.snapshot()
            try:
                kept = _Kept(journal, shot)
            except BaseException:
                shot.close()
                raise
            name = secrets.token_hex(16)
            with self._lock:
                self._kept[name] = kept
        finally:
            with self._lock:
                self._making -= 1
        return {
            "snapshot": name,
            "cursor": cursor_to(shot.cursor),
            "taken": shot.taken,
            "size": shot.size,
            "schema": None if shot.schema is None else shot.schema.to_dict(),
        }

    def _divide(self, kept: _Kept, count: int, ranges: list[KeyRange]) -> dict[str, Any]:
        used, at = kept.shot.divide(count, ranges)
        kept.used_at = monotonic()
        size = (PRIMARY_BYTES + 8) * (2 * len(used) + len(at))
        if size > room_of(self._hub.store):
            raise Invalid(
                f"{count} parts take {size} bytes, and a frame has room for {room_of(self._hub.store)}: ask for fewer"
            )
        return {"ranges": [list(each) for each in used], "at": at}

    def _block(self, kept: _Kept, ranges: list[KeyRange]) -> list[Any]:
        room = room_of(self._hub.store)
        blocks = read_blocks(kept.shot.copies, ranges, BLOCK_ROWS, room)
        block = _fitting(next(blocks, Block([], [], {})), room)
        blocks.close()
        kept.used_at = monotonic()
        return block_to(block)


def _fitting(block: Block, room: int) -> Block:
    """As much of a block as fits into a frame."""
    primaries, values, leases = block
    whole = room
    for at, value in enumerate(values):
        room -= ROW_BYTES + len(value) + (LEASE_BYTES + len(leases[at]) if at in leases else 0)
        if room < 0:
            if not at:
                verify(primaries[:1], values[:1])
                raise too_large(whole, entry_key(value), whole - room)
            kept = {n: lease for n, lease in leases.items() if n < at}
            return Block(primaries[:at], values[:at], kept)
    return block
