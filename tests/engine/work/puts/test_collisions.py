"""Keys with one murmur, made on purpose: two entries everywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Put
from journal.core.entry.keys import murmur
from journal.testing import ManualClock
from tests.crash.collide import twin
from tests.engine.helpers import collide

Copy = Callable[[journal.Store], Path]
ONE = b"0123456789abcdef0123456789ABCDEF"
TWO = twin(ONE)


def test_the_twins_are_twins() -> None:
    """Two keys, one murmur; otherwise this file tests nothing."""
    assert ONE != TWO
    assert murmur(ONE) == murmur(TWO)


@pytest.mark.parametrize("is_group", [False, True])
def test_two_keys_are_two_entries(pages: journal.Journal, is_group: bool) -> None:
    """Put, get, merge, count, scan: neither touches the other."""
    if is_group:
        pages.put_many([Put(ONE, 1), Put(TWO, 2)])
    else:
        pages.put(ONE, 1)
        pages.put(TWO, 2)
    assert pages.put(TWO, 3).outcome == "merged"
    found = [pages.get(ONE), pages.get(TWO)]
    assert [e.data for e in found if e] == [1, 3]
    assert pages.count() == len(list(pages.scan())) == 2
    with pytest.raises(journal.KeyExists):
        pages.create(TWO)


def test_neither_is_needed_for_the_other(pages: journal.Journal) -> None:
    """The first of a murmur goes, the second is still found; and the other way round."""
    for first, second in ((ONE, TWO), (TWO, ONE)):
        pages.put(first, 1)
        pages.put(second, 2)
        assert pages.delete(first) is True
        assert pages.get(first) is None
        entry = pages.get(second)
        assert entry is not None and entry.data == 2
        assert pages.put(first, 3).outcome == "inserted"
        assert pages.put(second, 4).outcome == "merged"
        assert pages.delete(first) and pages.delete(second)


def test_each_has_its_lease_and_its_successor(pages: journal.Journal, clock: ManualClock) -> None:
    """At one place in the order of work; done and timeout of one leave the other alone."""
    pages.put_many([Put(ONE, 1), Put(TWO, 2)])
    leases = {lease.key: lease for lease in pages.claim_many(2, lease="1s")}
    assert pages.put(ONE, "next").outcome == "queued"
    assert pages.statistics()["successors"] == 1
    leases[TWO].done()
    assert pages.get(TWO) is None
    leases[ONE].done()
    entry = pages.get(ONE)
    assert entry is not None and entry.data == "next"
    pages.put(TWO, "again")
    assert pages.claim_many(2, lease="1s")
    clock.advance(1000)
    assert [(e.key, e.timeouts) for e in sorted(pages.scan(), key=lambda e: e.key != ONE)] == [(ONE, 1), (TWO, 1)]


def test_the_buried_one_is_the_one_that_was_meant(pages: journal.Journal) -> None:
    """retry and discard compare whole keys too."""
    pages.put(ONE, 1)
    pages.put(TWO, 2)
    for lease in pages.claim_many(2):
        lease.bury("both")
    pages.retry(ONE)
    entry = pages.get(ONE)
    assert entry is not None and entry.data == 1
    assert [b.entry.key for b in pages.buried()] == [TWO]
    with pytest.raises(journal.NotFound):
        pages.discard(ONE)
    pages.discard(TWO)


def test_they_expire_and_move_one_by_one(pages: journal.Journal, clock: ManualClock) -> None:
    """The indexes tell them apart."""
    pages.put(ONE, expiration=clock.now() + 10, owner="one")
    pages.put(TWO, owner="two")
    pages.move(TWO, priority=3, owner="two")
    with pytest.raises(journal.NotOwner):
        pages.delete(ONE, owner="two")
    clock.advance(10)
    assert [(e.key, e.priority) for e in pages.scan()] == [(TWO, 3)]


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_they_survive_a_crash(
    store: journal.Store, pages: journal.Journal, crashed: Copy, is_checkpointed: bool
) -> None:
    """Replayed or committed, found and told apart, also when the first of them is gone."""
    pages.put_many([Put(ONE, 1), Put(TWO, 2), Put("other", 3)])
    pages.delete(ONE)
    if is_checkpointed:
        store.checkpoint()
    with journal.open(crashed(store)) as again:
        there = again.journal("pages")
        assert there.put(TWO, 4).outcome == "merged"
        assert there.put(ONE, 5).outcome == "inserted"
        assert there.count() == 3
        assert again.check() == []


def test_the_257th_key_of_a_murmur_is_refused(monkeypatch: pytest.MonkeyPatch, pages: journal.Journal) -> None:
    """Invalid, nothing changed; there is room again when one of them is finished."""
    collide(monkeypatch)
    for i in range(256):
        pages.put(f"k{i}")
    with pytest.raises(journal.Invalid):
        pages.put("one more")
    assert pages.count() == 256
    assert pages.delete("k7") is True
    assert pages.put("one more").outcome == "inserted"
    assert pages.put("k8").outcome == "merged"
