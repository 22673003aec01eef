"""A consumer that copies first: all entries at one cursor, then every change since, without gap or repeat."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import journal
from journal import Cursor, Unacknowledged
from journal.engine.feed import initial_copy
from journal.testing import ManualClock
from tests.top import top


def copy_of(pages: journal.Journal, name: str = "mirror", **options: Any) -> journal.Feed:
    return pages.feed(consumer=name, copy=True, live=False, **options)


def shown(events: list[journal.Event]) -> list[tuple[str, str, Any, Any]]:
    return [(e.mode, e.op, e.key, e.data) for e in events]


def mirror(events: list[journal.Event]) -> dict[Any, Any]:
    """What a follower holds that stores the data of inserts and updates and removes what is deleted."""
    held: dict[Any, Any] = {}
    for event in events:
        if event.op == "delete":
            held.pop(event.key, None)
        elif event.op in ("insert", "update") and event.has_data:
            held[event.key] = event.data
    return held


def test_a_copy_comes_first(pages: journal.Journal) -> None:
    """Existing entries, the end of the copy, then what came after it."""
    pages.put("b", 2, priority=50)
    pages.put("a", 1, priority=10)
    pages.put("gone", 0)
    pages.delete("gone")
    with copy_of(pages) as feed:
        events = list(feed)
        assert shown(events) == [
            ("copy", "insert", "a", 1),
            ("copy", "insert", "b", 2),
            ("complete", "noop", None, None),
        ]
        assert [e.cursor for e in events] == [Cursor(0, 0), Cursor(0, 1), Cursor(1, 3)]
        assert (events[0].priority, events[0].version, events[0].namespace) == (10, 1, "pages")
        pages.put("c", 3)
        assert shown(list(feed)) == [("sync", "insert", "c", 3)]


def test_the_position_moves_when_the_copy_is_complete(pages: journal.Journal) -> None:
    """Until then it stands where the copy will go on, and its mode says so."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(3)])
    with copy_of(pages) as feed:
        *entries, end = list(feed)
        pages.put("d")
        feed.ack(end)
        feed.ack(entries[1:])
        assert (pages.feeds()[0].mode, feed.position, feed.lag) == ("copy", Cursor(1, 2), 1)
        feed.ack(entries[0])
        assert (pages.feeds()[0].mode, feed.position, feed.lag) == ("sync", Cursor(1, 2), 1)
        feed.ack(next(feed))
        assert (feed.position, feed.lag) == (Cursor(1, 3), 0)


def test_a_copy_whose_end_is_not_acknowledged_begins_anew(pages: journal.Journal) -> None:
    """Else the change that the end stands at, which the copy has already, would come once more."""
    pages.put("a", 1)
    with copy_of(pages) as feed:
        feed.ack(next(feed))
        assert next(feed).mode == "complete"
        assert pages.feeds()[0].mode == "copy"
    with copy_of(pages) as feed:
        assert [event.mode for event in feed] == ["copy", "complete"]


def test_an_empty_journal_is_copied(pages: journal.Journal) -> None:
    """The end of the copy comes, and then the changes."""
    with copy_of(pages) as feed:
        (end,) = list(feed)
        assert (end.mode, end.cursor) == ("complete", Cursor(1, -1))
        feed.ack(end)
        assert pages.feeds()[0].mode == "sync"
        pages.put("a", 1)
        assert shown(list(feed)) == [("sync", "insert", "a", 1)]


