"""Reading the log while it is written: over segments and generations, back again, and over recycled files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import journal
from journal import Cursor, CursorUnavailable
from journal.core.log.cursor_math import Span
from journal.engine.feed import log_tail
from journal.engine.feed.log_tail import KeptLog, Tail
from tests.engine.feed.following import SMALL, at, fill_segments, put


def offsets(reader: Tail) -> list[int]:
    """All that a reader gives, to the end."""
    found: list[int] = []
    while page := reader.page():
        found += [event.cursor.offset for event in page]
    return found


@pytest.mark.parametrize("page_events", [3, 500])
def test_it_can_begin_anywhere_and_go_back(
    store: journal.Store, monkeypatch: pytest.MonkeyPatch, page_events: int
) -> None:
    """After each cursor of a log of many segments, groups and single changes; by a search, and by where it has been."""
    monkeypatch.setattr(log_tail, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(log_tail, "PAGE_EVENTS", page_events)
    pages = store.journal("pages", **SMALL)
    pages.feed(consumer="hold").close()
    for n in range(12):
        pages.put_many([journal.Put(f"g{n}-{i}", b"x" * 700) for i in range(n)] or [journal.Put("g", 0)])
        pages.put(f"k{n}", b"y" * 9_000)
        store.checkpoint()
    total = pages.statistics()["next_offset"]
    reader = Tail(pages._backend.p, at(-1))
    assert offsets(reader) == list(range(total))
    for offset in range(-1, total):
        assert offsets(Tail(pages._backend.p, at(offset))) == list(range(offset + 1, total))
        reader.seek(at(offset))
        assert offsets(reader) == list(range(offset + 1, total))


def test_a_block_is_given_in_pages(store: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few events at a time, whose last is where the reader is; it may go back between two, and sees what came since."""
    monkeypatch.setattr(log_tail, "PAGE_EVENTS", 4)
    pages = store.journal("pages")
    pages.put_many([journal.Put(f"k{n}", n) for n in range(10)])
    reader = Tail(pages._backend.p, at(-1))
    assert [event.data for event in reader.page()] == [0, 1, 2, 3]
    assert (reader.at, reader.is_at_end) == (at(3), False)
    reader.seek(at(1))
    assert [event.data for event in reader.page()] == [2, 3, 4, 5]
    put(pages, "late")
    assert [event.data for event in reader.page()] == [6, 7, 8, 9]
    assert (reader.at, reader.is_at_end) == (at(9), False)
    assert [event.key for event in reader.page()] == ["late"]
    assert (reader.at, reader.is_at_end) == (at(10), True)
    assert reader.page() == []


def test_a_segment_that_is_recycled_under_it_is_noticed(store: journal.Store) -> None:
    """The bytes of a later time are never taken for the change that should come."""
    pages = store.journal("pages", **SMALL)
    put(pages, "a")
    reader = Tail(pages._backend.p, at(-1))
    assert [event.key for event in reader.page()] == ["a"]
    fill_segments(pages, store, 12)
    with pytest.raises(CursorUnavailable, match="oldest"):
        reader.page()


class Generations:
    """Two stores that stand for two generations of one journal: the first is closed."""

    def __init__(self, first: journal.Journal, second: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
        self.first, self.second = first, second
        second._backend.p.order = 2
        monkeypatch.setattr(log_tail, "kept_logs", lambda p: self.logs())
        monkeypatch.setattr("journal.engine.feed.consumers.kept_logs", lambda p: self.logs())

    def logs(self) -> list[KeptLog]:
        one, two = self.first._backend.p, self.second._backend.p
        return [
            KeptLog(Span(1, one.shown(), True), one.log.directory),
            KeptLog(Span(2, two.shown(), False), two.log.directory),
        ]


@pytest.fixture
def generations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Generations]:
    """Two generations of three changes each."""
    with journal.open(tmp_path / "one") as one, journal.open(tmp_path / "two") as two:
        both = Generations(one.journal("pages"), two.journal("pages"), monkeypatch)
        put(both.first, *"abc")
        put(both.second, *"def")
        yield both


def test_it_goes_over_the_end_of_a_generation(generations: Generations) -> None:
    """In order, with the cursors of each; and back into the earlier one."""
    reader = Tail(generations.second._backend.p, Cursor(1, 0))
    found = []
    while page := reader.page():
        found += [(event.cursor, event.key) for event in page]
    assert found == [(Cursor(1, 1), "b"), (Cursor(1, 2), "c"), *((Cursor(2, n), key) for n, key in enumerate("def"))]
    assert reader.crossed == [(Cursor(1, 2), Cursor(2, -1))]
    for after, key in ((Cursor(2, 1), "f"), (Cursor(1, 1), "c"), (Cursor(1, 2), "d")):
        reader.seek(after)
        page = reader.page()
        assert page[0].key == key


def test_acknowledgements_go_over_the_end_of_a_generation(generations: Generations) -> None:
    """Position, lag and what comes again do not stop where a generation does."""
    pages = generations.second
    with pages.feed(consumer="audit", start=Cursor(1, -1), live=False) as feed:
        events = list(feed)
        assert [event.key for event in events] == list("abcdef")
        feed.ack(events[2:4])
        assert (feed.position, feed.unacked, feed.lag) == (Cursor(1, -1), 4, 4)
        feed.ack(events[0], events[1])
        assert (feed.position, feed.unacked, feed.lag) == (Cursor(2, 0), 2, 2)
        feed.fail()
        again = []
        for event in feed:
            again.append(event.key)
            feed.ack(event)
        assert again == ["e", "f"]
    assert [(view.position, view.lag) for view in pages.feeds()] == [(Cursor(2, 2), 0)]


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=1, max_size=60), st.integers(0, 400))
def test_any_bytes_in_the_log_are_noticed(tmp_path_factory: pytest.TempPathFactory, junk: bytes, where: int) -> None:
    """Whatever is written over a log: the changes before it come, then an error that names the file, or nothing is hurt."""
    with journal.open(tmp_path_factory.mktemp("junk") / "s") as store:
        pages = store.journal("pages")
        put(pages, *"abc")
        (path,) = pages._backend.p.log.directory.iterdir()
        good = path.read_bytes()
        with path.open("r+b") as file:
            file.seek(where)
            file.write(junk)
        found = []
        reason = ""
        try:
            for event in pages.feed(live=False):
                found.append((event.key, event.data))
        except journal.LogDamaged as e:
            reason = str(e)
        assert str(path) in reason if reason else len(found) == 3
        assert found == [(key, f"data of {key}") for key in "abc"][: len(found)]
        with path.open("r+b") as file:
            file.write(good)
