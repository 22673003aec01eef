"""Feed consumers: what they keep over restarts and kills, what they hold of the log, and the operator's verbs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import journal
from journal import CursorUnavailable, Invalid, Refused, Unacknowledged
from journal.testing import ManualClock
from tests.engine.feed.following import SMALL, at, caught_up, fill_segments, keys, put
from tests.engine.helpers import poll
from tests.top import top


def test_what_was_not_acknowledged_comes_again_after_a_restart(tmp_path: Path) -> None:
    """One at a time up to the last that was delivered, then as usual."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        put(pages, *"abcdefg")
        feed = caught_up(pages, consumer="audit")
        events = [next(feed) for _ in range(5)]
        feed.ack(events[0], events[2])
    with journal.open(tmp_path / "s") as store, caught_up(store.journal("pages"), consumer="audit") as feed:
        for expected in "bde":
            event = next(feed)
            assert event.key == expected
            with pytest.raises(Unacknowledged):
                next(feed)
            feed.ack(event)
        assert keys(feed) == ["f", "g"]


def test_a_kill_forgets_what_was_not_flushed(
    store: journal.Store, crashed: Callable[[journal.Store], Path], clock: ManualClock
) -> None:
    """What was flushed counts; the rest is delivered again, and nothing is lost."""
    pages = store.journal("pages")
    put(pages, *"abcd")
    feed = caught_up(pages, consumer="audit", flush="1h")
    events = list(feed)
    feed.ack(events[0])
    pages._backend.p.consumers.flush()
    feed.ack(events[1:])
    copy = crashed(store)
    with journal.open(copy, clock=clock) as again:
        found = again.journal("pages")
        assert [(v.position, v.lag) for v in found.feeds()] == [(at(0), 3)]
        with caught_up(found, consumer="audit") as feed:
            assert next(feed).key == "b"
            assert feed.is_redelivering
        assert again.check() == []


def test_offsets_are_flushed_by_themselves(pages: journal.Journal) -> None:
    """At the interval that was asked for, without a close."""
    put(pages, "a")
    feed = caught_up(pages, consumer="audit", flush="1ms")
    feed.ack(list(feed))
    audit = pages._backend.p.consumers.known["audit"]
    poll(lambda: audit.held == at(0), "what was acknowledged is not written")


def test_a_consumer_in_no_hurry_delays_no_other(pages: journal.Journal) -> None:
    """Each is written at its own interval, whoever came first."""
    put(pages, "a", "b")
    lazy = caught_up(pages, consumer="lazy", flush="1h")
    lazy.ack(next(lazy))
    feed = caught_up(pages, consumer="audit", flush="1ms")
    feed.ack(list(feed))
    audit = pages._backend.p.consumers.known["audit"]
    poll(lambda: audit.held == at(1), "what was acknowledged is not written")


def test_the_offset_log_is_never_ahead_of_the_log(tmp_path: Path) -> None:
    """What is acknowledged is made durable in the log before it is written."""
    with journal.open(tmp_path / "s", durability="none", sync_interval="1h") as store:
        pages = store.journal("pages")
        put(pages, "a")
        feed = pages.feed(consumer="audit", start="END", flush="1h")
        assert pages.durable_cursor == at(0)
        pages.put("b", durability="interval")
        feed.ack(next(feed))
        assert pages.durable_cursor == at(0)
        feed.close()
        assert pages.durable_cursor == at(1)


def test_a_torn_offset_log_is_cut(tmp_path: Path) -> None:
    """Acknowledgements that were not durable are forgotten, and their changes come again."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        put(pages, "a", "b")
        with caught_up(pages, consumer="audit") as feed:
            feed.ack(list(feed))
    (path,) = (tmp_path / "s" / top() / "offsets").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    with journal.open(tmp_path / "s") as store:
        assert [view.position for view in store.journal("pages").feeds()] == [at(-1)]
        assert store.check() == []


def test_a_damaged_offset_log_is_named_on_open(tmp_path: Path) -> None:
    """Not skipped: a consumer would miss nothing, but the log would not be held for it."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        pages.feed(consumer="audit").close()
    (path,) = (tmp_path / "s" / top() / "offsets").iterdir()
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    with journal.open(tmp_path / "s") as store, pytest.raises(journal.LogDamaged, match="offset log"):
        store.journal("pages")


