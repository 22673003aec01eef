"""
Several consumers over one journal, against a model: whatever they do in whatever order.

M1  An entry is with one consumer at a time; it comes to another one only after it was released, or its lease was lost.
M2  An answer is accepted exactly while the lease is the consumer's and its deadline is to come; else it changes nothing.
M3  A consumer is handed what is due, and in the order of work: nothing due and unclaimed would have come before.
M4  When all consumers go on, everything is worked off, each entry once.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

import journal
from journal import Consumer
from journal.roles.renewal_thread import renewal_thread
from journal.testing import ManualClock
from tests.engine.helpers import HANG_S

LEASE_MS = 10_000
NAMES = ("a", "b", "c")


class Consumers(RuleBasedStateMachine):
    """Three consumers, of which one extends its leases, up to three leases' time."""

    leases: Bundle[Any] = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.clock = ManualClock(1_700_000_000_000)
        self.store = journal.open(self.directory / "s", clock=self.clock, durability="none")
        self.pages = self.store.journal("pages", timeouts_max=255)
        self.consumers: dict[str, Consumer] = {}
        self.waiting: dict[str, tuple[int, int]] = {}
        """By key: priority and date."""
        self.held: dict[str, tuple[int, str, int, int, int]] = {}
        """By key: token, consumer, deadline, priority and date."""
        self.finished: set[str] = set()
        self.told_lost: list[int] = []
        self.lost: list[int] = []
        self.number = 0

    @initialize(prefetch=st.sampled_from([1, 2, 5]))
    def begin(self, prefetch: int) -> None:
        for name in NAMES:
            self._make(name, prefetch)

    def _make(self, name: str, prefetch: int) -> None:
        consumer = Consumer(
            self.pages, name=name, lease=LEASE_MS, prefetch=prefetch, extend=name == "c", extend_max=3 * LEASE_MS,
            silent_max=1000, on_lost=lambda lease: self.told_lost.append(lease.token),
        )  # fmt: skip
        consumer.subscribe()
        self.consumers[name] = consumer

    @rule(priority=st.integers(0, 2), delay=st.sampled_from([0, 0, 5000, 12_000]))
    def put(self, priority: int, delay: int) -> None:
        key = f"k{self.number}"
        self.number += 1
        result = self.pages.put(key, priority=priority, delay=delay)
        self.waiting[key] = (priority, result.process_date)

    @rule(target=leases, name=st.sampled_from(NAMES))
    def take(self, name: str) -> Any:
        consumer = self.consumers[name]
        now = self.clock.now()
        ahead = {taken.lease.key for taken in consumer._leases.held.values() if not taken.is_handed}
        room = consumer.prefetch - len(consumer._leases.held)
        lease = consumer.take_nowait()
        if lease is None:
            # M3: nothing is ahead; and nothing was due, or there was no room
            assert not ahead
            assert room <= 0 or not [key for key, (_, date) in self.waiting.items() if date <= now]
            return None
        self._claimed(name)
        held = self.held[str(lease.key)]
        assert (lease.token, name) == held[:2]  # M1
        rank = held[3:]
        if room > 0 and not ahead:
            due = [place for place in self.waiting.values() if place[1] <= now]
            assert all(rank <= place for place in due)  # M3
        ahead_now = [t.lease for t in consumer._leases.held.values() if not t.is_handed]
        assert all(rank <= self.held[str(each.key)][3:] for each in ahead_now)
        return lease

    def _claimed(self, name: str) -> None:
        """Learn what a consumer claimed, which must have been free (M1)."""
        for token, taken in list(self.consumers[name]._leases.held.items()):
            key = str(taken.lease.key)
            if key in self.held and self.held[key][0] == token:
                continue
            assert key not in self.held, "two at a time"
            priority, date = self.waiting.pop(key)
            assert date <= self.clock.now()
            self.held[key] = (token, name, self.clock.now() + LEASE_MS, priority, date)

    @rule(lease=consumes(leases), how=st.sampled_from(["done", "release", "later", "failed"]))
    def answer(self, lease: journal.Lease | None, how: str) -> None:
        if lease is None:
            return
        key = str(lease.key)
        is_ours = key in self.held and self.held[key][0] == lease.token
        try:
            match how:
                case "done":
                    lease.done()
                case "release":
                    lease.release()
                case "later":
                    lease.release(delay=5000)
                case _:
                    lease.release(failed=True)
            is_accepted = True
        except journal.LeaseLost:
            is_accepted = False
        assert is_accepted == is_ours  # M2
        if not is_ours:
            return
        _, _, _, priority, _ = self.held.pop(key)
        if how == "done":
            assert key not in self.finished
            self.finished.add(key)
        else:
            self.waiting[key] = (priority, self.clock.now() + (5000 if how == "later" else 0))

    @rule(ms=st.sampled_from([1, 2500, 5000, LEASE_MS]))
    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        assert renewal_thread().wait_idle(HANG_S)
        now = self.clock.now()
        active = {lease.token: lease.deadline for lease in self.pages.leases()}
        for key, (token, name, deadline, priority, date) in list(self.held.items()):
            if token in active:
                assert active[token] > now
                assert name == "c" or active[token] == deadline
                self.held[key] = (token, name, active[token], priority, date)
            else:
                # What is extended is lost only when time jumped over it, or at its limit.
                assert deadline <= now
                del self.held[key]
                self.waiting[key] = (priority, date)
                self.lost.append(token)

    @precondition(lambda self: self.consumers)
    @rule(name=st.sampled_from(NAMES), finish=st.booleans())
    def restart(self, name: str, finish: bool) -> None:
        """A consumer goes, and comes back under its name; what it held went back to its place."""
        consumer = self.consumers[name]
        consumer.close(finish=finish, wait=0)
        for key, (_, who, _, priority, date) in list(self.held.items()):
            if who == name:
                del self.held[key]
                self.waiting[key] = (priority, date)
        self._make(name, consumer.prefetch)

    @invariant()
    def agrees(self) -> None:
        """The journal has what the model has."""
        stored = {str(entry.key): entry for entry in self.pages.scan()}
        assert stored.keys() == self.waiting.keys() | self.held.keys()
        for key, (priority, date) in self.waiting.items():
            assert (stored[key].status, stored[key].priority, stored[key].process_date) == ("W", priority, date)
        active = {lease.token: lease.consumer for lease in self.pages.leases()}
        assert active == {token: name for token, name, *_ in self.held.values()}
        for name, consumer in self.consumers.items():
            assert consumer._leases.held.keys() == {token for token, who, *_ in self.held.values() if who == name}

    def teardown(self) -> None:
        """M4: all consumers go on until nothing is left."""
        try:
            for _ in range(200):
                if not self.pages.count():
                    break
                for consumer in self.consumers.values():
                    for lease in [*consumer.held]:
                        lease.done()
                    while (lease := consumer.take_nowait()) is not None:  # type: ignore[assignment]
                        lease.done()
                        assert lease.key not in self.finished
                        self.finished.add(str(lease.key))
                self.clock.advance(5000)
            assert self.pages.count() == 0
            assert self.store.check() == []
            assert set(self.told_lost) <= set(self.lost)
        finally:
            for consumer in self.consumers.values():
                consumer.close(finish=False)
            self.store.close()
            shutil.rmtree(self.directory)


TestConsumers = Consumers.TestCase
TestConsumers.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
