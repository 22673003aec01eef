"""Long lists come in parts: all of it, once, in order, each part in one frame."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

import journal
from journal import Put
from journal.net.server.verbs.served_journal import served_of
from journal.net.wire.values import entry_from, feed_from
from journal.testing import ManualClock
from tests.net.server.asking import FRAME, ask, engine_of, pack, parts, whole

START = 1_700_000_000_000
LISTS = {
    "SELECT": "entries", "SCAN": "entries", "ENTRIES_OF": "entries", "LEASES": "leases", "BURIED": "buried", "FEEDS": "feeds",
    "OWNERS": "owners", "JOURNALS": "journals",
}  # fmt: skip


def _entries(pages: journal.Journal) -> list[Any]:
    pages.put_many([Put(f"{i}", i, priority=i % 3, process_date=START + i % 5, owner="us") for i in range(25)])
    return [entry.key for entry in pages.scan()]


def _leases(pages: journal.Journal) -> list[Any]:
    pages.put_many([Put(f"{i}", i) for i in range(25)])
    for i in range(25):
        pages.claim(consumer=f"c{i % 2}", lease=1000 + i % 4)
    return [lease.key for lease in pages.leases()]


def _buried(pages: journal.Journal) -> list[Any]:
    for i in range(25):
        pages.put(f"{i % 20}", i)
        pages.bury(pages.claim_many(1)[0], "x" * i)
    return [(buried.entry.key, buried.reason) for buried in pages.buried()]


def _feeds(pages: journal.Journal) -> list[Any]:
    for i in range(25):
        pages.feed(consumer=f"f{i}").close()
    return [view.name for view in pages.feeds()]


def _owners(pages: journal.Journal) -> list[Any]:
    pages.put_many([Put(f"{i}", i, owner="o" * (1 + i % 7)) for i in range(25)])
    return [*pages.owners().items()]


CASES: dict[str, tuple[Callable[[journal.Journal], list[Any]], Callable[[Any], Any], dict[str, Any]]] = {
    "SELECT": (_entries, lambda entry: entry[0], {}),
    "SCAN": (_entries, lambda entry: entry[0], {}),
    "ENTRIES_OF": (_entries, lambda entry: entry[0], {"owner": "us"}),
    "LEASES": (_leases, lambda lease: lease[0], {}),
    "BURIED": (_buried, lambda buried: (buried[0][0], buried[1]), {}),
    "FEEDS": (_feeds, lambda feed: feed[0], {}),
    "OWNERS": (_owners, tuple, {}),
}


@pytest.mark.parametrize("command", CASES)
@pytest.mark.parametrize("limit", [None, 1, 7, 25, 26])
def test_the_parts_are_the_whole(store: journal.Store, pages: journal.Journal, command: str, limit: int | None) -> None:
    """Whatever the size of a part: what the library lists, once each and in its order; and no part more than needed."""
    prepare, read, given = CASES[command]
    expected = prepare(pages)
    found = parts(store, command, LISTS[command], limit=limit, **given)
    assert [read(item) for part in found for item in part] == expected
    assert all(len(part) == limit for part in found[:-1])
    assert len(found) == 1 if limit is None else len(found) == -(-len(expected) // limit)


def test_journals_in_parts(store: journal.Store) -> None:
    """By name, those that the identity may see."""
    for i in range(12):
        store.journal(f"j{i}")
    found = parts(store, "JOURNALS", "journals", limit=5)
    assert [len(part) for part in found] == [5, 5, 2]
    assert [name for part in found for name in part] == sorted(store.journals())


@pytest.mark.parametrize("command", ["SELECT", "SCAN", "ENTRIES_OF", "LEASES", "BURIED", "GET_MANY"])
def test_a_part_fits_into_a_frame(store: journal.Store, pages: journal.Journal, command: str) -> None:
    """As many as fit, whatever is asked for; the next part goes on behind them."""
    for i in range(12):
        pages.put(f"{i:02}", b"x" * 300_000, owner="us", process_date=START - 12 + i)
    keys = [f"{i:02}" for i in range(12)]
    if command in ("LEASES", "BURIED"):
        leases = pages.claim_many(12, lease=9999)
        if command == "BURIED":
            for lease in leases:
                lease.bury("no")
    if command == "GET_MANY":
        found = []
        while len(found) < 12:
            more = ask(store, command, keys=keys[len(found) :])
            assert len(more) == 3
            found += [entry[0] for entry in more]
        assert found == keys
        return
    given = {"owner": "us"} if command == "ENTRIES_OF" else {}
    got = parts(store, command, LISTS[command], limit=1000, **given)
    assert [len(part) for part in got] == [3, 3, 3, 3]
    assert [item[0][0] if command == "BURIED" else item[0] for part in got for item in part] == keys


@pytest.mark.parametrize("command", ["SELECT", "SCAN", "GET", "GET_MANY"])
def test_an_entry_that_fits_into_no_frame_is_named(store: journal.Store, pages: journal.Journal, command: str) -> None:
    """What comes before it is given first; then it is said which one it is, and what can be done."""
    store.journal("pages", entry_bytes_max=1 << 22)
    pages.put("small", 1, priority=1)
    pages.put("large", b"x" * FRAME, priority=2)
    if command == "GET":
        given: dict[str, Any] = {"key": "large"}
    elif command == "GET_MANY":
        assert [entry[0] for entry in ask(store, command, keys=["small", "large"])] == ["small"]
        given = {"keys": ["large"]}
    else:
        reply = ask(store, command)
        assert [entry[0] for entry in reply["entries"]] == ["small"]
        given = {"after": reply["after"]}
    with pytest.raises(journal.Invalid, match=r"'large' has \d+ bytes, and a frame has room for"):
        ask(store, command, **given)


def test_what_changes_between_two_parts(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """What stays where it is, is seen once; a lease that is extended may come twice, and is never passed over."""
    pages.put_many([Put(f"{i:02}", i, process_date=START - 100 + i) for i in range(10)])
    first = ask(store, "SCAN", limit=4)
    pages.delete("03")
    pages.delete("05")
    pages.put("035", 1, process_date=START - 97)
    rest = whole(store, "SCAN", "entries", limit=3)
    assert [entry[0] for entry in first["entries"]] == ["00", "01", "02", "03"]
    second = ask(store, "SCAN", after=first["after"])
    assert [entry[0] for entry in second["entries"] if entry[0] != "035"] == ["04", "06", "07", "08", "09"]
    assert len(rest) == 9
    leases = [pages.claim_many(1, lease=1000 + i)[0] for i in range(6)]
    part = ask(store, "LEASES", limit=2)
    leases[0].extend(9000)
    leases[3].done()
    tokens = [lease[5] for lease in ask(store, "LEASES", after=part["after"])["leases"]]
    assert tokens == [leases[i].token for i in (2, 4, 5, 0)]


@pytest.mark.parametrize("command", LISTS)
def test_a_place_that_is_none(store: journal.Store, pages: journal.Journal, command: str) -> None:
    """Bytes that the daemon has not given are refused, or lead to some place in the list: nothing breaks."""
    pages.put("a", 1, owner="us")
    given = {"owner": "us"} if command == "ENTRIES_OF" else {}
    for after in (b"x", b"\0" * 34, b"\xff" * 256):
        with contextlib.suppress(journal.Invalid):
            assert ask(store, command, after=after, **given)["after"] is None
    with pytest.raises(journal.Invalid):
        ask(store, command, after=b"", **given)
    with pytest.raises(journal.Invalid):
        ask(store, command, after=b"x" * 257, **given)


def test_many_keys_are_looked_up_by_and_by(store: journal.Store, pages: journal.Journal) -> None:
    """A reply is the work of a moment: who asks for very many keys gets some, and asks for the rest."""
    pages.put_many([Put(f"{i}", i) for i in range(3000)])
    keys = [f"{i}" for i in range(3000)]
    found: list[Any] = []
    asked = 0
    while len(found) < len(keys):
        found += ask(store, "GET_MANY", keys=keys[len(found) :])
        asked += 1
    assert [entry_from(entry).data for entry in found] == [*range(3000)] and asked == 3


def test_an_owner_of_very_many_entries(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is read a part at a time; each owner is counted whole."""
    monkeypatch.setattr("journal.engine.read.queries.KEYS", 7)
    pages.put_many([Put(f"{i}", i, owner=f"o{i % 4}") for i in range(50)])
    assert pages.owners() == {"o0": 13, "o1": 13, "o2": 12, "o3": 12}
    for limit in (1, 2, 3, 4, 5):
        assert dict(whole(store, "OWNERS", "owners", limit=limit)) == pages.owners()


