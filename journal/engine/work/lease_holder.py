"""
What the holder of a lease may do with it, but finish it: extend it, release it, or bury its entry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from journal.core import lifecycle
from journal.core.entry import effects as fx
from journal.core.times import DateLike, DurationLike, date_ms, duration_ms
from journal.engine.arguments import check_priority, lease_ms, reason_text
from journal.engine.log.durability import FULL
from journal.engine.state.leases import Held
from journal.engine.work.lease import Lease
from journal.engine.work.lookup import Side
from journal.errors import Invalid
from journal.shield import shielded

Decide = Callable[[Held, int, int], fx.Effect]
"""How a lease ends: from the lease, now, and the offset of the record to come."""


def token_of(lease: Lease | int) -> int:
    """The token of a lease, or a token."""
    if type(lease) is int:
        return lease
    if isinstance(lease, Lease):
        return lease.token
    raise Invalid(f"expected a Lease or its token (an int), not {lease!r}")


@shielded
class Holders(Side):
    """The verbs of lease holders."""

    def _held(self, token: int | Lease, now: int, counts: dict[str, int] | None = None) -> Held:
        """The active lease of a token; `counts`: where one that is lost is counted."""
        number = token_of(token)
        held = self._p.state.leases.by_token.get(number)
        if counts is not None and (held is None or held.deadline <= now):
            counts["lease_lost"] += 1
        lifecycle.check_lease(number, None if held is None else held.token, 0 if held is None else held.deadline, now)
        assert held is not None
        return held

    def extend(self, token: int | Lease, lease: DurationLike | None = None) -> int:
        """Extend a lease, from now on (never to less than it has); the new deadline."""
        return self._extend(token, lease)[0]

    def _extend(self, token: int | Lease, lease: DurationLike | None) -> tuple[int, int]:
        p = self._p
        duration = p.settings.processing_timeout if lease is None else lease_ms(lease)
        with p.lock:
            now = p.enter()
            held = self._held(token, now, p.tally.extend)
            deadline = max(held.deadline, now + duration)
            effect = fx.Extend(held.primary, held.key, held.token, deadline, held.version + 1)
            offset = p.write(effect, 1, now, p.claim_level, partial(p.state.apply, effect), is_essential=True)
            p.timer_soon(deadline)
            p.tally.extend["extended"] += 1
        if p.claim_level == FULL:
            p.settle(offset)
        return deadline, effect.version

    def release(
        self,
        token: int | Lease,
        *,
        delay: DurationLike | None = None,
        process_date: DateLike | None = None,
        priority: int | None = None,
        failed: bool = False,
        durability: str | None = None,
    ) -> None:
        """
        Give a lease back: the entry waits again, now, after a delay, or at a date; with its priority, or another one.

        `failed`: the work was tried and came to nothing; that raises `timeouts` of the entry, as a lost lease does.
        """
        if process_date is not None and delay is not None:
            raise Invalid("give process_date or delay, not both")
        date = None if process_date is None else date_ms(process_date, "process_date")
        later = None if delay is None else duration_ms(delay, "delay")
        if priority is not None:
            check_priority(priority)

        def decide(held: Held, now: int, offset: int) -> fx.Effect:
            holding = self._p.state.holding(held)
            at = date if later is None else max(now + later, holding.row.insertion)
            return lifecycle.release(holding, at, now, offset, self._p.settings, priority=priority, is_failure=failed)

        self._end(token, decide, durability, self._p.tally.release, "failed" if failed else "released")

    def bury(self, token: int | Lease, reason: str = "", *, durability: str | None = None) -> None:
        """Give an entry up: it is kept apart until it is retried or discarded."""
        reason_text(reason)
        self._end(
            token,
            lambda held, now, offset: lifecycle.bury(self._p.state.holding(held), reason, now, offset),
            durability,
            self._p.tally.bury,
            "buried",
        )

    def _end(
        self, token: int | Lease, decide: Decide, durability: str | None, counts: dict[str, int], outcome: str
    ) -> None:
        p = self._p
        level = p.level_of(durability, p.level)

        def make() -> tuple[None, int]:
            now = p.enter()
            effect = decide(self._held(token, now, counts), now, p.log.next_offset)
            at = p.write(effect, 1, now, level, partial(p.state.apply, effect), is_essential=True)
            counts[outcome] += 1
            return None, at

        p.change(level, make)
