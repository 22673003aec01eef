"""The feed over generations, and retention: what is kept for followers, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Cursor, Put
from journal.engine.log.closed_logs import ClosedLogs
from journal.engine.pipeline import Pipeline
from journal.testing import ManualClock
from tests.top import top

MINUTE_MS = 60_000


def keys(feed: journal.Feed) -> list[object]:
    return [event.key for event in feed if event.verb in ("put", "done")]


def test_a_feed_goes_over_generations(store: journal.Store, pages: journal.Journal) -> None:
    """In one order, over empty ones too; acknowledged cursors of each count."""
    with pages.feed(consumer="audit", live=False) as feed:
        pages.put("a")
        pages.rotate()
        pages.rotate()
        pages.put("b")
        events = [event for event in feed if event.verb == "put"]
        assert [(e.cursor, e.key) for e in events] == [(Cursor(1, 0), "a"), (Cursor(3, 0), "b")]
        pages.put("c")
        assert [e.key for e in feed if e.verb == "put"] == ["c"]
        feed.ack(events)
        assert feed.position == Cursor(3, 0) and feed.lag == 1
    assert store.check() == []


def test_a_consumer_keeps_the_logs_of_old_generations(tmp_path: Path) -> None:
    """Until it has acknowledged them; their rows go as soon as they are empty."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        with pages.feed(consumer="slow", live=False):
            pass
        for period in range(3):
            pages.put(f"k{period}")
            pages.done_many(pages.claim_many(10))
            pages.rotate()
        store.checkpoint()
        assert [(g.order, g.state) for g in pages.generations()] == [
            (1, "closed"), (2, "closed"), (3, "closed"), (4, "active"),
        ]  # fmt: skip
        assert pages.generations()[0].kept_by == ("followers",)
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        with pages.feed(consumer="slow", live=False) as feed:
            events = list(feed)
            assert [e.key for e in events if e.verb == "put"] == ["k0", "k1", "k2"]
            feed.ack(e for e in events if e.cursor.order < 3)
        store.checkpoint()
        assert [(g.order, g.state) for g in pages.generations()][:3] == [(1, "gone"), (2, "gone"), (3, "closed")]
        assert not (tmp_path / f"s/{top()}/000001").exists()
        assert pages.distance(Cursor(1, -1), Cursor(4, -1)) == len(events)
        with pytest.raises(journal.CursorUnavailable, match="001-0003"):
            pages.feed(consumer="late", start=Cursor(1, 0))
        assert store.check() == []


def test_a_copy_shows_all_generations(store: journal.Store, pages: journal.Journal) -> None:
    """Entries of old and new ones, each once, then what comes after."""
    pages.put_many([Put(f"a{i}", i) for i in range(10)])
    pages.rotate()
    pages.put("a3", "newer")
    pages.put_many([Put(f"b{i}", i) for i in range(10)])
    lease = pages.claim()
    assert lease is not None
    with pages.feed(consumer="mirror", copy=True, live=False) as feed:
        events = list(feed)
        copied = {e.key: e.data for e in events if e.mode == "copy"}
        assert len(copied) == 20 and copied["a3"] == "newer"
        assert [e.mode for e in events][-1] == "complete"
        feed.ack(events)
        pages.rotate()
        pages.put("after")
        assert [e.key for e in feed if e.verb == "put"] == ["after"]
    assert store.check() == []


def test_a_live_feed_follows_over_a_rotation(tmp_path: Path) -> None:
    """It is woken by the first change of the new generation."""
    from tests.engine.test_threads import together

    seen: list[object] = []
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        feed = pages.feed(consumer="live")

        def follow() -> None:
            for event in feed:
                if event.verb == "put":
                    seen.append(event.key)
                feed.ack(event.cursor)
                if len(seen) == 40:
                    feed.close()

        def produce() -> None:
            for i in range(40):
                pages.put(i.to_bytes(1, "big"))
                if i % 10 == 9:
                    pages.rotate()

        together(follow, produce)
        assert seen == [i.to_bytes(1, "big") for i in range(40)]


def fill(pages: journal.Journal, store: journal.Store, clock: ManualClock, batches: int) -> None:
    for _ in range(batches):
        pages.put_many([Put(f"{clock.now()}-{i}", b"x" * 2000) for i in range(40)])
        clock.advance(MINUTE_MS)
        store.checkpoint()
        pages.done_many(pages.claim_many(1000))
        store.checkpoint()


