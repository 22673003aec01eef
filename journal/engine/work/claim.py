"""
Claims: of the next due entry, of many, of one by its key; and the lease of a token. How a lease ends is in journal.engine.work.finish
and journal.engine.work.lease_holder.

What a consumer is handed never rests on a record that could still vanish: a claim of an entry whose writer still waits for its sync waits
for it too. A claim itself is answered once its record is in the OS, unless more was asked.

What is taken is given as (lease, packed data, insertion date of the entry).
"""

from __future__ import annotations

from typing import Any

from journal.core import lifecycle
from journal.core.arguments import token_of
from journal.core.buckets import Range
from journal.core.entry import effects as fx
from journal.core.entry.keys import key_bytes, unpack_place
from journal.core.entry.rows import Row
from journal.core.histogram import FRESH_MAX
from journal.core.requests.consume import ClaimKeyRequest
from journal.engine.arguments import part_of
from journal.engine.caller import Caller, Fits
from journal.engine.files.lmdb import LmdbError
from journal.engine.log.durability import FULL
from journal.engine.runtime.timed_steps import PASS_MAX
from journal.engine.state.bucket_index import is_complete
from journal.engine.state.leases import Held
from journal.engine.state.order import Order
from journal.engine.work.bucket_index_build import enter_in
from journal.engine.work.lookup import find
from journal.engine.work.path import WorkPath
from journal.errors import JournalError, Paused, Refused
from journal.shield import SHIELD, shield_down, shield_up

_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function
STEP = 16
"""Entries that a claim of many for a reply takes at first; it then knows how large they are."""
Taken = tuple[Held, bytes, int]
"""A lease, the packed data and the insertion date of its entry."""


