"""`put(version=…)`: onto what the caller has read, or not at all."""

from __future__ import annotations

import pytest

import journal
from journal import Put
from journal.testing import ManualClock


def test_a_put_onto_another_version_is_refused(pages: journal.Journal) -> None:
    """Nothing is changed; with the version that is there it is merged."""
    first = pages.put("a", 1, version=0)
    assert (first.outcome, first.version) == ("inserted", 1)
    for version in (0, 2, 7):
        with pytest.raises(journal.VersionMismatch):
            pages.put("a", 2, version=version)
    assert pages.get("a").data == 1  # type: ignore[union-attr]
    assert pages.put("a", 2, version=first.version).outcome == "merged"
    with pytest.raises(journal.VersionMismatch):
        pages.put("a", 3, version=first.version)
    with pytest.raises(journal.VersionMismatch, match="there is no entry"):
        pages.put("b", 1, version=1)
    with pytest.raises(journal.Invalid):
        pages.put("b", 1, version="1")  # type: ignore[arg-type]
    assert pages.count() == 1 and pages.get("a").data == 2  # type: ignore[union-attr]


def test_a_claim_is_another_version(pages: journal.Journal) -> None:
    """Who read before it does not queue behind it; who read after it does, once."""
    before = pages.put("a", 1).version
    lease = pages.claim()
    assert lease is not None
    with pytest.raises(journal.VersionMismatch):
        pages.put("a", 2, version=before)
    seen = pages.get("a").version  # type: ignore[union-attr]
    queued = pages.put("a", 2, version=seen)
    assert queued.outcome == "queued"
    with pytest.raises(journal.VersionMismatch, match="waits behind its lease"):
        pages.put("a", 3, version=seen)
    assert pages.put("a", 3, version=queued.version).outcome == "queued"
    lease.done()
    assert pages.get("a").data == 3  # type: ignore[union-attr]


def test_an_entry_that_has_expired_is_not_there(pages: journal.Journal, clock: ManualClock) -> None:
    """Its version is 0."""
    pages.put("a", 1, expiration=clock.now() + 10)
    clock.advance(10)
    assert pages.put("a", 2, version=0).outcome == "inserted"


def test_in_a_group(pages: journal.Journal) -> None:
    """Each for itself, over what the group has done before it; new keys too."""
    pages.put("a", 1)
    results = pages.put_many(
        [Put("a", 2, version=1), Put("a", 3, version=1), Put("b", 1, version=0), Put("c", 1, version=5), Put("d", 1)]
    )
    assert [getattr(r, "outcome", type(r)) for r in results] == [
        "merged", journal.VersionMismatch, "inserted", journal.VersionMismatch, "inserted",
    ]  # fmt: skip
    assert sorted((e.key, e.data) for e in pages.scan()) == [("a", 2), ("b", 1), ("d", 1)]
    (refused,) = pages.put_many([Put("x", 1, version=1)])
    assert isinstance(refused, journal.VersionMismatch) and pages.get("x") is None


def test_with_done(pages: journal.Journal) -> None:
    """The whole is refused, and the lease goes on."""
    pages.put("b", 1)
    pages.put("a", 1, priority=1)
    lease = pages.claim()
    assert lease is not None
    for put in (Put("b", 2, version=7), Put("a", 2, version=1), Put("c", 2, version=1)):
        with pytest.raises(journal.VersionMismatch):
            lease.done(next=put)
    assert pages.get("b").data == 1  # type: ignore[union-attr]
    assert lease.done(next=Put("a", 2, version=lease.version)).outcome == "inserted"  # type: ignore[union-attr]


def test_release_with_another_priority(pages: journal.Journal, store: journal.Store) -> None:
    """It waits there; a successor is merged by the rules, and what is no priority is refused."""
    pages.put("a", 1, priority=50)
    lease = pages.claim()
    assert lease is not None
    with pytest.raises(journal.Invalid):
        lease.release(priority=256)
    lease.release(priority=210, delay="1s")
    entry = pages.get("a")
    assert entry is not None and entry.priority == 210
    pages.put("b", 1, priority=50)
    lease = pages.claim()
    assert lease is not None
    pages.put("b", 2, priority=120)
    pages.release(lease.token, priority=200)
    assert pages.get("b").priority == 120  # type: ignore[union-attr]
