"""
A snapshot that a daemon keeps: the verbs of journal.Snapshot, and parts that connect by themselves.

S1  A part carries the daemon's address, its identity and its secret: it can be pickled, and read in any process that reaches the daemon.
    The secret is not shown.
S2  All parts that a process reads share a connection to their daemon. It is kept: what is idle for long ends at the daemon's side, and is
    made anew.
S3  Every block's checksums are verified where it is read.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from journal.core.requests.snapshot import (
    SnapshotCloseRequest,
    SnapshotOpenRequest,
    SnapshotReadRequest,
    SnapshotSplitRequest,
)
from journal.core.schema.schema import Schema
from journal.core.snapshot_blocks import Block, KeyRange, parts_number, remaining, selected, split, verify
from journal.core.times import DateLike
from journal.errors import FrameError, JournalError, NotFound, StoreClosed
from journal.net.client.client import Client
from journal.net.client.connection.address import DaemonAddress, parse_address
from journal.net.client.connection.call import Call, call_of
from journal.net.client.connection.link import Link
from journal.net.client.connection.options import ConnectOptions
from journal.net.wire.codecs import TakenSnapshot, taken_snapshot
from journal.net.wire.limits import DEFAULT, Limits
from journal.net.wire.values import block_from
from journal.shield import shielded


@dataclass(frozen=True)
class RemoteSnapshotPart:
    """What one reader reads of a snapshot (S1)."""

    address: str
    journal: str
    snapshot: str
    ranges: tuple[KeyRange, ...]
    identity: str = ""
    secret: bytes | None = field(default=None, repr=False)
    timeout_ms: int | None = None
    limits: Limits = DEFAULT
    tls: ssl.SSLContext | None = field(default=None, compare=False, repr=False)
    """Stays in its process; in another one it is the system's (SSL_CERT_FILE says what that trusts)."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (
            self.address, self.journal, self.snapshot, self.ranges, self.identity, self.secret, self.timeout_ms, self.limits,
        )  # fmt: skip

    def read(self) -> Iterator[Block]:
        """Its entries, some thousand at a time, in the order of work; checksums are verified."""
        link = _link(self)
        rest: list[KeyRange] = list(self.ranges)
        while rest:
            asked = call_of(SnapshotReadRequest(snapshot=self.snapshot, ranges=rest), self.journal)
            block = block_from(link.ask(asked, self.timeout_ms))
            if not block.primaries:
                return
            verify(block.primaries, block.values)  # S3
            if not block.primaries[0] >= rest[0][0] or block.primaries[-1] >= rest[-1][1]:
                raise FrameError("SNAPSHOT_READ was answered with entries that were not asked for")
            yield block
            rest = remaining(rest, block.primaries[-1])


@shielded
class RemoteSnapshot:
    """The entries of a journal at one cursor. Made by `Journal.snapshot`; a context manager."""

    def __init__(self, client: Client, taken: TakenSnapshot) -> None:
        self.name = client.name
        """The journal's."""
        self.cursor = taken.cursor
        """The last change that it shows."""
        self.taken = taken.taken
        """When it was taken: the daemon's time, in ms."""
        self.size = taken.size
        """How many entries it has."""
        self.schema: Schema | None = taken.schema
        """All fields that the data may have: the union over the generations."""
        self.is_closed = False
        self._number = taken.number
        self._client = client

    def parts(
        self,
        count: int,
        *,
        since: DateLike | None = None,
        until: DateLike | None = None,
        priorities: Iterable[int] | None = None,
    ) -> list[RemoteSnapshotPart]:
        """
        The entries in up to `count` parts of about the same size, and at least one.

        Only those with `since <= process date < until`, and of these priorities, if they are given.
        """
        ranges = selected(since, until, priorities)
        parts_number(count)
        if self.is_closed:
            raise NotFound(f"the snapshot of journal {self.name} at {self.cursor} is closed: take another one")
        used, at = self._client.call(SnapshotSplitRequest(snapshot=self._number, parts=count, ranges=ranges))
        link = self._client.link
        options = link.options
        whole = RemoteSnapshotPart(
            str(_absolute(link.address)), self.name, self._number, (), options.identity, options.secret,
            self._client.timeout_ms, options.limits, options.tls,
        )  # fmt: skip
        return [replace(whole, ranges=part) for part in split(used, at)]

    def close(self) -> None:
        """Have the daemon remove the copy. Closing twice is fine, and so is closing the store before: it goes by itself then."""
        if not self.is_closed:
            self.is_closed = True
            with suppress(StoreClosed):
                self._client.call(SnapshotCloseRequest(snapshot=self._number))

    def __enter__(self) -> RemoteSnapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except JournalError:
            if kind is None:
                raise

    def __repr__(self) -> str:
        return f"<RemoteSnapshot {self.name} {self.cursor}, {self.size} entries>"


def take_snapshot(client: Client) -> RemoteSnapshot:
    """Have the daemon take one."""

    def undo(answer: Any) -> list[Call]:
        return [call_of(SnapshotCloseRequest(snapshot=taken_snapshot(answer).number), client.name)]

    return RemoteSnapshot(client, taken_snapshot(client.ask(call_of(SnapshotOpenRequest(), client.name, undo))))


def _absolute(address: DaemonAddress) -> DaemonAddress:
    return address._replace(host=os.path.abspath(address.host)) if address.kind == "unix" else address


_lock = threading.Lock()
_links: dict[tuple[Any, ...], Link] = {}


def _link(part: RemoteSnapshotPart) -> Link:
    """The connection of this process (S2)."""
    key = (part.address, part.identity, part.secret, part.limits, part.tls)
    with _lock:
        link = _links.get(key)
        if link is None or link.is_closed:
            options = ConnectOptions(
                identity=part.identity, secret=part.secret, timeout_ms=part.timeout_ms, tls=part.tls, limits=part.limits
            )
            link = _links[key] = Link(parse_address(part.address), options)
        return link


def _after_fork() -> None:
    """The parent's connections are not ours."""
    global _lock
    _lock = threading.Lock()
    _links.clear()


os.register_at_fork(after_in_child=_after_fork)
