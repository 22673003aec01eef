"""Entries under a lease in generations that should go: they move with their lease, and its holder notices nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal.engine.survivors import survivors
from journal.testing import ManualClock

Copy = Callable[[journal.Store], Path]


def live(pages: journal.Journal) -> list[int]:
    """The generations that have rows."""
    return [g.order for g in pages.generations() if g.state in ("active", "draining")]


def settle(store: journal.Store) -> None:
    """Let the keeper do what is left to do."""
    for _ in range(60):
        store._keeper.call(lambda: None)
        store.checkpoint()


def test_a_lease_with_a_successor_keeps_its_generation_until_it_ends(store: journal.Store, clock: ManualClock) -> None:
    """Such an entry stays where it is; done lets the successor follow, and the generation goes."""
    pages = store.journal("pages", generations_max=2)
    pages.put("a", 1)
    lease = pages.claim(lease="1h")
    assert lease is not None
    assert pages.put("a", 2).outcome == "queued"
    for i in range(4):
        pages.rotate()
        pages.put(f"b{i}", delay="1d")
    settle(store)
    first = pages.generations()[0]
    assert (first.order, first.state, first.processing, first.kept_by) == (1, "draining", 1, ("leases",))
    lease.done()
    settle(store)
    assert 1 not in live(pages)
    assert store.check() == []


def test_leases_do_not_pile_up_generations(store: journal.Store, clock: ManualClock, crashed: Copy) -> None:
    """An entry under a lease moves when there are too many generations; its holder notices nothing, a crash loses nothing."""
    pages = store.journal("pages", generations_max=3)
    leases = {}
    for i in range(12):
        pages.put(f"a{i}", i, owner="us", expiration=clock.now() + 5000)
        lease = pages.claim(lease="1h")
        assert lease is not None
        leases[lease.key] = lease
        pages.rotate()
    settle(store)
    assert len(live(pages)) <= 3
    with journal.open(crashed(store), clock=clock) as again:
        assert {lease.token for lease in again.journal("pages").leases()} == {each.token for each in leases.values()}
        assert again.check() == []
    clock.advance(10_000)  # what is under a lease does not expire
    assert pages.count(status="P") == 12
    leases["a0"].extend("2h")
    assert pages.put("a1", "again", owner="us").outcome == "queued"
    leases["a2"].release()
    leases["a3"].bury("no")
    for key in ("a1", "a4", "a5"):
        leases[key].done()
    assert {entry.key: entry.data for entry in pages.scan(status="W")} == {"a1": "again"}  # a2 has expired
    clock.advance(3_600_000)  # the others are lost, and have expired
    assert [lease.key for lease in pages.leases()] == ["a0"]
    assert store.check() == []


@pytest.mark.alone(reason="merged journals have their files elsewhere")
def test_a_leased_entry_that_moved_is_recovered_from_half_a_checkpoint(
    store: journal.Store, clock: ManualClock, crashed: Copy
) -> None:
    """The older file committed without it, the active one not yet: the log has the entry and its lease."""
    pages = store.journal("pages", generations_max=3)
    for key in ("stays", "moves"):
        pages.put(key, key)
    leases = pages.claim_many(2, lease="1h")
    pages.put("stays", "next")  # a successor: its entry does not move, and keeps the generation
    pages.rotate()
    pages.rotate()
    store.checkpoint()
    before = crashed(store)
    effect = survivors(pages._p.state, pages._p.state.generations[0], with_leased=True)
    assert effect is not None and len(effect.entries) == 2
    with pages._p.lock:
        pages._p.generations.move(b"", effect, pages._p.enter())
    leases[1].extend("2h")
    store.checkpoint()
    after = crashed(store)
    active = Path("pages") / f"{pages._p.order:06d}" / "rows.mdb"
    shutil.copyfile(before / active, after / active)
    with journal.open(after, clock=clock) as again:
        assert again.check() == []
        found = {lease.token: lease.deadline for lease in again.journal("pages").leases()}
        assert found == {lease.token: lease.deadline for lease in leases}
        assert again.journal("pages").statistics()["entries"] == 2
