"""
The backend of journal.api over a connection to a daemon (journal.api.backend).

A request is sent as its command and read by what that declares as its reply (journal.net.wire.codecs). Verbs of several questions
have functions of their own: groups that no frame holds, lists that come in parts, claims.

Y1  A claim whose caller has stopped waiting is released (journal.net.client.connection.link L2).
Y2  A claim names its consumer, also when that is the name of the connection: one that is sent again on another connection comes before
    its REGISTER.
Y3  A put for a version is not sent again to another daemon: what it has put would refuse it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from journal.api.backend import FeedOptions, Lent, Part
from journal.core.buckets import Range
from journal.core.clock_drift import Time
from journal.core.entry import priority as priorities
from journal.core.entry.keys import UserKey, key_bytes
from journal.core.entry.rows import pack_data
from journal.core.lifecycle import check_lease
from journal.core.limits import LIST_MAX
from journal.core.loads.session import PIECE_BYTES, LoadPart
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.quoting import shown
from journal.core.requests import consume, follow, operate, produce, read
from journal.core.requests.control import PingRequest
from journal.core.requests.load import LoadAbortRequest, LoadBeginRequest, LoadCommitRequest, LoadPartRequest
from journal.core.requests.request import Request, RetryRule
from journal.core.requests.types import U64_MAX
from journal.core.schema.schema import Schema
from journal.core.settings import MERGED, Settings, from_map
from journal.core.values import BuriedPage, Entry, Loaded, Page, Put, PutResult
from journal.errors import FrameError, Invalid, JournalError, NotFound
from journal.net.client.client import Client
from journal.net.client.connection.call import Call, call_of
from journal.net.client.connection.due_notices import Ear
from journal.net.client.feed import RemoteFeed
from journal.net.client.feed_state import Followed
from journal.net.client.ground import ClientGround
from journal.net.client.groups import Item, send_group
from journal.net.client.load_parts import send_part
from journal.net.client.snapshot import RemoteSnapshot, take_snapshot
from journal.net.client.subscription import RemoteSubscription
from journal.net.client.worker import ClientTurns
from journal.net.wire.codecs import claimed, codec_of, fields, result, result_or_null
from journal.net.wire.values import COLUMNS, entry_from

R = TypeVar("R")
SCANNED = 500
"""Entries of one page of a scan."""
LOOK_UPS = 1000
_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function
_PUT = produce.PutRequest.command
_PUT_MANY = produce.PutManyRequest.command
_CREATE_MANY = produce.CreateManyRequest.command
_CLAIM = consume.ClaimRequest.command
_CLAIM_MANY = consume.ClaimManyRequest.command
_DONE = consume.DoneRequest.command
_DONE_MANY = consume.DoneManyRequest.command
_RELEASE = consume.ReleaseRequest.command
_ONCE = {command: replace(command, retry=RetryRule.REQUEST) for command in (_PUT, _PUT_MANY)}
"""The same commands with a version (Y3)."""
_TOKEN = COLUMNS["lease"].index("token")
_ENTRY_OR_NULL = codec_of("entry or null").read


class ClientLog(Client):
    """The log of a journal, or of all merged ones together (journal.api.backend.LogBackend)."""

    is_remote = True

    def __repr__(self) -> str:
        return f"{self.name} at {self.link.address}"

    @property
    def settings(self) -> Settings:
        """How it behaves."""
        return from_map(self.call(read.SettingsRequest()))

    def feed(self, options: FeedOptions) -> RemoteFeed:
        """A feed whose events are pushed."""
        return RemoteFeed(self, Followed(self.name, options))

    def changes(self, after: Cursor, until: Cursor) -> Iterator[Event]:
        """The changes between two cursors."""
        return self._changes(self.call(follow.ChangesRequest(after=after, until=until)), until)

    def _changes(self, part: tuple[list[Event], Cursor | None], until: Cursor) -> Iterator[Event]:
        events, after = part
        yield from events
        while after is not None:
            events, after = self.call(follow.ChangesRequest(after=after, until=until))
            yield from events

    def counts(self) -> dict[str, int]:
        """How many entries each merged journal has: of one journal there is nothing to tell."""
        raise Invalid(f"{self.name} is one journal: count() tells how many entries it has")

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes."""
        return self.call(read.StatisticsRequest())


