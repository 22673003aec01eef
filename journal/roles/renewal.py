"""
Renewal of the leases of a consumer, on the watch's thread: extends them, warns their holders, detects lost ones.

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
from journal.roles.held_lease import Taken

if TYPE_CHECKING:
    from journal.roles.consumer import Consumer

log = logging.getLogger("journal.consumer")


def tend(consumer: Consumer, now: int) -> int:
    """Do what is due for the leases of a consumer; when to come again."""
    with consumer._changed:
        due = [taken for taken in consumer._held.values() if taken.next_at <= now]
    try:
        for taken in due:
            _attend(consumer, taken, now)
    except (StoreClosed, StoreFailed, ForkedStore) as e:
        log.info("consumer_ended consumer=%s error=%s", consumer.name, e)
        consumer._store_gone()
        return NEVER
    with consumer._changed:
        is_silent_now = consumer.health.look(now, is_away=consumer._waiting == 0)
        dates = [taken.next_at for taken in consumer._held.values()]
        following = min([*dates, consumer.health.look_at])
    if is_silent_now:
        consumer._fall_silent()
    return following


def _attend(consumer: Consumer, taken: Taken, now: int) -> None:
    token = taken.lease.token
    if not consumer.holds(taken.lease):
        return  # answered meanwhile
    if taken.step is Step.EXTEND:
        _extend(consumer, taken, now)
    elif taken.step is Step.WARN:
        _warn(consumer, taken, now)
        with consumer._changed:
            taken.plan(consumer.care, now)
    else:
        deadline = consumer.ground.deadline_of(token)
        if deadline is None:
            _lose(consumer, taken, now)
        else:
            consumer._extended(token, deadline)


def _extend(consumer: Consumer, taken: Taken, now: int) -> None:
    """Give a lease more time, or try again soon."""
    care, lease = consumer.care, taken.lease
    wanted = care.extended(taken.start, taken.deadline, now)
    try:
        # At least a millisecond: a lease that has just ended is refused as lost, which is what it is.
        lease.deadline, lease.version = consumer.journal.extended(lease.token, max(wanted - now, 1))
    except LeaseLost:
        # Answered in this moment; or over, which is looked at like any other end.
        with consumer._changed:
            taken.step, taken.next_at = Step.END, min(taken.deadline, now + 1)
        return
    except (StoreClosed, StoreFailed, ForkedStore):
        raise
    except (StorageError, ConnectionLost, TimedOut) as e:  # no room, or no daemon: it may be there again in time
        log.warning("extension_failed consumer=%s key=%r error=%s", consumer.name, lease.key, e)
        if now >= taken.deadline - care.warn_ms:
            _warn(consumer, taken, now)
        with consumer._changed:
            taken.next_at = care.again(taken.deadline, now)
            if taken.next_at >= taken.deadline:
                taken.step = Step.END
        return
    consumer.extensions += 1
    consumer._extended(lease.token, lease.deadline)


def _warn(consumer: Consumer, taken: Taken, now: int) -> None:
    if taken.is_warned:
        return
    taken.is_warned = True
    if taken.is_handed:
        consumer._telling.tell(consumer.on_warning, taken.lease, max(0, taken.deadline - now))


def _lose(consumer: Consumer, taken: Taken, now: int) -> None:
    """A lease is over: tell its holder, unless it was finished by its token."""
    token = taken.lease.token
    if consumer.ground.is_finished(token):
        consumer._answered(token, "done")
        return
    with consumer._changed:
        if consumer._held.pop(token, None) is None:
            return
        consumer.lost += 1
        is_silent_now = taken.is_handed and consumer.health.lost(now)
        consumer._changed.notify_all()
    log.debug("lease_lost consumer=%s key=%r token=%d", consumer.name, taken.lease.key, token)
    if taken.is_handed:
        consumer._telling.tell(consumer.on_lost, taken.lease)
    if is_silent_now:
        consumer._fall_silent()
