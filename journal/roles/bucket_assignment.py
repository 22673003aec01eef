"""
The consumers of a journal in this process: one consumer for each name, and the buckets of each.

A consumer that wants its share takes a seat (`sit`), and gives it up when it goes or falls silent (`rise`). With every change the
buckets are dealt anew among the seated consumers, so that as few as possible move (`journal.core.buckets`).

Q1  Two live consumers of one journal have different names.
Q2  The ranges of seated consumers are disjoint, cover all buckets, and differ in size by one at most. Other consumers have none.
Q3  A range that was taken away affects later claims only: the consumers that hold leases of its buckets finish them.
Q4  A consumer that was dropped without `leave` keeps its buckets until the next `sweep`; consumers that wait for work call it.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Protocol

from journal.api.backend import Ground
from journal.core.buckets import Range, deal
from journal.errors import Refused
from journal.roles.failures import FailureLog


class Seated(Protocol):
    """A consumer as the assignment sees it."""

    name: str

    def use(self, dealt: Range | None) -> None:
        """Claim from these buckets from now on; None: from none."""


class BucketAssignment:
    """The consumers of one journal."""

    def __init__(self, buckets: int) -> None:
        self._lock = threading.Lock()
        self._live: weakref.WeakValueDictionary[str, Seated] = weakref.WeakValueDictionary()
        self._dealt: dict[str, Range | None] = {}
        """In the order of their arrival."""
        self.buckets = buckets
        self.failures = FailureLog()
        """Of the handlers of all of them."""

    def enter(self, consumer: Seated) -> None:
        """Register a consumer (Q1)."""
        with self._lock:
            if consumer.name in self._live:
                raise Refused(
                    f"there is a consumer {consumer.name!r} of this journal in this process: close it first, or take another name"
                )
            self._live[consumer.name] = consumer

    def leave(self, consumer: Seated) -> None:
        """Remove a consumer."""
        self.rise(consumer)
        with self._lock:
            if self._live.get(consumer.name) is consumer:
                del self._live[consumer.name]

    def sit(self, consumer: Seated) -> None:
        """Give a consumer its share."""
        with self._lock:
            if consumer.name not in self._dealt:
                self._deal([*self._dealt, consumer.name])

    def rise(self, consumer: Seated) -> None:
        """Take the share of a consumer that unsubscribed or fell silent."""
        with self._lock:
            if consumer.name in self._dealt:
                self._deal([name for name in self._dealt if name != consumer.name])
                consumer.use(None)

    def _deal(self, names: list[str]) -> None:
        """Deal to the live consumers (Q2), and call `use` of those whose range changed."""
        names = [name for name in names if name in self._live]
        before, self._dealt = self._dealt, deal(self.buckets, names, self._dealt)
        for name, dealt in self._dealt.items():
            consumer = self._live.get(name)
            if consumer is not None and (name not in before or before[name] != dealt):
                consumer.use(dealt)

    def ranges(self) -> dict[str, Range | None]:
        """The range of each seated consumer."""
        with self._lock:
            return dict(self._dealt)

    def sweep(self) -> None:
        """Deal the buckets of consumers that are gone to the remaining ones (Q4)."""
        if any(name not in self._live for name in list(self._dealt)):
            with self._lock:
                self._deal(list(self._dealt))


_making = threading.Lock()
_assignments: weakref.WeakKeyDictionary[Any, BucketAssignment] = weakref.WeakKeyDictionary()


def assignment_of(ground: Ground) -> BucketAssignment:
    """The assignment of a journal: one for each journal, and for a journal of a daemon one for each connection."""
    buckets = ground.settings.buckets
    with _making:
        assignment = _assignments.get(ground.key)
        if assignment is None:
            assignment = _assignments[ground.key] = BucketAssignment(buckets)
        return assignment


def _begin_again() -> None:
    global _making, _assignments
    _making = threading.Lock()  # the thread that held it does not exist in the child
    _assignments = weakref.WeakKeyDictionary()


os.register_at_fork(after_in_child=_begin_again)
