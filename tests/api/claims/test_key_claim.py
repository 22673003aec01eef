"""Claims by key, and the lease of a token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal.testing import ManualClock


def version_of(pages: journal.Journal, key: str) -> int:
    entry = pages.get(key)
    assert entry is not None
    return entry.version


def test_a_claim_by_key_takes_that_entry(pages: journal.Journal, clock: ManualClock) -> None:
    """Whatever comes before it; all that a lease tells is there."""
    pages.put("first", 1, priority=0)
    clock.advance(5)
    pages.put("b", {"n": 2}, owner="billing", expiration=clock.now() + 10**6)
    clock.advance(7)
    lease = pages.claim_key("b", version=1, consumer="mail-1", lease="30s")
    assert (lease.key, lease.data, lease.owner, lease.consumer) == ("b", {"n": 2}, "billing", "mail-1")
    assert (lease.start, lease.deadline, lease.insertion_date) == (clock.now(), clock.now() + 30_000, clock.now() - 7)
    assert (lease.version, lease.timeouts, lease.expiration) == (2, 0, clock.now() - 7 + 10**6)
    other = pages.claim()
    assert other is not None and (other.key, other.owner, other.expiration) == ("first", None, 0)
    assert pages.claim() is None
    lease.done()
    other.done()
    assert pages.count() == 0


def test_it_is_due_at_its_very_millisecond(pages: journal.Journal, clock: ManualClock) -> None:
    """NotDue before, and nothing is changed by that."""
    pages.put("a", delay=1000)
    before, cursor = pages.get("a"), pages.durable_cursor
    clock.advance(999)
    with pytest.raises(journal.NotDue, match="1 ms more"):
        pages.claim_key("a")
    assert (pages.get("a"), pages.durable_cursor, pages.leases()) == (before, cursor, [])
    clock.advance(1)
    assert pages.claim_key("a").key == "a"


@pytest.mark.parametrize("has_version", [True, False])
def test_what_somebody_has_is_not_taken(pages: journal.Journal, clock: ManualClock, has_version: bool) -> None:
    """Leased until the deadline; then it may be claimed, with the version that it has by then."""
    pages.put("a")
    first = pages.claim_key("a", lease=1000)
    for _ in range(2):
        with pytest.raises(journal.Leased):
            pages.claim_key("a", version=version_of(pages, "a") if has_version else None)
        clock.advance(500)
    second = pages.claim_key("a", version=version_of(pages, "a") if has_version else None)
    assert second.token != first.token and second.version == 4 and second.timeouts == 1
    with pytest.raises(journal.LeaseLost):
        first.done()
    second.done()


@pytest.mark.parametrize("version", [0, 1, 3])
def test_who_has_an_older_copy_is_refused(pages: journal.Journal, version: int) -> None:
    """VersionMismatch, and it can be claimed with the version of now."""
    pages.put("a", 1)
    pages.put("a", 2)
    with pytest.raises(journal.VersionMismatch):
        pages.claim_key("a", version=version)
    assert pages.leases() == []
    assert pages.claim_key("a", version=2).data == 2


def test_what_is_not_there(pages: journal.Journal, clock: ManualClock) -> None:
    """Never, done, or expired."""
    pages.put("done")
    pages.claim_key("done").done()
    pages.put("expired", expiration=clock.now() + 5)
    clock.advance(5)
    for key in ("never", "done", "expired"):
        with pytest.raises(journal.NotFound):
            pages.claim_key(key)


@pytest.mark.parametrize(
    "call",
    [
        lambda pages: pages.claim_key(7),
        lambda pages: pages.claim_key(""),
        lambda pages: pages.claim_key("a", version="1"),
        lambda pages: pages.claim_key("a", consumer=None),
        lambda pages: pages.claim_key("a", lease=0),
        lambda pages: pages.claim_key("a", durability="much"),
        lambda pages: pages.lease("a"),
    ],
    ids=["key", "empty key", "version", "consumer", "lease", "durability", "token"],
)
def test_wrong_arguments(pages: journal.Journal, call: Callable[[journal.Journal], object]) -> None:
    """Invalid, before anything is looked at."""
    pages.put("a")
    with pytest.raises(journal.Invalid):
        call(pages)
    assert pages.leases() == []


def test_slow_ones_may_be_picked(pages: journal.Journal) -> None:
    """The order of work is for those who do not choose."""
    pages.put("now")
    pages.put("slow", priority=255)
    assert pages.claim_key("slow").priority == 255


def test_the_order_goes_on_as_if_it_had_not_been_there(pages: journal.Journal, clock: ManualClock) -> None:
    """Entries picked from the middle are passed over, and stand in their old place when they come back."""
    keys = [f"k{n}" for n in range(20)]
    for key in keys:
        pages.put(key)
        clock.advance(1)
    picked = {key: pages.claim_key(key, lease=10_000) for key in keys[3:15:3]}
    lost = pages.claim_key(keys[1], lease=1)
    clock.advance(1)
    with pytest.raises(journal.LeaseLost):
        lost.extend()
    taken = [lease.key for lease in pages.claim_many(5)]
    assert taken == ["k0", "k1", "k2", "k4", "k5"]
    clock.advance(10_000)
    rest = [lease.key for lease in pages.claim_many(100, lease="1h")]
    assert rest == [key for key in keys if key not in taken]
    with pytest.raises(journal.LeaseLost):
        picked["k3"].done()


def test_picked_in_an_older_generation(store: journal.Store, pages: journal.Journal) -> None:
    """Wherever its entry is."""
    pages.put("a", 1)
    pages.rotate()
    pages.put("b", 2)
    lease = pages.claim_key("a")
    assert lease.data == 1
    lease.release()
    pages.claim_key("a").done()
    assert [entry.key for entry in pages.scan()] == ["b"]
    assert store.check() == []


def test_a_picked_lease_survives_a_crash(
    store: journal.Store, pages: journal.Journal, clock: ManualClock, crashed: Callable[[journal.Store], Path]
) -> None:
    """It is a claim like any other."""
    pages.put("a", 1)
    token = pages.claim_key("a", consumer="c").token
    with journal.open(crashed(store), clock=clock) as opened:
        again = opened.journal("pages")
        assert [(lease.token, lease.consumer) for lease in again.leases(consumer="c")] == [(token, "c")]
        assert again.lease(token).data == 1
        again.done(token)
        assert opened.check() == []


def test_the_lease_of_a_token(pages: journal.Journal, clock: ManualClock) -> None:
    """As it is now: a deadline that was extended elsewhere is the new one."""
    pages.put("a", [1])
    lease = pages.claim(consumer="c", lease="1s")
    assert lease is not None
    pages.extend(lease.token, "1h")
    again = pages.lease(lease.token)
    assert (again.key, again.data, again.consumer, again.token) == ("a", [1], "c", lease.token)
    assert (again.deadline, again.version) == (clock.now() + 3_600_000, lease.version + 1)
    assert pages.lease(lease).deadline == again.deadline
    again.done()
    for token in (lease.token, lease.token + 1, 0):
        with pytest.raises(journal.LeaseLost):
            pages.lease(token)


def test_now_is_the_engines_time(tmp_path: Path, clock: ManualClock) -> None:
    """And a closed journal has none."""
    with journal.open(tmp_path / "store", clock=clock) as store:
        pages = store.journal("pages")
        assert pages.now() == clock.now()
        clock.advance(5)
        assert pages.now() == clock.now() == pages.put("a").process_date
    with pytest.raises(journal.StoreClosed):
        pages.now()
