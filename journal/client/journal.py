"""A journal that a daemon keeps: the verbs of journal.Journal, each one question and its answer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from threading import Event
from typing import Any

from journal.client import consuming, following, keeping, loading, producing, reading, snapshots
from journal.client.asked import asked, walked
from journal.client.consuming import Tokened
from journal.client.ear import Ear
from journal.client.ground import RemoteGround
from journal.client.heartbeat import Heart
from journal.client.lease import RemoteLease
from journal.client.loading import Part
from journal.client.remote import RemoteLog
from journal.client.snapshot import RemoteSnapshot
from journal.client.subscription import RemoteSubscription
from journal.client.worker import work
from journal.core.buckets import Range
from journal.core.cursor import Cursor
from journal.core.keys import UserKey
from journal.core.schema import Schema
from journal.core.settings import Settings
from journal.core.staged import PIECE_BYTES, LoadPart, LoadSession
from journal.core.times import DateLike, DurationLike
from journal.core.views import Entry, Loaded
from journal.errors import Invalid


class RemoteJournal(RemoteLog):
    """A named table of entries. Made by `RemoteStore.journal`; safe to use from many threads."""

    put = asked(producing.put)
    put_many = walked(producing.put_many)
    create = asked(producing.create)
    create_many = walked(producing.create_many)
    delete = asked(producing.delete)
    delete_many = walked(producing.delete_many)
    move = asked(producing.move)
    move_many = walked(producing.move_many)
    get = asked(reading.get)
    get_many = walked(reading.get_many)
    select = walked(reading.select)
    entries_of = walked(reading.entries_of)
    count = asked(reading.count)
    count_of = asked(reading.count_of)
    owners = walked(reading.owners)
    buried = walked(reading.buried)
    forecast = asked(reading.forecast)
    statistics = asked(reading.statistics)
    done = asked(consuming.done)
    done_many = walked(consuming.done_many)
    release = asked(consuming.release)
    bury = asked(consuming.bury)
    retry = asked(consuming.retry)
    retry_many = walked(consuming.retry_many)
    discard = asked(consuming.discard)
    raise_flag = asked(keeping.raise_flag)
    pause = asked(keeping.pause)
    resume = asked(keeping.resume)
    wait_durable = asked(following.wait_durable)
    load_commit = asked(loading.load_commit)
    load_abort = asked(loading.load_abort)

    def __init__(self, heart: Heart, name: str, timeout_ms: int | None, ear: Ear) -> None:
        super().__init__(heart, name, timeout_ms)
        self._ear = ear

    @property
    def settings(self) -> Settings:
        """How this journal behaves."""
        return self._ask(keeping.settings(self.name))

    @property
    def schema(self) -> Schema | None:
        """All fields that the data may have: the union over the generations that are left."""
        return self._ask(keeping.schema(self.name))

    @property
    def shows_all(self) -> bool:
        """Whether reading shows all that has happened: a daemon has its store open, so it does."""
        return True

    @property
    def durable_cursor(self) -> Cursor:
        """The last change that is on disk."""
        return self._ask(following.durable_cursor(self.name))

    def now(self) -> int:
        """The daemon's time, by which entries fall due and leases end; in ms since the epoch."""
        return self._ask(keeping.now())

    def scan(
        self, *, status: str | None = None, since: DateLike | None = None, until: DateLike | None = None
    ) -> Iterator[Entry]:
        """
        All entries in the order of work, with `since <= process date < until`; with the status "buried" those, in the order of burial.

        Read in pages, so a scan holds nobody up; what changes meanwhile is seen or not.
        """
        return self._scan(reading.scan(status=status, since=since, until=until))

    def _scan(self, wanted: dict[str, Any]) -> Iterator[Entry]:
        after: str | None = None
        while True:
            page = self._ask(reading.scanned(self.name, wanted, after))
            yield from page
            if not page.has_more:
                return
            after = page.after

    def snapshot(self, *, directory: str | os.PathLike[str] | None = None) -> RemoteSnapshot:
        """
        All entries as they are now, copied by the daemon, to be read in parts by many processes while the journal goes on.

        The daemon keeps the copy in its store until the snapshot is closed, or nobody has read of it for five minutes;
        `directory` is for those who open a store themselves, and says nothing here.
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
        found = loading.listed_parts(parts)
        with self.load_begin() as load:
            for number, part in enumerate(found):
                loading.send(part, number, load.part(str(number)))
            names = [str(number) for number in range(len(found))]
            return load.commit(names, on_conflict=on_conflict, once=once, on_reject=on_reject, durability=durability)

    def load_begin(self) -> LoadSession:
        """Begin a load whose parts come one by one, from any process that reaches the daemon: see LoadSession."""
        return LoadSession(self, self._ask(loading.begin(self.name)))

    def load_part(self, load: str, name: str) -> LoadPart:
        """Begin a part of a load that was begun, here or elsewhere, by the id of that load."""

        def send(at: int, piece: bytes) -> None:
            self._ask(loading.piece(self.name, load, name, at, piece))

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
            consuming.claim(self.name, consumer=self._as(consumer), lease=lease, durability=durability, buckets=buckets)
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
            consuming.claim_many(
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

        NotFound, Leased (somebody has it), VersionMismatch (it is not the version that was asked for), NotDue or Paused.
        """
        row = self._ask(
            consuming.claim_key(
                self.name, key, version=version, consumer=self._as(consumer), lease=lease, durability=durability
            )
        )
        return RemoteLease(self, row)

    def _as(self, consumer: str) -> str:
        """Under which name to claim. Said with each claim: one that is made again on another connection comes before its REGISTER."""
        return self._link.options.name or "" if consumer == "" else consumer

    def lease(self, token: int | Tokened) -> RemoteLease:
        """The active lease of a token, as it is now, with what it is about; LeaseLost when it is not active any more."""
        return RemoteLease(self, self._ask(consuming.lease(self.name, token)))

    def leases(self, *, consumer: str | None = None) -> list[RemoteLease]:
        """The active leases, of one consumer or of all, by deadline: a consumer that restarts finds its own here."""
        return [RemoteLease(self, row) for row in self._walk(consuming.leases(self.name, consumer=consumer))]

    def extend(self, token: int | Tokened, lease: DurationLike | None = None) -> int:
        """Ask for more time for a lease, from now on (never less than it has); the new deadline."""
        return self._extend(token, lease)[0]

    def _extend(self, token: int | Tokened, lease: DurationLike | None) -> tuple[int, int]:
        return self._ask(consuming.extend(self.name, token, lease))

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
        claim = consuming.claim(self.name, consumer=self._as(consumer), lease=lease, buckets=buckets)
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

        Up to `credit` of them come ahead, and their time runs: who is slow takes few, and extends. The consumer's active leases come first.
        One that leaves three leases unanswered, one after the other, gets nothing more until it says something about one of them.
        """
        call = consuming.subscribe(
            self.name, consumer=self._as(consumer), lease=lease, buckets=buckets, credit=credit
        )  # fmt: skip
        return RemoteSubscription(self, call, credit)

    def _ground(self) -> RemoteGround:
        """What a role stands on (journal.roles.ground)."""
        return RemoteGround(self, self._ear)

    def wake(self) -> None:
        """Have sleeping workers of this connection look around, e.g. after their `stop` was set."""
        self._ear.tell(self.name)
