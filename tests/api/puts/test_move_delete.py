"""Groups of moves and deletes, and look-ups: a result or an error for each, one record, one sync."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import journal
from journal import Delete, Move, Put
from journal.engine.work import group
from journal.testing import ManualClock
from tests.engine.helpers import Failing, collide


def errors(results: list[Any]) -> list[Any]:
    """The class of what was refused, the outcome of the rest."""
    return [
        type(r) if isinstance(r, Exception) else r.outcome if isinstance(r, journal.PutResult) else r for r in results
    ]


def everything(pages: journal.Journal) -> list[journal.Entry]:
    return list(pages.scan())


# -- moves -------------------------------------------------------------------------------------------------------------


def test_each_move_has_its_result(pages: journal.Journal, clock: ManualClock) -> None:
    """As the single verb has it; those that are accepted are one run of the log."""
    now = clock.now()
    pages.put_many([Put("a", 1), Put("b", 2, owner="g"), Put("c", 3, delay=500)])
    a, b, c = pages.move_many(
        [
            Move("a", delay="1s"),
            Move("b", priority=3, owner="g", version=1),
            Move("c", process_date=now + 9, priority=4),
        ]
    )
    assert isinstance(a, journal.PutResult) and isinstance(b, journal.PutResult) and isinstance(c, journal.PutResult)
    assert (a.outcome, a.process_date, a.priority, a.version) == ("moved", now + 1000, 100, 2)
    assert (b.process_date, b.priority) == (now, 3)
    assert (c.process_date, c.priority) == (now + 9, 4)
    assert (pages.distance(a.cursor, b.cursor), pages.distance(b.cursor, c.cursor)) == (1, 1)
    assert c.cursor == pages.durable_cursor
    assert [(entry.key, entry.data, entry.version) for entry in pages.scan()] == [("b", 2, 2), ("c", 3, 2), ("a", 1, 2)]


def test_each_refusal_is_its_own(pages: journal.Journal) -> None:
    """What is refused stays as it was; the rest is moved."""
    pages.put_many([Put(key, owner="g") for key in "abc"] + [Put("free")])
    pages.claim_key("c")
    before = pages.get_many("abc")
    moves: list[Any] = [
        Move("a", priority=1, owner="h"),
        Move("b", priority=1, owner="g", version=7),
        Move("c", priority=1, owner="g"),
        Move("none", priority=1),
        Move("free", priority=1),
        Move("free"),
        Move("free", delay=1, process_date=1),
        Move("free", priority=256),
        Move("free", process_date=0),
        Move(7, delay=1),  # type: ignore[arg-type]
        "free",
    ]
    assert errors(pages.move_many(moves)) == [
        journal.NotOwner, journal.VersionMismatch, journal.Leased, journal.NotFound, "moved", journal.Invalid,
        journal.Invalid, journal.Invalid, journal.Invalid, journal.Invalid, journal.Invalid,
    ]  # fmt: skip
    assert pages.get_many("abc") == before
    entry = pages.get("free")
    assert entry is not None and (entry.priority, entry.version) == (1, 2)


def test_a_key_that_comes_twice(pages: journal.Journal) -> None:
    """Each change sees those before it, with the version that they made."""
    pages.put("a")
    moves = [Move("a", priority=5, version=1), Move("a", priority=6, version=1), Move("a", priority=7, version=2)]
    assert errors(pages.move_many(moves)) == ["moved", journal.VersionMismatch, "moved"]
    entry = pages.get("a")
    assert entry is not None and (entry.priority, entry.version) == (7, 3)
    assert pages.delete_many(["a", "a"]) == [True, False]
    assert pages.count() == 0


@pytest.mark.parametrize("verb", ["move", "delete"])
def test_a_group_of_one_that_is_refused_writes_nothing(pages: journal.Journal, verb: str) -> None:
    """Nor does an empty group."""
    cursor = pages.durable_cursor
    if verb == "move":
        assert errors(pages.move_many([Move("none", delay=1)])) == [journal.NotFound]
        assert pages.move_many([]) == []
    else:
        assert pages.delete_many(["none"]) == [False]
        assert pages.delete_many(iter(())) == []
    assert pages.durable_cursor == cursor


# -- deletes -----------------------------------------------------------------------------------------------------------


def test_each_delete_has_its_result(pages: journal.Journal) -> None:
    """True, False when there was nothing, or why not."""
    pages.put_many([Put("a", owner="g"), Put("b", owner="g"), Put("c"), Put("d"), Put("e", owner="g")])
    pages.claim_key("d")
    deletes: list[Any] = [
        Delete("a", owner="g", version=1), Delete("b"), "c", "c", Delete("d"), Delete("e", owner="g", version=2), 7,
    ]  # fmt: skip
    assert errors(pages.delete_many(deletes)) == [
        True, journal.NotOwner, True, False, journal.Leased, journal.VersionMismatch, journal.Invalid,
    ]  # fmt: skip
    assert {entry.key for entry in pages.scan()} == {"b", "d", "e"}


def test_deletes_of_what_has_expired(pages: journal.Journal, clock: ManualClock) -> None:
    """It is gone already."""
    pages.put_many([Put("a", expiration=clock.now() + 5), Put("b")])
    clock.advance(5)
    assert pages.delete_many(["a", "b"]) == [False, True]


# -- of both -----------------------------------------------------------------------------------------------------------


def test_one_sync_for_all(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are."""
    keys = [f"k{n}" for n in range(300)]
    pages.put_many([Put(key) for key in keys])
    syncs = Failing(monkeypatch, "fdatasync")
    pages.move_many([Move(key, priority=1) for key in keys])
    assert syncs.calls == 1
    pages.delete_many(keys)
    assert syncs.calls == 2
    pages.put("last")
    pages.move_many([Move("last", delay=1)], durability="none")
    assert syncs.calls == 3


