"""A forked child has none of its parent's consumers, and harms nothing."""

from __future__ import annotations

import os
import threading

import pytest

import journal
from journal import Consumer
from journal.roles.renewal_thread import renewal_thread
from journal.testing import ManualClock
from tests.roles.consuming import Said, pass_time, sleeps, taken


def in_child(work: object) -> int:
    """Run in a forked child; its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if work() else 2  # type: ignore[operator]
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_is_refused_and_the_parent_goes_on(pages: journal.Journal, clock: ManualClock) -> None:
    """Whatever threads and locks there were: nothing hangs, and the leases are the parent's."""
    pages.put("a")
    consumer = Consumer(pages, name="c", lease="30s")
    consumer.subscribe()
    lease = taken(consumer)
    said = Said()
    busy = Consumer(pages, name="busy")
    busy.subscribe(said)
    sleeps(busy)
    held = threading.Event()

    def hold() -> None:
        with consumer._leases.changed, renewal_thread()._wake:
            held.set()
            forked.wait(5)

    forked = threading.Event()
    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    held.wait(5)

    def child() -> bool:
        with pytest.raises(journal.ForkedStore):
            consumer.subscribe()
        with pytest.raises(journal.ForkedStore):
            lease.done()
        assert consumer.take_nowait() is None
        assert consumer.held == []
        consumer.close()
        return True

    assert in_child(child) == 0
    forked.set()
    thread.join(100)
    pass_time(clock, 15_000)
    assert lease.deadline == clock.now() + 30_000
    lease.done()
    pages.put("b")
    said.until(lambda things: [x.key for x in things] == ["b"])
    consumer.close()
    busy.close()
    assert pages.count() == 0