def test_what_changes_meanwhile_is_neither_missed_nor_repeated(
    pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes between the pages of the copy are not in it; they come after its end."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(30)])
    monkeypatch.setattr(initial_copy, "PAGE", 10)
    real = initial_copy._Snapshot.page
    turns = iter(range(100))

    def page(self: Any) -> Any:
        found = real(self)
        turn = next(turns)
        pages.put(f"new-{turn}", turn, priority=0)
        pages.put("k29", f"changed {turn}")
        pages.delete(f"k{turn}")
        return found

    monkeypatch.setattr(initial_copy, "_Snapshot", type("Snapshot", (initial_copy._Snapshot,), {"page": page}))
    with copy_of(pages) as feed:
        events = list(feed)
    copied = [e for e in events if e.mode == "copy"]
    assert {(e.key, e.data) for e in copied} == {(f"k{n}", n) for n in range(30)}
    assert [e.mode for e in events].index("complete") == 30
    after = events[31:]
    assert [e.cursor.offset for e in after] == list(range(30, 30 + len(after)))
    assert mirror(events) == {entry.key: entry.data for entry in pages.scan()}


def test_an_interrupted_copy_begins_anew(tmp_path: Path) -> None:
    """After a restart too: the entries as they are then, from the first on, as if nothing had been delivered."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        pages.put("a", 1)
        pages.put("b", 2)
        feed = copy_of(pages)
        feed.ack(next(feed))
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        assert pages.feeds()[0].mode == "copy"
        pages.put("c", 3)
        with pages.feed(consumer="mirror", live=False) as feed:
            events = list(feed)
            assert shown(events)[:3] == [("copy", "insert", key, n) for key, n in (("a", 1), ("b", 2), ("c", 3))]
            feed.ack(events)
        assert store.check() == []
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        assert pages.feeds()[0].mode == "sync"
        with copy_of(pages) as feed:
            assert list(feed) == []


def test_a_failure_in_the_copy_delivers_again_one_at_a_time(pages: journal.Journal) -> None:
    """What was delivered of it and not acknowledged, then the rest of it."""
    pages.put_many([journal.Put(f"k{n}", n, priority=n) for n in range(4)])
    with copy_of(pages, unacked_max=3) as feed:
        first, _, _ = (next(feed) for _ in range(3))
        with pytest.raises(Unacknowledged):
            next(feed)
        feed.ack(first)
        feed.fail()
        seen = []
        for event in feed:
            seen.append((event.mode, event.key))
            feed.ack(event)
        assert seen == [("copy", "k1"), ("copy", "k2"), ("copy", "k3"), ("complete", None)]


def test_a_failure_after_the_copy_goes_back_over_its_end(pages: journal.Journal) -> None:
    """The end of the copy and the changes behind it, one at a time."""
    pages.put("a", 1)
    with copy_of(pages) as feed:
        entry, _ = list(feed)
        feed.ack(entry)
        pages.put("b", 2)
        assert next(feed).key == "b"
        feed.fail()
        seen = []
        for event in feed:
            seen.append(event.mode)
            feed.ack(event)
        assert seen == ["complete", "sync"]
        assert feed.position == Cursor(1, 1)


def test_leases_and_successors_are_copied(pages: journal.Journal) -> None:
    """An entry that is processing comes with its own version, and the put behind it as an update."""
    pages.put("a", 1)
    lease = pages.claim(consumer="w")
    assert lease is not None
    pages.put("a", 2)
    with copy_of(pages) as feed:
        entry, successor, _ = list(feed)
        assert (entry.op, entry.key, entry.data, entry.version) == ("insert", "a", 1, lease.version)
        assert (successor.op, successor.verb, successor.key, successor.data) == ("update", "queue", "a", 2)
        lease.done()
        assert [(e.op, e.data) for e in feed] == [("update", 2)]


def test_the_log_is_held_from_the_copy_on(store: journal.Store) -> None:
    """However long the copy takes to be consumed."""
    pages = store.journal("pages", segment_bytes_max=1 << 16)
    pages.put("a", 1)
    with copy_of(pages) as feed:
        first = next(feed)
        for n in range(8):
            pages.put(f"big-{n}", b"x" * 40_000)
            store.checkpoint()
        rest = list(feed)
        assert [e.cursor for e in rest] == [Cursor(1, n) for n in range(9)]
        feed.ack(first, rest)


def test_no_file_of_a_copy_is_left(
    store: journal.Store, crashed: Callable[[journal.Store], Path], clock: ManualClock
) -> None:
    """Neither after it nor by a kill in the middle of it."""
    pages = store.journal("pages")
    pages.put("a", 1)
    with copy_of(pages) as feed:
        next(feed)
        copy = crashed(store)
    for path in (store.path, copy):
        assert len(list((path / top() / "offsets").iterdir())) == 1
    with journal.open(copy, clock=clock) as again:
        assert again.journal("pages").feeds()[0].mode == "copy"


def test_closing_the_store_ends_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While its rows are read: a clear error, and the store can be opened again."""
    store = journal.open(tmp_path / "s")
    pages = store.journal("pages")
    pages.put_many([journal.Put(f"k{n}", n) for n in range(30)])
    monkeypatch.setattr(initial_copy, "PAGE", 10)
    feed = copy_of(pages)
    closing = threading.Thread(target=store.close, daemon=True)
    real = pages._backend.p.keeper.call
    calls = iter(range(100))

    def call(function: Callable[[], Any]) -> Any:
        if next(calls) == 3:
            closing.start()
            closing.join(100)
        return real(function)

    monkeypatch.setattr(pages._backend.p.keeper, "call", call)
    with pytest.raises(journal.StoreClosed):
        list(feed)
    monkeypatch.undo()
    with journal.open(tmp_path / "s") as again:
        assert again.journal("pages").feeds()[0].mode == "copy"
        assert again.check() == []


commands = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "claim", "done", "release", "bury", "retry", "delete"]), st.integers(0, 5)
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(commands, st.integers(0, 30))
def test_a_follower_holds_what_the_journal_holds(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[str, int]], start: int
) -> None:
    """Copied at any time and then followed, or followed from the beginning: the last accepted data of every key."""
    clock = ManualClock(1_700_000_000_000)
    with journal.open(tmp_path_factory.mktemp("mirror") / "s", clock=clock, durability="interval") as store:
        pages = store.journal("pages")
        pages.feed(consumer="hold").close()
        feed: journal.Feed | None = None
        events: list[journal.Event] = []
        leases: list[journal.Lease] = []
        for turn, (verb, number) in enumerate(program):
            if turn == start:
                feed = copy_of(pages)
                events.append(next(feed))
            try:
                if verb == "put":
                    pages.put(f"k{number}", turn)
                elif verb == "claim" and (lease := pages.claim(consumer="w")) is not None:
                    leases.append(lease)
                elif verb == "retry":
                    pages.retry(f"k{number}")
                elif verb == "delete":
                    pages.delete(f"k{number}")
                elif leases and verb in ("done", "release", "bury"):
                    lease = leases.pop(number % len(leases))
                    lease.bury("no") if verb == "bury" else getattr(lease, verb)()
            except (journal.Refused, journal.Invalid):
                continue
        for lease in leases:
            lease.release()  # so that no successor is left, whose data no scan shows
        expected = {entry.key: entry.data for entry in pages.scan()}
        assert mirror(list(pages.feed(live=False))) == expected
        if feed is not None:
            assert mirror(events + list(feed)) == expected
            feed.close()
        assert store.check() == []