def test_all_or_nothing_after_a_crash(
    store: journal.Store, pages: journal.Journal, clock: ManualClock, crashed: Callable[[journal.Store], Path]
) -> None:
    """A group is one record: replayed whole, over two generations too."""
    pages.put_many([Put(f"k{n}", n, owner="g") for n in range(6)])
    pages.rotate()
    pages.put_many([Put(f"k{n}", n, owner="g") for n in range(6, 12)])
    store.checkpoint()
    pages.move_many([Move(f"k{n}", priority=n, owner="g") for n in range(0, 12, 2)])
    pages.delete_many([Delete(f"k{n}", owner="g") for n in range(0, 12, 3)])
    expected = everything(pages)
    assert [entry.key for entry in expected[:4]] == ["k2", "k4", "k8", "k10"]
    assert {entry.key for entry in expected[4:]} == {"k1", "k5", "k7", "k11"}
    with journal.open(crashed(store), clock=clock) as opened:
        again = opened.journal("pages")
        assert everything(again) == expected
        assert again.count_of("g") == len(expected)
        assert opened.check() == []


def test_keys_that_collide(store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two keys with one hash are two entries, in a group too."""
    collide(monkeypatch)
    pages.put_many([Put(key, key) for key in "abcdef"])
    assert errors(pages.move_many([Move(key, priority=ord(key)) for key in "bdx"])) == [
        "moved",
        "moved",
        journal.NotFound,
    ]
    assert pages.delete_many("acx") == [True, True, False]
    assert [entry.key for entry in pages.select(until=pages.now() + 1, limit=1)] == ["b"]
    assert {entry.key for entry in pages.scan()} == set("bdef")
    assert [entry and entry.key for entry in pages.get_many("abcdef")] == [None, "b", None, "d", "e", "f"]
    assert store.check() == []


def test_groups_have_limits(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """In number and in bytes; a group that is too large changes nothing."""
    pages.put_many([Put(f"k{n}", b"x" * 200) for n in range(4)])
    before = everything(pages)
    monkeypatch.setattr("journal.api.journal.GROUP_MAX", 3)
    for call in (
        lambda: pages.move_many([Move(f"k{n}", priority=1) for n in range(4)]),
        lambda: pages.delete_many([f"k{n}" for n in range(4)]),
    ):
        with pytest.raises(journal.Invalid, match="up to 3"):
            call()
    monkeypatch.setattr("journal.api.journal.GROUP_MAX", 10)
    monkeypatch.setattr(group, "GROUP_BYTES_MAX", 900)
    with pytest.raises(journal.Invalid, match="900 bytes"):
        pages.move_many([Move(f"k{n}", priority=1) for n in range(4)])
    assert everything(pages) == before
    for wrong in (7, None):
        with pytest.raises(journal.Invalid):
            pages.delete_many(wrong)  # type: ignore[arg-type]


def test_a_full_disk_refuses_the_whole_group(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is changed, and it works when there is room."""
    pages.put_many([Put(f"k{n}") for n in range(10)])
    before = everything(pages)
    moves = [Move(f"k{n}", priority=1) for n in range(10)]
    writes = Failing(monkeypatch, "pwrite", errno.ENOSPC)
    with pytest.raises(journal.StoreFull):
        pages.move_many(moves)
    writes.error = None
    assert everything(pages) == before
    assert errors(pages.move_many(moves)) == ["moved"] * 10


def test_followers_see_each_change(pages: journal.Journal) -> None:
    """With its own cursor, in order."""
    pages.put_many([Put(key) for key in "abc"])
    moved = pages.move_many([Move(key, priority=1) for key in "ab"])
    pages.delete_many("bc")
    with pages.feed(start="BEGIN", live=False) as feed:
        events = [(event.verb, event.key, event.cursor) for event in feed]
    assert [(verb, key) for verb, key, _ in events[3:]] == [
        ("replace", "a"), ("replace", "b"), ("delete", "b"), ("delete", "c"),
    ]  # fmt: skip
    assert [cursor for _, _, cursor in events[3:5]] == [r.cursor for r in moved if isinstance(r, journal.PutResult)]


# -- look-ups ----------------------------------------------------------------------------------------------------------


def test_look_ups_say_what_get_says(pages: journal.Journal, clock: ManualClock) -> None:
    """Of each key, in order, also of one that is asked for twice; leased, expired and missing ones too."""
    pages.put_many([Put(f"k{n}", n, owner="g" if n % 2 else None) for n in range(600)])
    pages.put("gone", expiration=clock.now() + 5)
    pages.claim_many(50)
    clock.advance(5)
    keys = [f"k{n}" for n in range(0, 700, 3)] + ["gone", "k3", "k3", b"k3"]
    found = pages.get_many(keys)
    assert found == [pages.get(key) for key in keys]
    assert {entry.status for entry in found if entry is not None} == {"W", "P"} and found[-1] is None
    assert pages.get_many([]) == []
    with pytest.raises(journal.Invalid):
        pages.get_many(["a", 7])  # type: ignore[list-item]


@pytest.mark.embedded(reason="it holds the sync up by hand")
def test_look_ups_wait_for_what_could_vanish(pages: journal.Journal) -> None:
    """A row whose writer still waits for its sync is not shown before."""
    first = pages.put("a", durability="none")
    assert pages.get_many(["a"])[0] is not None
    assert pages.durable_cursor < first.cursor  # nobody asked for more
    pages._backend.p.full_requested = pages._backend.p.log.next_offset - 1
    assert pages.get_many(["a"])[0] is not None
    assert pages.durable_cursor >= first.cursor
