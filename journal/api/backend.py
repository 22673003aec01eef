"""
What the face needs of a backend: the store in this process (journal.engine), or a daemon's over a connection (journal.net.client).

A verb is a request (journal.core.requests) that a backend's `call` answers. Methods beside it are for what is no single question and
answer (feeds, snapshots, loads, workers), and for the hot verbs, which pass their arguments by position: that saves the request.

K1  Arguments are checked by the face before a backend is called: both backends refuse the same with the same text.
K2  A backend is whole at every moment that an interrupt can come (journal.shield).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from threading import Event as ThreadEvent
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from journal.core.buckets import Range
from journal.core.clock_drift import Drifts, Time
from journal.core.entry.keys import UserKey
from journal.core.loads.session import LoadPart
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event
from journal.core.requests.load import LoadCommitRequest
from journal.core.requests.read import ScanRequest
from journal.core.requests.request import Request
from journal.core.schema.schema import Schema
from journal.core.settings import Settings
from journal.core.snapshot_blocks import Block
from journal.core.times import DateLike
from journal.core.values import Backup, Entry, Put, PutResult
from journal.errors import Invalid, JournalError

if TYPE_CHECKING:
    from journal.api.lease import Lease

R = TypeVar("R")
Part = bytes | str | PathLike[str]
"""What a load takes: a load block, or the path of a part file."""


class LeaseView(Protocol):
    """What a lease is about, as its backend keeps it."""

    @property
    def key(self) -> UserKey: ...
    @property
    def token(self) -> int: ...
    @property
    def deadline(self) -> int: ...
    @property
    def version(self) -> int: ...
    @property
    def priority(self) -> int: ...
    @property
    def process_date(self) -> int: ...
    @property
    def consumer(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def timeouts(self) -> int: ...
    @property
    def group(self) -> str | None:
        """The producer group of the entry."""

    @property
    def expiration(self) -> int: ...


Lent = tuple[LeaseView, bytes, int]
"""A lease that was taken: what it is about, the packed data, and the insertion date of the entry."""


class FeedOptions(NamedTuple):
    """How a feed is opened, checked; see Journal.feed."""

    consumer: str | None
    start: str | Cursor
    live: bool
    copy: bool
    flush_ms: int
    unacked_max: int
    wait_acks: bool


class Feed(Protocol):
    """
    An open feed: an iterator of events, and a context manager that closes itself. Made by `Journal.feed`; for one thread, closing and
    acknowledging on any.
    """

    def __iter__(self) -> Iterator[Event]: ...
    def __next__(self) -> Event: ...
    def ack(self, *which: Any) -> None:
        """Acknowledge changes: cursors or events, one or many."""

    def fail(self, which: Any = ()) -> None:
        """Have what was delivered and is not acknowledged, or these changes, delivered again, one at a time."""

    @property
    def consumer(self) -> str | None:
        """The consumer's name; None: the feed is not remembered."""

    @property
    def position(self) -> Cursor:
        """The cursor up to which all is acknowledged; without a consumer: that was delivered."""

    @property
    def again(self) -> Cursor:
        """Up to here changes are delivered again, each one when the one before it is acknowledged."""

    @property
    def unacked(self) -> int:
        """How many changes were delivered and are not acknowledged."""

    @property
    def lag(self) -> int:
        """How many changes come after the position."""

    @property
    def is_redelivering(self) -> bool:
        """Whether changes that were delivered before come now."""

    def close(self) -> None:
        """End it; what was acknowledged is written. Closing twice is fine."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class SnapshotPart(Protocol):
    """What one reader reads of a snapshot. It can be pickled, and read in another process."""

    def read(self) -> Iterator[Block]:
        """Its entries, some thousand at a time, in the order of work; checksums are verified."""


class Snapshot(Protocol):
    """The entries of a journal at one cursor. Made by `Journal.snapshot`; a context manager."""

    name: str
    cursor: Cursor
    taken: int
    size: int
    schema: Schema | None
    is_closed: bool

    def parts(
        self,
        count: int,
        *,
        since: DateLike | None = None,
        until: DateLike | None = None,
        priorities: Any = None,
    ) -> Sequence[SnapshotPart]:
        """The entries in up to `count` parts of about the same size, and at least one."""

    def close(self) -> None:
        """Remove the copy. Closing twice is fine."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Subscription(Protocol):
    """Leases that a daemon pushes: an iterator, and a context manager that gives back what was not handed out."""

    is_closed: bool

    def __iter__(self) -> Iterator[Lease]: ...
    def __next__(self) -> Lease: ...
    def close(self) -> None:
        """End it, and give back what was not handed out. Closing twice is fine."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Turns(Protocol):
    """One worker's claims and sleeps."""

    def take(self) -> Lent | None:
        """The next entry that is due; None: it is time to sleep."""

    def sleep(self, stop: ThreadEvent | None) -> None:
        """Wait until something may be due, or there is a reason to look around."""


class LogBackend(Protocol):
    """The log of a journal, or of all merged ones together."""

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def is_remote(self) -> bool: ...
    def call(self, request: Request[R], /) -> R:
        """What a request comes to."""

    def feed(self, options: FeedOptions) -> Feed: ...
    def changes(self, after: Cursor, until: Cursor) -> Iterator[Event]: ...
    def within(self, timeout_ms: int | None) -> Self:
        """The same, with another time in which a call must be answered."""

    def counts(self) -> dict[str, int]:
        """How many entries each merged journal has."""

    def statistics(self) -> dict[str, Any]: ...