def test_a_consumer_holds_the_log(store: journal.Store) -> None:
    """All of it from its position on; when it has acknowledged, old segments go."""
    pages = store.journal("pages", **SMALL)
    feed = caught_up(pages, consumer="audit")
    fill_segments(pages, store)
    (view,) = pages.feeds()
    assert (view.lag, view.mode, view.is_open) == (8, "sync", True)
    assert view.held_bytes > 8 * 40_000
    events = list(feed)
    assert [e.cursor.offset for e in events] == list(range(8))
    feed.ack(events)
    feed.close()
    fill_segments(pages, store)
    assert next(iter(caught_up(pages))).cursor.offset > 4
    assert pages.feeds()[0].lag == 8
    pages.remove_feed("audit")


def test_it_is_held_before_any_feed_is_open(tmp_path: Path) -> None:
    """A consumer that is away is not forgotten by a restart."""
    with journal.open(tmp_path / "s") as store:
        store.journal("pages", **SMALL).feed(consumer="audit").close()
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        fill_segments(pages, store)
        assert store.check() == []
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        fill_segments(pages, store)
        with caught_up(pages, consumer="audit") as feed:
            assert [e.cursor.offset for e in feed] == list(range(16))
        pages.remove_feed("audit")
        fill_segments(pages, store)
        assert next(iter(caught_up(pages))).cursor.offset > 8
        assert store.check() == []


def test_what_is_not_durable_is_still_held(store: journal.Store) -> None:
    """An acknowledgement that a power cut could take back lets nothing go."""
    pages = store.journal("pages", **SMALL)
    feed = caught_up(pages, consumer="audit", flush="1h")
    fill_segments(pages, store)
    feed.ack(list(feed))
    fill_segments(pages, store)
    assert next(iter(caught_up(pages))).cursor == at(0)
    feed.close()
    fill_segments(pages, store)
    assert next(iter(caught_up(pages))).cursor > at(0)


def test_a_feed_without_a_name_holds_nothing(store: journal.Store) -> None:
    """It is told what it has missed, and that is all: the log went on without it."""
    pages = store.journal("pages", **SMALL)
    put(pages, "a")
    feed = caught_up(pages)
    assert keys(feed) == ["a"]
    fill_segments(pages, store, 12)
    with pytest.raises(CursorUnavailable, match="oldest"):
        next(feed)


