"""Changes between two cursors: bounded, repeatable, without a consumer."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import journal
from journal import Cursor
from tests.engine.feed.following import SMALL, fill_segments
from tests.engine.helpers import own_pipeline, poll


def shown(events: Any) -> list[tuple[Cursor, Any]]:
    return [(event.cursor, event.key) for event in events]


def test_changes_after_one_cursor_up_to_another(pages: journal.Journal) -> None:
    """Without the first, with the last; twice the same."""
    for key in "abcde":
        pages.put(key, key)
    assert shown(pages.changes(Cursor(1, 0), Cursor(1, 3))) == [(Cursor(1, n), "abcd"[n]) for n in (1, 2, 3)]
    assert shown(pages.changes(Cursor(1, 0), Cursor(1, 3))) == shown(pages.changes(Cursor(1, 0), Cursor(1, 3)))
    assert shown(pages.changes(Cursor(1, -1), pages.durable_cursor)) == [(Cursor(1, n), "abcde"[n]) for n in range(5)]
    assert list(pages.changes(Cursor(1, 3), Cursor(1, 3))) == []
    assert pages.feeds() == []


def test_a_part_of_a_group(pages: journal.Journal) -> None:
    """A group is one record, with a cursor for each."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(1200)])
    for after, until in ((-1, 3), (5, 600), (1198, 1199)):
        found = list(pages.changes(Cursor(1, after), Cursor(1, until)))
        assert [event.cursor.offset for event in found] == list(range(after + 1, until + 1))
        assert [event.data for event in found] == list(range(after + 1, until + 1))


def test_changes_go_over_generations(pages: journal.Journal) -> None:
    """Over empty ones too; the end of one is the beginning of the next."""
    pages.feed(consumer="keeps", live=False).close()
    pages.put("a")
    pages.rotate()
    pages.rotate()
    pages.put("b")
    pages.rotate()
    everything = [(Cursor(1, 0), "a"), (Cursor(3, 0), "b")]
    carried = [each for each in shown(pages.changes(Cursor(1, -1), pages.durable_cursor)) if each[1] is not None]
    assert carried == everything
    for until in (Cursor(1, 0), Cursor(2, -1), Cursor(3, -1)):
        assert shown(pages.changes(Cursor(1, -1), until)) == everything[:1]
    for after in (Cursor(1, 0), Cursor(2, -1), Cursor(3, -1)):
        assert shown(pages.changes(after, Cursor(3, 0))) == everything[1:]
        assert list(pages.changes(after, Cursor(2, -1))) == []


def test_cursors_that_are_no_place(pages: journal.Journal) -> None:
    """Refused before anything is read: in the future, of no generation, in the wrong order, no cursors at all."""
    pages.put("a")
    pages.put("b")
    for after, until in ((Cursor(1, -1), Cursor(1, 2)), (Cursor(1, 5), Cursor(1, 6)), (Cursor(1, 0), Cursor(9, 0))):
        with pytest.raises(journal.CursorUnavailable):
            pages.changes(after, until)
    with pytest.raises(journal.Invalid, match="earlier cursor first"):
        pages.changes(Cursor(1, 1), Cursor(1, -1))
    with pytest.raises(journal.Invalid):
        pages.changes("001-0001-000000000000000000", Cursor(1, 1))  # type: ignore[arg-type]


def test_changes_that_are_gone(store: journal.Store) -> None:
    """CursorUnavailable names the oldest cursor that there is, which `oldest_cursor` tells."""
    pages = store.journal("pages", **SMALL)
    assert pages.oldest_cursor == Cursor(1, -1)
    fill_segments(pages, store)
    oldest = pages.oldest_cursor
    assert oldest > Cursor(1, -1)
    with pytest.raises(journal.CursorUnavailable, match=str(oldest)):
        pages.changes(Cursor(1, -1), pages.durable_cursor)
    found = shown(pages.changes(oldest, pages.durable_cursor))
    assert [cursor for cursor, _ in found] == [
        Cursor(1, n) for n in range(oldest.offset + 1, pages.durable_cursor.offset + 1)
    ]


