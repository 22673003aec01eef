"""
A consumer: a named role that gets leases as entries fall due, and answers them.

    mails = journal.Consumer(pages, name="mail-1", lease="30s")
    mails.run(send)                      # in this thread; or
    mails.subscribe(send)                # in a thread of its own; or
    for lease in mails: ...

It holds at most `prefetch` leases that are not answered. Those that it had before a restart come first, then what is due, in the order of
work. It sleeps on the engine's timer. The watch (`journal.roles.renewal_thread`) looks after its leases while a handler is busy.

C1  One consumer of a journal under a name in a process (`journal.roles.bucket_assignment`).
C2  A lease is held from its claim until it is answered or lost. While as many are held as `prefetch` says nothing is claimed.
C3  Nothing is claimed without a subscription, while the consumer is silent (`journal.core.consumer.health`), or outside of its buckets.
C4  After `unsubscribe` nothing is handed out; what was claimed ahead and not handed out went back to its place.
C5  No lock of a consumer is held during a call to the engine or to a program.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from types import TracebackType
from typing import Any

from journal.api.backend import Grounded, ground_of
from journal.api.lease import Lease
from journal.core.arguments import consumer_name
from journal.core.buckets import Range
from journal.core.clock_drift import Time
from journal.core.consumer.health import Health
from journal.core.consumer.lease_renewal import Care
from journal.core.limits import GROUP_MAX
from journal.core.retry import Retry
from journal.core.times import DurationLike, duration_ms
from journal.core.values import Put, PutResult
from journal.errors import ConnectionLost, Invalid, JournalError, Refused, StoreClosed, StoreFull, TimedOut
from journal.roles.callbacks import Telling
from journal.roles.handler import Handler, check_handler, handle
from journal.roles.prefetch import Taking
from journal.roles.renewal import tend
from journal.roles.renewal_thread import watch
from journal.shield import SHIELD, exposed, give_way, look_up_s, shielded
from journal.threads import begin

log = logging.getLogger("journal.consumer")

DEALT = "dealt"


@shielded
class Consumer(Taking):
    """A consumer of one journal; safe to use from many threads, and a context manager that closes it."""

    def __init__(
        self,
        journal: Grounded,
        *,
        name: str,
        lease: DurationLike = "30s",
        buckets: Range | str | None = None,
        prefetch: int = 1,
        extend: bool = True,
        extend_max: DurationLike = "10m",
        warn: DurationLike = "5s",
        retry: Retry | None = Retry(),  # noqa: B008 - it never changes
        auto_done: bool = True,
        silent_max: int = 3,
        on_warning: Callable[[Lease, int], object] | None = None,
        on_lost: Callable[[Lease], object] | None = None,
    ) -> None:
        ground = ground_of(journal, "a consumer works for")
        if consumer_name(name) == "":
            raise Invalid("a consumer has a name: under it it finds its leases again after a restart")
        for value, what, most in ((prefetch, "prefetch", GROUP_MAX), (silent_max, "silent_max", GROUP_MAX)):
            if type(value) is not int or not 1 <= value <= most:
                raise Invalid(f"{what} is {value!r}: it must be an int from 1 to {most}")
        if retry is not None and not isinstance(retry, Retry):
            raise Invalid(f"retry is {retry!r}: it must be a journal.Retry, or None to try again at once")
        care = Care.of(lease, extend, extend_max, warn)
        super().__init__(
            journal, ground, name, care, Health(silent_max, care.lease_ms), prefetch, is_dealt=buckets == DEALT
        )
        self.retry = retry
        self.auto_done = auto_done
        self.on_warning = on_warning
        self.on_lost = on_lost
        self.extensions = self.lost = self.failed = 0
        self.failures = self._dealing.failures
        self._buckets = self._checked(buckets)
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._handling: set[int] = set()
        """Threads that are in a handler."""
        self._telling = Telling(name)
        weakref.finalize(self, self._telling.close).atexit = False
        self._dealing.enter(self)
        _consumers.add(self)

    def _checked(self, buckets: Range | str | None) -> Range | None:
        if isinstance(buckets, Range):
            return buckets.within(self._dealing.buckets)
        if buckets is not None and buckets != DEALT:
            raise Invalid(f"buckets is {buckets!r}: it must be a Range, 'dealt', or None for all")
        return None

    def __repr__(self) -> str:
        return f"<Consumer {self.name} of {self.journal.name}>"

    # -- subscribing --------------------------------------------------------------------------------------------------

    def subscribe(self, handler: Handler | None = None) -> None:
        """
        Begin to claim work; with a handler, in a thread of its own.

        The active leases under this name come first. A silent consumer may subscribe again.
        """
        if handler is not None:
            check_handler(handler)
        back = self.journal.leases(consumer=self.name)  # refused here when the store is closed, or a parent's
        with self._changed:
            if self._is_closed:
                raise Refused(f"the consumer {self.name!r} is closed: make another one")
            if self.is_subscribed and not self.health.is_silent:
                raise Refused(f"the consumer {self.name!r} is subscribed already: unsubscribe it first")
            self.health.begin()
            if not self.is_subscribed:
                self._subscription += 1
            elif handler is not None:
                self._subscription += 2  # the thread that served ends; without a handler, waiting threads go on
            back = [lease for lease in back if lease.token not in self._held]
            self._changed.notify_all()
        self._take_in(back, is_back=True)
        if self._is_dealt:
            self._dealing.sit(self)
        if handler is not None:
            thread = threading.Thread(
                target=self._serve_on,
                args=(handler, self._subscription),
                name=f"journal-consumer-{self.name}",
                daemon=True,
            )
            try:
                self._thread = begin(thread)
            except StoreFull:
                self.unsubscribe()
                raise

    def unsubscribe(self) -> None:
        """Claim no more work (C4). Leases that were handed out stay, to be answered."""
        with self._changed:
            if not self.is_subscribed:
                raise Refused(f"the consumer {self.name!r} is not subscribed")
            self._subscription += 1
            ahead = [taken for _, _, taken in self._coming if taken.lease.token in self._held]
            self._coming.clear()
            self._changed.notify_all()
        self._dealing.rise(self)
        self._rouse()
        for taken in ahead:
            self._give_back(taken)

    @property
    def buckets(self) -> Range | None:
        """From where it claims; None: from all, or, when they are dealt, from nowhere."""
        return self._buckets

    # -- getting work -------------------------------------------------------------------------------------------------

    def take(self) -> Lease | None:
        """The next lease; waits for it. None when the subscription has ended, or the store was closed."""
        with self._changed:
            mine = self._subscription
        return self._take(mine, is_waiting=True)

    def take_nowait(self) -> Lease | None:
        """The next lease, or None when nothing is due or as many are held as may be."""
        with self._changed:
            mine = self._subscription
        return self._take(mine, is_waiting=False)

    def __iter__(self) -> Iterator[Lease]:
        """Leases as they fall due; subscribes unless that is done."""
        if not self.is_subscribed:
            self.subscribe()
        mine = self._subscription
        while (lease := self._take(mine, is_waiting=True)) is not None:
            yield lease

    @exposed
    def run(self, handler: Handler) -> None:
        """Hand leases to a handler, in this thread, until the subscription ends or the store is closed."""
        check_handler(handler)
        self.subscribe()
        self._serve(handler, self._subscription)

    def _serve_on(self, handler: Handler, mine: int) -> None:
        """Serve in a thread of its own. It has no caller to raise to when no daemon is found, so it keeps trying."""
        while True:
            try:
                self._serve(handler, mine)
                return
            except (ConnectionLost, TimedOut) as e:
                log.warning("consumer_without_daemon consumer=%s journal=%s error=%s", self.name, self.journal.name, e)

    def _serve(self, handler: Handler, mine: int) -> None:
        me = threading.get_ident()
        while (lease := self._take(mine, is_waiting=True)) is not None:
            self._handling.add(me)
            try:
                handle(self, lease, handler)
            except StoreClosed:
                return
            finally:
                self._handling.discard(me)

    # -- answers ------------------------------------------------------------------------------------------------------

    @property
    def held(self) -> list[Lease]:
        """The leases that were handed out and are neither answered nor lost."""
        with self._changed:
            return [taken.lease for taken in self._held.values() if taken.is_handed]

    @exposed
    def done_many(
        self,
        leases: Iterable[Lease],
        *,
        next: Iterable[Put | None] | None = None,
        durability: str | None = None,
    ) -> list[PutResult | JournalError | None]:
        """Finish many leases with one record; None, the result of its `next` put, or the error of each, in order."""
        found, puts = list(leases), None if next is None else list(next)
        with SHIELD:
            results = self.journal.done_many(found, next=puts, durability=durability)
            for lease, result in zip(found, results, strict=True):
                if not isinstance(result, JournalError):
                    lease._is_ended = True
                    self._answered(lease.token, "done")
                else:
                    self._heard()
        return results

    def tick(self, now: int) -> int:
        """For the watch: look after the leases."""
        return tend(self, now)

    def report_clock(self, t1: Time, t2: Time | None = None, *, t0: Time | None = None, t3: Time | None = None) -> bool:
        """
        Say what this consumer's clock shows, in ms; whether it is off by more than the limit (250 ms).

        With a network in between: asked at `t0` by the engine's clock, received at `t1` and answered at `t2` by its own, back at `t3`.
        """
        now = self.time.now()
        t0, t3 = now if t0 is None else t0, now if t3 is None else t3
        return self.ground.measure_drift(f"consumer {self.name}", t0, t1, t1 if t2 is None else t2, t3)

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self, *, finish: bool = True, wait: DurationLike = "10s") -> None:
        """
        End: claim nothing more, let what was handed out be finished, release the rest.

        Waits at most `wait` for handlers; `finish=False`: not at all, and a handler that still works is refused when it answers.
        Closing twice is fine. From inside a handler it returns at once, and the handler answers its own lease.
        """
        patience = duration_ms(wait, "wait") / 1000 if finish else 0.0
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            if self.ground.is_gone:
                self._store_gone()
            if self.is_subscribed:
                self.unsubscribe()
            if threading.get_ident() not in self._handling:
                self._finish(patience)
        except StoreClosed:
            self._store_gone()
        finally:
            self._dealing.leave(self)
            if not self._held:
                watch(self.time).forget(self)
            self.ground.close(f"consumer {self.name}")
            self._telling.close()

    def _store_gone(self) -> None:
        """The store is closed: leases are kept there for the next time, and all waiting threads return."""
        with self._changed:
            self._is_over = True
            self._held.clear()
            self._coming.clear()
            self._changed.notify_all()

    def _finish(self, patience: float) -> None:
        until = monotonic() + patience
        while True:
            give_way()
            with self._changed:
                left, rest = list(self._held.values()), until - monotonic()
                if not left or rest <= 0:
                    break
                self._changed.wait(look_up_s(rest))
        for taken in left:
            self._give_back(taken)
        if self._thread is not None:
            self._thread.join(max(0.0, until - monotonic()))

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(finish=error is None)

    def statistics(self) -> dict[str, Any]:
        """Counters, cheap to read."""
        with self._changed:
            return {
                **self.counts,
                "failed": self.failed,
                "lost": self.lost,
                "extended": self.extensions,
                "held": len(self._held),
                "ahead": sum(not taken.is_handed for taken in self._held.values()),
                "missed": self.health.missed,
                "is_silent": self.health.is_silent,
                "is_subscribed": self.is_subscribed,
                "buckets": None if self._buckets is None else str(self._buckets),
                "clock": self.ground.clock_of(f"consumer {self.name}"),
            }

    def _after_fork_in_child(self) -> None:
        """The thread that held a lock does not exist in the child, and the leases are the parent's."""
        self._changed = threading.Condition(threading.Lock())
        self._held.clear()
        self._coming.clear()
        self._is_closed = self._is_over = True
        self._subscription += self._subscription % 2
        self._thread = None


_consumers: weakref.WeakSet[Consumer] = weakref.WeakSet()


def _after_fork() -> None:
    for consumer in list(_consumers):
        consumer._after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork)
