"""
A random program over the verbs of a journal: the same seed on the same store makes the same calls.

R1  The program reads nothing but its own random numbers and the answers of the journal, so two runs agree call by call.
R2  Nothing times out or expires while it runs: the clock moves by seconds, leases last for years.
R3  Each step is one call, and says how durable the journal promised to make it: "full", "os" (in the operating system) or "none".
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgpack

import journal
from journal.core.settings import SHARED
from journal.engine import checkpoints
from journal.engine.loads import apply
from journal.engine.loads import load as loads_load
from journal.engine.state import apply as state_apply
from journal.loads import encode_block
from journal.testing import ManualClock
from tests.crash.collide import twin

START_MS = 1_700_000_000_000
FAR_MS = START_MS + 20 * 365 * 86_400_000
LEASE = "9000d"
BUCKETS = 6
NAME = "work"
NEIGHBOURS = ("wor", "work-2", "z")
BULK = 8
state_apply.BULK = apply.BULK = loads_load.CHANGES_MIN = (
    BULK  # what loads do with thousands of rows they do with a few here
)
checkpoints.LOOK_BYTES_MIN = 1 << 15  # so that a size is looked at every few calls

_LONG = b"two blocks of sixteen bytes each"
KEYS: tuple[str | bytes, ...] = (
    *(f"key-{n:02}" for n in range(16)),
    b"key-00",
    b"\x00\xff",
    "ключ",
    "k" * 600,
    _LONG,
    twin(_LONG),
)
SIZES = (0, 5, 40, 150, 400, 900, 2500, 5000, 9000)
LARGE = (20_000, 45_000)


@dataclass(frozen=True, slots=True)
class Shape:
    """What kind of program a seed makes."""

    seed: int
    durability: str = "full"

    @property
    def is_large(self) -> bool:
        """Some programs write so much that the log changes segments."""
        return self.seed % 3 == 2

    @property
    def is_compacting(self) -> bool:
        """Some keep their log and compact it."""
        return self.seed % 2 == 1

    @property
    def is_followed(self) -> bool:
        """Some have nobody who holds their log: segments go as soon as they may."""
        return self.seed % 8 != 2

    @property
    def is_growing(self) -> bool:
        """Some fill a generation every few calls: rotations fall due by size, and wait for survivors of the last ones to move."""
        return self.seed % 5 in (1, 3)

    @property
    def retention(self) -> dict[str, Any]:
        """Some do not keep their log for a consumer that is too slow: by size, or by age (segments are closed for it)."""
        rest = self.seed % 9
        return {"log_age_max": 40 if rest in (0, 4) else None, "log_bytes_max": 2 << 18 if rest in (3, 6) else None}

    @property
    def claims(self) -> str:
        return "full" if self.seed % 5 == 4 else "os"

    @property
    def is_merged(self) -> bool:
        """Some programs work on one of several merged journals."""
        return self.seed % 4 == 3

    def journal(self, store: journal.Store) -> journal.Journal:
        """The journal that the program works on, declared as it wants it."""
        is_there = NAME in store.journals()  # made by a program of another shape, perhaps
        if not (store.journal(NAME).settings.merged if is_there else self.is_merged):
            return store.journal(NAME, **self.settings)
        store.merged(**{name: value for name, value in self.settings.items() if name in SHARED})
        own = {name: value for name, value in self.settings.items() if name not in SHARED}
        return store.journal(NAME, merged=True, **own)

    @property
    def settings(self) -> dict[str, Any]:
        merge = ("merge", "merge", "replace", "debounce", "keep")[self.seed % 5]
        return {
            "merge": merge,
            "segment_bytes_max": 1 << 16,
            "processing_timeout": LEASE,
            "rotate_bytes": 1 << 16 if self.is_growing else None,
            "generations_max": 2 + self.seed % 2,
            "on_empty": ("delete", "reset", "truncate")[self.seed % 7 % 3],
            "wipe": self.seed % 4 == 1,
            "log_old": self.seed % 6 == 5,
            "compact": self.is_compacting,
            "buckets": BUCKETS,
            **self.retention,
        }


@dataclass(frozen=True, slots=True)
class Step:
    """One call that was answered."""

    number: int
    verb: str
    level: str
    answer: str
    cursor: str | None = None


class Program:
    """Calls a journal at random. `held` are the tokens of leases that it believes to have."""

    def __init__(self, shape: Shape, store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
        self.shape = shape
        self.store = store
        self.journal = pages
        self.clock = clock
        self.chance = random.Random(f"program:{shape.seed}")
        self.held: list[int] = sorted(lease.token for lease in pages.leases())
        self.number = 0
        self._firm = {"full": "full", "interval": "os", "none": "none"}[shape.durability]
        self._soft = (
            "full" if shape.claims == "full" and self._firm == "full" else "os" if self._firm != "none" else "none"
        )

    def steps(self, calls: int) -> Iterator[Step]:
        """Make that many calls, one for each step taken from this iterator."""
        while self.number < calls:
            yield self.step()

    def step(self) -> Step:
        """Make the next call. A refusal is an answer like another; any other error is the caller's to judge."""
        weights = VERBS
        if self.shape.is_large or any(self.shape.retention.values()):
            weights = {**weights, Program.checkpoint: 6}
        if self.shape.is_compacting:
            weights = {**weights, Program.compact: 8}
        verb = self.chance.choices(list(weights), list(weights.values()))[0]
        self.number += 1
        try:
            level, answer, cursor = verb(self)
        except journal.Refused as refusal:
            level, answer, cursor = "none", type(refusal).__name__, None
        return Step(self.number, verb.__name__, level, answer, cursor)

    def reattach(self, store: journal.Store, pages: journal.Journal) -> None:
        """Go on with a store that was opened again."""
        self.store, self.journal = store, pages
        self.held = sorted(lease.token for lease in pages.leases())

    # -- what a call is made of ------------------------------------------------------------------------------------

    def _key(self) -> str | bytes:
        return self.chance.choice(KEYS)

    def _data(self) -> Any:
        sizes = SIZES + LARGE * 4 if self.shape.is_large else SIZES
        filler = bytes([self.number % 256]) * self.chance.choice(sizes)
        kind = self.chance.randrange(4)
        if kind == 0:
            return filler
        return {"n": self.number, "filler": filler} if kind == 1 else [self.number, None, True, filler.hex()[:2000]]

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"priority": self.chance.choice((0, 10, 100, 100, 100, 180, 230))}
        if self.chance.random() < 0.3:
            options["delay"] = self.chance.choice((1, 500, 5_000, 86_400_000))
        if self.chance.random() < 0.3:
            options["expiration"] = FAR_MS + self.chance.randrange(1000)
        if self.chance.random() < 0.1:
            options["insertion_date"] = self.clock.now() - self.chance.randrange(5_000)
        return options

    def _owner(self, key: str | bytes) -> str | None:
        """The same key always has the same owner, so that most calls are accepted."""
        return ("alpha", "beta", None, None, None)[
            len(str(key)) * 7 % 5 if isinstance(key, bytes) else hash_of(key) % 5
        ]

    def _part(self) -> journal.Range | None:
        """Most programs claim by ranges of buckets, now and then."""
        if self.shape.seed % 3 == 1 or self.number < 10 or self.chance.random() < 0.5:
            return None
        low = self.chance.randrange(BUCKETS)
        return journal.Range(low, self.chance.randint(low + 1, BUCKETS))

    def _pick(self) -> int:
        """A token: nearly always one that is held."""
        if not self.held or self.chance.random() < 0.05:
            return 12345
        return self.chance.choice(self.held)

    def _drop(self, token: int) -> None:
        if token in self.held:
            self.held.remove(token)

    # -- the verbs ---------------------------------------------------------------------------------------------------

    def put(self) -> Answer:
        key, options, level = self._key(), self._options(), self._firm
        if self._firm == "os" and self.chance.random() < 0.15:
            options["durability"], level = "full", "full"
        return told(level, self.journal.put(key, self._data(), owner=self._owner(key), **options))

    def neighbour(self) -> Answer:
        """A call to another merged journal; its changes are between ours in the log."""
        if not self.journal.settings.merged:
            return "none", "alone", None
        name, what = self.chance.choice(NEIGHBOURS), self.chance.random()
        if what < 0.15:
            if name not in self.store.journals():
                return "none", "there is none", None
            self.store.drop(name)
            return "full", f"dropped {name}", None
        other = self.store.journal(name, merged=True)
        if what < 0.75:
            return told(self._firm, other.put(self._key(), self._data(), priority=self.chance.choice((1, 100))))
        held = other.leases()
        if what < 0.9 and held:
            other.done(held[0])
            return self._firm, f"{name} done {held[0].key!r}", None
        lease = other.claim(lease=LEASE)
        return (self._soft, f"{name} {lease.key!r}", None) if lease is not None else ("none", "nothing", None)

    def put_many(self) -> Answer:
        keys = [self._key() for _ in range(self.chance.randint(1, 6))]
        puts = [journal.Put(key, self._data(), owner=self._owner(key), **self._options()) for key in keys]
        results = self.journal.put_many(puts)
        cursors = [str(r.cursor) for r in results if isinstance(r, journal.PutResult) and r.outcome != "ignored"]
        return (self._firm if cursors else "none"), ",".join(map(brief, results)), max(cursors, default=None)

    def load(self) -> Answer:
        """Rows that are new, or meet entries, or come twice; now and then of a load that was made before."""
        rows = []
        for _ in range(self.chance.randint(1, 2 * BULK)):
            key = f"row-{self.chance.randrange(40)}" if self.chance.random() < 0.6 else self._key()
            options = self._options()
            date = None if "delay" not in options else self.clock.now() + options["delay"]
            more = options["priority"], date, options.get("insertion_date"), options.get("expiration", 0)
            rows.append((key, msgpack.packb(self._data()), *more, self._owner(key) or ""))
        once = ("nightly", self.chance.choice((self.number, self.number, 3))) if self.chance.random() < 0.5 else None
        on_conflict = self.chance.choice(("merge", "merge", "replace", "skip", "error"))
        loaded = self.journal.load([encode_block(rows)], on_conflict=on_conflict, once=once, on_reject="list")
        made = [loaded.inserted, loaded.merged, loaded.replaced, loaded.queued]
        answer = f"{made} {loaded.ignored} {loaded.skipped} {loaded.is_repeated} {len(loaded.rejected)}"
        return (self._firm, answer, str(loaded.cursor)) if any(made) else ("none", answer, None)

    def create(self) -> Answer:
        key = self._key()
        return told(self._firm, self.journal.create(key, self._data(), owner=self._owner(key), **self._options()))

    def claim(self) -> Answer:
        lease = self.journal.claim(consumer=self.chance.choice(("one", "two")), lease=LEASE, buckets=self._part())
        if lease is None:
            return "none", "nothing", None
        self.held.append(lease.token)
        return self._soft, f"{lease.key!r} {lease.token} {lease.version}", None

    def claim_many(self) -> Answer:
        leases = self.journal.claim_many(
            self.chance.randint(1, 5), consumer=self.chance.choice(("one", "two")), lease=LEASE, buckets=self._part()
        )
        self.held.extend(lease.token for lease in leases)
        return (self._soft if leases else "none"), repr([(lease.key, lease.token) for lease in leases]), None

    def claim_key(self) -> Answer:
        lease = self.journal.claim_key(self._key(), consumer=self.chance.choice(("one", "two")), lease=LEASE)
        self.held.append(lease.token)
        return self._soft, f"{lease.key!r} {lease.token} {lease.version}", None

    def done(self) -> Answer:
        token = self._pick()
        self.journal.done(token)
        self._drop(token)
        return self._firm, str(token), None

    def done_next(self) -> Answer:
        """Done, and a put of the same key or of another one."""
        leases = {lease.token: lease.key for lease in self.journal.leases() if lease.token in self.held}
        token = self.chance.choice(sorted(leases)) if leases else 12345
        key = leases[token] if leases and self.chance.random() < 0.5 else self._key()
        put = journal.Put(key, self._data(), owner=self._owner(key), **self._options())
        result = self.journal.done(token, next=put)
        self._drop(token)
        return self._firm, brief(result), None

    def done_many(self) -> Answer:
        tokens = {lease.token: lease for lease in self.journal.leases() if lease.token in self.held}
        chosen = self.chance.sample(sorted(tokens), min(len(tokens), self.chance.randint(1, 4)))
        answers = self.journal.done_many([tokens[token] for token in chosen])
        for token in chosen:
            self._drop(token)
        return (self._firm if chosen else "none"), f"{chosen} {answers!r}", None

    def release(self) -> Answer:
        token = self._pick()
        self.journal.release(token, delay=self.chance.choice((0, 0, 1_000, 60_000)))
        self._drop(token)
        return self._firm, str(token), None

    def extend(self) -> Answer:
        token = self._pick()
        self.journal.extend(token, self.chance.choice(("9000d", "9500d")))
        return self._soft, str(token), None

    def bury(self) -> Answer:
        token = self._pick()
        self.journal.bury(token, self.chance.choice(("", "unreadable", "r" * 3000)))
        self._drop(token)
        return self._firm, str(token), None

    def retry(self) -> Answer:
        buried = sorted({repr(found.entry.key): found.entry.key for found in self.journal.buried()}.items())
        key = self.chance.choice(buried)[1] if buried else self._key()
        return self._firm, brief(self.journal.retry(key)), None

    def delete(self) -> Answer:
        key = self._key()
        is_gone = self.journal.delete(key, owner=self._owner(key))
        return (self._firm if is_gone else "none"), str(is_gone), None

    def move(self) -> Answer:
        key = self._key()
        delay, priority = self.chance.choice((0, 10_000)), self.chance.choice((None, 5, 100))
        return told(self._firm, self.journal.move(key, delay=delay, priority=priority, owner=self._owner(key)))

    def move_many(self) -> Answer:
        keys = [self._key() for _ in range(self.chance.randint(1, 6))]
        delays = [self.chance.choice((0, 10_000)) for _ in keys]
        moves = [journal.Move(key, delay=d, owner=self._owner(key)) for key, d in zip(keys, delays, strict=True)]
        results = self.journal.move_many(moves)
        cursors = [str(r.cursor) for r in results if isinstance(r, journal.PutResult)]
        return (self._firm if cursors else "none"), ",".join(map(brief, results)), max(cursors, default=None)

    def delete_many(self) -> Answer:
        keys = [self._key() for _ in range(self.chance.randint(1, 3))]
        results = self.journal.delete_many([journal.Delete(key, owner=self._owner(key)) for key in keys])
        return (self._firm if True in results else "none"), ",".join(map(brief, results)), None

    def checkpoint(self) -> Answer:
        self.store.checkpoint()
        return ("full" if self._firm != "none" else "none"), "", None

    def rotate(self) -> Answer:
        self.journal.rotate()
        return ("full" if self._firm != "none" else "none"), "", None

    def compact(self) -> Answer:
        """What it comes to depends on what the engine does by itself."""
        self.journal.compact()
        return ("full" if self._firm != "none" else "none"), "", None

    def follow(self) -> Answer:
        """What is delivered depends on what the engine does by itself; that it can be followed does not."""
        if not self.shape.is_followed:
            return "none", "nobody does", None
        count = self.chance.randint(1, 30)
        with suppress(journal.CursorUnavailable):  # retention was faster, and may be so again
            try:
                with self.journal.feed(consumer="audit", live=False) as feed:
                    for event in islice(feed, count):
                        feed.ack(event)
            except journal.CursorUnavailable:
                self.journal.mark_feed("audit", self.journal.oldest_cursor)
        return "none", "", None

    def advance(self) -> Answer:
        self.clock.advance(self.chance.choice((1, 40, 1000)))
        return "none", "", None


