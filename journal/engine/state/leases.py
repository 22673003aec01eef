"""
The active leases, in memory: by primary key, by token, by deadline, by consumer.

H1  `by_primary` and `by_token` hold the same leases; each has exactly one entry under it.
H2  The deadline heap holds each lease under its deadline or an earlier one, and at most as many stale items as leases.
H3  `expired_rows` holds the lease rows of entries that wait again after a timeout.
H4  `unsaved` holds the leases whose rows are not written yet; a checkpoint writes them. Most leases end before that.
H5  The index by consumer is made and brought up to date when it is read, since claims and dones come much more often. It has all
    leases with a token up to `_indexed`, and some that have ended: at most as many as there are leases, and TRIM_FROM.
    Tokens only grow, so what is missing stands at the end of `by_token`.
H6  `lost` holds the tokens of the last leases that expired, up to EXPIRED_MAX: so the daemon distinguishes a lease that a consumer let
    expire from one that was ended by a call. It is not written to disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from journal.core.entry.effects import Claim
from journal.core.entry.keys import UserKey
from journal.core.entry.rows import PROCESSING, LeaseRow, Row, encode_lease, place
from journal.engine.state.file import GenerationRows

TRIM_FROM = 1024
EXPIRED_MAX = 1024


class Held:
    """One active lease."""

    __slots__ = (
        "at", "consumer", "deadline", "expiration", "has_successor", "home", "is_saved", "key", "owner", "primary", "start",
        "timeouts", "token", "version",
    )  # fmt: skip

    def __init__(
        self,
        primary: bytes,
        key: UserKey,
        owner: bytes,
        expiration: int,
        version: int,
        timeouts: int,
        start: int,
        deadline: int,
        token: int,
        at: int,
        consumer: str,
        home: GenerationRows,
    ) -> None:
        self.primary = primary
        self.key = key
        self.owner = owner
        self.expiration = expiration
        self.version = version
        self.timeouts = timeouts
        self.start = start
        self.deadline = deadline
        self.token = token
        self.at = at
        self.consumer = consumer
        self.home = home
        """The generation of its entry."""
        self.has_successor = False
        self.is_saved = False
        """Whether there is a lease row of its entry (an older one, perhaps)."""

    @property
    def priority(self) -> int:
        """The priority of the entry."""
        return place(self.primary)[0]

    @property
    def process_date(self) -> int:
        """When the entry fell due."""
        return place(self.primary)[1]

    @property
    def group(self) -> str | None:
        """The producer group of the entry."""
        return self.owner.decode() or None

    def row(self) -> LeaseRow:
        """As it is stored."""
        return LeaseRow(
            PROCESSING, self.version, self.timeouts, self.start, self.deadline, self.token, self.at, self.consumer
        )

    def encoded(self) -> bytes:
        """The bytes of its row."""
        return encode_lease(
            self.primary, PROCESSING, self.version, self.timeouts, self.start, self.deadline, self.token, self.at,
            self.consumer.encode(),
        )  # fmt: skip


class Leases:
    """All leases of a journal."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.by_primary: dict[bytes, Held] = {}
        self.by_token: dict[int, Held] = {}
        self.expired_rows: dict[bytes, LeaseRow] = {}
        self.unsaved: dict[bytes, Held] = {}
        self.expired_tokens: dict[int, None] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._forget_consumers()

    def _forget_consumers(self) -> None:
        self._by_consumer: dict[str, dict[int, Held]] = {}
        self._indexed = -1
        self._indexed_size = 0

    def __len__(self) -> int:
        return len(self.by_token)

    def add(self, held: Held) -> None:
        """A lease began."""
        primary, token = held.primary, held.token
        self.by_primary[primary] = held
        self.by_token[token] = held
        if not held.is_saved:
            self.unsaved[primary] = held
        deadlines = self._deadlines
        heappush(deadlines, (held.deadline, token))
        if len(deadlines) > TRIM_FROM:
            self.trim()

    def begin(self, effect: Claim, i: int, row: Row, at: int, home: GenerationRows) -> Held:
        """The i-th lease of a claim began, on an entry as it is stored; `add`, in one go."""
        consumer, start, deadline, token, items = effect
        primary, token, i = row[0], token + i, 4 * i
        held = self.by_primary[primary] = self.by_token[token] = self.unsaved[primary] = Held(
            primary, row[8], row[7], row[2], items[i + 2], items[i + 3], start, deadline, token, at, consumer, home
        )
        if self.expired_rows:
            held.is_saved = self.expired_rows.pop(primary, None) is not None
        deadlines = self._deadlines
        heappush(deadlines, (deadline, token))
        if len(deadlines) > TRIM_FROM:
            self.trim()
        return held

    def extended(self, held: Held) -> None:
        """A lease has another deadline."""
        self.unsaved[held.primary] = held
        heappush(self._deadlines, (held.deadline, held.token))
        self.trim()

    def move(self, by: int, at: int) -> None:
        """The clock was set by a record at this place: what is left of a lease stays (clock_steps D2). One saved later has the step."""
        for held in self.by_token.values():
            if held.at < at:
                held.start += by
                held.deadline += by
                held.at = at
                self.unsaved[held.primary] = held
        self._deadlines = [(held.deadline, held.token) for held in self.by_token.values()]
        heapify(self._deadlines)

    def trim(self) -> None:
        """Drop what the heap holds of leases that ended, when it is more than the rest (H2)."""
        if len(self._deadlines) > 2 * len(self.by_token) + TRIM_FROM:
            self._deadlines = [(h.deadline, h.token) for h in self.by_token.values()]
            heapify(self._deadlines)

    def end(self, primary: bytes) -> Held:
        """A lease ended."""
        held = self.by_primary.pop(primary)
        del self.by_token[held.token]
        self.unsaved.pop(primary, None)
        return held

    def note_expired(self, tokens: Iterable[int]) -> None:
        """The time of these leases has passed (H6)."""
        for token in tokens:
            self.expired_tokens[token] = None
        while len(self.expired_tokens) > EXPIRED_MAX:
            del self.expired_tokens[next(iter(self.expired_tokens))]

    def of(self, consumer: str) -> list[Held]:
        """The leases of one consumer (H5)."""
        self._index()
        if self._indexed_size > 2 * len(self.by_token) + TRIM_FROM:
            self._forget_consumers()
            self._index()
        found = self._by_consumer.pop(consumer, {})
        active = {token: held for token, held in found.items() if token in self.by_token}
        self._indexed_size -= len(found) - len(active)
        if active:
            self._by_consumer[consumer] = active
        return list(active.values())

    def _index(self) -> None:
        """Have all leases in the index by consumer."""
        last = self._indexed
        for held in reversed(self.by_token.values()):
            if held.token <= last:
                break
            self._by_consumer.setdefault(held.consumer, {})[held.token] = held
            self._indexed_size += 1
            self._indexed = max(self._indexed, held.token)

    def next_deadline(self) -> int | None:
        """The earliest deadline."""
        deadlines = self._deadlines
        while deadlines:
            deadline, token = deadlines[0]
            held = self.by_token.get(token)
            if held is not None and held.deadline == deadline:
                return deadline
            heappop(deadlines)
        return None

    def expired(self, now: int, limit: int) -> list[Held]:
        """Up to `limit` leases whose deadline has passed; they stay until they are ended."""
        found: dict[int, Held] = {}
        kept = []
        while len(found) < limit:
            deadline = self.next_deadline()
            if deadline is None or deadline > now:
                break
            item = heappop(self._deadlines)
            kept.append(item)
            found[item[1]] = self.by_token[item[1]]
        for item in kept:
            heappush(self._deadlines, item)
        return list(found.values())
