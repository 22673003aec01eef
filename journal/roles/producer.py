"""
A producer: a role that publishes entries for a group, and may read, move and delete them until they are done.

    billing = journal.Producer(pages, group="billing")
    billing.publish({"invoice": 7}, key="invoice-7", delay="3d")

The group is the entries' owner: all producers of one group have the same rights, on any machine, also after a restart. The verbs are
those of the journal with the owner filled in; dates that are given as a delay are reckoned by the engine.

G1  `publish` adds an entry once. Repeated with the same key and the same data, by the same group, it succeeds and changes nothing,
    as long as the entry is there: a caller that got no answer retries. Anything else under that key is `KeyExists`. The engine decides
    which of these it is in one step: no other change comes in between.
G2  Without a key, one is made that sorts by its time (`journal.core.entry.uuid7`). A caller that wants to be able to retry makes the
    key first (`new_key`), and keeps it.
G3  A producer reads, moves and deletes what its group owns, and what has no owner; else `NotOwner`. Nothing is moved or deleted
    under an active lease (`Leased`): `journal.core.rights`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from journal.api.backend import ground_of
from journal.core import rights
from journal.core.arguments import listed, owner_bytes
from journal.core.clock_drift import Time
from journal.core.entry import priority as priorities
from journal.core.entry.keys import UserKey
from journal.core.log.cursor import Cursor
from journal.core.times import DateLike, DurationLike
from journal.core.values import Delete, Entry, Move, Page, Put, PutOptions, PutResult
from journal.engine.arguments import checked
from journal.errors import Invalid, JournalError
from journal.roles.fresh_keys import new_key

if TYPE_CHECKING:
    from journal.api.journal import Journal


class Published(NamedTuple):
    """What became of a publication."""

    key: UserKey
    outcome: str
    """"inserted", or "exists": an earlier attempt had succeeded."""
    version: int
    process_date: int
    priority: int
    cursor: Cursor
    """Where the entry's last change is in the log."""


class MergeOptions(TypedDict, total=False):
    """The options of a put in the name of a group; see Journal.put."""

    priority: int
    process_date: DateLike | None
    delay: DurationLike | None
    expiration: DateLike | None
    insertion_date: DateLike | None
    version: int | None
    durability: str | None


class MoveOptions(TypedDict, total=False):
    """The options of a move; see Journal.move."""

    process_date: DateLike | None
    delay: DurationLike | None
    priority: int | None
    version: int | None
    durability: str | None


