"""Entries under a lease in generations that should go: they move with their lease, and its holder notices nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal.engine.generations.leftovers import survivors
from journal.testing import ManualClock

Copy = Callable[[journal.Store], Path]


def live(pages: journal.Journal) -> list[int]:
    """The generations that have rows."""
    return [g.order for g in pages.generations() if g.state in ("active", "draining")]


def settle(store: journal.Store) -> None:
    """Let the keeper do what is left to do."""
    for _ in range(60):
        store._backend.keeper.call(lambda: None)
        store.checkpoint()


def test_a_successor_moves_with_its_entry(store: journal.Store, clock: ManualClock, crashed: Copy) -> None:
    """The generation goes although the lease goes on; done lets the successor follow, a loss merges the two."""
    pages = store.journal("pages", generations_max=2)
    for key in ("a", "b"):
        pages.put(key, 1)
    leases = {lease.key: lease for lease in pages.claim_many(2, lease="1h")}
    for key in ("a", "b"):
        assert pages.put(key, 2).outcome == "queued"
    for i in range(4):
        pages.rotate()
        pages.put(f"far-{i}", delay="1d")
    settle(store)
    assert 1 not in live(pages) and len(live(pages)) <= 2
    with journal.open(crashed(store), clock=clock) as again:
        assert again.journal("pages").statistics()["successors"] == 2
        assert again.check() == []
    leases["a"].done()
    clock.advance(3_600_000)
    assert {entry.key: entry.data for entry in pages.scan() if entry.process_date <= clock.now()} == {"a": 2, "b": 2}
    assert pages.statistics()["successors"] == 0
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
    store: journal.Store, clock: ManualClock, crashed: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The older file committed without it, the active one not yet: the log has the entry, its lease and its successor."""
    pages = store.journal("pages", generations_max=3)
    for key in ("a", "b", "c"):
        pages.put(key, key)
    leases = {lease.key: lease for lease in pages.claim_many(3, lease="1h")}
    pages.put("b", "next")
    pages.rotate()
    pages.rotate()
    store.checkpoint()
    before = crashed(store)
    monkeypatch.setattr("journal.engine.generations.leftovers.CARRY", 2)  # one stays, and keeps the generation
    p = pages._backend.p
    effect = survivors(p.state, p.state.generations[0], with_leased=True)
    assert effect is not None and len(effect.entries) == 4
    with p.lock:
        p.generations.move(b"", effect, p.enter())
    leases["a"].extend("2h")
    store.checkpoint()
    after = crashed(store)
    active = Path("pages") / f"{p.order:06d}" / "rows.mdb"
    shutil.copyfile(before / active, after / active)
    with journal.open(after, clock=clock) as again:
        assert again.check() == []
        found = {lease.token: lease.deadline for lease in again.journal("pages").leases()}
        assert found == {lease.token: lease.deadline for lease in leases.values()}
        numbers = again.journal("pages").statistics()
        assert (numbers["entries"], numbers["successors"]) == (3, 1)
