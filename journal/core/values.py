"""
What callers get: frozen values, with data decoded.

They are copies: an Entry or a result says what was true when the call was answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, NamedTuple

from journal.core.entry import priority as priorities
from journal.core.entry.keys import UserKey
from journal.core.entry.rows import BuriedRow, Row, place, unpack_data
from journal.core.log.cursor import Cursor
from journal.core.times import DateLike, DurationLike


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a journal."""

    key: UserKey
    data: Any
    priority: int
    process_date: int
    insertion_date: int
    expiration: int
    status: str
    timeouts: int
    owner: str | None
    version: int
    start_date: int = 0
    """When the lease began; 0 while waiting."""


@dataclass(frozen=True, slots=True)
class Buried:
    """An entry that was given up on."""

    entry: Entry
    reason: str
    date: int

    @property
    def key(self) -> UserKey:
        """The entry's."""
        return self.entry.key


class BuriedPage(list[Buried]):
    """Buried entries in the order of burial."""

    def __init__(self, found: Iterable[Buried] = (), after: str | None = None) -> None:
        super().__init__(found)
        self.after = after
        """Where to go on: `after=` of the next call. None when there are no more."""

    @property
    def has_more(self) -> bool:
        """Whether there are more."""
        return self.after is not None


PAUSED = "paused"
"""The flag of a journal that hands nothing out; it goes with `resume`, and is not lowered."""


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that an operator must look at."""

    journal: str
    name: str
    message: str
    raised: int
    modified: int
    count: int


class PutResult(NamedTuple):
    """What a put did: "inserted", "merged", "queued" (behind a processing one) or "ignored" (stale); of a create
    also "exists", of one that comes with a `done` also "repeated", of other verbs "moved" or "retried"."""

    outcome: str
    cursor: Cursor
    version: int
    process_date: int
    priority: int


class Rejected(NamedTuple):
    """A row that a load left out: the number of its part, its own number in that part, both from 0, and why."""

    part: int
    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did, in rows."""

    cursor: Cursor
    """Of its last change; of a load that changed nothing: of the journal's last one."""
    inserted: int = 0
    merged: int = 0
    """With an entry of the same key, by the journal's rules."""
    replaced: int = 0
    queued: int = 0
    """Behind an entry that is processing."""
    ignored: int = 0
    """Older news than what is there, or by the rule "keep"."""
    skipped: int = 0
    """With on_conflict="skip": keys that were there."""
    is_repeated: bool = False
    """Its number was loaded before: nothing was changed now, and nothing is counted."""
    rejected: list[Rejected] = field(default_factory=list)
    """The rows that were left out."""


class Keeping(NamedTuple):
    """An entry that keeps a generation: its key, and its process date or the end of its lease."""

    key: UserKey
    date: int


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the entries that were asked for, in the order of work; to be walked through like a list."""

    entries: list[Entry]
    has_more: bool
    """Whether there are more."""
    after: str | None
    """Where to go on: `after=` of the next call. None when there are no more."""

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class Generation(NamedTuple):
    """One period of a journal."""

    order: int
    state: str
    """"active", "draining", "closed" (only its log is left) or "gone"."""
    began: int
    ended: int | None
    """When the next one began; None: it is active."""
    last_offset: int
    entries: int
    processing: int
    buried: int
    bytes: int
    kept_by: tuple[str, ...]
    """What keeps it: active, entries, leases, buried, others (rows of other merged journals), followers, compact."""
    first_entry: Keeping | None
    """The entry that comes first, with its process date."""
    last_lease: Keeping | None
    """The lease that ends last, with its deadline."""
    consumers: tuple[str, ...]
    """The feed consumers that have not acknowledged all of it."""


class Compacted(NamedTuple):
    """What compaction came to, over all segments that it looked at."""

    records_before: int
    records_after: int
    """Those that stand in the place of removed ones among them."""
    bytes_before: int
    bytes_after: int
    """Of whole files, with the room that is prepared in them."""


class FeedView(NamedTuple):
    """A feed consumer as it is listed."""

    name: str
    position: Cursor
    """All changes up to here are acknowledged; of one that still copies: where it will go on."""
    lag: int
    """Changes that it has not acknowledged yet."""
    held_bytes: int
    """The size of the log's files that hold what it has not acknowledged."""
    mode: str
    """"copy" until a copy is complete, then "sync"."""
    is_open: bool


class Put:
    """One put of a put_many."""

    __slots__ = ("data", "key", "options", "priority")

    def __init__(
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
    ) -> None:
        self.key = key
        self.data = data
        self.priority = priority
        self.options: PutOptions | None = None
        """What is not usual; None is told apart at a glance, a thousand times in a group."""
        if not (
            process_date is None
            and delay is None
            and expiration is None
            and insertion_date is None
            and owner is None
            and version is None
        ):
            self.options = PutOptions(process_date, delay, expiration, insertion_date, owner, version)


class PutOptions(NamedTuple):
    """When a put is due, when it expires, its owner, and the version of the entry that it expects."""

    process_date: DateLike | None = None
    delay: DurationLike | None = None
    expiration: DateLike | None = None
    insertion_date: DateLike | None = None
    owner: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """One move of a move_many: another date (absolute, or a delay from now on), another priority, or both."""

    key: UserKey
    _: KW_ONLY
    process_date: DateLike | None = None
    delay: DurationLike | None = None
    priority: int | None = None
    owner: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """One delete of a delete_many."""

    key: UserKey
    _: KW_ONLY
    owner: str | None = None
    version: int | None = None


class Backup(NamedTuple):
    """A backup that was made, or a store that was restored from one."""

    path: str
    store: str
    """The identity of the store."""
    made: int
    """When, by the engine's time."""
    journals: dict[str, str]
    """The last change of each journal that is in it, as the text of a cursor; `_merged`: of all merged journals."""
    files: int
    bytes: int
    copied_files: int
    """Those that were not kept from an older backup."""
    copied_bytes: int


def entry_of(row: Row, status: str = "W", start: int = 0) -> Entry:
    """The public view of a row."""
    priority, process_date = place(row.primary)
    return Entry(
        row.key, unpack_data(row.data), priority, process_date, row.insertion, row.expiration, status, row.timeouts,
        row.owner.decode() or None, row.version, start,
    )  # fmt: skip


def buried_of(buried: BuriedRow) -> Buried:
    """The public view of a buried row."""
    return Buried(entry_of(buried.row, "B"), buried.reason, buried.date)