class JournalBackend(LogBackend, Protocol):
    """A journal."""

    @property
    def schema(self) -> Schema | None:
        """All fields that the data may have: the union over the generations that are left."""

    @property
    def shows_all(self) -> bool: ...
    def now(self) -> int: ...
    def put(self, key: str, data: Any, priority: int, durability: str | None, /) -> PutResult:
        """The usual put: a short text key, checked, and no options."""

    def put_many(
        self, puts: list[Put], durability: str | None, /, *, is_create: bool = False, is_repeatable: bool = False
    ) -> list[PutResult | JournalError]: ...
    def claim(
        self, consumer: str, lease_ms: int | None, durability: str | None, buckets: Range | None, /
    ) -> Lent | None: ...
    def claim_many(
        self, n: int, consumer: str, lease_ms: int | None, durability: str | None, buckets: Range | None, /
    ) -> Sequence[Lent]: ...
    def done(self, token: int, durability: str | None, /) -> None: ...
    def done_many(
        self, tokens: list[int], nexts: list[Put | None] | None, durability: str | None, /
    ) -> list[PutResult | JournalError | None]: ...
    def scan(self, request: ScanRequest) -> Iterator[Entry]: ...
    def snapshot(self, directory: str | PathLike[str] | None, known: Sequence[Any], /) -> Snapshot: ...
    def load(self, parts: list[Part], how: LoadCommitRequest) -> Any: ...
    def load_part(self, load: str, name: str) -> LoadPart: ...
    def worker(self, consumer: str, lease_ms: int | None, buckets: Range | None) -> AbstractContextManager[Turns]: ...
    def subscribe(
        self, holder: Any, consumer: str, lease_ms: int | None, buckets: Range | None, credit: int
    ) -> Subscription: ...
    def wake(self) -> None:
        """Have sleeping workers look around."""

    @property
    def has_bucket_index(self) -> bool: ...
    def prepare_buckets(self, buckets: Range, /) -> None: ...

    def measure_drift(self, peer: str, t0: Time, t1: Time, t2: Time, t3: Time) -> bool: ...
    def ground(self) -> Ground:
        """What a role stands on."""


class StoreBackend(Protocol):
    """A store."""

    @property
    def path(self) -> Path: ...
    def __str__(self) -> str:
        """Where it is: its path, or the address of its daemon."""

    @property
    def is_remote(self) -> bool: ...
    def call(self, request: Request[R], /) -> R: ...
    def journal(self, name: str, settings: dict[str, Any]) -> JournalBackend: ...
    def merged(self, settings: dict[str, Any]) -> LogBackend: ...
    def existing_merged(self) -> LogBackend: ...
    def drop(self, name: str) -> None: ...
    def backup(self, dest: str | PathLike[str], progress: Callable[[int, int], None] | None) -> Backup: ...
    def serve(self, options: dict[str, Any]) -> Any: ...
    @property
    def drifts(self) -> Drifts: ...
    def within(self, timeout_ms: int | None) -> Self: ...
    def close(self) -> None: ...


# -- what a role needs besides the verbs ----------------------------------------------------------------------------------


class Clock(Protocol):
    """Engine time."""

    is_far: bool
    """Whether a call to the engine may wait for a network."""

    def now(self) -> int:
        """In ms since the epoch."""

    def running(self) -> int:
        """The steady clock in ms: for durations."""

    def running_at(self, date: int) -> int:
        """What `running` shows when a date comes."""

    def until_running(self, ms: int) -> float | None:
        """Seconds of real waiting until `running` shows that; None when only the clock's owner moves it."""

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when a manual clock moves; returns a function that ends it."""


class Ground(Protocol):
    """What a role stands on, besides the verbs of its journal. One for each role."""

    @property
    def time(self) -> Clock:
        """By which entries fall due and leases end."""

    @property
    def key(self) -> Any:
        """The same for all roles of one journal; can be referenced weakly."""

    @property
    def settings(self) -> Settings:
        """How the journal behaves; as it was when the role began, at least."""

    @property
    def schema(self) -> Schema | None:
        """That of what is published."""

    @property
    def is_gone(self) -> bool:
        """Whether the store, or the connection, is closed."""

    def sleep(self, buckets: Range | None, is_awake: Callable[[], bool]) -> None:
        """Wait until something may be due there, or there is a reason to look around; it may return without one."""

    def rouse(self, note: Callable[[], None]) -> None:
        """Call `note`, whose effect `is_awake` sees, and wake the threads in `sleep`."""

    def deadline_of(self, token: int) -> int | None:
        """Until when a lease is active; None when it is over."""

    def is_finished(self, token: int) -> bool:
        """Whether a lease that is over was ended by `done`."""

    def recover(self, error: JournalError) -> None:
        """A claim failed: return when it can be made again, or raise."""

    def measure_drift(self, peer: str, t0: Time, t1: Time, t2: Time, t3: Time) -> bool:
        """Compare clocks; whether that of the peer is off."""

    def clock_of(self, peer: str) -> dict[str, Any] | None:
        """What is known of a peer's clock."""

    def close(self, peer: str) -> None:
        """The role is over."""


@runtime_checkable
class Grounded(Protocol):
    """A journal, in this process or of a daemon."""

    name: str

    def _ground(self) -> Ground:
        """What a role stands on."""


def ground_of(journal: Grounded, what: str) -> Ground:
    """The ground of a new role."""
    if not isinstance(journal, Grounded):
        raise Invalid(f"{what} a journal, as Store.journal returns it, not {journal!r}")
    return journal._ground()
