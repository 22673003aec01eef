"""
How a consumer gets its leases: claimed as there is room, kept in the order of work, handed to the threads that ask.

    engine ──claim──► held, ahead ──take──► held, handed out ──answer──► (not ours any more)

One thread at a time claims for all threads that ask; when nothing is due it sleeps on the engine's timer, and the others wait for it.

A1  A lease is held from its claim until it is answered or lost; `prefetch` bounds how many are.
A2  What is held ahead is handed out in the order of work, those of before a restart first.
A3  More is claimed ahead when half of it is used up, so that many come with one record and what is urgent does not wait for all of them.
A4  `_looks` changes whenever there is a reason to look around, and then the ground wakes the sleeping thread: it misses no reason.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from heapq import heappop, heappush
from time import monotonic
from typing import TYPE_CHECKING, Any

from journal.api.backend import Ground
from journal.api.lease import Lease, answer_through
from journal.core.buckets import Range
from journal.core.consumer.health import Health
from journal.core.consumer.lease_renewal import Care
from journal.core.limits import NEVER
from journal.core.times import DurationLike
from journal.core.values import Put, PutResult
from journal.errors import ConnectionLost, LeaseLost, Refused, StoreClosed, TimedOut
from journal.roles.bucket_assignment import assignment_of
from journal.roles.callbacks import CallbackQueue
from journal.roles.held_lease import HeldLease
from journal.roles.renewal import renew
from journal.roles.renewal_thread import renewal_thread
from journal.shield import SHIELD, give_way, look_up_s

if TYPE_CHECKING:
    from journal.api.journal import Journal

log = logging.getLogger("journal.consumer")


class Prefetch:
    """
    The leases of a consumer.

    It is what these leases call in place of their journal, so it records each answer. It does not refer to the consumer: a consumer
    that the program drops is freed, also while some of its leases are in use.
    """

    def __init__(
        self,
        journal: Journal,
        ground: Ground,
        name: str,
        care: Care,
        health: Health,
        held_max: int,
        *,
        buckets: Range | None,
        is_dealt: bool,
        on_warning: Callable[[Lease, int], object] | None,
        on_lost: Callable[[Lease], object] | None,
    ) -> None:
        self.journal = journal
        self.ground = ground
        self.name = name
        self.care = care
        self.health = health
        self.time = ground.time
        self.on_warning = on_warning
        self.on_lost = on_lost
        self.armed_at = NEVER
        """For the renewal thread."""
        self.counts = {"handed": 0, "done": 0, "released": 0, "buried": 0}
        self.extensions = self.lost = 0
        self.buckets = buckets
        self.subscription = 0
        """Raised by each subscription, and by its end: odd while there is one."""
        self.waiting = 0
        """Threads that ask for a lease."""
        self.changed = threading.Condition(threading.Lock())
        self.held: dict[int, HeldLease] = {}
        self.callbacks = CallbackQueue(name)
        weakref.finalize(self, self.callbacks.close).atexit = False
        self._held_max = held_max
        self._assignment = assignment_of(ground)
        self._is_dealt = is_dealt
        self._coming: list[tuple[bool, tuple[int, int, int], HeldLease]] = []
        """Claimed ahead (A2)."""
        self._looks = 0
        self._is_claiming = False
        self._is_closed = False
        self._is_over = False
        """The store is closed."""
        self._assignment.enter(self)

    def __repr__(self) -> str:
        return f"<leases of the consumer {self.name} of {self.journal.name}>"

    # -- subscription -------------------------------------------------------------------------------------------------

    @property
    def is_subscribed(self) -> bool:
        """Whether there is a subscription."""
        return self.subscription % 2 == 1

    def subscribe(self, back: list[Lease], *, is_served: bool) -> None:
        """Begin to claim. `back`: leases of before a restart; `is_served`: a thread of its own serves the new subscription."""
        with self.changed:
            if self._is_closed:
                raise Refused(f"the consumer {self.name!r} is closed: make another one")
            if self.is_subscribed and not self.health.is_silent:
                raise Refused(f"the consumer {self.name!r} is subscribed already: unsubscribe it first")
            self.health.begin()
            if not self.is_subscribed:
                self.subscription += 1
            elif is_served:
                self.subscription += 2  # the thread that served ends; without a handler, waiting threads go on
            back = [lease for lease in back if lease.token not in self.held]
            self.changed.notify_all()
        self._hold(back, is_back=True)
        if self._is_dealt:
            self._assignment.sit(self)

    def unsubscribe(self) -> None:
        """Claim no more, and give back what was not handed out."""
        with self.changed:
            if not self.is_subscribed:
                raise Refused(f"the consumer {self.name!r} is not subscribed")
            self.subscription += 1
            ahead = [held for _, _, held in self._coming if held.lease.token in self.held]
            self._coming.clear()
            self.changed.notify_all()
        self._assignment.rise(self)
        self._rouse()
        self._give_back(ahead)

    def finish(self, until: float) -> None:
        """Wait until all leases are answered, at most until a time of `monotonic`; then give the others back."""
        while True:
            give_way()
            with self.changed:
                left, rest = list(self.held.values()), until - monotonic()
                if not left or rest <= 0:
                    break
                self.changed.wait(look_up_s(rest))
        self._give_back(left)

    def begin_close(self) -> bool:
        """Refuse further subscriptions; False when that was done before."""
        with self.changed:
            was_closed, self._is_closed = self._is_closed, True
        return not was_closed

    def close(self) -> None:
        """Leave the consumers of the journal."""
        self._assignment.leave(self)
        if not self.held:
            renewal_thread(self.time).forget(self)
        self.ground.close(f"consumer {self.name}")
        self.callbacks.close()

    def store_gone(self) -> None:
        """The store is closed: leases are kept there for the next time, and all waiting threads return."""
        with self.changed:
            self._is_over = True
            self.held.clear()
            self._coming.clear()
            self.changed.notify_all()

    def begin_in_child(self) -> None:
        """After a fork: the thread that held a lock does not exist in the child, and the leases are the parent's."""
        self.changed = threading.Condition(threading.Lock())
        self.subscription += self.subscription % 2
        self._is_closed = True
        self.store_gone()

    # -- claims -------------------------------------------------------------------------------------------------------

    def take(self, mine: int, *, is_waiting: bool) -> Lease | None:
        """The next lease of a subscription; None when there is none, or the subscription has ended."""
        with SHIELD:
            with self.changed:
                self.waiting += 1
                self.health.asked()
            try:
                return self._next(mine, is_waiting=is_waiting)
            except StoreClosed:
                return None
            finally:
                with self.changed:
                    self.waiting -= 1

    def _next(self, mine: int, *, is_waiting: bool) -> Lease | None:
        is_looked = False
        while True:
            give_way()
            with self.changed:
                if mine != self.subscription or mine % 2 == 0 or self._is_over:
                    return None
                n = 0 if self._is_claiming or is_looked else self._wanted()
                if n == 0:
                    lease = self._pop()
                    if lease is not None or not is_waiting:
                        return lease
                    if self._is_claiming or self._wanted() == 0:
                        self.changed.wait(look_up_s())
                        is_looked = False
                        continue
                self._is_claiming = True
                looks, buckets = self._looks, self.buckets
            try:
                if n:
                    self._claim(n, buckets, mine)
                else:
                    self._assignment.sweep()
                    self.ground.sleep(buckets, partial(self._has_reason, looks))
                is_looked = n > 0
            except (ConnectionLost, TimedOut) as e:
                self.ground.recover(e)
            finally:
                with self.changed:
                    self._is_claiming = False
                    self.changed.notify_all()

    def _wanted(self) -> int:
        """How many leases to claim now (A1, A3)."""
        if self.health.is_silent or (self._is_dealt and self.buckets is None):
            return 0
        while self._coming and self._coming[0][2].lease.token not in self.held:
            heappop(self._coming)  # lost before its turn came
        room = self._held_max - len(self.held)
        if room > 0 and self._coming and 2 * room < self._held_max:
            # Slow work must not be in the way of what has come meanwhile.
            return room if self._coming[0][1][0] >= self.ground.settings.slow_from else 0
        return max(0, room)

    def _claim(self, n: int, buckets: Range | None, mine: int) -> None:
        options: dict[str, Any] = {} if buckets is None else {"buckets": buckets}
        if n == 1:
            lease = self.journal.claim(consumer=self.name, lease=self.care.lease_ms, **options)
            leases = [] if lease is None else [lease]
        else:
            leases = self.journal.claim_many(n, consumer=self.name, lease=self.care.lease_ms, **options)
        self._hold(leases, is_back=False)
        with self.changed:
            if mine == self.subscription or self.is_subscribed:
                return
            ahead = [self.held[lease.token] for lease in leases if lease.token in self.held]
        self._give_back(ahead)  # it was unsubscribed meanwhile, and these were not handed out

    def _hold(self, leases: list[Lease], *, is_back: bool) -> None:
        """Hold leases from now on."""
        if not leases:
            return
        now = self.time.running()
        soonest = NEVER
        with self.changed:
            for lease in leases:
                answer_through(lease, self)
                held = self.held[lease.token] = HeldLease(lease, self.time.running_at(lease.deadline), self.care, now)
                heappush(self._coming, (not is_back, held.rank, held))
                soonest = min(soonest, held.next_at)
            self.changed.notify_all()
        renewal_thread(self.time).at(self, soonest)

    def _pop(self) -> Lease | None:
        """The next of those that were claimed ahead; under the lock."""
        while self._coming:
            held = heappop(self._coming)[2]
            if held.lease.token in self.held:
                held.is_handed = True
                self.counts["handed"] += 1
                return held.lease
        return None

    def _give_back(self, leases: Iterable[HeldLease]) -> None:
        """Return entries to their place; their holders, if there are any, are refused from now on."""
        for held in leases:
            lease = held.lease
            try:
                self.journal.release(lease.token, process_date=lease.process_date)
            except LeaseLost as e:
                log.info("lease_over consumer=%s key=%r error=%s", self.name, lease.key, e)
            with self.changed:
                self.held.pop(lease.token, None)
                self.changed.notify_all()

    def _has_reason(self, looks: int) -> bool:
        return self._looks != looks

    def _rouse(self) -> None:
        """Wake the sleeping thread, so that it looks around."""
        self.ground.rouse(self._note)

    def _note(self) -> None:
        self._looks += 1

    def use(self, dealt: Range | None) -> None:
        """For the assignment of buckets: claim from these buckets from now on."""
        with self.changed:
            self.buckets = dealt
            self.changed.notify_all()
        self._rouse()

    # -- answers: the verbs of a lease --------------------------------------------------------------------------------

    def done(self, token: int, *, next: Put | None = None, durability: str | None = None) -> PutResult | None:
        """Finish the work."""
        try:
            result = self.journal.done(token, next=next, durability=durability)
        except LeaseLost:
            self.heard()
            raise
        self.answered(token, "done")
        return result

    def extended(self, token: int, lease: DurationLike | None = None) -> tuple[int, int]:
        """Extend the lease; by default for as long as the consumer's leases last."""
        try:
            deadline, version = self.journal.extended(token, self.care.lease_ms if lease is None else lease)
        except LeaseLost:
            self.heard()
            raise
        self.deadline_moved(token, deadline)
        self.heard(is_accepted=True)
        return deadline, version

    def release(self, token: int, **how: Any) -> None:
        """Give the lease back; the entry waits again. `how`: as for Journal.release."""
        try:
            self.journal.release(token, **how)
        except LeaseLost:
            self.heard()
            raise
        self.answered(token, "released")

    def bury(self, token: int, reason: str = "", *, durability: str | None = None) -> None:
        """Give the entry up."""
        try:
            self.journal.bury(token, reason, durability=durability)
        except LeaseLost:
            self.heard()
            raise
        self.answered(token, "buried")

    # -- what becomes of leases ---------------------------------------------------------------------------------------

    def holds(self, lease: Lease) -> bool:
        """Whether a lease is neither answered nor lost, as far as is known here. Costs nothing: for handlers in a loop."""
        return lease.token in self.held

    def answered(self, token: int, how: str) -> None:
        """The engine accepted an answer."""
        with self.changed:
            if self.held.pop(token, None) is None:
                return
            self.counts[how] += 1
            is_back = self.health.heard(is_accepted=True)
            self.changed.notify_all()
        if is_back:
            self._recover()

    def heard(self, *, is_accepted: bool = False) -> None:
        """An answer came that ends no lease: too late, or for more time."""
        with self.changed:
            is_back = self.health.heard(is_accepted=is_accepted)
            self.changed.notify_all()
        if is_back:
            self._recover()

    def deadline_moved(self, token: int, deadline: int) -> None:
        """A lease has another deadline."""
        now, ends = self.time.running(), self.time.running_at(deadline)
        with self.changed:
            held = self.held.get(token)
            if held is None:
                return
            held.lease.deadline = deadline
            held.extended(ends, self.care, now)
            next_at = held.next_at
        renewal_thread(self.time).at(self, next_at)

    def fall_silent(self) -> None:
        """Too many leases were left unanswered: other consumers get the buckets."""
        log.warning("consumer_silent consumer=%s journal=%s", self.name, self.journal.name)
        self._assignment.rise(self)

    def _recover(self) -> None:
        log.warning("consumer_heard_again consumer=%s journal=%s", self.name, self.journal.name)
        if self._is_dealt and self.is_subscribed:
            self._assignment.sit(self)

    def tick(self, now: int) -> int:
        """For the renewal thread: look after the leases; when to come again."""
        return renew(self, now)
