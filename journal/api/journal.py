"""
A journal as programs use it: the producing and the consuming side, reading, and durability. Every verb's signature, text and checks
are here and nowhere else.

Reading shows nothing that could still vanish: a reader that meets a row whose writer still waits for its sync waits for it too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from threading import Event
from typing import Any

from journal.api.backend import Ground, JournalBackend, Part, Snapshot, Subscription
from journal.api.lease import Lease
from journal.api.log import Log
from journal.api.worker import work
from journal.core.arguments import check_level, consumer_name, lease_ms, listed, token_of
from journal.core.buckets import Range
from journal.core.entry import priority as priorities
from journal.core.entry.keys import UserKey
from journal.core.forecast.forecast import Forecast
from journal.core.limits import CREDIT_MAX, GROUP_MAX, KEY_BYTES_MAX, PRIORITY_MAX
from journal.core.loads.session import LoadPart, LoadSession, load_id, part_name, part_names
from journal.core.log.cursor import Cursor
from journal.core.requests.consume import (
    BuryRequest,
    ClaimKeyRequest,
    DoneRequest,
    ExtendRequest,
    LeaseRequest,
    LeasesRequest,
    ReleaseRequest,
)
from journal.core.requests.load import LoadAbortRequest, LoadBeginRequest, LoadCommitRequest
from journal.core.requests.operate import (
    BuriedRequest,
    DiscardRequest,
    OwnersRequest,
    PauseRequest,
    RaiseFlagRequest,
    ResumeRequest,
    RetryManyRequest,
    RetryRequest,
)
from journal.core.requests.produce import (
    CreateRequest,
    DeleteManyRequest,
    DeleteRequest,
    MoveManyRequest,
    MoveRequest,
    PutRequest,
)
from journal.core.requests.read import (
    CountOfRequest,
    CountRequest,
    DurableCursorRequest,
    EntriesOfRequest,
    ForecastRequest,
    GetManyRequest,
    GetRequest,
    ScanRequest,
    SelectRequest,
    StatisticsRequest,
    WaitDurableRequest,
)
from journal.core.schema.schema import Schema
from journal.core.times import DateLike, DurationLike
from journal.core.values import BuriedPage, Delete, Entry, Loaded, Move, Page, Put, PutResult
from journal.errors import Invalid, JournalError


class Journal(Log[JournalBackend]):
    """A named table of entries. Made by `Store.journal`; safe to use from many threads."""

    def __init__(self, backend: JournalBackend) -> None:
        super().__init__(backend)
        self._put = backend.put  # hot verbs: without a look-up for each call
        self._claim = backend.claim
        self._done = backend.done
        self._consumer = ""
        """The last name that was checked."""

    @property
    def schema(self) -> Schema | None:
        """All fields that the data may have: the union over the generations that are left."""
        return self._backend.schema

    @property
    def shows_all(self) -> bool:
        """
        Whether reading shows all that has happened. A store that was opened with readonly=True shows what its owner has committed:
        that is all when the owner closed the journal, and no process has opened it since.
        """
        return self._backend.shows_all

    def now(self) -> int:
        """The engine's time, by which entries fall due and leases end; in ms since the epoch."""
        return self._backend.now()

    def _ground(self) -> Ground:
        """What a role stands on (journal.api.backend)."""
        return self._backend.ground()

    # -- producing ------------------------------------------------------------------------------------------------------

    def put(
        self,
        key: UserKey | None,
        data: Any = None,
        *,
        priority: int = priorities.DEFAULT,
        process_date: DateLike | None = None,
        delay: DurationLike | None = None,
        expiration: DateLike | None = None,
        insertion_date: DateLike | None = None,
        owner: str | None = None,
        version: int | None = None,
        durability: str | None = None,
    ) -> PutResult:
        """
        Add an entry, or merge it into the one with this key; the result says which.

        With a schema the data is checked, and the key may be None when the schema says what forms it. With `version`, the one
        that the caller has read: VersionMismatch when it is another one by now; 0: when there is an entry.
        """
        if (
            type(key) is str
            and process_date is None
            and delay is None
            and expiration is None
            and insertion_date is None
            and owner is None
            and version is None
            and key.isascii()
            and 0 < len(key) <= KEY_BYTES_MAX
            and type(priority) is int
            and 0 <= priority <= PRIORITY_MAX
        ):
            if durability is not None:
                check_level(durability)
            return self._put(key, data, priority, durability)  # the usual put, without a request
        return self._call(
            PutRequest.of(
                key=key, data=data, priority=priority, process_date=process_date, delay=delay, expiration=expiration,
                insertion_date=insertion_date, owner=owner, version=version, durability=durability,
            )
        )  # fmt: skip

    def create(
        self,
        key: UserKey | None,
        data: Any = None,
        *,
        priority: int = priorities.DEFAULT,
        process_date: DateLike | None = None,
        delay: DurationLike | None = None,
        expiration: DateLike | None = None,
        insertion_date: DateLike | None = None,
        owner: str | None = None,
        is_repeatable: bool = False,
        durability: str | None = None,
    ) -> PutResult:
        """
        Add an entry; KeyExists when there is one with this key.

        With `is_repeatable` an entry that has the same data and the same owner is the outcome "exists" instead: a caller that
        got no answer retries. Nothing is changed then, and the result has the version, the dates and the cursor of what is there.
        """
        return self._call(
            CreateRequest.of(
                key=key, data=data, priority=priority, process_date=process_date, delay=delay, expiration=expiration,
                insertion_date=insertion_date, owner=owner, is_repeatable=is_repeatable, durability=durability,
            )
        )  # fmt: skip

    def put_many(self, puts: Iterable[Put], *, durability: str | None = None) -> list[PutResult | JournalError]:
        """
        Put a group: one record, one sync; all that is not refused stands or falls together. Over a connection a group that is larger
        than a frame (1 MiB) is several records, one after the other.

        The list has a result or an error for each put, in order. A key that comes twice is merged as it would be.
        """
        items = _group(puts, "put_many")
        check_level(durability)
        return self._backend.put_many(items, durability)

    def create_many(
        self, puts: Iterable[Put], *, is_repeatable: bool = False, durability: str | None = None
    ) -> list[PutResult | JournalError]:
        """Create a group, as `put_many` puts one: KeyExists for a key that is there; `is_repeatable` as for `create`."""
        items = _group(puts, "create_many")
        check_level(durability)
        return self._backend.put_many(items, durability, is_create=True, is_repeatable=bool(is_repeatable))

    def delete(
        self, key: UserKey, *, owner: str | None = None, version: int | None = None, durability: str | None = None
    ) -> bool:
        """Remove an entry that is under no active lease; False when there is none."""
        return self._call(DeleteRequest.of(key=key, owner=owner, version=version, durability=durability))

    def move(
        self,
        key: UserKey,
        *,
        process_date: DateLike | None = None,
        delay: DurationLike | None = None,
        priority: int | None = None,
        owner: str | None = None,
        version: int | None = None,
        durability: str | None = None,
    ) -> PutResult:
        """Give an entry that is under no active lease another date or priority."""
        return self._call(
            MoveRequest.of(
                key=key, process_date=process_date, delay=delay, priority=priority, owner=owner, version=version,
                durability=durability,
            )
        )  # fmt: skip

    def move_many(self, moves: Iterable[Move], *, durability: str | None = None) -> list[PutResult | JournalError]:
        """
        Move a group: one record, one sync; all that is not refused stands or falls together. Over a connection a group that is larger
        than a frame is several records.

        The list has a result or an error for each, in order: NotFound, NotOwner, VersionMismatch, Leased, Invalid.
        """
        return self._call(MoveManyRequest.of(moves=_group(moves, "move_many"), durability=durability))

    def delete_many(
        self, deletes: Iterable[Delete | UserKey], *, durability: str | None = None
    ) -> list[bool | JournalError]:
        """
        Delete a group, given as keys or as journal.Delete: one record, one sync; over a connection, larger than a frame: several.

        The list says of each whether there was an entry, or why it was not deleted: NotOwner, VersionMismatch, Leased.
        """
        return self._call(DeleteManyRequest.of(deletes=_group(deletes, "delete_many"), durability=durability))

    # -- loads ------------------------------------------------------------------------------------------------------------

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
        ("fail"), or it is left out and listed ("list"). Over a connection the parts are sent to the daemon first, and wait there.
        """
        how = LoadCommitRequest.of(
            load="0" * 32, parts=[], on_conflict=on_conflict, once=once, on_reject=on_reject, durability=durability
        )
        loaded: Loaded = self._backend.load(_parts(parts), how)
        return loaded

    def load_begin(self) -> LoadSession:
        """Begin a load whose parts come one by one, from any thread, or over a daemon from any process: see LoadSession."""
        return LoadSession(self, self._call(LoadBeginRequest()))

    def load_part(self, load: str, name: str) -> LoadPart:
        """Begin a part of a load that was begun, here or elsewhere, by the id of that load."""
        return self._backend.load_part(load_id(load), part_name(name))

    def load_commit(
        self,
        load: str,
        parts: Iterable[str],
        *,
        on_conflict: str = "merge",
        once: tuple[str, int] | None = None,
        on_reject: str = "fail",
        durability: str | None = None,
    ) -> Loaded:
        """
        Load the parts of these names as one change, and forget the load; the rest as for `load`.

        What is wrong with it, or with its rows, ends it too; when the store is full it can be committed again. Committed twice
        it is loaded once: the result is that of the first time, for a while, and with `once` for as long as that is kept.
        """
        return self._call(
            LoadCommitRequest.of(
                load=load,
                parts=part_names(parts),
                on_conflict=on_conflict,
                once=once,
                on_reject=on_reject,
                durability=durability,
            )
        )

    def load_abort(self, load: str) -> bool:
        """Give a load up: its parts go; False when there is none."""
        return self._call(LoadAbortRequest.of(load=load))

    # -- consuming --------------------------------------------------------------------------------------------------------

    def claim(
        self,
        *,
        consumer: str = "",
        lease: DurationLike | None = None,
        durability: str | None = None,
        buckets: Range | None = None,
    ) -> Lease | None:
        """
        Take the next entry that is due, under a lease; None when nothing is.

        Priorities from `slow_from` on come only when nothing else is due. With `buckets`: the next one of these. Without a name the
        consumer is that of the connection, if there is one.
        """
        if buckets is not None:
            _check_buckets(buckets)
        if consumer != self._consumer:
            self._consumer = consumer_name(consumer)
        if durability is not None:
            check_level(durability)
        lent = self._claim(consumer, None if lease is None else lease_ms(lease), durability, buckets)
        if lent is None:
            return None
        held, data, inserted = lent
        return Lease(self, held, data, inserted)

    def claim_many(
        self,
        n: int,
        *,
        consumer: str = "",
        lease: DurationLike | None = None,
        durability: str | None = None,
        buckets: Range | None = None,
    ) -> list[Lease]:
        """
        Take up to `n` entries at once; slow ones (`slow_from`) only when there are no others.

        Over a connection fewer than there are when a frame (1 MiB) holds no more: ask again.
        """
        if type(n) is not int or not 1 <= n <= GROUP_MAX:
            raise Invalid(f"claim_many takes 1 to {GROUP_MAX} entries, not {n!r}")
        _check_buckets(buckets)
        consumer_name(consumer)
        check_level(durability)
        duration = None if lease is None else lease_ms(lease)
        lent = self._backend.claim_many(n, consumer, duration, durability, buckets)
        return [Lease(self, held, data, inserted) for held, data, inserted in lent]

    def claim_key(
        self,
        key: UserKey,
        *,
        version: int | None = None,
        consumer: str = "",
        lease: DurationLike | None = None,
        durability: str | None = None,
    ) -> Lease:
        """
        Take the entry with this key, which is due, under a lease, whatever comes before it in the order of work.

        NotFound, Leased (it is under a lease already), VersionMismatch (it is not the version that was asked for), NotDue or Paused.
        """
        asked = ClaimKeyRequest.of(key=key, version=version, consumer=consumer, lease=lease, durability=durability)
        return Lease(self, *self._call(asked))

    def lease(self, token: int | Lease) -> Lease:
        """The active lease of a token, as it is now, with what it is about; LeaseLost when it is not active any more."""
        return Lease(self, *self._call(LeaseRequest.of(token=token)))

    def leases(self, *, consumer: str | None = None) -> list[Lease]:
        """The active leases, of one consumer or of all, by deadline: a consumer that restarts finds its own here."""
        return [Lease(self, *lent) for lent in self._call(LeasesRequest.of(consumer=consumer))]

    def done(self, token: int | Lease, *, next: Put | None = None, durability: str | None = None) -> PutResult | None:
        """
        The work under a lease is finished: its entry goes. Repeating it succeeds and changes nothing.

        With `next`, a journal.Put of the same key or of another one, both are one change, and the result is that of the put
        ("repeated" when the lease was finished before). A put that is refused refuses the whole: the lease goes on.
        """
        number = token if type(token) is int else token_of(token)
        if durability is not None:
            check_level(durability)
        if next is None:
            self._done(number, durability)
            return None
        _check_put(next)
        return self._call(DoneRequest(token=number, next=next, durability=durability))

    def done_many(
        self,
        leases: Iterable[Lease | int],
        *,
        next: Iterable[Put | None] | None = None,
        durability: str | None = None,
    ) -> list[PutResult | JournalError | None]:
        """
        Finish many leases with one record (over a connection, more than 16,384, or than a frame holds: several); None or the error of
        each, in order.

        `next` has a journal.Put or None for each lease, as for `done`; then the list has the results of the puts, too.
        """
        tokens = [
            lease.token if type(lease) is Lease else token_of(lease)  # the usual one without a call
            for lease in listed(leases, "done_many")
        ]
        if len(tokens) > GROUP_MAX:
            raise Invalid(f"done_many takes up to {GROUP_MAX} leases, not {len(tokens)}")
        nexts = None
        if next is not None:
            nexts = listed(next, "next")
            if len(nexts) != len(tokens):
                raise Invalid(
                    f"next has {len(nexts)} items for {len(tokens)} leases: give a journal.Put or None for each"
                )
            for put in nexts:
                if put is not None:
                    _check_put(put)
        check_level(durability)
        return self._backend.done_many(tokens, nexts, durability)

    def extend(self, token: int | Lease, lease: DurationLike | None = None) -> int:
        """Extend a lease, from now on (never to less than it has); the new deadline."""
        return self.extended(token, lease)[0]

    def extended(self, token: int | Lease, lease: DurationLike | None = None) -> tuple[int, int]:
        """The same: the new deadline, and the version of the lease."""
        return self._call(ExtendRequest.of(token=token, lease=lease))

    def release(
        self,
        token: int | Lease,
        *,
        delay: DurationLike | None = None,
        process_date: DateLike | None = None,
        priority: int | None = None,
        failed: bool = False,
        durability: str | None = None,
    ) -> None:
        """
        Give a lease back: the entry waits again, now, after a delay, or at a date; with its priority, or another one.

        `failed`: the work was tried and came to nothing; that raises `timeouts` of the entry, as a lost lease does.
        """
        self._call(
            ReleaseRequest.of(
                token=token, delay=delay, process_date=process_date, priority=priority, failed=failed, durability=durability
            )
        )  # fmt: skip

    def bury(self, token: int | Lease, reason: str = "", *, durability: str | None = None) -> None:
        """Give an entry up: it is kept apart until it is retried or discarded."""
        self._call(BuryRequest.of(token=token, reason=reason, durability=durability))

    def work(
        self,
        *,
        consumer: str = "",
        lease: DurationLike | None = None,
        stop: Event | None = None,
        buckets: Range | None = None,
    ) -> Iterator[Lease]:
        """
        Leases as they fall due, for ever, with `buckets` those of a range of them: sleeps until there is work, does not poll.

        Ends when `stop` is set (within a moment; at once when `wake()` is called after it), the store is closed, or the connection is by
        this program. A daemon that is restarted meanwhile is found again; ConnectionLost when none comes back (`backoff` of `connect`).
        A slow entry (`slow_from`) comes only in a round that found nothing else.
        """
        if stop is not None and not isinstance(stop, Event):
            raise Invalid(f"stop is {stop!r}: it must be a threading.Event")
        consumer_name(consumer)
        _check_buckets(buckets)
        worker = self._backend.worker(consumer, None if lease is None else lease_ms(lease), buckets)
        return work(self, worker, stop)

    def subscribe(
        self,
        *,
        consumer: str = "",
        lease: DurationLike | None = None,
        buckets: Range | None = None,
        credit: int = 16,
    ) -> Subscription:
        """
        Leases that a daemon pushes as they fall due; an iterator, and a context manager that gives back what was not handed out. Over a
        connection only: in the process that has the store `work` does the same without a push.

        Up to `credit` of them come ahead, and their time runs: a slow consumer takes few, and extends. The consumer's active leases come
        first. One that leaves three leases unanswered, one after the other, gets nothing more until it answers one of them.
        """
        if type(credit) is not int or not 1 <= credit <= CREDIT_MAX:
            raise Invalid(f"credit is {credit!r}: it must be an int from 1 to {CREDIT_MAX}")
        consumer_name(consumer)
        _check_buckets(buckets)
        return self._backend.subscribe(self, consumer, None if lease is None else lease_ms(lease), buckets, credit)

    def wake(self) -> None:
        """Have sleeping workers look around, e.g. after their `stop` was set."""
        self._backend.wake()

    @property
    def has_bucket_index(self) -> bool:
        """Whether a claim by buckets can go ahead at once; over a connection always, since the daemon sees to that."""
        return self._backend.has_bucket_index

    def prepare_buckets(self, buckets: Range) -> None:
        """Make the index that claims by buckets need. The first of them makes it too, which takes long in a large journal."""
        _check_buckets(buckets)
        self._backend.prepare_buckets(buckets)

    # -- buried entries -----------------------------------------------------------------------------------------------------

    def buried(
        self,
        *,
        prefix: UserKey | None = None,
        reason: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> BuriedPage:
        """
        The entries that were given up on, in the order of burial; those whose key begins with `prefix`, and whose reason has this text.

        With `limit` a page of so many, which says where to go on (`after`).
        """
        return self._call(BuriedRequest.of(prefix=prefix, reason=reason, limit=limit, after=after))

    def retry(self, key: UserKey, *, durability: str | None = None) -> PutResult:
        """Let the buried entry with this key (the last one) wait again, due now."""
        return self._call(RetryRequest.of(key=key, durability=durability))

    def retry_many(self, keys: Iterable[UserKey], *, durability: str | None = None) -> list[PutResult | JournalError]:
        """
        Let the buried entries with these keys wait again, due now: one record (over a connection, more than 16,384: several), one sync.

        The list has a result or an error for each, in order: NotFound, KeyExists (there is a newer one), Invalid.
        """
        wanted = listed(keys, "retry_many")
        if len(wanted) > GROUP_MAX:
            raise Invalid(f"retry_many takes up to {GROUP_MAX} keys, not {len(wanted)}: split the group")
        check_level(durability)
        return self._call(RetryManyRequest(keys=wanted, durability=durability))

    def discard(self, key: UserKey, *, durability: str | None = None) -> None:
        """Delete the buried entry with this key (the last one)."""
        self._call(DiscardRequest.of(key=key, durability=durability))

    # -- reading --------------------------------------------------------------------------------------------------------------

    def get(self, key: UserKey) -> Entry | None:
        """The entry with this key, or None."""
        return self._call(GetRequest.of(key=key))

    def get_many(self, keys: Iterable[UserKey]) -> list[Entry | None]:
        """The entries with these keys, None for each that there is not, in order."""
        return self._call(GetManyRequest.of(keys=listed(keys, "get_many")))

    def scan(
        self, *, status: str | None = None, since: DateLike | None = None, until: DateLike | None = None
    ) -> Iterator[Entry]:
        """
        All entries in the order of work, with `since <= process date < until`; with the status "buried" those, in the order of burial.

        Read in pages, so a scan does not block other callers; what changes meanwhile is seen or not.
        """
        return self._backend.scan(ScanRequest.of(status=status, since=since, until=until))

    def select(
        self,
        *,
        buckets: Range | None = None,
        since: DateLike | None = None,
        until: DateLike | None = None,
        status: str | None = None,
        owner: str | None = None,
        consumer: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page:
        """
        Entries in the order of work: of a range of buckets, with `since <= process date < until`, of a status, of an owner,
        under the leases of a consumer; all that is given must hold.

        A status is "waiting", "processing", or "available": waiting, and due now. A page that `has_more` says where to go on.
        """
        return self._call(
            SelectRequest.of(
                status=status, since=since, until=until, owner=owner, consumer=consumer, buckets=buckets, limit=_limit(limit),
                after=after,
            )
        )  # fmt: skip

    def count(
        self,
        *,
        status: str | None = None,
        since: DateLike | None = None,
        until: DateLike | None = None,
        owner: str | None = None,
        consumer: str | None = None,
        buckets: Range | None = None,
    ) -> int:
        """How many entries there are, with `since <= process date < until`, or "buried" ones; see `select` for what else can be asked."""
        return self._call(
            CountRequest.of(status=status, since=since, until=until, owner=owner, consumer=consumer, buckets=buckets)
        )

    def entries_of(self, owner: str, *, limit: int = 100, after: str | None = None) -> Page:
        """The entries of a producer group in the order of work, processing ones too."""
        return self._call(EntriesOfRequest.of(owner=owner, limit=_limit(limit), after=after))

    def count_of(self, owner: str) -> int:
        """How many entries a producer group has."""
        return self._call(CountOfRequest.of(owner=owner))

    def owners(self) -> dict[str, int]:
        """The producer groups that have entries, and how many."""
        return self._call(OwnersRequest())

    def forecast(
        self, *, step: DurationLike = "1m", horizon: DurationLike = "1h", since: DateLike | None = None
    ) -> Forecast:
        """
        How many entries fall due in each of the coming steps, by priority and status; from now on, or from a date.

        Read from the keys alone, no payload is touched. See `journal.core.forecast.forecast` for what it tells.
        """
        return self._call(ForecastRequest.of(step=step, horizon=horizon, since=since))

    def snapshot(self, *, directory: str | os.PathLike[str] | None = None, known: Sequence[Any] = ()) -> Snapshot:
        """
        All entries as they are now, copied to files, to be read in parts by many processes while the journal goes on.

        The files lie in `directory`, or in the store; they go when the snapshot is closed. One that is not closed goes with
        the store, unless it lies in a directory that was given. A store that was opened with readonly=True shows its owner's
        last checkpoint. A daemon keeps the copy in its store until it is closed, or until five minutes after it was last read; then
        neither `directory` nor `known` has an effect.

        known   the copies (`copies` of a part) of earlier snapshots, whose files stay for as long as this one is used: what has not
                changed since is not copied again
        """
        return self._backend.snapshot(directory, known)

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes, cheap to read; docs/OPERATIONS.md has each field."""
        return self._call(StatisticsRequest())

    # -- what people must look at ---------------------------------------------------------------------------------------------

    def raise_flag(self, name: str, message: str, *, durability: str | None = None) -> None:
        """Raise a flag for the operator, or raise it once more; `store.flags()` shows it until it is lowered."""
        self._call(RaiseFlagRequest.of(name=name, message=message, durability=durability))

    def pause(self, reason: str = "", *, durability: str | None = None) -> None:
        """
        Hand nothing out until `resume`, over restarts too; a journal that is paused already gets another reason.

        Claims find nothing and workers sleep. Puts, done, extend and release go on, and so do timers. The flag "paused" says
        why and since when, and so does `statistics()`; it goes with `resume` and cannot be lowered.
        """
        self._call(PauseRequest.of(reason=reason, durability=durability))

    def resume(self, *, durability: str | None = None) -> bool:
        """Hand out again what is due, and wake sleeping workers; False when the journal was not paused."""
        return self._call(ResumeRequest.of(durability=durability))

    def measure_drift(self, peer: str, t0: float, t1: float, t2: float, t3: float) -> bool:
        """
        Take a round trip between the engine and a producer or consumer into `store.drifts`; whether that one's clock is off.

        t0 and t3 are the engine's time (`now()`) before the question and after the answer, t1 and t2 the peer's when it got the
        one and gave the other, in ms. A peer whose clock is off raises the flag "drift" here. Over a connection the clocks are compared
        with each heartbeat, whatever the program measures.
        """
        return self._backend.measure_drift(peer, t0, t1, t2, t3)

    # -- durability -----------------------------------------------------------------------------------------------------------

    @property
    def durable_cursor(self) -> Cursor:
        """The last change that is on disk."""
        return self._call(DurableCursorRequest())

    def wait_durable(self, cursor: Cursor) -> None:
        """Return when the change at this cursor, and all before it, are on disk."""
        if not isinstance(cursor, Cursor):
            raise Invalid(f"wait_durable takes a journal.Cursor, not {cursor!r}")
        self._call(WaitDurableRequest(cursor=cursor))


