"""Every accepted change raises the version, nothing else does, and who has an older copy is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import journal
from journal import Delete, Move, Put
from journal.testing import ManualClock

LEASE_MS = 1000
Verb = Callable[[journal.Journal, ManualClock], object]


def held(pages: journal.Journal) -> journal.Lease:
    (lease,) = pages.leases()
    return lease


def claimed(pages: journal.Journal, clock: ManualClock) -> object:
    return pages.claim_key("a", lease=LEASE_MS)


def followed(pages: journal.Journal, clock: ManualClock) -> object:
    """Under a lease, with a successor that was put twice."""
    claimed(pages, clock)
    pages.put("a", 2)
    return pages.put("a", 3)


def buried(pages: journal.Journal, clock: ManualClock) -> object:
    return pages.claim_key("a").bury()


def nothing(pages: journal.Journal, clock: ManualClock) -> object:
    return None


CHANGES: dict[str, tuple[Verb, Verb]] = {
    "put": (nothing, lambda pages, clock: pages.put("a", 2)),
    "put_many": (nothing, lambda pages, clock: pages.put_many([Put("a", 2)])),
    "put, the same data": (nothing, lambda pages, clock: pages.put("a", 1)),
    "move": (nothing, lambda pages, clock: pages.move("a", priority=1)),
    "move to where it is": (nothing, lambda pages, clock: pages.move("a", priority=100)),
    "move_many": (nothing, lambda pages, clock: pages.move_many([Move("a", priority=1)])),
    "claim": (nothing, lambda pages, clock: pages.claim()),
    "claim_many": (nothing, lambda pages, clock: pages.claim_many(9)),
    "claim_key": (nothing, lambda pages, clock: pages.claim_key("a")),
    "extend": (claimed, lambda pages, clock: held(pages).extend("1h")),
    "extend by nothing": (claimed, lambda pages, clock: held(pages).extend(1)),
    "release": (claimed, lambda pages, clock: held(pages).release()),
    "timeout": (claimed, lambda pages, clock: clock.advance(LEASE_MS)),
    "done, with a successor": (followed, lambda pages, clock: held(pages).done()),
    "done_many, with a successor": (followed, lambda pages, clock: pages.done_many(pages.leases())),
    "release, with a successor": (followed, lambda pages, clock: held(pages).release()),
    "timeout, with a successor": (followed, lambda pages, clock: clock.advance(LEASE_MS)),
    "bury, with a successor": (followed, lambda pages, clock: held(pages).bury()),
}


def version(pages: journal.Journal) -> int:
    entry = pages.get("a")
    assert entry is not None
    return entry.version


@pytest.mark.parametrize("preset", ["merge", "replace", "debounce"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_raises_the_version(store: journal.Store, clock: ManualClock, name: str, preset: str) -> None:
    """And who still has the copy of before may neither move, delete nor claim."""
    pages = store.journal("versioned", merge=preset)
    prepare, change = CHANGES[name]
    pages.put("a", 1)
    prepare(pages, clock)
    known = [version(pages)]
    change(pages, clock)
    assert version(pages) > known[0]
    if pages.leases():
        known.append(version(pages))  # the copy of the lease's consumer
        assert held(pages).version == version(pages)
        clock.advance(2 * 3_600_000)
        assert pages.leases() == []
    before, cursor = pages.get("a"), pages.statistics()["next_offset"]
    for old in known:
        refused: list[Callable[[], object]] = [
            lambda old=old: pages.move("a", priority=1, version=old),
            lambda old=old: pages.delete("a", version=old),
            lambda old=old: pages.claim_key("a", version=old),
        ]
        for call in refused:
            with pytest.raises(journal.VersionMismatch):
                call()
        results = [*pages.move_many([Move("a", delay=1, version=old)]), *pages.delete_many([Delete("a", version=old)])]
        assert {type(result) for result in results} == {journal.VersionMismatch}
    assert (pages.get("a"), pages.statistics()["next_offset"]) == (before, cursor)
    pages.claim_key("a", version=version(pages)).done()


def test_queued_buried_and_retried(pages: journal.Journal, clock: ManualClock) -> None:
    """Those that are no waiting entry for a while have versions of their own, and they only rise."""
    versions = [pages.put("a").version, pages.claim_key("a").version]
    versions += [pages.put("a", 2).version, pages.put("a", 3).version]  # queued
    held(pages).done()
    versions.append(version(pages))
    pages.claim_key("a").bury()
    versions.append(pages.buried()[0].entry.version)
    versions.append(pages.retry("a").version)
    assert versions == sorted(set(versions))


@pytest.mark.parametrize(
    "call",
    [
        lambda pages, now: pages.put("a", 2, insertion_date=now - 1),
        lambda pages, now: pages.create("a", 1, is_repeatable=True),
        lambda pages, now: pages.create_many([Put("a", 1)]),
        lambda pages, now: pages.move_many([Move("a", priority=1, version=9)]),
        lambda pages, now: pages.get("a"),
        lambda pages, now: pages.rotate(),
    ],
    ids=["stale", "exists", "refused", "older copy", "read", "rotate"],
)
def test_what_changes_nothing_leaves_the_version(
    pages: journal.Journal, clock: ManualClock, call: Callable[[journal.Journal, int], object]
) -> None:
    """Who has read the entry still has it."""
    first = pages.put("a", 1)
    call(pages, clock.now())
    assert version(pages) == first.version
    assert pages.move("a", priority=1, version=first.version).outcome == "moved"


def test_a_lease_with_an_older_copy_is_refused(pages: journal.Journal, clock: ManualClock) -> None:
    """A consumer whose lease was lost holds an older copy, whoever has the entry now; its token says so."""
    pages.put("a", 1)
    old = pages.claim_key("a", consumer="c", lease=LEASE_MS)
    clock.advance(LEASE_MS)
    new = pages.claim_key("a", consumer="c", lease=LEASE_MS)
    assert new.version > old.version
    for call in (old.done, old.extend, old.release, old.bury, lambda: pages.lease(old.token)):
        with pytest.raises(journal.LeaseLost):
            call()
    assert (version(pages), new.version) == (new.version, new.version)
    new.done()
