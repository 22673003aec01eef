"""
The consuming side of a journal: claim and done. What else a holder does is in journal.engine.work.lease_holder, work in
journal.engine.work.worker.

What a consumer is handed never rests on a record that could still vanish: a claim of an entry whose writer still waits for
its sync waits for it too. A claim itself is answered once its record is in the OS, unless more was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from journal.core import lifecycle
from journal.core.buckets import Range
from journal.core.entry import effects as fx
from journal.core.entry.keys import unpack_place
from journal.core.entry.rows import Row
from journal.core.histogram import FRESH_MAX
from journal.core.limits import GROUP_MAX
from journal.core.times import DurationLike
from journal.core.values import Put, PutResult
from journal.engine.arguments import consumer_name, lease_ms, listed, part_of
from journal.engine.files.lmdb import LmdbError
from journal.engine.log.durability import FULL
from journal.engine.log.group_commit import Kind
from journal.engine.pipeline import Pipeline
from journal.engine.runtime.timed_steps import PASS_MAX, PASSED
from journal.engine.state.leases import Held
from journal.engine.state.order import Order
from journal.engine.work.bucket_index_build import enter_in
from journal.engine.work.lease import Lease
from journal.engine.work.lease_holder import Holders, token_of
from journal.engine.work.range_claim import claim_one_in
from journal.engine.work.recurrence import done_with
from journal.errors import Invalid, JournalError, Refused
from journal.shield import SHIELD, exposed, shield_down, shield_up, shielded

_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function


@shielded
class Consuming(Holders):
    """The verbs of consumers."""

    _consumer = ""
    """The last name that was checked."""
    _part: Range | None = None
    """The last range that was checked, and is not all buckets."""
    _passed = 0
    """Expired entries over which the claim that is being made has passed."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline)
        self._made: Callable[[Consuming, Held, Row], Lease] = Lease
        """What claims hand out."""

    @exposed
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

        Priorities from `slow_from` on come only when nothing else is due. With `buckets`: the next one of these.
        """
        if buckets is not None:
            if buckets is not self._part:
                part = part_of(buckets, self._p.settings)
                if part is None:
                    return self.claim(consumer=consumer, lease=lease, durability=durability)
                self._part = part
            with SHIELD:
                while (taken := claim_one_in(self, buckets, consumer, lease, durability, is_idle=True)) is PASSED:
                    pass
            return taken
        is_up = shield_up()
        try:
            while (taken := self._claim_one(consumer, lease, durability, is_idle=True)) is PASSED:
                pass
            return taken
        finally:
            if is_up:
                shield_down()

    def claim_many(
        self,
        n: int,
        *,
        consumer: str = "",
        lease: DurationLike | None = None,
        durability: str | None = None,
        buckets: Range | None = None,
    ) -> list[Lease]:
        """Take up to `n` entries at once; slow ones (`slow_from`) only when there are no others."""
        if type(n) is not int or not 1 <= n <= GROUP_MAX:
            raise Invalid(f"claim_many takes 1 to {GROUP_MAX} entries, not {n!r}")
        part = part_of(buckets, self._p.settings)
        while (taken := self._claim(n, consumer, lease, durability, part)) is PASSED:
            pass
        return taken

    def _claim_one(
        self, consumer: str, lease: DurationLike | None, durability: str | None, *, is_idle: bool
    ) -> Lease | None:
        """The next due entry; what `_claim` does for many. PASSED: to be asked again (timed_steps)."""
        p = self._p
        if consumer != self._consumer:
            self._consumer = consumer_name(consumer)
        duration = p.settings.processing_timeout if lease is None else lease_ms(lease)
        level = p.claim_level if durability is None and p.is_writable else p.level_of(durability, p.claim_level)
        with p.lock:
            now = p.enter_unflushed()
            state = p.state
            if state.is_paused:
                return None
            slow_from = p.settings.slow_from
            row: Row | None = None
            passed = 0
            while row is None:
                # Until the lease is written, an interrupt or an error would lose what was taken out of the order.
                p.is_broken = True
                if state.pending:
                    row = state.take_pending(now, slow_from)
                if row is None:
                    if state.pending or state.lent:
                        p.flush()
                        p.is_broken = True
                    row = state.take_one(now, slow_from) or (state.take_one(now, 256) if is_idle else None)
                if row is None:
                    p.is_broken = False
                    p.tally.claim["empty"] += 1
                    return None
                if row.expiration and row.expiration <= now:
                    row = None  # left to the timers (timers Y2)
                    p.flush()
                    passed += 1
                    if passed == PASS_MAX:
                        again: Lease | None = PASSED
                        return again
                elif state.leases.worn:
                    row = state.counted(row)
            deadline = now + duration
            items = [row[0], row[8], row[5] + 1, row[6]]  # primary, key, version, timeouts
            effect = _new(fx.Claim, (consumer, now, deadline, p.next_token, items))
            p.next_token += 1  # before the record: an interrupt may waste a token, never use one twice
            try:
                offset = p.append(effect, 1, now, level, is_essential=True)
            except JournalError:
                if not p.is_broken:  # refused: the entry goes back into the order
                    state.order.returned(row.primary, len(state.leases))
                raise
            try:
                held = state.claim_one(effect, row, offset)
            except LmdbError as e:
                raise p.misapplied(e) from e
            p.applied(offset, 1, now, level)
            late = p.tally.lateness.fresh
            late.append(now - unpack_place(row[0])[1])
            if len(late) > FRESH_MAX:
                p.tally.lateness.sort_in()
            if deadline < p.timer_at:
                p.timer_soon(deadline)
            settle_at = offset if level == FULL else -1
            if p.log.synced < p.full_requested and p.must_settle(row.at):
                settle_at = max(settle_at, row.at)
        if settle_at >= 0:
            p.settle(settle_at)
        made = self._made
        return made(self, held, row)

    def _claim(
        self,
        n: int,
        consumer: str,
        lease: DurationLike | None,
        durability: str | None,
        part: Range | None,
    ) -> list[Lease]:
        p = self._p
        if consumer != self._consumer:
            self._consumer = consumer_name(consumer)
        duration = p.settings.processing_timeout if lease is None else lease_ms(lease)
        level = p.claim_level if durability is None and p.is_writable else p.level_of(durability, p.claim_level)
        with p.lock:
            now, order = (p.enter(), p.state.order) if part is None else enter_in(p, part)
            if p.state.is_paused:
                return []
            self._passed = 0
            rows = self._take(order, n, now, p.settings.slow_from)
            if not rows and self._passed < PASS_MAX:
                rows = self._take(order, n, now, 256)
            if not rows:
                if self._passed >= PASS_MAX:
                    return PASSED  # type: ignore[no-any-return]
                p.tally.claim["empty"] += 1
                return []
            held, offset = self._lend(rows, consumer, now, now + duration, level)
            settle_at = offset + len(held) - 1 if level == FULL else -1
            if p.log.synced < p.full_requested:
                settle_at = max([settle_at, *(row.at for row in rows if p.must_settle(row.at))])
        if settle_at >= 0:
            p.settle(settle_at)
        made = self._made
        return [made(self, h, row) for h, row in zip(held, rows, strict=True)]

    def _take(self, order: Order, n: int, now: int, below: int) -> list[Row]:
        """Up to `n` due entries, taken out of an order; fewer when it has passed over PASS_MAX that have expired."""
        p = self._p
        rows: list[Row] = []
        while len(rows) < n and self._passed < PASS_MAX:
            # Until their leases are written, an interrupt or an error would lose what was taken out of the order.
            p.is_broken = True
            items = p.state.take(order, n - len(rows), now, below)
            if not items:
                break
            rows += self._taken(items, now)
        p.is_broken = bool(rows)
        return rows

    def _taken(self, items: list[tuple[bytes, bytes]], now: int) -> list[Row]:
        """The rows of what was taken out of an order, as stored; without those that have expired."""
        p = self._p
        state = p.state
        rows: list[Row] = []
        for primary, value in items:
            row = state.row(primary, value)
            if row.expiration and row.expiration <= now:
                self._passed += 1  # left to the timers (timers Y2)
            else:
                rows.append(state.counted(row) if state.leases.worn else row)
        return rows

    def _lend(self, rows: list[Row], consumer: str, start: int, deadline: int, level: int) -> tuple[list[Held], int]:
        p = self._p
        items: list[Any] = []
        for primary, _, _, _, _, version, timeouts, _, key, _ in rows:
            items += (primary, key, version + 1, timeouts)
        effect = _new(fx.Claim, (consumer, start, deadline, p.next_token, items))
        p.next_token += len(rows)  # before the record: an interrupt may waste tokens, never use one twice
        held: list[Held] = []
        try:
            offset = p.write(
                effect,
                len(rows),
                start,
                level,
                lambda at: held.extend(p.state.claim(effect, at, rows)),
                is_essential=True,
            )
        except JournalError:
            if not p.is_broken:  # refused: the entries go back into the order
                for row in rows:
                    p.state.order.returned(row.primary, len(p.state.leases))
            raise
        p.tally.lateness.add_all([start - unpack_place(row[0])[1] for row in rows])
        if deadline < p.timer_at:
            p.timer_soon(deadline)
        return held, offset

    @exposed
    def done(self, token: int | Lease, *, next: Put | None = None, durability: str | None = None) -> PutResult | None:
        """
        The work under a lease is finished: its entry goes. Repeating it succeeds and changes nothing.

        With `next`, a journal.Put of the same key or of another one, both are one change, and the result is that of the put
        ("repeated" when the lease was finished before). A put that is refused refuses the whole: the lease goes on.
        """
        number = token if type(token) is int else token_of(token)
        if next is not None:
            with SHIELD:
                (result,) = done_with(self, [number], [next], durability)
            if isinstance(result, JournalError):
                raise result
            return result
        p = self._p
        level = p.level if durability is None and p.is_writable else p.level_of(durability, p.level)
        is_up = shield_up()
        try:
            if level == FULL and p.commit.io.locked():
                return p.change(level, self._done, number, level, kind=Kind.SHORT)
            with p.lock:  # the same, without a call for each step
                _, at = self._done(number, level)
            if level == FULL and p.log.synced < at:
                p.settle(at)
            return None
        finally:
            if is_up:
                shield_down()

    def _done(self, token: int, level: int) -> tuple[None, int]:
        """Under the lock."""
        p = self._p
        now = p.enter_unflushed()
        leases = p.state.leases
        held = leases.by_token.get(token)
        if held is None and token in p.state.finished.tokens:
            p.tally.done["repeated"] += 1
            return None, p.log.next_offset - 1
        items = self._done_items(token, held, now, p.log.next_offset)
        offset = p.append(_new(fx.Done, (items,)), 1, now, level, is_essential=True)
        try:
            p.state.done(items, offset)
        except LmdbError as e:
            raise p.misapplied(e) from e
        p.applied(offset, 1, now, level)
        took = p.tally.processing.fresh
        took.append(now - held.start)  # type: ignore[union-attr]  # it was not refused
        if len(took) > FRESH_MAX:
            p.tally.processing.sort_in()
        return None, offset

    @exposed
    def done_many(
        self,
        leases: Iterable[Lease | int],
        *,
        next: Iterable[Put | None] | None = None,
        durability: str | None = None,
    ) -> list[PutResult | JournalError | None]:
        """
        Finish many leases with one record; None or the error of each, in order.

        `next` has a journal.Put or None for each lease, as for `done`; then the list has the results of the puts, too.
        """
        tokens = [
            lease.token if type(lease) is Lease else token_of(lease)  # the usual one without a call
            for lease in listed(leases, "done_many")
        ]
        if len(tokens) > GROUP_MAX:
            raise Invalid(f"done_many takes up to {GROUP_MAX} leases, not {len(tokens)}")
        if next is not None:
            puts = listed(next, "next")
            with SHIELD:
                return done_with(self, tokens, puts, durability)
        p = self._p
        level = p.level_of(durability, p.level)

        def make() -> tuple[list[PutResult | JournalError | None], int]:
            now = p.enter()
            results: list[PutResult | JournalError | None] = []
            items: list[Any] = []
            seen: set[int] = set()
            by_token, finished = p.state.leases.by_token, p.state.finished.tokens
            first = p.log.next_offset
            for token in tokens:
                error: JournalError | None = None
                if token not in seen and token not in finished:
                    try:
                        items += self._done_items(token, by_token.get(token), now, first + len(items) // 5)
                        seen.add(token)
                    except Refused as e:
                        error = e
                else:
                    p.tally.done["repeated"] += 1
                results.append(error)
            if items:
                count = len(items) // 5
                took = [now - by_token[token].start for token in seen]
                p.write(fx.Done(items), count, now, level, lambda at: p.state.done(items, at), is_essential=True)
                p.tally.processing.add_all(took)
            return results, p.log.next_offset - 1

        with SHIELD:
            return p.change(level, make)

    def _done_items(self, token: int, held: Held | None, now: int, offset: int) -> list[Any]:
        if held is None or held.deadline <= now:
            self._p.tally.done["lease_lost"] += 1
            lifecycle.check_lease(
                token, None if held is None else held.token, 0 if held is None else held.deadline, now
            )
            raise AssertionError  # check_lease refused
        if held.has_successor:
            self._p.flush()
            return [held.primary, held.key, token, *lifecycle.promote(self._p.state.holding(held), offset)]
        return [held.primary, held.key, token, None, None]