def test_a_marked_consumer_keeps_them(store: journal.Store) -> None:
    """What a stream needs: it stands where the reader may still want to go back to."""
    pages = store.journal("pages", **SMALL)
    pages.feed(consumer="stream", live=False).close()
    fill_segments(pages, store)
    assert len(list(pages.changes(Cursor(1, -1), pages.durable_cursor))) == 8
    pages.mark_feed("stream", Cursor(1, 3))
    assert len(list(pages.changes(Cursor(1, 3), pages.durable_cursor))) == 4


def test_they_are_let_go_while_they_are_read(store: journal.Store) -> None:
    """An error, and no gap (W1)."""
    pages = store.journal("pages", **SMALL)
    pages.feed(consumer="stream", live=False).close()
    fill_segments(pages, store, 16)
    events = pages.changes(Cursor(1, -1), pages.durable_cursor)
    first = next(events)
    pages.remove_feed("stream")
    fill_segments(pages, store, 16)
    found = [first.cursor.offset]
    with pytest.raises(journal.CursorUnavailable):
        found.extend(event.cursor.offset for event in events)
    assert found == list(range(len(found)))


def test_of_one_merged_journal_and_of_all(store: journal.Store) -> None:
    """Its own changes, with the cursors that they have among all."""
    one, two = (store.journal(name, merged=True) for name in ("one", "two"))
    for n in range(2000):
        two.put(f"t{n}", durability="none")
    one.put("a")
    two.put("t")
    last = one.put("b").cursor
    assert [key for _, key in shown(one.changes(one.oldest_cursor, last))] == ["a", "b"]
    assert [key for _, key in shown(one.changes(Cursor(1, 2000), Cursor(1, 2001)))] == []
    assert list(one.changes(Cursor(1, -1), Cursor(1, 1500))) == []
    every = list(store.merged().changes(store.merged().oldest_cursor, last))
    assert len(every) == 2003 and {event.namespace for event in every} == {"one", "two"}


def test_a_look_sees_what_is_committed(tmp_path: Path) -> None:
    """The log of a store that nobody owns now."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        pages.feed(consumer="keeps", live=False).close()
        for key in "abc":
            pages.put(key)
    with journal.open(tmp_path / "s", readonly=True) as look:
        pages = look.journal("pages")
        assert [key for _, key in shown(pages.changes(pages.oldest_cursor, Cursor(1, 2)))] == ["a", "b", "c"]


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["put", "many", "claim", "rotate"]), max_size=12), st.data())
def test_any_two_cursors(tmp_path_factory: pytest.TempPathFactory, steps: list[str], data: st.DataObject) -> None:
    """The parts between cursors, put together, are the whole feed."""
    with journal.open(tmp_path_factory.mktemp("s") / "s", durability="none") as store:
        pages = store.journal("pages")
        pages.feed(consumer="keeps", live=False).close()
        for n, step in enumerate(steps):
            if step == "put":
                pages.put(f"k{n}", n)
            elif step == "many":
                pages.put_many([journal.Put(f"m{n}-{i}", i) for i in range(5)])
            elif step == "claim":
                pages.claim_many(2)
            else:
                pages.rotate()
        p = own_pipeline(pages)
        poll(lambda: p.keeper.call(lambda: not p.generations.migration.is_busy), "survivors still move")
        store.checkpoint()
        with pages.feed(live=False) as feed:
            whole = shown(feed)
        size = pages.distance(Cursor(1, -1), pages.durable_cursor)
        # Shares: how many records the moves of survivors take depends on the keeper's moments, and drawing must not.
        cuts = sorted(size * share // 1000 for share in data.draw(st.lists(st.integers(0, 1000), max_size=4)))
        places = [pages.shift(Cursor(1, -1), cut) for cut in (0, *cuts, size)]
        found = [each for a, b in pairwise(places) for each in shown(pages.changes(a, b))]
        assert found == whole