def test_damage_under_a_feed_is_named(store: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that cannot be read is an error, never a gap."""
    pages = store.journal("pages")
    put(pages, *"abc")
    (path,) = pages._backend.p.log.directory.iterdir()
    data = bytearray(path.read_bytes())
    at_b = data.index(b"data of b")
    good = bytes(data)
    data[at_b] ^= 1
    path.write_bytes(data)
    feed = caught_up(pages)
    assert next(feed).key == "a"
    with pytest.raises(journal.LogDamaged, match=r"0\.log is damaged at byte \d+: offset 1"):
        next(feed)
    path.write_bytes(good)


def test_consumers_are_listed(store: journal.Store) -> None:
    """By name, with what there is to know."""
    pages = store.journal("pages")
    assert pages.feeds() == []
    put(pages, "a", "b", "c")
    with caught_up(pages, consumer="b") as feed:
        list(feed)
        feed.ack(at(0), at(2))
        pages.feed(consumer="a", start="END").close()
        assert [(v.name, v.position, v.lag, v.mode, v.is_open) for v in pages.feeds()] == [
            ("a", at(2), 0, "sync", False),
            ("b", at(0), 1, "sync", True),
        ]


def test_a_position_can_be_marked(pages: journal.Journal) -> None:
    """Forward and back: all up to it is acknowledged, nothing after it."""
    put(pages, *"abcd")
    with caught_up(pages, consumer="audit") as feed:
        feed.ack(list(feed))
        with pytest.raises(Refused, match="is open"):
            pages.mark_feed("audit", at(0))
    for offset, expected in ((0, ["b", "c", "d"]), (2, ["d"]), (3, []), (-1, ["a", "b", "c", "d"])):
        pages.mark_feed("audit", at(offset))
        assert pages.feeds()[0].position == at(offset)
        again = []
        with caught_up(pages, consumer="audit") as feed:
            for event in feed:
                again.append(event.key)
                feed.ack(event)
        assert again == expected
    with pytest.raises(CursorUnavailable):
        pages.mark_feed("audit", at(4))
    with pytest.raises(Invalid):
        pages.mark_feed("audit", "END?")  # type: ignore[arg-type]
    with pytest.raises(journal.NotFound, match="there is audit"):
        pages.mark_feed("other", at(0))


def test_one_change_can_be_skipped(pages: journal.Journal) -> None:
    """It is never delivered to that consumer; those around it are."""
    put(pages, *"abcd")
    pages.feed(consumer="audit").close()
    assert pages.skip_feed("audit", at(1))
    assert not pages.skip_feed("audit", at(1))
    assert pages.feeds()[0].lag == 3
    with caught_up(pages, consumer="audit") as feed:
        seen = []
        for event in feed:
            seen.append(event.key)
            feed.ack(event)
        assert seen == ["a", "c", "d"]
    for wrong, error in ((at(4), CursorUnavailable), (at(-1), Invalid), ("x", Invalid)):
        with pytest.raises(error):
            pages.skip_feed("audit", wrong)  # type: ignore[arg-type]


def test_a_removed_consumer_is_new_again(tmp_path: Path) -> None:
    """Also after a restart; one that is open cannot be removed."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        put(pages, "a")
        with caught_up(pages, consumer="audit") as feed:
            feed.ack(list(feed))
            with pytest.raises(Refused, match="is open"):
                pages.remove_feed("audit")
        pages.remove_feed("audit")
        assert pages.feeds() == []
        with pytest.raises(journal.NotFound):
            pages.remove_feed("audit")
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        assert pages.feeds() == []
        with caught_up(pages, consumer="audit") as feed:
            assert keys(feed) == ["a"]


@pytest.mark.parametrize(
    "options",
    [
        {"consumer": ""},
        {"consumer": 3},
        {"consumer": "x" * 300},
        {"unacked_max": 0},
        {"flush": "soon"},
        {"start": "MIDDLE"},
        {"start": 5},
        {"start": "MIDDLE", "consumer": "a"},
        {"copy": True},
        {"copy": True, "consumer": "a", "start": "END"},
    ],
)
def test_wrong_options_are_refused(pages: journal.Journal, options: dict[str, Any]) -> None:
    """And no consumer is made."""
    with pytest.raises(Invalid):
        pages.feed(**options)
    assert pages.feeds() == []


def test_a_wrong_start_is_refused_also_where_it_does_not_count(pages: journal.Journal) -> None:
    """A consumer that is known goes on where it was; what says no place is a mistake all the same."""
    pages.feed(consumer="audit").close()
    with pytest.raises(Invalid, match="BEGIN"):
        pages.feed(consumer="audit", start="MIDDLE")
    pages.feed(consumer="audit", start="END").close()


def test_a_look_reads_what_is_committed(tmp_path: Path) -> None:
    """Without a name and not live, and the list of consumers; everything that would write is refused."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        put(pages, "a", "b")
        with caught_up(pages, consumer="audit") as feed:
            feed.ack(next(feed))
    with journal.open(tmp_path / "s", readonly=True) as look:
        pages = look.journal("pages")
        assert keys(caught_up(pages)) == ["a", "b"]
        assert [(v.name, v.position) for v in pages.feeds()] == [("audit", at(0))]
        for call in (
            lambda: pages.feed(),
            lambda: caught_up(pages, consumer="audit"),
            lambda: pages.mark_feed("audit", at(1)),
            lambda: pages.skip_feed("audit", at(1)),
            lambda: pages.remove_feed("audit"),
        ):
            with pytest.raises(journal.ReadOnly):
                call()
        assert look.check() == []