class Producer:
    """A producer of one group; safe to use from many threads."""

    def __init__(self, journal: Journal, *, group: str) -> None:
        self._ground = ground_of(journal, "a producer publishes to")
        if group is None:
            raise Invalid("a producer has a group: the name under which it owns its entries")
        owner_bytes(group)
        self.journal = journal
        self.group = group

    def __repr__(self) -> str:
        return f"<Producer {self.group} of {self.journal.name}>"

    def new_key(self) -> str:
        """A new unique key, for a later entry; it contains its time (G2)."""
        return new_key(self._ground.time.now())

    def publish(
        self,
        data: Any = None,
        *,
        key: UserKey | None = None,
        priority: int = priorities.DEFAULT,
        process_date: DateLike | None = None,
        delay: DurationLike | None = None,
        expiration: DateLike | None = None,
        durability: str | None = None,
    ) -> Published:
        """Add an entry that is due now, at a date or after a delay; harmless when repeated with the same key (G1)."""
        schema = self._ground.schema
        if key is None and (schema is None or schema.key is None):
            key = self.new_key()
        if schema is not None:
            key, data = checked(schema, key, data)
        assert key is not None
        result = self.journal.create(
            key, data, priority=priority, process_date=process_date, delay=delay, expiration=expiration, owner=self.group,
            is_repeatable=True, durability=durability,
        )  # fmt: skip
        return Published(key, result.outcome, result.version, result.process_date, result.priority, result.cursor)

    def publish_many(self, puts: Iterable[Put], *, durability: str | None = None) -> list[Published | JournalError]:
        """Publish a group with one record and one sync; each of it once (G1), with a result or an error for each."""
        schema = self._ground.schema
        items = []
        for put in listed(puts, "publish_many"):
            if type(put) is not Put:
                raise Invalid(f"publish_many takes journal.Put objects, not {put!r}")
            key = self.new_key() if put.key is None and (schema is None or schema.key is None) else put.key
            items.append(self._own(put, key))
        results = self.journal.create_many(items, is_repeatable=True, durability=durability)
        return [
            result
            if isinstance(result, JournalError)
            else Published(
                checked(schema, None, item.data)[0] if item.key is None else item.key,
                result.outcome,
                result.version,
                result.process_date,
                result.priority,
                result.cursor,
            )
            for item, result in zip(items, results, strict=True)
        ]

    def _own(self, put: Put, key: UserKey | None) -> Put:
        """The same put in the name of the group."""
        options = put.options or PutOptions()
        if options.owner not in (None, self.group):
            raise Invalid(
                f"a put of {put.key!r} names the owner {options.owner!r}: a producer of {self.group!r} publishes its own"
            )
        return Put(key, put.data, priority=put.priority, **options._replace(owner=self.group)._asdict())

    def put(self, key: UserKey | None, data: Any = None, **options: Unpack[MergeOptions]) -> PutResult:
        """Add an entry, or merge it into the one of the group with this key; see Journal.put."""
        return self.journal.put(key, data, owner=self.group, **options)

    def move(self, key: UserKey, **options: Unpack[MoveOptions]) -> PutResult:
        """Give an entry of the group another date or priority (G3); with `version`, only if it has not changed since."""
        return self.journal.move(key, owner=self.group, **options)

    def delete(self, key: UserKey, *, version: int | None = None, durability: str | None = None) -> bool:
        """Cancel an entry of the group (G3); False when there is none: it is done, or was never there."""
        return self.journal.delete(key, owner=self.group, version=version, durability=durability)

    def move_many(self, moves: Iterable[Move], *, durability: str | None = None) -> list[PutResult | JournalError]:
        """Move entries of the group (G3) with one record and one sync; see Journal.move_many."""
        items: list[Any] = listed(moves, "move_many")
        own = [replace(move, owner=self.group) if isinstance(move, Move) else move for move in items]
        return self.journal.move_many(own, durability=durability)

    def delete_many(
        self, deletes: Iterable[Delete | UserKey], *, durability: str | None = None
    ) -> list[bool | JournalError]:
        """Cancel entries of the group (G3) with one record and one sync; see Journal.delete_many."""
        own = [
            replace(delete, owner=self.group) if isinstance(delete, Delete) else Delete(delete, owner=self.group)
            for delete in listed(deletes, "delete_many")
        ]
        return self.journal.delete_many(own, durability=durability)

    def get(self, key: UserKey) -> Entry | None:
        """An entry of the group (G3), or None."""
        entry = self.journal.get(key)
        if entry is not None:
            role = rights.producer_role(entry.owner, self.group)
            rights.check(role, rights.Action.READ, self._status(entry), key)
        return entry

    def list(
        self,
        *,
        status: str | None = None,
        since: DateLike | None = None,
        until: DateLike | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Page:
        """The entries of the group, in the order of work; see Journal.select."""
        return self.journal.select(owner=self.group, status=status, since=since, until=until, limit=limit, after=after)

    def count(self, *, status: str | None = None, since: DateLike | None = None, until: DateLike | None = None) -> int:
        """How many entries the group has; see Journal.count."""
        return self.journal.count(owner=self.group, status=status, since=since, until=until)

    def report_clock(self, t1: Time, t2: Time | None = None, *, t0: Time | None = None, t3: Time | None = None) -> bool:
        """Say what this producer's clock shows, in ms; whether it is found to be off. See Consumer.report_clock."""
        now = self._ground.time.now()
        t0, t3 = now if t0 is None else t0, now if t3 is None else t3
        return self._ground.measure_drift(f"producer {self.group}", t0, t1, t1 if t2 is None else t2, t3)

    def _status(self, entry: Entry) -> rights.Status:
        if entry.status == "P":
            return rights.Status.PROCESSING
        return rights.status_at(entry.process_date, None, self._ground.time.now())
