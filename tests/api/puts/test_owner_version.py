"""Owners and versions: who may change an entry, and that nobody changes one he has not read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import journal
from journal import Put
from journal.testing import ManualClock

OTHERS = [None, "other"]


@pytest.fixture
def owned(pages: journal.Journal) -> journal.Entry:
    """Key "a" belongs to "group"."""
    pages.put("a", 1, owner="group")
    entry = pages.get("a")
    assert entry is not None and entry.owner == "group"
    return entry


@pytest.mark.parametrize("other", OTHERS)
def test_other_producers_may_do_nothing(pages: journal.Journal, owned: journal.Entry, other: str | None) -> None:
    """Neither put, move nor delete, alone or in a group; the entry stays as it was."""
    calls: list[Callable[[], object]] = [
        lambda: pages.put("a", 2, owner=other),
        lambda: pages.delete("a", owner=other),
        lambda: pages.move("a", priority=1, owner=other),
    ]
    for call in calls:
        with pytest.raises(journal.NotOwner):
            call()
    results = pages.put_many([Put("a", 2, owner=other), Put("b", 3, owner=other)])
    assert isinstance(results[0], journal.NotOwner)
    assert pages.get("a") == owned
    assert pages.count() == 2


def test_the_owner_may_change_it(pages: journal.Journal, owned: journal.Entry) -> None:
    """Merge, move, delete; a merge keeps the owner."""
    assert pages.put("a", 2, owner="group").outcome == "merged"
    assert pages.move("a", priority=1, owner="group").priority == 1
    entry = pages.get("a")
    assert entry is not None and (entry.owner, entry.data) == ("group", 2)
    assert pages.delete("a", owner="group") is True


def test_an_entry_without_an_owner_is_everybodys(pages: journal.Journal) -> None:
    """And does not get one by a merge: owners never change."""
    pages.put("a", 1)
    assert pages.put("a", 2, owner="group").outcome == "merged"
    entry = pages.get("a")
    assert entry is not None and entry.owner is None
    assert pages.delete("a", owner="other") is True


def test_consumers_need_no_owner(pages: journal.Journal, owned: journal.Entry, clock: ManualClock) -> None:
    """The lease's consumer may extend, release and finish; the owner stays through it all."""
    lease = pages.claim(consumer="c", lease="1s")
    assert lease is not None
    lease.release()
    lease = pages.claim(consumer="c", lease="1s")
    assert lease is not None
    clock.advance(1000)
    lease = pages.claim(consumer="c")
    assert lease is not None
    entry = pages.get("a")
    assert entry is not None and entry.owner == "group"
    lease.extend("1h")
    lease.done()
    assert pages.count() == 0


def test_not_even_the_owner_touches_an_entry_under_a_lease(pages: journal.Journal, owned: journal.Entry) -> None:
    """A put is queued; move and delete are refused."""
    lease = pages.claim()
    assert lease is not None
    for call in (lambda: pages.delete("a", owner="group"), lambda: pages.move("a", priority=1, owner="group")):
        with pytest.raises(journal.Refused):
            call()
    assert pages.put("a", 2, owner="group").outcome == "queued"
    with pytest.raises(journal.NotOwner):
        pages.put("a", 3, owner="other")
    lease.done()
    entry = pages.get("a")
    assert entry is not None and (entry.data, entry.owner) == (2, "group")


def test_a_buried_entry_keeps_its_owner(pages: journal.Journal, owned: journal.Entry) -> None:
    """Through retry too."""
    lease = pages.claim()
    assert lease is not None
    lease.bury()
    assert pages.buried()[0].entry.owner == "group"
    pages.retry("a")
    with pytest.raises(journal.NotOwner):
        pages.delete("a")


def test_every_change_raises_the_version(pages: journal.Journal, clock: ManualClock) -> None:
    """Put, merge, move, claim, extend, release, timeout, bury and retry."""
    versions = [pages.put("a").version, pages.put("a").version, pages.move("a", priority=1).version]
    lease = pages.claim(lease=10)
    assert lease is not None
    versions.append(lease.version)
    lease.extend(20)
    versions.append(lease.version)
    lease.release()
    entry = pages.get("a")
    assert entry is not None
    versions.append(entry.version)
    lease = pages.claim(lease=10)
    assert lease is not None
    versions.append(lease.version)
    clock.advance(10)
    entry = pages.get("a")
    assert entry is not None
    versions.append(entry.version)
    lease = pages.claim()
    assert lease is not None
    versions.append(lease.version)
    lease.bury()
    versions += [pages.buried()[0].entry.version, pages.retry("a").version]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("verb", ["delete", "move"])
def test_a_change_with_an_old_version_is_refused(pages: journal.Journal, verb: str) -> None:
    """VersionMismatch, nothing changed; with the right one it works."""
    first = pages.put("a", 1)
    second = pages.put("a", 2)
    before = pages.get("a")

    def call(version: int) -> object:
        if verb == "delete":
            return pages.delete("a", version=version)
        return pages.move("a", priority=1, version=version)

    for version in (first.version, second.version + 1, 0):
        with pytest.raises(journal.VersionMismatch):
            call(version)
    assert pages.get("a") == before
    call(second.version)


def test_a_timeout_counts_as_a_change(pages: journal.Journal, clock: ManualClock) -> None:
    """Who read the entry before its lease was lost must read it again."""
    version = pages.put("a").version
    assert pages.claim(lease=10) is not None
    clock.advance(10)
    with pytest.raises(journal.VersionMismatch):
        pages.delete("a", version=version)
    assert pages.count() == 1