Answer = tuple[str, str, str | None]


def told(level: str, result: journal.PutResult) -> Answer:
    """An ignored put changed nothing and promises nothing; its cursor is that of an earlier one."""
    if result.outcome == "ignored":
        return "none", brief(result), None
    return level, brief(result), str(result.cursor)


def brief(result: Any) -> str:
    """An answer without the cursor, which counts records and not calls."""
    if isinstance(result, Exception):
        return type(result).__name__
    if isinstance(result, journal.PutResult):
        return f"{result.outcome} {result.version} {result.process_date} {result.priority}"
    return repr(result)


def hash_of(text: str) -> int:
    """The same number in every process."""
    return sum(text.encode())


VERBS: dict[Callable[[Program], Answer], int] = {
    Program.put: 24, Program.put_many: 5, Program.create: 4, Program.claim: 14, Program.claim_many: 4, Program.done: 9,
    Program.done_many: 3, Program.release: 5, Program.extend: 3, Program.bury: 3, Program.retry: 3, Program.delete: 4,
    Program.move: 5, Program.checkpoint: 2, Program.rotate: 3, Program.follow: 2, Program.advance: 5, Program.neighbour: 8,
    Program.claim_key: 4, Program.move_many: 3, Program.delete_many: 2, Program.load: 4,
    Program.done_next: 5,
}  # fmt: skip
