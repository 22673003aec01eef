"""
A claim of one entry of a range of buckets: what `Consuming._claim_one` does over all, without what is pending.

The two are separate so that a claim over all buckets does not pay for a test of the range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.core.buckets import Range
from journal.core.entry.rows import Row
from journal.core.times import DurationLike
from journal.engine.arguments import consumer_name, lease_ms, part_of
from journal.engine.log.durability import FULL
from journal.engine.runtime.timed_steps import PASS_MAX, PASSED
from journal.engine.state.bucket_index import is_complete
from journal.engine.state.range_order import InRange
from journal.engine.work.bucket_index_build import enter_in
from journal.engine.work.lease import Lease
from journal.shield import whole

if TYPE_CHECKING:
    from journal.engine.work.claim import Consuming


def claim_one_in(
    side: Consuming,
    part: Range,
    consumer: str,
    lease: DurationLike | None,
    durability: str | None,
    *,
    is_idle: bool,
) -> Lease | None:
    """The next due entry of a range, under a lease; None when nothing is due; PASSED: to be asked again (timed_steps)."""
    p = side._p
    if consumer != side._consumer:
        side._consumer = consumer_name(consumer)
    duration = p.settings.processing_timeout if lease is None else lease_ms(lease)
    level = p.claim_level if durability is None and p.is_writable else p.level_of(durability, p.claim_level)
    with p.lock:
        now, order = enter_in(p, part)
        if p.state.is_paused:
            return None
        side._passed = 0
        row = _take(side, order, now, is_idle)
        if row is None:
            if side._passed >= PASS_MAX:
                return PASSED  # type: ignore[no-any-return]
            p.tally.claim["empty"] += 1
            return None
        (held,), offset = side._lend([row], consumer, now, now + duration, level)
        settle_at = offset if level == FULL else -1
        if p.log.synced < p.full_requested and p.must_settle(row.at):
            settle_at = max(settle_at, row.at)
    if settle_at >= 0:
        p.settle(settle_at)
    return side._made(side, held, row)


def _take(side: Consuming, order: InRange, now: int, is_idle: bool) -> Row | None:
    """The next due entry, taken out of its order; those that have expired are left to the timers (timers Y2)."""
    p = side._p
    state = p.state
    while True:
        # Until the lease is written, an interrupt or an error would lose what was taken out of the order.
        p.is_broken = True
        row = state.take_in(order, now, p.settings.slow_from) or (state.take_in(order, now, 256) if is_idle else None)
        if row is None:
            p.is_broken = False
        elif row.expiration and row.expiration <= now:
            side._passed += 1
            if side._passed < PASS_MAX:
                continue
            p.is_broken = False
            return None
        elif state.leases.worn:
            row = state.counted(row)
        return row


def is_indexed(side: Consuming) -> bool:
    """Whether claims by buckets can go ahead at once; a look without the lock."""
    return is_complete(side._p.state.generations)


@whole
def index(side: Consuming, buckets: Range) -> None:
    """Make the index by bucket, for claims to come."""
    p = side._p
    part = part_of(buckets, p.settings)
    p.level_of(None, p.claim_level)
    if part is not None:
        with p.lock:
            enter_in(p, part)
