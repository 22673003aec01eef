"""
A consumer: a named role that gets leases as entries fall due, and answers them.

    mails = journal.Consumer(pages, name="mail-1", lease="30s")
    mails.run(send)                      # in this thread; or
    mails.subscribe(send)                # in a thread of its own; or
    for lease in mails: ...

It holds at most `prefetch` leases that are not answered. Those that it had before a restart come first, then what is due, in the order of
work. It sleeps on the engine's timer. The renewal thread (`journal.roles.renewal_thread`) looks after its leases while a handler is busy.

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
from typing import TYPE_CHECKING, Any

from journal.api.backend import ground_of
from journal.api.lease import Lease, mark_ended
from journal.core.arguments import consumer_name
from journal.core.buckets import Range
from journal.core.clock_drift import Time
from journal.core.consumer.health import Health
from journal.core.consumer.lease_renewal import Care
from journal.core.limits import GROUP_MAX
from journal.core.retry import Retry
from journal.core.times import DurationLike, duration_ms
from journal.core.values import Put, PutResult
from journal.errors import ConnectionLost, Invalid, JournalError, StoreClosed, StoreFull, TimedOut
from journal.roles.bucket_assignment import assignment_of
from journal.roles.handler import Handler, check_handler, handle
from journal.roles.prefetch import Prefetch
from journal.shield import SHIELD, exposed, shielded
from journal.threads import begin

if TYPE_CHECKING:
    from journal.api.journal import Journal

log = logging.getLogger("journal.consumer")

DEALT = "dealt"


@shielded
class Consumer:
    """A consumer of one journal; safe to use from many threads, and a context manager that closes it."""

    def __init__(
        self,
        journal: Journal,
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
        assignment = assignment_of(ground)
        self.journal = journal
        self.ground = ground
        self.name = name
        self.prefetch = prefetch
        self.time = ground.time
        self.retry = retry
        self.auto_done = auto_done
        self.failed = 0
        self.failures = assignment.failures
        self._thread: threading.Thread | None = None
        self._handling: set[int] = set()
        """Threads that are in a handler."""
        if isinstance(buckets, Range):
            buckets = buckets.within(assignment.buckets)
        elif buckets is not None and buckets != DEALT:
            raise Invalid(f"buckets is {buckets!r}: it must be a Range, 'dealt', or None for all")
        self._leases = Prefetch(
            self.journal,
            ground,
            name,
            care,
            Health(silent_max, care.lease_ms),
            prefetch,
            buckets=buckets if isinstance(buckets, Range) else None,
            is_dealt=buckets == DEALT,
            on_warning=on_warning,
            on_lost=on_lost,
        )
        _consumers.add(self)

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
        self._leases.subscribe(back, is_served=handler is not None)
        if handler is not None:
            thread = threading.Thread(
                target=self._serve_on,
                args=(handler, self._leases.subscription),
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
        self._leases.unsubscribe()

    @property
    def is_subscribed(self) -> bool:
        """Whether there is a subscription."""
        return self._leases.is_subscribed

    @property
    def buckets(self) -> Range | None:
        """From where it claims; None: from all, or, when they are dealt, from nowhere."""
        return self._leases.buckets

    # -- getting work -------------------------------------------------------------------------------------------------

    def take(self) -> Lease | None:
        """The next lease; waits for it. None when the subscription has ended, or the store was closed."""
        return self._leases.take(self._leases.subscription, is_waiting=True)

    def take_nowait(self) -> Lease | None:
        """The next lease, or None when nothing is due or as many are held as may be."""
        return self._leases.take(self._leases.subscription, is_waiting=False)

    def __iter__(self) -> Iterator[Lease]:
        """Leases as they fall due; subscribes unless that is done."""
        if not self.is_subscribed:
            self.subscribe()
        mine = self._leases.subscription
        while (lease := self._leases.take(mine, is_waiting=True)) is not None:
            yield lease

    @exposed
    def run(self, handler: Handler) -> None:
        """Hand leases to a handler, in this thread, until the subscription ends or the store is closed."""
        check_handler(handler)
        self.subscribe()
        self._serve(handler, self._leases.subscription)

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
        while (lease := self._leases.take(mine, is_waiting=True)) is not None:
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
        with self._leases.changed:
            return [held.lease for held in self._leases.held.values() if held.is_handed]

    def holds(self, lease: Lease) -> bool:
        """Whether a lease is neither answered nor lost, as far as is known here. Costs nothing: for handlers in a loop."""
        return self._leases.holds(lease)

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
                    mark_ended(lease)
                    self._leases.answered(lease.token, "done")
                else:
                    self._leases.heard()
        return results

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
        leases = self._leases
        if not leases.begin_close():
            return
        try:
            if self.ground.is_gone:
                leases.store_gone()
            if self.is_subscribed:
                self.unsubscribe()
            if threading.get_ident() not in self._handling:
                until = monotonic() + patience
                leases.finish(until)
                if self._thread is not None:
                    self._thread.join(max(0.0, until - monotonic()))
        except StoreClosed:
            leases.store_gone()
        finally:
            leases.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(finish=error is None)

    def statistics(self) -> dict[str, Any]:
        """Counters, cheap to read."""
        leases = self._leases
        with leases.changed:
            return {
                **leases.counts,
                "failed": self.failed,
                "lost": leases.lost,
                "extended": leases.extensions,
                "held": len(leases.held),
                "ahead": sum(not held.is_handed for held in leases.held.values()),
                "missed": leases.health.missed,
                "is_silent": leases.health.is_silent,
                "is_subscribed": leases.is_subscribed,
                "buckets": None if leases.buckets is None else str(leases.buckets),
                "clock": self.ground.clock_of(f"consumer {self.name}"),
            }

    def _begin_in_child(self) -> None:
        self._leases.begin_in_child()
        self._thread = None


_consumers: weakref.WeakSet[Consumer] = weakref.WeakSet()


def _after_fork() -> None:
    for consumer in list(_consumers):
        consumer._begin_in_child()


os.register_at_fork(after_in_child=_after_fork)
