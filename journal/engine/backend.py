"""
The backend of journal.api in the process that has the store: each request of a journal, and what carries it out.

A request with its caller (journal.engine.caller) comes to its handler (journal.engine.handlers), mostly a function over the journal's
pipeline. A program calls through journal.api; the daemon decodes what its clients sent and calls the same.

K1  Every call is whole: the shield is up while it runs (journal.shield).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from os import PathLike
from typing import Any, TypeVar

from journal.api.backend import FeedOptions
from journal.core import lifecycle
from journal.core.buckets import Range
from journal.core.clock_drift import Time
from journal.core.loads.session import LoadPart
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.requests import consume, follow, load, operate, produce, read
from journal.core.requests.load import LoadCommitRequest
from journal.core.requests.request import Request
from journal.core.schema.schema import Schema
from journal.core.settings import Settings, to_map
from journal.core.values import Loaded, Put, PutResult
from journal.engine.caller import LOCAL, Caller
from journal.engine.feed.changes import changes, first_cursor
from journal.engine.feed.consumer import Consumers
from journal.engine.feed.feed import EngineFeed
from journal.engine.ground import EngineGround
from journal.engine.handlers import HANDLERS
from journal.engine.loads.load import Loads
from journal.engine.loads.prepare import Part
from journal.engine.loads.staging import StagedLoads
from journal.engine.pipeline import Pipeline
from journal.engine.read import burials, logs, queries, statistics  # noqa: F401  # they register handlers
from journal.engine.read.feeds import consumers_seen, consumers_to_change, open_feed
from journal.engine.read.scan import Reads
from journal.engine.readonly import Look
from journal.engine.runtime.clock_drift import FLAG as DRIFT
from journal.engine.runtime.clock_drift import Peers
from journal.engine.snapshots.snapshot import EngineSnapshot
from journal.engine.snapshots.take import take
from journal.engine.work import flags, lease_holder  # noqa: F401  # they register handlers
from journal.engine.work.claim import Claims, Taken
from journal.engine.work.finish import Finishes
from journal.engine.work.group import only
from journal.engine.work.move_delete import delete, delete_many, move, move_many
from journal.engine.work.put import SinglePuts
from journal.engine.work.put_many import creating, put_many, put_together
from journal.engine.work.timers import Timers
from journal.engine.work.worker import EngineTurns
from journal.errors import Invalid, JournalError
from journal.shield import shielded

R = TypeVar("R")


@shielded
class EngineLog:
    """The log of a journal, or of all merged ones together (journal.api.backend.LogBackend)."""

    is_remote = False
    given: Any = None
    """What a daemon that serves it keeps of changes that it has given in part."""

    def __init__(self, pipeline: Pipeline, consumers: Consumers) -> None:
        self.p = pipeline
        self.name = pipeline.name
        self.consumers = consumers
        """Those that follow this log."""

    def __repr__(self) -> str:
        return self.name

    @property
    def settings(self) -> Settings:
        """How it behaves."""
        return self.p.settings

    def call(self, request: Request[R], /, caller: Caller = LOCAL) -> R:
        """What a request comes to (K1)."""
        result: R = HANDLERS[type(request)](self, request, caller)
        return result

    def within(self, timeout_ms: int | None) -> EngineLog:
        """Itself: no network is waited for."""
        return self

    def feed(self, options: FeedOptions) -> EngineFeed:
        """A feed over the log."""
        return open_feed(self.p, self.consumers, options)

    def changes(self, after: Cursor, until: Cursor) -> Iterator[Event]:
        """The changes between two cursors."""
        return changes(self.p, after, until)

    def counts(self) -> dict[str, int]:
        """How many entries each merged journal has: of one journal there is nothing to tell."""
        raise Invalid(f"{self.name} is one journal: count() tells how many entries it has")

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes."""
        return self.call(read.StatisticsRequest())


