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
from abc import ABC, abstractmethod
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, cast

from journal.api.backend import Ground, Grounded
from journal.api.lease import Lease
from journal.core.buckets import Range
from journal.core.consumer.health import Health
from journal.core.consumer.lease_renewal import Care
from journal.core.limits import NEVER
from journal.errors import ConnectionLost, LeaseLost, StoreClosed, TimedOut
from journal.roles.bucket_assignment import dealing_of
from journal.roles.held_lease import Answers, Taken
from journal.roles.renewal_thread import watch
from journal.shield import SHIELD, give_way, look_up_s

if TYPE_CHECKING:
    from journal.api.journal import Journal
    from journal.api.lease import Holder

log = logging.getLogger("journal.consumer")


class Taking(ABC):
    """The leases of a consumer."""

    def __init__(
        self,
        journal: Grounded,
        ground: Ground,
        name: str,
        care: Care,
        health: Health,
        prefetch: int,
        *,
        is_dealt: bool,
    ) -> None:
        self.journal = cast("Journal", journal)  # or one afar, which has the same verbs
        self.ground = ground
        self.name = name
        self.care = care
        self.health = health
        self.prefetch = prefetch
        self.time = ground.time
        self.armed_at = NEVER
        """For the watch."""
        self.counts = {"handed": 0, "done": 0, "released": 0, "buried": 0}
        self._dealing = dealing_of(ground)
        self._is_dealt = is_dealt
        self._buckets: Range | None = None
        self._changed = threading.Condition(threading.Lock())
        self._held: dict[int, Taken] = {}
        self._coming: list[tuple[bool, tuple[int, int, int], Taken]] = []
        """Claimed ahead (A2)."""
        self._subscription = 0
        """Raised by each subscription, and by its end: odd while there is one."""
        self._looks = 0
        self._is_claiming = False
        self._waiting = 0
        """Threads that ask for a lease."""
        self._is_over = False
        """The store is closed."""

    @property
    def is_subscribed(self) -> bool:
        """Whether there is a subscription."""
        return self._subscription % 2 == 1

    def _take(self, mine: int, *, is_waiting: bool) -> Lease | None:
        with SHIELD:
            return self._taken(mine, is_waiting=is_waiting)

    def _taken(self, mine: int, *, is_waiting: bool) -> Lease | None:
        with self._changed:
            self._waiting += 1
            self.health.asked()
        try:
            return self._next(mine, is_waiting=is_waiting)
        except StoreClosed:
            return None
        finally:
            with self._changed:
                self._waiting -= 1

    def _next(self, mine: int, *, is_waiting: bool) -> Lease | None:
        is_looked = False
        while True:
            give_way()
            with self._changed:
                if mine != self._subscription or mine % 2 == 0 or self._is_over:
                    return None
                n = 0 if self._is_claiming or is_looked else self._wanted()
                if n == 0:
                    lease = self._pop()
                    if lease is not None or not is_waiting:
                        return lease
                    if self._is_claiming or self._wanted() == 0:
                        self._changed.wait(look_up_s())
                        is_looked = False
                        continue
                self._is_claiming = True
                looks, buckets = self._looks, self._buckets
            try:
                if n:
                    self._claim(n, buckets, mine)
                else:
                    self._dealing.sweep()
                    self.ground.sleep(buckets, partial(self._has_reason, looks))
                is_looked = n > 0
            except (ConnectionLost, TimedOut) as e:
                self.ground.recover(e)
            finally:
                with self._changed:
                    self._is_claiming = False
                    self._changed.notify_all()

    def _wanted(self) -> int:
        """How many leases to claim now (A1, A3)."""
        if self.health.is_silent or (self._is_dealt and self._buckets is None):
            return 0
        while self._coming and self._coming[0][2].lease.token not in self._held:
            heappop(self._coming)  # lost before its turn came
        room = self.prefetch - len(self._held)
        if room > 0 and self._coming and 2 * room < self.prefetch:
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
        self._take_in(leases, is_back=False)
        with self._changed:
            if mine == self._subscription or self.is_subscribed:
                return
            ahead = [self._held[lease.token] for lease in leases if lease.token in self._held]
        for taken in ahead:  # it was unsubscribed meanwhile, and these were not handed out
            self._give_back(taken)

    def _take_in(self, leases: list[Lease], *, is_back: bool) -> None:
        """Hold leases from now on."""
        if not leases:
            return
        now = self.time.running()
        soonest = NEVER
        answers = cast("Holder", Answers(self))
        with self._changed:
            for lease in leases:
                lease._holder = answers
                taken = self._held[lease.token] = Taken(lease, self.time.running_at(lease.deadline), self.care, now)
                heappush(self._coming, (not is_back, taken.rank, taken))
                soonest = min(soonest, taken.next_at)
            self._changed.notify_all()
        watch(self.time).at(self, soonest)

    def _pop(self) -> Lease | None:
        """The next of those that were claimed ahead; under the lock."""
        while self._coming:
            taken = heappop(self._coming)[2]
            if taken.lease.token in self._held:
                taken.is_handed = True
                self.counts["handed"] += 1
                return taken.lease
        return None

    def _give_back(self, taken: Taken) -> None:
        """Return an entry to its place; its holder, if there is one, is refused from now on."""
        lease = taken.lease
        try:
            self.journal.release(lease.token, process_date=lease.process_date)
        except LeaseLost as e:
            log.info("lease_over consumer=%s key=%r error=%s", self.name, lease.key, e)
        with self._changed:
            self._held.pop(lease.token, None)
            self._changed.notify_all()

    def _has_reason(self, looks: int) -> bool:
        return self._looks != looks

    def _rouse(self) -> None:
        """Wake the sleeping thread, so that it looks around."""
        self.ground.rouse(self._note)

    def _note(self) -> None:
        self._looks += 1

    def use(self, dealt: Range | None) -> None:
        """For the dealing: claim from these buckets from now on."""
        with self._changed:
            self._buckets = dealt
            self._changed.notify_all()
        self._rouse()

    # -- answers ------------------------------------------------------------------------------------------------------

    def holds(self, lease: Lease) -> bool:
        """Whether a lease is neither answered nor lost, as far as is known here. Costs nothing: for handlers in a loop."""
        return lease.token in self._held

    def _answered(self, token: int, how: str) -> None:
        """The engine accepted an answer."""
        with self._changed:
            if self._held.pop(token, None) is None:
                return
            self.counts[how] += 1
            is_back = self.health.heard(is_accepted=True)
            self._changed.notify_all()
        if is_back:
            self._recover()

    def _heard(self, *, is_accepted: bool = False) -> None:
        """An answer came that ends no lease: too late, or for more time."""
        with self._changed:
            is_back = self.health.heard(is_accepted=is_accepted)
            self._changed.notify_all()
        if is_back:
            self._recover()

    def _extended(self, token: int, deadline: int) -> None:
        """A lease has another deadline."""
        now, ends = self.time.running(), self.time.running_at(deadline)
        with self._changed:
            taken = self._held.get(token)
            if taken is None:
                return
            taken.lease.deadline = deadline
            taken.extended(ends, self.care, now)
            next_at = taken.next_at
        watch(self.time).at(self, next_at)

    def _fall_silent(self) -> None:
        log.warning("consumer_silent consumer=%s journal=%s", self.name, self.journal.name)
        self._dealing.rise(self)

    def _recover(self) -> None:
        log.warning("consumer_heard_again consumer=%s journal=%s", self.name, self.journal.name)
        if self._is_dealt and self.is_subscribed:
            self._dealing.sit(self)

    @abstractmethod
    def tick(self, now: int) -> int:
        """For the watch: look after the leases; when to come again."""
