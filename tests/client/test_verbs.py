"""Verbs over a connection: what is asked, what is read, what is refused."""

from __future__ import annotations

import pytest

import journal
from journal.client.lease import RemoteLease
from journal.client.store import RemoteStore
from tests.client.daemon import TinyDaemon
from tests.client.small import NOW


def some(lease: RemoteLease | None) -> RemoteLease:
    assert lease is not None
    return lease


def test_an_entry_goes_its_way(remote: RemoteStore) -> None:
    """Put, get, claim, extend and done, with the values of the library."""
    pages = remote.journal("pages")
    result = pages.put("/home", {"uri": "/home"}, priority=journal.NEW_PAGE)
    assert result == journal.PutResult("inserted", journal.Cursor(1, 1), 1, NOW, 20)
    entry = pages.get("/home")
    assert entry is not None and entry.data == {"uri": "/home"} and entry.status == "W"
    assert pages.get("/other") is None
    lease = pages.claim(consumer="backend-1", lease="30s")
    assert lease is not None
    assert (lease.key, lease.data, lease.priority, lease.consumer) == ("/home", {"uri": "/home"}, 20, "backend-1")
    assert lease.deadline == NOW + 30_000 and lease.extend("1m") == NOW + 60_001 == lease.deadline
    assert pages.claim() is None
    lease.done()
    lease.done()
    assert pages.get("/home") is None


def test_a_lease_is_a_context_manager(remote: RemoteStore) -> None:
    """Done when the block ends, released when it raises."""
    pages = remote.journal("pages")
    pages.put("a", 1)
    with pytest.raises(ZeroDivisionError), some(pages.claim()):
        1 / 0  # noqa: B018
    with some(pages.claim()) as lease:
        assert lease.key == "a"
    assert pages.get("a") is None


def test_errors_are_those_of_the_library(remote: RemoteStore) -> None:
    """What a daemon refuses is raised here with its class and text."""
    pages = remote.journal("pages")
    pages.create("a", 1)
    with pytest.raises(journal.KeyExists, match="there is an entry with the key 'a'"):
        pages.create("a", 1)
    with pytest.raises(journal.LeaseLost):
        pages.done(12)


def test_groups(remote: RemoteStore, tiny: TinyDaemon) -> None:
    """A result or an error for each, in order; what is not acceptable is not sent."""
    pages = remote.journal("pages")
    results = pages.put_many([journal.Put("a", 1), journal.Put("", 2), journal.Put("b", 3, priority=0)])
    assert [getattr(result, "outcome", None) for result in results] == ["inserted", None, "inserted"]
    assert isinstance(results[1], journal.Invalid)
    assert [put["key"] for put in tiny.asked[-1].parameters["puts"]] == ["a", "b"]
    leases = pages.claim_many(10, consumer="x")
    assert [lease.key for lease in leases] == ["a", "b"]
    errors = pages.done_many([*leases, 99])
    assert errors[:2] == [None, None] and isinstance(errors[2], journal.LeaseLost)


def test_a_group_that_is_larger_than_a_frame_is_sent_in_parts(remote: RemoteStore, tiny: TinyDaemon) -> None:
    """Several frames, one list of results."""
    pages = remote.journal("pages")
    results = pages.put_many([journal.Put(f"k{i}", b"x" * 100_000) for i in range(25)])
    assert len(results) == 25 and {getattr(result, "outcome", None) for result in results} == {"inserted"}
    parts = [len(asked.parameters["puts"]) for asked in tiny.asked if asked.command.name == "PUT_MANY"]
    assert sum(parts) == 25 and len(parts) >= 3


def test_arguments_are_checked_before_anything_is_sent(remote: RemoteStore, tiny: TinyDaemon) -> None:
    """The errors are those of the library, and the daemon is not bothered."""
    pages = remote.journal("pages")
    before = len(tiny.asked)
    for wrong in (
        lambda: pages.put("", 1),
        lambda: pages.put("a", object()),
        lambda: pages.put("a", 1, priority=256),
        lambda: pages.put("a", 1, delay="5 parsecs"),
        lambda: pages.put("a", 1, delay=1, process_date=1),
        lambda: pages.claim(lease=0),
        lambda: pages.claim(buckets="0-3"),
        lambda: pages.claim_many(0),
        lambda: pages.done("token"),
        lambda: pages.move("a"),
    ):
        with pytest.raises(journal.Invalid):
            wrong()
    assert len(tiny.asked) == before
