"""What the holder of a lease may do with it, but finish it: extend it, release it, or bury its entry."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from journal.core import lifecycle
from journal.core.entry import effects as fx
from journal.core.requests.consume import BuryRequest, ExtendRequest, ReleaseRequest
from journal.engine.caller import Caller
from journal.engine.log.durability import FULL
from journal.engine.pipeline import Pipeline
from journal.engine.state.leases import Held
from journal.engine.work.claim import active_lease
from journal.errors import Invalid

Decide = Callable[[Held, int, int], fx.Effect]
"""How a lease ends: from the lease, now, and the offset of the record to come."""


def extend(p: Pipeline, asked: ExtendRequest, caller: Caller) -> tuple[int, int]:
    """More time, from now on, never less than it has; the deadline and the version."""
    duration = p.settings.processing_timeout if asked.lease is None else asked.lease
    with p.lock:
        now = p.enter()
        held = active_lease(p, asked.token, now, caller, p.tally.extend)
        deadline = max(held.deadline, now + duration)
        effect = fx.Extend(held.primary, held.key, held.token, deadline, held.version + 1)
        offset = p.write(effect, 1, now, p.claim_level, partial(p.state.apply, effect), is_essential=True)
        p.timer_soon(deadline)
        p.tally.extend["extended"] += 1
    if p.claim_level == FULL:
        p.settle(offset)
    return deadline, effect.version


def release(p: Pipeline, asked: ReleaseRequest, caller: Caller) -> None:
    """Give a lease back: the entry waits again."""
    if asked.process_date is not None and asked.delay is not None:
        raise Invalid("give process_date or delay, not both")

    def decide(held: Held, now: int, offset: int) -> fx.Effect:
        holding = p.state.holding(held)
        at = asked.process_date if asked.delay is None else max(now + asked.delay, holding.row.insertion)
        return lifecycle.release(holding, at, now, offset, p.settings, priority=asked.priority, is_failure=asked.failed)

    _end(p, asked.token, decide, asked.durability, p.tally.release, "failed" if asked.failed else "released", caller)


def bury(p: Pipeline, asked: BuryRequest, caller: Caller) -> None:
    """Give an entry up: it is kept apart."""

    def decide(held: Held, now: int, offset: int) -> fx.Effect:
        return lifecycle.bury(p.state.holding(held), asked.reason, now, offset)

    _end(p, asked.token, decide, asked.durability, p.tally.bury, "buried", caller)


def _end(
    p: Pipeline,
    token: int,
    decide: Decide,
    durability: str | None,
    counts: dict[str, int],
    outcome: str,
    caller: Caller,
) -> None:
    level = p.level_of(durability, p.level)

    def make() -> tuple[None, int]:
        now = p.enter()
        effect = decide(active_lease(p, token, now, caller, counts), now, p.log.next_offset)
        at = p.write(effect, 1, now, level, partial(p.state.apply, effect), is_essential=True)
        counts[outcome] += 1
        return None, at

    p.change(level, make)
