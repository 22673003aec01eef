"""
Renewal of the leases of a consumer, on the renewal thread: extends them, warns their holders, detects lost ones.

It decides nothing: `journal.core.consumer.lease_renewal` decides what is due when, the engine decides whether a lease is still there, and
`journal.core.consumer.health` decides whether the consumer is silent.

I1  A lease is lost when the engine says so: at its deadline, also if its timer could not record that yet. It is reported once.
I2  An error of one lease does not stop the renewal of the others; a closed store ends it for all.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from journal.core.consumer.lease_renewal import Step
from journal.core.limits import NEVER
from journal.errors import ConnectionLost, ForkedStore, LeaseLost, StorageError, StoreClosed, StoreFailed, TimedOut
from journal.roles.held_lease import HeldLease

if TYPE_CHECKING:
    from journal.roles.prefetch import Prefetch

log = logging.getLogger("journal.consumer")


def renew(leases: Prefetch, now: int) -> int:
    """Do what is due for the leases of a consumer; when to come again."""
    with leases.changed:
        due = [held for held in leases.held.values() if held.next_at <= now]
    try:
        for held in due:
            _attend(leases, held, now)
    except (StoreClosed, StoreFailed, ForkedStore) as e:
        log.info("consumer_ended consumer=%s error=%s", leases.name, e)
        leases.store_gone()
        return NEVER
    with leases.changed:
        is_silent_now = leases.health.look(now, is_away=leases.waiting == 0)
        dates = [held.next_at for held in leases.held.values()]
        following = min([*dates, leases.health.look_at])
    if is_silent_now:
        leases.fall_silent()
    return following


def _attend(leases: Prefetch, held: HeldLease, now: int) -> None:
    token = held.lease.token
    if not leases.holds(held.lease):
        return  # answered meanwhile
    if held.step is Step.EXTEND:
        _extend(leases, held, now)
    elif held.step is Step.WARN:
        _warn(leases, held, now)
        with leases.changed:
            held.plan(leases.care, now)
    else:
        deadline = leases.ground.deadline_of(token)
        if deadline is None:
            _lose(leases, held, now)
        else:
            leases.deadline_moved(token, deadline)


def _extend(leases: Prefetch, held: HeldLease, now: int) -> None:
    """Give a lease more time, or try again soon."""
    care, lease = leases.care, held.lease
    wanted = care.extended(held.start, held.deadline, now)
    try:
        # At least a millisecond: a lease that has just ended is refused as lost, which is what it is.
        lease.deadline, lease.version = leases.journal.extended(lease.token, max(wanted - now, 1))
    except LeaseLost:
        # Answered in this moment; or over, which is looked at like any other end.
        with leases.changed:
            held.step, held.next_at = Step.END, min(held.deadline, now + 1)
        return
    except (StoreClosed, StoreFailed, ForkedStore):
        raise
    except (StorageError, ConnectionLost, TimedOut) as e:  # no room, or no daemon: it may be there again in time
        log.warning("extension_failed consumer=%s key=%r error=%s", leases.name, lease.key, e)
        if now >= held.deadline - care.warn_ms:
            _warn(leases, held, now)
        with leases.changed:
            held.next_at = care.again(held.deadline, now)
            if held.next_at >= held.deadline:
                held.step = Step.END
        return
    leases.extensions += 1
    leases.deadline_moved(lease.token, lease.deadline)


def _warn(leases: Prefetch, held: HeldLease, now: int) -> None:
    if held.is_warned:
        return
    held.is_warned = True
    if held.is_handed:
        leases.callbacks.add(leases.on_warning, held.lease, max(0, held.deadline - now))


def _lose(leases: Prefetch, held: HeldLease, now: int) -> None:
    """A lease is over: tell its holder, unless it was finished by its token."""
    token = held.lease.token
    if leases.ground.is_finished(token):
        leases.answered(token, "done")
        return
    with leases.changed:
        if leases.held.pop(token, None) is None:
            return
        leases.lost += 1
        is_silent_now = held.is_handed and leases.health.lost(now)
        leases.changed.notify_all()
    log.debug("lease_lost consumer=%s key=%r token=%d", leases.name, held.lease.key, token)
    if held.is_handed:
        leases.callbacks.add(leases.on_lost, held.lease)
    if is_silent_now:
        leases.fall_silent()