class Claims:
    """The claims of one journal."""

    _part: Range | None = None
    """The last range that was checked, and is not all buckets."""
    _passed = 0
    """Expired entries over which the claim that is being made has passed."""

    def __init__(self, pipeline: WorkPath) -> None:
        self._p = pipeline
        tally = pipeline.tally
        self._counts, self._lateness = tally.claim, tally.lateness

    def part(self, buckets: Range | None) -> Range | None:
        """The range to claim by; None: over all, also when it has all of them."""
        if buckets is None or buckets is self._part:
            return buckets
        part = self._part = part_of(buckets, self._p.settings)
        return part

    def one(
        self,
        consumer: str,
        lease_ms: int | None,
        durability: str | None,
        buckets: Range | None,
        is_idle: bool = True,
    ) -> Taken | None:
        """The next due entry; None when nothing is due. Of slow ones (`slow_from`) only if `is_idle`."""
        p = self._p
        part = self.part(buckets) if buckets is not None else None
        duration = p.settings.processing_timeout if lease_ms is None else lease_ms
        level = p.claim_level if durability is None and p.is_writable else p.level_of(durability, p.claim_level)
        is_up = shield_up()
        try:
            while (taken := self._one(consumer, duration, level, part, is_idle)) is _AGAIN:
                pass
            return taken
        finally:
            if is_up:
                shield_down()

    def _one(self, consumer: str, duration: int, level: int, part: Range | None, is_idle: bool) -> Taken | None:
        """`one` but for the shield; it does what `many` does, with fewer calls. _AGAIN: to be asked once more."""
        p = self._p
        with p.lock:
            order: Order | None = None
            if part is None:
                now = p.enter_unflushed()
            else:
                now, order = enter_in(p, part)
            state = p.state
            if state.is_paused:
                return None
            slow_from = p.settings.slow_from
            row: Row | None = None
            effect: fx.Claim | None = None
            passed = 0
            try:
                while row is None:
                    if state.pending:
                        row = state.take_pending(now, slow_from)
                    if row is None:
                        if state.pending or state.lent:
                            p.flush()
                        row = state.take_one(now, slow_from, order)
                        if row is None and is_idle:
                            row = state.take_one(now, 256, order)
                        if row is None:
                            self._counts["empty"] += 1
                            return None
                    if row[2] and row[2] <= now:  # its expiration
                        row = None  # left to the timers (timers Y2)
                        p.flush()
                        passed += 1
                        if passed == PASS_MAX:
                            again: Taken = _AGAIN
                            return again
                    elif state.leases.expired_rows:
                        row = state.counted(row)
                deadline = now + duration
                items = [row[0], row[8], row[5] + 1, row[6]]  # primary, key, version, timeouts
                effect = _new(fx.Claim, (consumer, now, deadline, p.take_tokens(1), items))
                offset = p.append(effect, 1, now, level, is_essential=True)
            except BaseException as e:
                self._not_lent([] if row is None or effect is None else [row], e)
                raise
            try:
                held = state.claim_one(effect, row, offset)
            except LmdbError as e:
                raise p.misapplied(e) from e
            p.applied(offset, 1, now, level)
            late = self._lateness.fresh
            late.append(now - unpack_place(row[0])[1])
            if len(late) > FRESH_MAX:
                self._lateness.sort_in()
            if deadline < p.timer_at:
                p.timer_soon(deadline)
            settle_at = offset if level == FULL else -1
            if p.log.synced < p.full_requested and p.must_settle(row.at):
                settle_at = max(settle_at, row.at)
        if settle_at >= 0:
            p.settle(settle_at)
        return held, row[9], row[1]

    def many(
        self,
        n: int,
        consumer: str,
        lease_ms: int | None,
        durability: str | None,
        buckets: Range | None,
        fits: Fits | None = None,
    ) -> list[Taken]:
        """Up to `n` due entries, as many as fit; slow ones (`slow_from`) only when there are no others."""
        p = self._p
        part, duration = self.part(buckets), p.lease_time(lease_ms)
        level = p.claim_level if durability is None and p.is_writable else p.level_of(durability, p.claim_level)
        with SHIELD:
            while True:
                with p.lock:
                    rows, held, settle_at = self._many(n, consumer, duration, level, part, fits)
                    is_again = not rows and self._passed >= PASS_MAX
                if not is_again:
                    break
            p.settle(settle_at)
        return [(each, row[9], row[1]) for each, row in zip(held, rows, strict=True)]

    def _many(
        self, n: int, consumer: str, duration: int, level: int, part: Range | None, fits: Fits | None
    ) -> tuple[list[Row], list[Held], int]:
        """Under the lock: entries, their leases, and the offset that both rest on."""
        p = self._p
        now, order = (p.enter(), p.state.order) if part is None else enter_in(p, part)
        state = p.state
        self._passed = 0
        if state.is_paused:
            return [], [], -1
        take, slow_from = self._take if fits is None else self._take_fitting, p.settings.slow_from
        rows: list[Row] = []
        try:
            rows = take(order, n, now, slow_from, fits)
            if not rows and self._passed < PASS_MAX:
                rows = take(order, n, now, 256, fits)
            if not rows:
                if self._passed < PASS_MAX:
                    self._counts["empty"] += 1
                return [], [], -1
            held, settle_at = self._lend(rows, consumer, now, now + duration, level)
        except BaseException as e:
            self._not_lent(rows, e)
            raise
        return rows, held, settle_at

    def _take(
        self,
        order: Order,
        n: int,
        now: int,
        below: int,
        fits: Fits | None,
        aside: list[tuple[bytes, bytes]] | None = None,
    ) -> list[Row]:
        """
        Up to `n` due entries, taken out of an order; fewer when it has passed over PASS_MAX that have expired. What fits into no reply
        goes to `aside`.
        """
        state = self._p.state
        rows: list[Row] = []
        while len(rows) < n and self._passed < PASS_MAX:
            items = state.take(order, n - len(rows), now, below)
            if not items:
                break
            for primary, value in items:
                if fits is not None and aside is not None and len(value) > fits.value_max:
                    aside.append((primary, value))
                    continue
                row = state.row(primary, value)
                if row.expiration and row.expiration <= now:
                    self._passed += 1  # left to the timers (timers Y2)
                else:
                    rows.append(state.counted(row) if state.leases.expired_rows else row)
        return rows

    def _take_fitting(self, order: Order, n: int, now: int, below: int, fits: Fits | None) -> list[Row]:
        """The same, as many as fit into a reply together; what fits into none is passed over and stays where it was."""
        assert fits is not None
        state = self._p.state
        rows: list[Row] = []
        aside: list[tuple[bytes, bytes]] = []
        used, step = 0, STEP
        while used < fits.room and len(rows) < n:
            step = min(step, n - len(rows))
            found = self._take(order, step, now, below, fits, aside)
            rows += found
            used += sum(map(fits.size, found))
            if len(found) < step:
                break
            step = max(1, (fits.room - used) * len(rows) // used)
        while used > fits.room and len(rows) > 1:
            row = rows.pop()
            used -= fits.size(row)
            state.order.returned(row.primary, len(state.leases))
        for primary, _ in aside:
            state.order.returned(primary, len(state.leases))
        fits.passed_over(
            [(primary, state.row(primary, value) if fits.is_new(primary) else None) for primary, value in aside]
        )
        return rows

    def _lend(self, rows: list[Row], consumer: str, start: int, deadline: int, level: int) -> tuple[list[Held], int]:
        """Write the leases of entries, and give the offset that both rest on, -1 for none; under the lock."""
        p = self._p
        state = p.state
        items: list[Any] = []
        for primary, _, _, _, _, version, timeouts, _, key, _ in rows:
            items += (primary, key, version + 1, timeouts)
        effect = _new(fx.Claim, (consumer, start, deadline, p.take_tokens(len(rows)), items))
        held: list[Held] = []
        offset = p.write(
            effect, len(rows), start, level, lambda at: held.extend(state.claim(effect, at, rows)), is_essential=True
        )
        self._lateness.add_all([start - unpack_place(row[0])[1] for row in rows])
        p.timer_soon(deadline)
        settle_at = offset + len(rows) - 1 if level == FULL else -1
        return held, max(settle_at, p.last_unsettled(row.at for row in rows))

    def _not_lent(self, rows: list[Row], error: BaseException) -> None:
        """
        Entries that were taken out of the order have no lease. When the record was refused they go back; after anything else, e.g. an
        interrupt, they may be lost there.
        """
        p = self._p
        state = p.state
        if not rows or p.is_broken or not isinstance(error, JournalError):
            p.mark_broken()
            return
        for row in rows:
            state.order.returned(row.primary, len(state.leases))

    def by_key(self, asked: ClaimKeyRequest) -> Taken:
        """The entry with this key, which is due, whatever comes before it."""
        p, key = self._p, asked.key
        raw, duration = key_bytes(key), p.lease_time(asked.lease)
        level = p.level_of(asked.durability, p.claim_level)
        with p.lock:
            now = p.enter()
            state = p.state
            try:
                found = lifecycle.claimable(find(p, key, raw, now), key, asked.version, now)
                if state.is_paused:
                    raise Paused(f"the journal {p.name} is paused: claim when it is resumed")
            except Refused:
                self._counts["refused"] += 1
                raise
            row = state.counted(state.entry(found.primary))  # with its dates as stored
            (held,), settle_at = self._lend([row], asked.consumer, now, now + duration, level)
        p.settle(settle_at)
        return held, row.data, row.insertion

    def of_token(self, token: int, caller: Caller) -> Taken:
        """The active lease of a token, as it is now."""
        p = self._p
        with p.lock:
            held = active_lease(p, token, p.enter(), caller)
            row = p.state.entry(held.primary)
            settle_at = p.last_unsettled([row.at])
        p.settle(settle_at)
        return held, row.data, row.insertion

    def active(self, consumer: str | None) -> list[Taken]:
        """The active leases, of one consumer or of all, by deadline."""
        p = self._p
        with p.lock:
            now = p.enter()
            state = p.state
            found = state.leases.by_token.values() if consumer is None else state.leases.of(consumer)
            held = [each for each in found if each.deadline > now]
            held.sort(key=lambda h: (h.deadline, h.token))
            rows = [state.entry(each.primary) for each in held]
        return [(each, row.data, row.insertion) for each, row in zip(held, rows, strict=True)]

    @property
    def is_indexed(self) -> bool:
        """Whether claims by buckets can go ahead at once; a look without the lock."""
        return is_complete(self._p.state.generations)

    def index(self, buckets: Range) -> None:
        """Make the index by bucket, for claims to come."""
        p = self._p
        part = part_of(buckets, p.settings)
        p.level_of(None, p.claim_level)
        if part is not None:
            with SHIELD, p.lock:
                enter_in(p, part)


_AGAIN: Any = object()
"""A claim has passed over many expired entries and leaves the lock for a moment (timers Y2)."""


def active_lease(p: WorkPath, token: int, now: int, caller: Caller, counts: dict[str, int] | None = None) -> Held:
    """The active lease of a token, which the caller may act on; `counts`: where one that has expired is counted. Under the lock."""
    number = token_of(token)
    held = p.state.leases.by_token.get(number)
    if counts is not None and (held is None or held.deadline <= now):
        counts["lease_lost"] += 1
    lifecycle.check_lease(number, None if held is None else held.token, 0 if held is None else held.deadline, now)
    assert held is not None
    if caller.check is not None:
        caller.check(held)
    return held