class ClientMerged(ClientLog):
    """All merged journals that a daemon keeps, together."""

    def __init__(self, ear: Ear, timeout_ms: int | None) -> None:
        super().__init__(ear, timeout_ms, MERGED)

    @property
    def settings(self) -> Settings:
        """Those that they have together."""
        return from_map(self.call(operate.MergedRequest()))

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes of what is shared."""
        found = self._merged()
        del found["counts"]
        return found

    def counts(self) -> dict[str, int]:
        """How many entries each journal has; those that have none are left out."""
        found: dict[str, int] = self._merged()["counts"]
        return found

    def _merged(self) -> dict[str, Any]:
        found: dict[str, Any] | None = self.call(operate.StoreStatisticsRequest()).get("merged")
        if found is None:
            raise NotFound("the daemon has no merged journals")
        return found


class ClientJournal(ClientLog):
    """A journal that a daemon keeps (journal.api.backend.JournalBackend)."""

    shows_all = True
    """A daemon has its store open."""
    has_bucket_index = True
    """As far as a caller here is concerned: the daemon makes it without holding up other calls."""

    def __init__(self, ear: Ear, timeout_ms: int | None, name: str) -> None:
        super().__init__(ear, timeout_ms, name)
        self._consumer = self.link.options.name or ""
        """The name of the connection."""

    def call(self, request: Request[R], /) -> R:
        """What a request comes to."""
        several = SEVERAL.get(type(request))
        if several is None:
            return super().call(request)
        found: R = several(self, request)
        return found

    @property
    def schema(self) -> Schema | None:
        """All fields that the data may have: the union over the generations that are left."""
        union = self.call(read.SettingsRequest()).get("union")
        return None if union is None else Schema.from_dict(union)

    def now(self) -> int:
        """The daemon's time."""
        return self.call(PingRequest())[1]

    # -- producing --------------------------------------------------------------------------------------------------------

    def put(self, key: str, data: Any, priority: int, durability: str | None, /) -> PutResult:
        """The usual put."""
        item: Item = {"key": key, "data": pack_data(data)}
        if priority != priorities.DEFAULT:
            item["priority"] = priority
        if durability is not None:
            item["durability"] = durability
        return result(self.link.ask(_new(Call, (_PUT, self.name, item, None)), self.timeout_ms))

    def put_any(self, asked: produce.PutRequest) -> PutResult:
        """A put with options."""
        call = call_of(asked, self.name)
        return result(self.ask(call if asked.version is None else call._replace(command=_ONCE[_PUT])))

    def put_many(
        self, puts: list[Put], durability: str | None, /, *, is_create: bool = False, is_repeatable: bool = False
    ) -> list[PutResult | JournalError]:
        """Put or create a group."""
        for put in puts:
            if type(put) is not Put:
                raise Invalid(f"a group has journal.Put objects, not {put!r}")
        command = _CREATE_MANY if is_create else _PUT_MANY
        more: Item = {} if durability is None else {"durability": durability}
        if is_repeatable:
            more["is_repeatable"] = True

        def ask(part: list[Item]) -> list[Any]:
            is_once = not is_create and any("version" in item for item in part)
            return self._answers(Call(_ONCE[command] if is_once else command, self.name, {"puts": part, **more}))

        return send_group(puts, produce.put_to, ask, codec_of(command.reply[1:-1]).read)

    def send_many(
        self, request: Request[Any], name: str, to_wire: Callable[[Any], Any], *, is_key: bool = False
    ) -> list[Any]:
        """Send the items of a request under this name, as they are on the wire; `is_key`: the key alone is one."""
        command = request.command
        durability: str | None = getattr(request, "durability", None)

        def ask(part: list[Item]) -> list[Any]:
            given: Item = {name: [item["key"] for item in part] if is_key else part}
            if durability is not None:
                given["durability"] = durability
            return self._answers(Call(command, self.name, given))

        return send_group(getattr(request, name), to_wire, ask, codec_of(command.reply[1:-1]).read)

    def _answers(self, call: Call) -> list[Any]:
        answers = self.ask(call)
        if type(answers) is not list:
            raise FrameError(f"{shown(answers)} is no answer to {call.command.name}: it is a list")
        return answers

    # -- loads ------------------------------------------------------------------------------------------------------------

    def load(self, parts: list[Part], how: LoadCommitRequest) -> Loaded:
        """Send the parts, and load them as one change."""
        began = self.call(LoadBeginRequest())
        names = [str(number) for number in range(len(parts))]
        try:
            for name, part in zip(names, parts, strict=True):
                send_part(part, name, self.load_part(began, name))
            return self.call(how.replaced(load=began, parts=names))
        except BaseException:
            self.call(LoadAbortRequest(load=began))
            raise

    def load_part(self, load_id: str, name: str) -> LoadPart:
        """Begin a part of a load that was begun."""

        def send(at: int, piece: bytes) -> None:
            self.call(LoadPartRequest(load=load_id, part=name, at=at, piece=piece))

        send(0, b"")
        return LoadPart(name, send, min(PIECE_BYTES, self.link.options.limits.frame_bytes_max // 2))

    # -- consuming --------------------------------------------------------------------------------------------------------

    def claim(
        self, consumer: str, lease_ms: int | None, durability: str | None, buckets: Range | None, /
    ) -> Lent | None:
        """Take the next entry that is due."""
        call = _new(Call, (_CLAIM, self.name, self.how(consumer, lease_ms, durability, buckets), self.give_back))
        return claimed(self.link.ask(call, self.timeout_ms))[0]

    def how(self, consumer: str, lease_ms: int | None, durability: str | None, buckets: Range | None) -> dict[str, Any]:
        """The parameters of a claim (Y2)."""
        how: dict[str, Any] = {}
        if consumer or self._consumer:
            how["consumer"] = consumer or self._consumer
        if lease_ms is not None:
            how["lease"] = lease_ms
        if durability is not None:
            how["durability"] = durability
        if buckets is not None:
            how["buckets"] = str(buckets)
        return how

    def give_back(self, answer: Any) -> list[Call]:
        """Calls that release the leases of a claim whose caller has stopped waiting (Y1)."""
        rows = (answer.get("leases") or [answer.get("lease")]) if type(answer) is dict else [answer]
        return [
            Call(_RELEASE, self.name, {"token": row[_TOKEN]}) for row in rows if type(row) is list and len(row) > _TOKEN
        ]

    def claim_many(
        self, n: int, consumer: str, lease_ms: int | None, durability: str | None, buckets: Range | None, /
    ) -> list[Lent]:
        """Take up to `n` entries."""
        how = self.how(consumer, lease_ms, durability, buckets)
        read_many = codec_of(_CLAIM_MANY.reply).read
        found: list[Lent] = []
        while len(found) < n:
            wanted = min(n - len(found), LIST_MAX)
            call = Call(_CLAIM_MANY, self.name, {"n": wanted, **how}, self.give_back)
            try:
                taken = read_many(self.link.ask(call, self.timeout_ms))
            except JournalError:
                if not found:
                    raise
                break  # the caller gets what was claimed so far; its next claim meets the error again
            found += taken
            if len(taken) < wanted:
                break
        return found

    def claim_key(self, asked: consume.ClaimKeyRequest) -> Lent:
        """Take the entry with a key."""
        call = call_of(asked, self.name, self.give_back)
        if self._consumer:
            call.parameters.setdefault("consumer", self._consumer)
        taken: Lent = codec_of(asked.command.reply).read(self.ask(call))
        return taken

    def done(self, token: int, durability: str | None, /) -> None:
        """The work under a lease is finished."""
        if not 0 <= token <= U64_MAX:
            check_lease(token, None, 0, 0)  # no lease has such a number
        given = {"token": token} if durability is None else {"token": token, "durability": durability}
        self.link.ask(_new(Call, (_DONE, self.name, given, None)), self.timeout_ms)

    def done_many(
        self, tokens: list[int], nexts: list[Put | None] | None, durability: str | None, /
    ) -> list[PutResult | JournalError | None]:
        """Finish many leases; with puts as many in a frame as it holds."""
        if tokens and not 0 <= min(tokens) <= max(tokens) <= U64_MAX:
            tokens = [token if 0 <= token <= U64_MAX else U64_MAX for token in tokens]  # no lease has such a number
        more: Item = {} if durability is None else {"durability": durability}
        if nexts is None:
            results: list[PutResult | JournalError | None] = []
            for start in range(0, len(tokens), LIST_MAX):
                part = tokens[start : start + LIST_MAX]
                results += map(result_or_null, self._answers(Call(_DONE_MANY, self.name, {"tokens": part, **more})))
            return results

        def to_wire(item: tuple[int, Put | None]) -> Item:
            return {"token": item[0]} | ({} if item[1] is None else produce.put_to(item[1]))

        def ask(dones: list[Item]) -> list[Any]:
            tokens = [item["token"] for item in dones]
            puts = [{name: value for name, value in item.items() if name != "token"} or None for item in dones]
            return self._answers(Call(_DONE_MANY, self.name, {"tokens": tokens, "nexts": puts, **more}))

        return send_group(list(zip(tokens, nexts, strict=True)), to_wire, ask, result_or_null)

    def worker(self, consumer: str, lease_ms: int | None, buckets: Range | None) -> ClientTurns:
        """A worker's claims and sleeps."""
        call = Call(_CLAIM, self.name, self.how(consumer, lease_ms, None, buckets), self.give_back)
        return ClientTurns(self, call)

    def subscribe(
        self, holder: Any, consumer: str, lease_ms: int | None, buckets: Range | None, credit: int
    ) -> RemoteSubscription:
        """Leases that the daemon pushes."""
        how = self.how(consumer, lease_ms, None, buckets)
        return RemoteSubscription(self, holder, how, credit)

    def wake(self) -> None:
        """Have sleeping workers of this connection look around."""
        self.ear.tell(self.name)

    def prepare_buckets(self, buckets: Range) -> None:
        """The daemon makes the index with the first claim that needs it."""

    # -- reading ----------------------------------------------------------------------------------------------------------

    def pages(self, asked: read.SelectRequest | read.EntriesOfRequest) -> Page:
        """A page of entries, however many frames it takes."""
        entries, after = self.in_parts(asked, asked.limit)
        return Page(entries, after is not None, None if after is None else after.hex())

    def buried(self, asked: operate.BuriedRequest) -> BuriedPage:
        """The buried entries, or a page of them."""
        found, after = self.in_parts(asked if asked.limit else asked.replaced(limit=LIST_MAX), asked.limit)
        return BuriedPage(found, None if after is None else after.hex())

    def get_many(self, asked: read.GetManyRequest) -> list[Entry | None]:
        """Some look-ups at a time; the daemon may answer the first of them."""
        found: list[Entry | None] = []
        while len(found) < len(asked.keys):
            keys = asked.keys[len(found) : len(found) + LOOK_UPS]
            rows = self._answers(Call(asked.command, self.name, {"keys": keys}))
            if not rows:
                raise FrameError(f"GET_MANY was answered with {shown(rows)}, which gets nowhere")
            found += map(_ENTRY_OR_NULL, rows)
        return found

    def owners(self, asked: operate.OwnersRequest) -> dict[str, int]:
        """The producer groups; one may be in several parts."""
        found: dict[str, int] = {}
        for owner, number in self.in_parts(asked)[0]:
            found[owner] = found.get(owner, 0) + number
        return dict(sorted(found.items()))

    def leases(self, asked: consume.LeasesRequest) -> list[Lent]:
        """The active leases, by deadline."""
        return sorted(self.in_parts(asked)[0], key=lambda taken: (taken[0].deadline, taken[0].token))

    def scan(self, request: read.ScanRequest) -> Iterator[Entry]:
        """All entries, in pages."""
        asked = call_of(request.replaced(limit=SCANNED), self.name)
        while True:
            rows, after = fields(self.ask(asked), "SCAN", entries=list, after=bytes | None)
            yield from map(entry_from, rows)
            if after is None:
                return
            asked.parameters["after"] = after

    def snapshot(self, directory: str | os.PathLike[str] | None = None, known: Any = ()) -> RemoteSnapshot:
        """All entries as they are now. The daemon keeps the copy: neither a directory nor known copies have an effect."""
        return take_snapshot(self)

    # -- roles ------------------------------------------------------------------------------------------------------------

    def measure_drift(self, peer: str, t0: Time, t1: Time, t2: Time, t3: Time) -> bool:
        """The clocks are compared with each heartbeat, whatever the program measures; whether ours is off."""
        self.heart.beat()
        return self.heart.clocks.is_off

    def ground(self) -> ClientGround:
        """What a role stands on."""
        return ClientGround(self, self.ear)


def _key_item(key: UserKey) -> Item:
    key_bytes(key)
    return {"key": key}


SEVERAL: dict[type[Request[Any]], Callable[[ClientJournal, Any], Any]] = {
    produce.PutRequest: ClientJournal.put_any,
    produce.MoveManyRequest: lambda journal, asked: journal.send_many(asked, "moves", produce.move_to),
    produce.DeleteManyRequest: lambda journal, asked: journal.send_many(asked, "deletes", produce.delete_to),
    operate.RetryManyRequest: lambda journal, asked: journal.send_many(asked, "keys", _key_item, is_key=True),
    consume.ClaimKeyRequest: ClientJournal.claim_key,
    consume.LeasesRequest: ClientJournal.leases,
    read.GetManyRequest: ClientJournal.get_many,
    read.SelectRequest: ClientJournal.pages,
    read.EntriesOfRequest: ClientJournal.pages,
    operate.BuriedRequest: ClientJournal.buried,
    operate.OwnersRequest: ClientJournal.owners,
}
"""Requests that are more than one question, or are sent in a way of their own."""
