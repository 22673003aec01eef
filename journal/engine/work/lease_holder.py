"""What the holder of a lease may do with it, but finish it: extend it, release it, or bury its entry."""

from __future__ import annotations

from collections.abc import Callable

from journal.core import lifecycle
from journal.core.entry import effects as fx
from journal.core.requests.consume import BuryRequest, ExtendRequest, ReleaseRequest
from journal.engine.caller import Caller
from journal.engine.handlers import handles
from journal.engine.log.durability import FULL
from journal.engine.work.claim import active_lease
from journal.engine.work.path import WorkPath


@handles(ExtendRequest)
def extend(p: WorkPath, asked: ExtendRequest, caller: Caller) -> tuple[int, int]:
    """More time, from now on, never less than it has; the deadline and the version."""
    with p.lock:
        now = p.enter()
        counts = p.tally.extend
        held = active_lease(p, asked.token, now, caller, counts)
        deadline = max(held.deadline, now + p.lease_time(asked.lease))
        effect = fx.Extend(held.primary, held.key, held.token, deadline, held.version + 1)
        offset = p.write(effect, 1, now, p.claim_level, is_essential=True)
        p.timer_soon(deadline)
        counts["extended"] += 1
    if p.claim_level == FULL:
        p.settle(offset)
    return deadline, effect.version


@handles(ReleaseRequest)
def release(p: WorkPath, asked: ReleaseRequest, caller: Caller) -> None:
    """Give a lease back: the entry waits again."""

    def decide(holding: lifecycle.Holding, now: int, offset: int) -> fx.Effect:
        at = asked.process_date if asked.delay is None else max(now + asked.delay, holding.row.insertion)
        return lifecycle.release(holding, at, now, offset, p.settings, priority=asked.priority, is_failure=asked.failed)

    _end(p, asked, decide, p.tally.release, "failed" if asked.failed else "released", caller)


@handles(BuryRequest)
def bury(p: WorkPath, asked: BuryRequest, caller: Caller) -> None:
    """Give an entry up: it is kept apart."""

    def decide(holding: lifecycle.Holding, now: int, offset: int) -> fx.Effect:
        return lifecycle.bury(holding, asked.reason, now, offset)

    _end(p, asked, decide, p.tally.bury, "buried", caller)


def _end(
    p: WorkPath,
    asked: ReleaseRequest | BuryRequest,
    decide: Callable[[lifecycle.Holding, int, int], fx.Effect],
    counts: dict[str, int],
    outcome: str,
    caller: Caller,
) -> None:
    level = p.level_of(asked.durability, p.level)

    def make() -> tuple[None, int]:
        now = p.enter()
        held = active_lease(p, asked.token, now, caller, counts)
        effect = decide(p.state.holding(held), now, p.next_offset)
        at = p.write(effect, 1, now, level, is_essential=True)
        counts[outcome] += 1
        return None, at

    p.change(level, make)
