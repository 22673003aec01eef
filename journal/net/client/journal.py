"""A journal that a daemon keeps: the verbs of journal.Journal, each one question and its answer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from threading import Event
from typing import Any

from journal.core.buckets import Range
from journal.core.entry.keys import UserKey
from journal.core.loads.session import PIECE_BYTES, LoadPart, LoadSession
from journal.core.log.cursor import Cursor
from journal.core.schema.schema import Schema
from journal.core.settings import Settings
from journal.core.times import DateLike, DurationLike
from journal.core.values import Entry, Loaded
from journal.errors import Invalid
from journal.net.client.backend import RemoteGround
from journal.net.client.calls import claims, feeds, loads, operations, puts, queries, snapshots
from journal.net.client.calls.claims import Tokened
from journal.net.client.calls.loads import Part
from journal.net.client.calls.signatures import asked, walked
from journal.net.client.connection.due_notices import Ear
from journal.net.client.connection.heartbeat import Heart
from journal.net.client.lease import RemoteLease
from journal.net.client.remote import RemoteLog
from journal.net.client.snapshot import RemoteSnapshot
from journal.net.client.subscription import RemoteSubscription
from journal.net.client.worker import work


class RemoteJournal(RemoteLog):
    """A named table of entries. Made by `RemoteStore.journal`; safe to use from many threads."""

    put = asked(puts.put)
    put_many = walked(puts.put_many)
    create = asked(puts.create)
    create_many = walked(puts.create_many)
    delete = asked(puts.delete)
    delete_many = walked(puts.delete_many)
    move = asked(puts.move)
    move_many = walked(puts.move_many)
    get = asked(queries.get)
    get_many = walked(queries.get_many)
    select = walked(queries.select)
    entries_of = walked(queries.entries_of)
    count = asked(queries.count)
    count_of = asked(queries.count_of)
    owners = walked(queries.owners)
    buried = walked(queries.buried)
    forecast = asked(queries.forecast)
    statistics = asked(queries.statistics)
    done = asked(claims.done)
    done_many = walked(claims.done_many)
    release = asked(claims.release)
    bury = asked(claims.bury)
    retry = asked(claims.retry)
    retry_many = walked(claims.retry_many)
    discard = asked(claims.discard)
    raise_flag = asked(operations.raise_flag)
    pause = asked(operations.pause)
    resume = asked(operations.resume)
    wait_durable = asked(feeds.wait_durable)
    load_commit = asked(loads.load_commit)
    load_abort = asked(loads.load_abort)

    def __init__(self, heart: Heart, name: str, timeout_ms: int | None, ear: Ear) -> None:
        super().__init__(heart, name, timeout_ms)
        self._ear = ear

    @property
    def settings(self) -> Settings:
        """How this journal behaves."""
        return self._ask(operations.settings(self.name))

    @property
    def schema(self) -> Schema | None:
        """All fields that the data may have: the union over the generations that are left."""
        return self._ask(operations.schema(self.name))

    @property
    def shows_all(self) -> bool:
        """Whether reading shows all that has happened: a daemon has its store open, so it does."""
        return True

    @property
    def durable_cursor(self) -> Cursor:
        """The last change that is on disk."""
        return self._ask(feeds.durable_cursor(self.name))

    def now(self) -> int:
        """The daemon's time, by which entries fall due and leases end; in ms since the epoch."""
        return self._ask(operations.now())

    def scan(
        self, *, status: str | None = None, since: DateLike | None = None, until: DateLike | None = None
    ) -> Iterator[Entry]:
        """
        All entries in the order of work, with `since <= process date < until`; with the status "buried" those, in the order of burial.

        Read in pages, so a scan blocks no other caller; what changes meanwhile is seen or not.
        """
        return self._scan(queries.scan(status=status, since=since, until=until))

    def _scan(self, wanted: dict[str, Any]) -> Iterator[Entry]:
        after: str | None = None
        while True:
            page = self._ask(queries.scanned(self.name, wanted, after))
            yield from page
            if not page.has_more:
                return
            after = page.after

    def snapshot(self, *, directory: str | os.PathLike[str] | None = None) -> RemoteSnapshot:
        """
        All entries as they are now, copied by the daemon, to be read in parts by many processes while the journal goes on.

        The daemon keeps the copy in its store until the snapshot is closed, or until five minutes after it was last read;
        `directory` is for programs that open a store themselves, and has no effect here.
        """
        return RemoteSnapshot(self, self._ask(snapshots.snapshot(self.name)))

    def load(
        self,
        parts: Iterable[Part],
        *,
        on_conflict: str = "merge",
        once: tuple[str, int] | None = None,
        on_reject: str = "fail",
        durability: str | None = None,
    ) -> Loaded:
        """
        Put all rows of some parts, load blocks or the paths of part files (journal.loads), as one change: all or none.

        on_conflict: what becomes of a row whose key is there: "merge" (as by a put), "replace", "skip", or "error": then
        KeyExists, and nothing is changed. once: a name and a number; a number that is not above the last one of its name
        changes nothing, and `is_repeated` says so. on_reject: a row that is wrong is an Invalid and nothing is changed
        ("fail"), or it is left out and listed ("list"). The parts are sent to the daemon first, and wait there.
        """
        found = loads.listed_parts(parts)
        with self.load_begin() as load:
            for number, part in enumerate(found):
                loads.send(part, number, load.part(str(number)))
            names = [str(number) for number in range(len(found))]
            return load.commit(names, on_conflict=on_conflict, once=once, on_reject=on_reject, durability=durability)

    def load_begin(self) -> LoadSession:
        """Begin a load whose parts come one by one, from any process that reaches the daemon: see LoadSession."""
        return LoadSession(self, self._ask(loads.begin(self.name)))

    def load_part(self, load: str, name: str) -> LoadPart:
        """Begin a part of a load that was begun, here or elsewhere, by the id of that load."""

        def send(at: int, piece: bytes) -> None:
            self._ask(loads.piece(self.name, load, name, at, piece))

        send(0, b"")
        return LoadPart(name, send, min(PIECE_BYTES, self._link.options.limits.frame_bytes_max // 2))

    def claim(
        self,
        *,
        consumer: str = "",
        lease: DurationLike | None = None,
        durability: str | None = None,
        buckets: Range | None = None,
    ) -> RemoteLease | None:
        """
        Take the next entry that is due, under a lease; None when nothing is.

        Priorities from `slow_from` on come only when nothing else is due. With `buckets`: the next one of these.
        """
        found = self._ask(
            claims.claim(self.name, consumer=self._as(consumer), lease=lease, durability=durability, buckets=buckets)
        )
        return RemoteLease(self, found.leases[0]) if found.leases else None

    def claim_many(
        self,
        n: int,
        *,
        consumer: str = "",
        lease: DurationLike | None = None,
        durability: str | None = None,
        buckets: Range | None = None,
    ) -> list[RemoteLease]:
        """
        Take up to `n` entries at once; slow ones (`slow_from`) only when there are no others.

        Fewer than there are when a frame (1 MiB) holds no more: ask again.
        """
        rows = self._walk(
            claims.claim_many(
                self.name, n, consumer=self._as(consumer), lease=lease, durability=durability, buckets=buckets
            )
        )
        return [RemoteLease(self, row) for row in rows]

    def claim_key(
        self,
        key: UserKey,
        *,
        version: int | None = None,
        consumer: str = "",
        lease: DurationLike | None = None,
        durability: str | None = None,
    ) -> RemoteLease:
        """
        Take the entry with this key, which is due, under a lease, whatever comes before it in the order of work.

        NotFound, Leased (it is under a lease already), VersionMismatch (it is not the version that was asked for), NotDue or Paused.
        """
        row = self._ask(
            claims.claim_key(
                self.name, key, version=version, consumer=self._as(consumer), lease=lease, durability=durability
            )
        )
        return RemoteLease(self, row)

    def _as(self, consumer: str) -> str:
        """Under which name to claim. Said with each claim: one that is made again on another connection comes before its REGISTER."""
        return self._link.options.name or "" if consumer == "" else consumer

    def lease(self, token: int | Tokened) -> RemoteLease:
        """The active lease of a token, as it is now, with what it is about; LeaseLost when it is not active any more."""
        return RemoteLease(self, self._ask(claims.lease(self.name, token)))

    def leases(self, *, consumer: str | None = None) -> list[RemoteLease]:
        """The active leases, of one consumer or of all, by deadline: a consumer that restarts finds its own here."""
        return [RemoteLease(self, row) for row in self._walk(claims.leases(self.name, consumer=consumer))]

    def extend(self, token: int | Tokened, lease: DurationLike | None = None) -> int:
        """Ask for more time for a lease, from now on (never less than it has); the new deadline."""
        return self.extended(token, lease)[0]

    def extended(self, token: int | Tokened, lease: DurationLike | None = None) -> tuple[int, int]:
        """The same: the new deadline, and the version of the lease."""
        return self._ask(claims.extend(self.name, token, lease))

    def work(
        self,
        *,
        consumer: str = "",
        lease: DurationLike | None = None,
        stop: Event | None = None,
        buckets: Range | None = None,
    ) -> Iterator[RemoteLease]:
        """
        Leases as they fall due, for ever, with `buckets` those of a range of them: sleeps until the daemon says that there is work.

        Ends when `stop` is set (within a moment; at once when `wake()` is called after it) or the connection is closed. A daemon that is
        restarted meanwhile is found again; ConnectionLost when none comes back (`backoff` of `connect`). A slow entry (`slow_from`) comes
        only when nothing else is due.
        """
        if stop is not None and not isinstance(stop, Event):
            raise Invalid(f"stop is {stop!r}: it must be a threading.Event")
        claim = claims.claim(self.name, consumer=self._as(consumer), lease=lease, buckets=buckets)
        return work(self, self._ear, claim, stop)

    def subscribe(
        self,
        *,
        consumer: str = "",
        lease: DurationLike | None = None,
        buckets: Range | None = None,
        credit: int = 16,
    ) -> RemoteSubscription:
        """
        Leases that the daemon pushes as they fall due; an iterator, and a context manager that gives back what was not handed out.

        Up to `credit` of them come ahead, and their time runs: a slow consumer takes few, and extends. The consumer's active leases come
        first. One that leaves three leases unanswered, one after the other, gets nothing more until it answers one of them.
        """
        call = claims.subscribe(
            self.name, consumer=self._as(consumer), lease=lease, buckets=buckets, credit=credit
        )  # fmt: skip
        return RemoteSubscription(self, call, credit)

    def _ground(self) -> RemoteGround:
        """What a role stands on (journal.api.backend)."""
        return RemoteGround(self, self._ear)

    def wake(self) -> None:
        """Wake sleeping workers of this connection, e.g. after their `stop` was set."""
        self._ear.tell(self.name)