@pytest.mark.alone(reason="the change that raises the flag is none of a merged journal's own")
@pytest.mark.parametrize("limit", [{"log_bytes_max": 1 << 20}, {"log_age_max": "10m"}], ids=["bytes", "age"])
@pytest.mark.parametrize("is_rotating", [False, True])
def test_retention_lets_old_records_go_and_raises_a_flag(
    store: journal.Store, clock: ManualClock, limit: dict[str, object], is_rotating: bool
) -> None:
    """First a warning, then the loss; the consumer is told which cursor is the oldest, and can go on from there."""
    pages = store.journal("pages", segment_bytes_max=1 << 16, **limit)
    with pages.feed(consumer="slow", live=False):
        pass
    messages = []
    for _ in range(40):
        fill(pages, store, clock, 1)
        if is_rotating:
            pages.rotate()
        messages += [flag.message for flag in store.flags() if flag.name == "feed"]
    assert "about to lose" in messages[0] and "have lost" in messages[-1]
    with pages.feed(consumer="slow", live=False) as feed, pytest.raises(journal.CursorUnavailable) as told:
        next(feed)
    oldest = Cursor.parse(str(told.value).rsplit(" ", 1)[1])
    assert 0 < pages.lag(oldest) < pages.lag(Cursor(1, -1)) / 2
    pages.mark_feed("slow", oldest)
    with pages.feed(consumer="slow", live=False) as feed:
        assert len(list(feed)) == pages.lag(oldest)
    assert store.check() == []


def test_without_limits_a_consumer_holds_everything(store: journal.Store, clock: ManualClock) -> None:
    """Nothing that was not acknowledged goes."""
    pages = store.journal("pages", segment_bytes_max=1 << 16)
    with pages.feed(consumer="slow", live=False):
        pass
    fill(pages, store, clock, 12)
    pages.rotate()
    with pages.feed(consumer="slow", live=False) as feed:
        assert len([e for e in feed if e.verb == "puts" or e.op == "insert"]) == 12 * 40
    assert store.flags() == []


def test_a_crash_keeps_what_followers_have(
    tmp_path: Path, clock: ManualClock, crashed: Callable[[journal.Store], Path]
) -> None:
    """Positions and the logs that they hold, over generations."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        pages = store.journal("pages")
        with pages.feed(consumer="c", live=False) as feed:
            pages.put("a")
            feed.ack(list(feed))
            pages.put("b")
            pages.rotate()
            pages.put("c")
        copy = crashed(store)
    with journal.open(copy, clock=clock) as store:
        with store.journal("pages").feed(consumer="c", live=False) as feed:
            redelivered = []
            for event in feed:
                redelivered.append(event.key)
                feed.ack(event)
        assert redelivered[-2:] == ["b", "c"]
        assert store.check() == []


def test_generations_without_changes_are_held_for_nobody(store: journal.Store, clock: ManualClock) -> None:
    """Their logs go at once, and nobody is said to lose what never was."""
    pages = store.journal("pages", log_age_max="1m", log_bytes_max=1 << 19)
    with pages.feed(consumer="slow", live=False):
        pass
    for _ in range(5):
        pages.rotate()
    clock.advance(2 * MINUTE_MS)
    store.checkpoint()
    assert [g.state for g in pages.generations()] == ["gone"] * 5 + ["active"]
    assert store.flags() == []
    pages.put("a")
    with pages.feed(consumer="slow", live=False) as feed:
        assert [event.cursor for event in feed] == [Cursor(6, 0)]


def test_who_follows_does_not_pay_for_old_generations(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look for more, or a wait for it, asks for the active generation only; the others are looked at when they change."""
    for period in range(20):
        pages.put(f"old-{period}")
        pages.done_many(pages.claim_many(10))
        pages.rotate()
    feed = pages.feed(start="END", live=False)
    assert keys(feed) == []
    asked: list[int] = []
    directory = type(pages._backend.p).directory

    def asking(p: Pipeline, order: int) -> Path:
        asked.append(order)
        return directory(p, order)

    monkeypatch.setattr(Pipeline, "directory", asking)
    spans = ClosedLogs(pages._backend.p.directory).look(pages._backend.p.generations.kept).spans
    assert asked == list(range(1, 21)) and pages._backend.p.generations.closed_logs().spans == spans
    asked.clear()
    for i in range(20):
        pages.put(f"new-{i}")
        assert keys(feed) == [f"new-{i}"]
    assert asked == []
    pages.rotate()
    pages.put("next")
    assert keys(feed) == ["next"]
    assert pages._backend.p.generations.closed_logs().logs[-1].directory == pages._backend.p.directory(21) / "log"
    assert [span.order for span in pages._backend.p.generations.spans()] == list(range(1, 23))
    assert pages.lag(Cursor(21, -1)) == 21