def test_feeds_as_they_are(store: journal.Store, pages: journal.Journal) -> None:
    """What the library lists of each."""
    pages.put("a", 1)
    with pages.feed(consumer="f"):
        (feed,) = whole(store, "FEEDS", "feeds")
        assert tuple(feed_from(feed)) == tuple(pages.feeds()[0])
    ask(store, "FEED_MARK", consumer="f", cursor=[1, 0])
    assert pages.feeds()[0].lag == 0
    assert ask(store, "FEED_SKIP", consumer="f", cursor=[1, 0]) is False
    ask(store, "FEED_REMOVE", consumer="f")
    assert pages.feeds() == []


def test_a_smaller_frame(store: journal.Store, pages: journal.Journal) -> None:
    """A daemon whose frames are smaller makes smaller parts."""
    engine_of(store).frame_bytes_max = 16_384
    pages.put_many([Put(f"{i:03}", b"x" * 1000, process_date=START - 100 + i) for i in range(100)])
    assert served_of(engine_of(store), "pages").room == 16_384 - 256
    got = parts(store, "SCAN", "entries", frame=16_384)
    assert [entry[0] for part in got for entry in part] == [f"{i:03}" for i in range(100)] and len(got) > 6
    assert len(ask(store, "CLAIM_MANY", n=100, frame=16_384)["leases"]) > 10
    with pytest.raises(journal.Invalid, match="handed out in a frame"):
        ask(store, "PUT", key="a", data=pack(b"x" * 9000))
