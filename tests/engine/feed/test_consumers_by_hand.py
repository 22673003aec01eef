"""Consumers that are removed, marked or skipped for, while feeds come and go and disks fill up."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

import journal
from journal import Cursor
from journal.engine.feed.feed import EngineFeed
from tests.engine.feed.following import caught_up, put
from tests.engine.helpers import HANG_S, Failing
from tests.top import top


def forgotten(pages: journal.Journal) -> None:
    """A feed that acknowledges, and is never closed."""
    feed = caught_up(pages, consumer="c")
    feed.ack(list(feed))


def test_a_removed_consumer_stays_away(tmp_path: Path) -> None:
    """Also when what it acknowledged was not written yet."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        put(pages, "a", "b")
        forgotten(pages)
        pages.remove_feed("c")
        assert pages.feeds() == [] and store.check() == []
    with journal.open(tmp_path / "s") as store:
        assert store.journal("pages").feeds() == []


@pytest.mark.parametrize("verb", ["remove", "mark", "skip"])
def test_a_feed_that_is_being_opened_keeps_its_consumer(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Whoever changes the consumer at that moment comes before it, or is refused."""
    put(pages, "a", "b")
    caught_up(pages, consumer="c").close()
    by_hand = {
        "remove": lambda: pages.remove_feed("c"),
        "mark": lambda: pages.mark_feed("c", Cursor(1, 0)),
        "skip": lambda: pages.skip_feed("c", Cursor(1, 1)),
    }[verb]
    refusals: list[BaseException] = []

    def change() -> None:
        try:
            by_hand()
        except journal.Refused as e:
            refusals.append(e)

    real, others = EngineFeed.__init__, threading.Thread(target=change, daemon=True)

    def init(self: EngineFeed, *args: object, **options: object) -> None:
        real(self, *args, **options)  # type: ignore[arg-type]
        others.start()
        others.join(0.2)  # it cannot end before the feed is open

    monkeypatch.setattr(EngineFeed, "__init__", init)
    with caught_up(pages, consumer="c") as feed:
        others.join(HANG_S)
        assert not others.is_alive() and len(refusals) == 1
        feed.ack(list(feed))
    assert [(view.name, view.lag) for view in pages.feeds()] == [("c", 0)]


@pytest.mark.parametrize("verb", ["mark", "skip"])
def test_what_could_not_be_written_is_not_changed(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """A full disk: who was told that a mark or a skip failed finds the consumer as it was."""
    put(pages, "a", "b", "c")
    caught_up(pages, consumer="c").close()
    (before,) = pages.feeds()
    pwrite = Failing(monkeypatch, "pwrite", errno.ENOSPC)
    by_hand = pages.mark_feed if verb == "mark" else pages.skip_feed
    with pytest.raises(journal.StoreFull):
        by_hand("c", Cursor(1, 1))
    pwrite.error = None
    pages._backend.p.consumers.flush()
    assert pages.feeds() == [before]
    with caught_up(pages, consumer="c") as feed:
        assert [event.key for event in feed] == ["a", "b", "c"]


def test_records_of_a_write_that_was_cut_short_never_follow_later_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk took the record of one consumer and a part of the next: what comes then goes to a new file."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        put(pages, "a", "b")
        for name in ("c", "d"):
            caught_up(pages, consumer=name).close()
        feeds = [caught_up(pages, consumer=name) for name in ("c", "d")]
        for feed in feeds:
            feed.ack(list(feed))
        real = os.pwrite
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data[:-1], at))
            with pytest.raises(journal.StorageError):
                pages._backend.p.consumers.flush()
        files = os.listdir(tmp_path / f"s/{top()}/offsets")
        for feed in feeds:
            feed.close()
        assert len(files) == 1 and files != os.listdir(tmp_path / f"s/{top()}/offsets")
        pages.remove_feed("d")
        assert store.check() == []
    with journal.open(tmp_path / "s") as store:
        assert [(view.name, view.lag) for view in store.journal("pages").feeds()] == [("c", 0)]
