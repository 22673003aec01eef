"""
A producer: somebody who publishes entries in the name of a group, and has the say over them until they are done.

    billing = journal.Producer(pages, group="billing")
    billing.publish({"invoice": 7}, key="invoice-7", delay="3d")

The group is the entries' owner: all producers of one group have the same rights, on any machine, also after a restart. The verbs are
those of the journal with the owner filled in; dates that are given as a delay are reckoned by the engine.

G1  `publish` adds an entry once. Repeated with the same key and the same data, by the same group, it succeeds and changes nothing,
    as long as the entry is there: whoever did not get an answer asks again. Anything else under that key is `KeyExists`.
G2  Where nobody gives a key, one is made that sorts by its time (`journal.core.ids`). Who wants to be able to repeat asks for the key
    first (`new_key`), and keeps it.
G3  A producer reads, moves and deletes what its group owns, and what nobody owns; else `NotOwner`. Nothing is moved or deleted
    under an active lease (`Leased`): `journal.core.rights`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from journal.core import priority as priorities
from journal.core import rights
from journal.core.cursor import Cursor
from journal.core.drift import Time
from journal.core.keys import UserKey
from journal.core.rows import pack_data, unpack_data
from journal.core.times import DateLike, DurationLike
from journal.core.views import Entry, PutResult
from journal.engine.arguments import checked, owner_bytes
from journal.engine.journal import Journal
from journal.errors import Invalid, KeyExists
from journal.roles.clocks import clocks_of
from journal.roles.fresh import new_key


class Published(NamedTuple):
    """What became of a publication."""

    key: UserKey
    outcome: str
    """"inserted", or "exists": an earlier attempt had succeeded."""
    version: int
    process_date: int
    priority: int
    cursor: Cursor | None
    """Its place in the log; None when an earlier attempt had succeeded."""


class Producer:
    """A producer of one group; safe to use from many threads."""

    def __init__(self, journal: Journal, *, group: str) -> None:
        if not isinstance(journal, Journal):
            raise Invalid(f"a producer publishes to a journal, as Store.journal returns it, not to {journal!r}")
        if group is None:
            raise Invalid("a producer has a group: the name under which it owns its entries")
        owner_bytes(group)
        self.journal = journal
        self.group = group

    def __repr__(self) -> str:
        return f"<Producer {self.group} of {self.journal.name}>"

    def new_key(self) -> str:
        """A key that nobody else has, for an entry to come; it tells its time (G2)."""
        return new_key(self.journal._p.time.now())

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
        schema = self.journal._p.generations.schema
        if key is None and (schema is None or schema.key is None):
            key = self.new_key()
        if schema is not None:
            key, data = checked(schema, key, data)
        assert key is not None
        try:
            result = self.journal.create(
                key,
                data,
                priority=priority,
                process_date=process_date,
                delay=delay,
                expiration=expiration,
                owner=self.group,
                durability=durability,
            )
        except KeyExists as e:
            return self._published_before(key, data, e)
        return Published(key, result.outcome, result.version, result.process_date, result.priority, result.cursor)

    def _published_before(self, key: UserKey, data: Any, refusal: KeyExists) -> Published:
        """The entry of an earlier attempt; or the reason why there is none (G1)."""
        entry = self.journal.get(key)
        if entry is None:
            raise KeyExists(
                f"there was an entry with the key {key!r}, and it is finished by now: nobody can tell any more whether it was this one"
            ) from refusal
        if entry.owner != self.group:
            raise KeyExists(
                f"there is an entry with the key {key!r} that does not belong to {self.group!r}"
            ) from refusal
        if not _is_same(entry.data, unpack_data(pack_data(data))):
            raise KeyExists(
                f"there is an entry with the key {key!r} and other data: use put to merge, or get to look at it"
            ) from refusal
        return Published(key, "exists", entry.version, entry.process_date, entry.priority, None)

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
        durability: str | None = None,
    ) -> PutResult:
        """Add an entry, or merge it into the one of the group with this key; see Journal.put."""
        return self.journal.put(
            key,
            data,
            priority=priority,
            process_date=process_date,
            delay=delay,
            expiration=expiration,
            insertion_date=insertion_date,
            owner=self.group,
            durability=durability,
        )

    def move(
        self,
        key: UserKey,
        *,
        process_date: DateLike | None = None,
        delay: DurationLike | None = None,
        priority: int | None = None,
        version: int | None = None,
        durability: str | None = None,
    ) -> PutResult:
        """Give an entry of the group another date or priority (G3); with `version`, only if nobody changed it since."""
        return self.journal.move(
            key,
            process_date=process_date,
            delay=delay,
            priority=priority,
            owner=self.group,
            version=version,
            durability=durability,
        )

    def delete(self, key: UserKey, *, version: int | None = None, durability: str | None = None) -> bool:
        """Cancel an entry of the group (G3); False when there is none: it is done, or was never there."""
        return self.journal.delete(key, owner=self.group, version=version, durability=durability)

    def get(self, key: UserKey) -> Entry | None:
        """An entry of the group (G3), or None."""
        entry = self.journal.get(key)
        if entry is not None:
            role = rights.producer_role(entry.owner, self.group)
            rights.check(role, rights.Action.READ, self._status(entry), key)
        return entry

    def report_clock(self, t1: Time, t2: Time | None = None, *, t0: Time | None = None, t3: Time | None = None) -> bool:
        """Say what this producer's clock shows, in ms; whether it is off by too much. See Consumer.report_clock."""
        return clocks_of(self.journal).report(f"producer {self.group}", self.journal, t1, t2, t0, t3)

    def _status(self, entry: Entry) -> rights.Status:
        if entry.status == "P":
            return rights.Status.PROCESSING
        return rights.status_at(entry.process_date, None, self.journal._p.time.now())


def _is_same(a: Any, b: Any) -> bool:
    """Whether two values are the same data: types count (1 is not True), the order of a map's keys does not."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return len(a) == len(b) and all(key in b and _is_same(value, b[key]) for key, value in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return bool(a == b or (a != a and b != b))  # NaN is the same NaN