@shielded
class EngineJournal(EngineLog):
    """A journal of the store in this process (journal.api.backend.JournalBackend)."""

    served: Any = None
    """What a daemon that serves it keeps of it."""

    def __init__(self, pipeline: Pipeline, peers: Peers | None = None, staging: StagedLoads | None = None) -> None:
        super().__init__(pipeline, pipeline.consumers)
        self.puts = SinglePuts(pipeline)
        self.claims = Claims(pipeline)
        self.finishes = Finishes(pipeline)
        self.loads = Loads(pipeline, staging)
        self.reads = Reads(pipeline)
        self.peers = Peers() if peers is None else peers
        self.timers = Timers(pipeline)
        pipeline.wire(self.timers.tick, partial(put_together, pipeline))
        # The hot verbs are called without a step in between.
        self.put = self.puts.usual
        self.claim = self.claims.one
        self.claim_many = self.claims.many
        self.done = self.finishes.one
        self.done_many = self.finishes.many
        self.scan = self.reads.scan
        self.prepare_buckets = self.claims.index

    def within(self, timeout_ms: int | None) -> EngineJournal:
        """Itself: no network is waited for."""
        return self

    @property
    def schema(self) -> Schema | None:
        """All fields that the data may have: the union over the generations that are left."""
        return self.p.generations.union()

    @property
    def shows_all(self) -> bool:
        """Whether reading shows all that has happened."""
        p = getattr(self.p, "shared", self.p)  # a merged journal's files are those of all
        return p.shows_all() if isinstance(p, Look) else True

    def use(self, settings: Settings) -> None:
        """Go on with other settings."""
        with self.p.lock:
            self.p.use_settings(settings)

    def now(self) -> int:
        """The engine's time."""
        return self.p.now()

    def put_many(
        self,
        puts: list[Put],
        durability: str | None,
        /,
        *,
        is_create: bool = False,
        is_repeatable: bool = False,
        caller: Caller = LOCAL,
    ) -> list[PutResult | JournalError]:
        """Put or create a group."""
        rule = creating(is_repeatable) if is_create else lifecycle.put
        return put_many(self.p, puts, durability, rule, caller)

    def snapshot(self, directory: str | PathLike[str] | None = None, known: Sequence[Any] = ()) -> EngineSnapshot:
        """All entries as they are now, copied to files."""
        return take(self.p, directory, known)

    @property
    def has_bucket_index(self) -> bool:
        """Whether claims by buckets can go ahead at once."""
        return self.claims.is_indexed

    def load(self, parts: list[Part], how: LoadCommitRequest, caller: Caller = LOCAL) -> Loaded:
        """Load parts as one change."""
        return self.loads.load(parts, how, caller)

    def load_part(self, load: str, name: str) -> LoadPart:
        """Begin a part of a load that was begun."""
        self.loads.piece(load, name, 0, b"")
        return LoadPart(name, lambda at, piece: self.loads.piece(load, name, at, piece))

    def worker(self, consumer: str, lease_ms: int | None, buckets: Range | None) -> EngineTurns:
        """A worker's claims and sleeps."""
        return EngineTurns(self.p, self.claims, consumer, lease_ms, buckets)

    def subscribe(self, holder: Any, consumer: str, lease_ms: int | None, buckets: Range | None, credit: int) -> Any:
        """Nothing pushes in one process."""
        raise Invalid(
            "subscribe is for a connection: in the process that has the store, work() gives leases as they fall due"
        )

    def wake(self) -> None:
        """Have sleeping workers look around."""
        p = self.p
        with p.lock:
            p.wake_workers()

    def measure_drift(self, peer: str, t0: Time, t1: Time, t2: Time, t3: Time) -> bool:
        """Take a round trip into the drifts of the store; whether the peer's clock is off."""
        message = self.peers.measure(peer, t0, t1, t2, t3)
        if message is not None and self.p.is_writable:
            flags.raise_named(self.p, DRIFT, message)
        with self.peers.lock:
            return peer in self.peers.drifts.flagged

    def ground(self) -> EngineGround:
        """What a role stands on."""
        return EngineGround(self.p, self.peers, self.measure_drift)


def _claim(journal: EngineJournal, asked: consume.ClaimRequest, caller: Caller) -> Taken | None:
    return journal.claims.one(asked.consumer, asked.lease, asked.durability, asked.buckets)