# -- checks that concern several arguments ------------------------------------------------------------------------------------


def _check_buckets(buckets: Range | None) -> None:
    if buckets is not None and not isinstance(buckets, Range):
        raise Invalid(f"buckets is {buckets!r}: it must be a journal.Range, e.g. journal.Range.parse('0-3'), or None")


def _check_put(put: Put) -> None:
    if type(put) is not Put:
        raise Invalid(f"a group has journal.Put objects, not {put!r}")


def _parts(parts: Iterable[Part]) -> list[Part]:
    """What a caller gave as the parts of a load."""
    if isinstance(parts, (bytes, str, os.PathLike)):
        raise Invalid("parts is one part: give a list of load blocks or of paths")
    try:
        return list(parts)
    except TypeError as e:
        raise Invalid(f"parts is {parts!r:.60}: it must be a list of load blocks (bytes) or of paths") from e


def _limit(limit: int) -> int:
    if limit is None:
        raise Invalid(f"limit is None: it must be an int from 1 to {GROUP_MAX}")
    return limit


def _group(items: Iterable[Any], verb: str) -> list[Any]:
    """The items of a group."""
    found = listed(items, verb)
    if len(found) > GROUP_MAX:
        raise Invalid(f"{verb} takes up to {GROUP_MAX} entries, not {len(found)}: split the group")
    return found
