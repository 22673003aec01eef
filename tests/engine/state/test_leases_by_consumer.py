"""Leases by consumer: an index that is brought up to date by who asks."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import journal
from journal.engine.state import leases as engine_leases
from journal.testing import ManualClock

CONSUMERS = ["", "a", "b", "ü"]


def expected(pages: journal.Journal, consumer: str) -> list[tuple[int, int]]:
    return [(lease.deadline, lease.token) for lease in pages.leases() if lease.consumer == consumer]


def found(pages: journal.Journal, consumer: str) -> list[tuple[int, int]]:
    return [(lease.deadline, lease.token) for lease in pages.leases(consumer=consumer)]


@pytest.mark.parametrize("seed", range(8))
def test_it_says_what_a_look_at_all_leases_says(
    store: journal.Store, pages: journal.Journal, clock: ManualClock, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever begins and ends, whenever somebody asks; over rotations and checkpoints too."""
    monkeypatch.setattr(engine_leases, "TRIM_FROM", 4)
    chance = random.Random(seed)
    store.journal("pages", timeouts_max=255)
    for n in range(60):
        pages.put(f"k{n}")
    for _ in range(120):
        consumer = chance.choice(CONSUMERS)
        held = pages.leases()
        match chance.randrange(8):
            case 0 | 1:
                pages.claim(consumer=consumer, lease=chance.randrange(1, 50))
            case 2:
                pages.claim_many(3, consumer=consumer, lease=40)
            case 3 if held:
                chance.choice(held).done()
            case 4 if held:
                chance.choice(held).release()
            case 5 if held:
                chance.choice(held).extend(60)
            case 6:
                clock.advance(chance.randrange(20))
            case 7 if chance.random() < 0.2:
                pages.rotate()
        if chance.random() < 0.4:
            assert found(pages, consumer) == expected(pages, consumer)
        kept = sum(map(len, pages._backend.p.state.leases._by_consumer.values()))
        assert kept == pages._backend.p.state.leases._indexed_size
    for consumer in CONSUMERS:
        assert found(pages, consumer) == expected(pages, consumer)


def test_after_a_restart_a_consumer_finds_its_own(tmp_path: Path, clock: ManualClock) -> None:
    """The index is made from what was loaded, and new leases join it."""
    with journal.open(tmp_path / "store", clock=clock) as store:
        pages = store.journal("pages")
        for n in range(6):
            pages.put(f"k{n}", priority=5 - n)  # the order of loading is not that of the tokens
        before = [lease.token for n in range(4) for lease in pages.claim_many(1, consumer="ab"[n % 2])]
    with journal.open(tmp_path / "store", clock=clock) as store:
        pages = store.journal("pages")
        assert [lease.token for lease in pages.leases(consumer="a")] == before[::2]
        more = pages.claim(consumer="a")
        assert more is not None and more.token > max(before)
        assert [lease.token for lease in pages.leases(consumer="a")] == [*before[::2], more.token]
        assert [lease.token for lease in pages.leases(consumer="b")] == before[1::2]


def test_what_has_ended_is_not_kept(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of the consumer who asks nor, beyond a bound, of others."""
    monkeypatch.setattr(engine_leases, "TRIM_FROM", 4)
    leases = pages._backend.p.state.leases
    for n in range(30):
        pages.put(f"k{n}")
        lease = pages.claim(consumer=f"c{n}")
        assert lease is not None
        assert len(pages.leases(consumer=f"c{n}")) == 1
        assert leases._indexed_size <= 2 * len(leases) + 4
        lease.done()
    assert pages.leases(consumer="c29") == []
    with pytest.raises(journal.Invalid):
        pages.leases(consumer=7)  # type: ignore[arg-type]