def _claim_many(journal: EngineJournal, asked: consume.ClaimManyRequest, caller: Caller) -> list[Taken]:
    return journal.claims.many(asked.n, asked.consumer, asked.lease, asked.durability, asked.buckets, caller.fits)


def _done(journal: EngineJournal, asked: consume.DoneRequest, caller: Caller) -> PutResult | None:
    if asked.next is None:
        journal.finishes.one(asked.token, asked.durability, caller)
        return None
    return only(journal.finishes.many([asked.token], [asked.next], asked.durability, caller))


def _settings(journal: EngineJournal, asked: read.SettingsRequest, caller: Caller) -> dict[str, Any]:
    union = journal.schema
    return {**to_map(journal.settings), "union": None if union is None else union.to_dict()}


def _remove_feed(journal: EngineLog, asked: follow.FeedRemoveRequest, caller: Caller) -> None:
    consumers_to_change(journal.p, journal.consumers).remove(asked.consumer)


def _mark_feed(journal: EngineLog, asked: follow.FeedMarkRequest, caller: Caller) -> None:
    consumers_to_change(journal.p, journal.consumers).mark(asked.consumer, asked.cursor)


def _skip_feed(journal: EngineLog, asked: follow.FeedSkipRequest, caller: Caller) -> bool:
    return consumers_to_change(journal.p, journal.consumers).skip(asked.consumer, asked.cursor)


HANDLERS |= {
    # producing
    produce.PutRequest: lambda journal, asked, caller: journal.puts.any(asked, caller),
    produce.CreateRequest: lambda journal, asked, caller: journal.puts.any(asked, caller),
    produce.PutManyRequest: lambda journal, asked, caller: journal.put_many(
        asked.puts, asked.durability, caller=caller
    ),
    produce.CreateManyRequest: lambda journal, asked, caller: journal.put_many(
        asked.puts, asked.durability, is_create=True, is_repeatable=asked.is_repeatable, caller=caller
    ),
    produce.MoveRequest: lambda journal, asked, caller: move(journal.p, asked),
    produce.MoveManyRequest: lambda journal, asked, caller: move_many(journal.p, asked.moves, asked.durability),
    produce.DeleteRequest: lambda journal, asked, caller: delete(journal.p, asked),
    produce.DeleteManyRequest: lambda journal, asked, caller: delete_many(journal.p, asked.deletes, asked.durability),
    # loads
    load.LoadBeginRequest: lambda journal, asked, caller: journal.loads.begin(),
    load.LoadPartRequest: lambda journal, asked, caller: journal.loads.piece(
        asked.load, asked.part, asked.at, asked.piece
    ),
    load.LoadCommitRequest: lambda journal, asked, caller: journal.loads.commit(asked, caller),
    load.LoadAbortRequest: lambda journal, asked, caller: journal.loads.abort(asked.load),
    # consuming
    consume.ClaimRequest: _claim,
    consume.ClaimManyRequest: _claim_many,
    consume.ClaimKeyRequest: lambda journal, asked, caller: journal.claims.by_key(asked),
    consume.DoneRequest: _done,
    consume.DoneManyRequest: lambda journal, asked, caller: journal.finishes.many(
        asked.tokens, asked.nexts, asked.durability, caller
    ),
    consume.LeaseRequest: lambda journal, asked, caller: journal.claims.of_token(asked.token, caller),
    consume.LeasesRequest: lambda journal, asked, caller: journal.claims.active(asked.consumer),
    # reading
    read.CountRequest: lambda journal, asked, caller: journal.reads.count(queries.filter_of(journal.p, asked)),
    read.SettingsRequest: _settings,
    read.OldestCursorRequest: lambda journal, asked, caller: first_cursor(journal.p),
    # following
    follow.FeedsRequest: lambda journal, asked, caller: consumers_seen(journal.p, journal.consumers).views(),
    follow.FeedRemoveRequest: _remove_feed,
    follow.FeedMarkRequest: _mark_feed,
    follow.FeedSkipRequest: _skip_feed,
    # operating
    operate.CompactRequest: lambda journal, asked, caller: journal.p.compaction.now(),
}
"""What carries out requests that need more of a journal than its pipeline; the others are registered where they are (`handles`)."""
