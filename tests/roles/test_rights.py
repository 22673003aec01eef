"""The engine keeps the table of rights: every cell is tried on a store."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import journal
from journal.core.rights import RIGHTS, Action, Relation, Status, status_at
from journal.errors import Refused
from journal.testing import ManualClock

LEASE_MS = 1000
CELLS = [pytest.param(*cell, id="-".join(cell).replace(" ", "_")) for cell in RIGHTS]
PRODUCERS = (Relation.OWNER, Relation.OTHER_PRODUCER)


def prepare(pages: journal.Journal, clock: ManualClock, status: Status) -> journal.Lease:
    """An entry "k" of the group "billing" in a status, and the last lease that there was of it."""
    pages.put("k", {"n": 1}, owner="billing")
    lease = pages.claim(consumer="mail-1", lease=LEASE_MS)
    assert lease is not None
    if status is Status.AVAILABLE:
        clock.advance(LEASE_MS)  # the very millisecond of the deadline
    elif status is Status.WAITING:
        lease.release(delay=1)
    else:
        clock.advance(LEASE_MS - 1)
    entry = pages.get("k")
    assert entry is not None
    deadline = lease.deadline if status is not Status.WAITING else None
    assert status_at(entry.process_date, deadline, clock.now()) is status
    return lease


def attempt(pages: journal.Journal, role: Relation, action: Action, last: journal.Lease) -> object:
    """What a program in that role would call."""
    group = "billing" if role is Relation.OWNER else "mail" if role is Relation.OTHER_PRODUCER else None
    token = last.token if role is Relation.HOLDER else last.token + 1
    producer = journal.Producer(pages, group=group or "nobody")
    calls: dict[Action, Callable[[], object]] = {
        Action.READ: lambda: producer.get("k") if role in PRODUCERS else pages.lease(token),
        Action.MOVE: lambda: pages.move("k", priority=1, owner=group),
        Action.DELETE: lambda: pages.delete("k", owner=group),
        Action.EXTEND: lambda: pages.extend(token, "1h"),
        Action.RELEASE: lambda: pages.release(token, delay="1h"),
        Action.DONE: lambda: pages.done(token),
    }
    return calls[action]()


def state(pages: journal.Journal) -> tuple[object, ...]:
    """All that could have been changed."""
    return (
        pages.get("k"),
        [(lease.token, lease.deadline, lease.version) for lease in pages.leases()],
        pages.durable_cursor,
    )


@pytest.mark.parametrize(("role", "action", "status"), CELLS)
def test_the_engine_keeps_the_table(
    pages: journal.Journal, clock: ManualClock, role: Relation, action: Action, status: Status
) -> None:
    """What is allowed has its effect; what is refused meets the error of the table and changes nothing."""
    last = prepare(pages, clock, status)
    pages.get("k")
    before = state(pages)
    refusal = RIGHTS[role, action, status]
    if refusal is None:
        result = attempt(pages, role, action, last)
        if action is Action.READ:
            assert isinstance(result, (journal.Entry, journal.Lease)) and result.data == {"n": 1}
        assert (state(pages) == before) == (action is Action.READ)
        return
    with pytest.raises(Refused) as caught:
        attempt(pages, role, action, last)
    assert type(caught.value) is refusal
    assert "'n'" not in str(caught.value)  # what is refused to a caller is not told either
    assert state(pages) == before
