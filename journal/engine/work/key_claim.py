"""
One entry that a consumer picks: a claim by key, and the lease of a token.

What is picked is under a lease like any other: it is not handed out meanwhile, and comes back when the lease is lost.
"""

from __future__ import annotations

from journal.core import lifecycle
from journal.core.entry.keys import UserKey, key_bytes
from journal.core.times import DurationLike
from journal.engine.arguments import consumer_name, lease_ms, version_number
from journal.engine.log.durability import FULL
from journal.engine.work.claim import Consuming
from journal.engine.work.lease import Lease
from journal.errors import Paused, Refused
from journal.shield import shielded


@shielded
class Picking(Consuming):
    """The verbs of consumers, and those that name an entry."""

    def claim_key(
        self,
        key: UserKey,
        *,
        version: int | None = None,
        consumer: str = "",
        lease: DurationLike | None = None,
        durability: str | None = None,
    ) -> Lease:
        """
        Take the entry with this key, which is due, under a lease, whatever comes before it in the order of work.

        NotFound, Leased (a consumer has it), VersionMismatch (it is not the version that was asked for), NotDue or Paused.
        """
        raw = key_bytes(key)
        consumer_name(consumer)
        version_number(version)
        p = self._p
        duration = p.settings.processing_timeout if lease is None else lease_ms(lease)
        level = p.level_of(durability, p.claim_level)
        with p.lock:
            now = p.enter()
            try:
                found = lifecycle.claimable(self._find(key, raw, now), key, version, now)
                if p.state.is_paused:
                    raise Paused(f"the journal {self.name} is paused: claim when it is resumed")
            except Refused:
                p.tally.claim["refused"] += 1
                raise
            row = p.state.counted(p.state.entry(found.primary))  # with its dates as stored
            (held,), offset = self._lend([row], consumer, now, now + duration, level)
            settle_at = max(offset if level == FULL else -1, row.at if p.must_settle(row.at) else -1)
        if settle_at >= 0:
            p.settle(settle_at)
        return self._made(self, held, row)

    def lease(self, token: int | Lease) -> Lease:
        """The active lease of a token, as it is now, with what it is about; LeaseLost when it is not active any more."""
        p = self._p
        with p.lock:
            held = self._held(token, p.enter())
            row = p.state.entry(held.primary)
            must_settle = p.must_settle(row.at)
        if must_settle:
            p.settle(row.at)
        return self._made(self, held, row)
