"""What replies hold."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

import journal
from journal.core.values import Buried, Compacted, Flag, Generation
from journal.errors import FrameError, KeyExists, LeaseLost
from journal.net.wire import values as v
from journal.net.wire.codecs import codec_of


def carried(value: Any) -> Any:
    """As it comes out of a frame."""
    return msgpack.unpackb(msgpack.packb(value))


def columns(entry: journal.Entry) -> list[Any]:
    """An entry as a daemon sends it."""
    packed = msgpack.packb(entry.data)
    return [packed if name == "data" else getattr(entry, name) for name in v.COLUMNS["entry"]]


def test_what_a_store_answers_comes_back(store: journal.Store) -> None:
    """Entries, results, leases, generations, feeds and events are the same at the other end."""
    pages = store.journal("pages")
    result = pages.put("/home", {"uri": "/home", 1: [None]}, owner="shop")
    assert v.result_from(carried(v.result_to(result))) == result
    pages.put(b"raw", b"x", priority=0)
    for entry in pages.scan():
        assert v.entry_from(carried(columns(entry))) == entry
    lease = pages.claim(consumer="c")
    assert lease is not None
    row = v.LentRow(*(getattr(lease, name) if name != "data" else b"\xc4\x01x" for name in v.LentRow._fields))
    assert v.lease_from(carried(list(row))) == row
    lease.bury("unreadable")
    (buried,) = pages.buried()
    assert v.buried_from(carried([columns(buried.entry), buried.reason, buried.date])) == buried
    for generation in pages.generations():
        assert v.generation_from(carried(v.generation_to(generation))) == generation
    with pages.feed(consumer="audit", live=False) as feed:
        events = list(feed)
        assert len(events) == 4
        for event in events:
            again = v.event_from(carried(v.event_to(event)))
            assert again._asdict() == event._asdict() and again == event
        (view,) = pages.feeds()
        assert tuple(v.feed_from(carried(v.feed_to(view)))) == tuple(view)


def test_a_generation_that_is_kept_comes_back(store: journal.Store) -> None:
    """With the entry, the lease and the feed consumers that keep it; tuples are tuples again."""
    pages = store.journal("pages")
    pages.put_many([journal.Put("/a"), journal.Put(b"b")])
    assert pages.claim() is not None
    with pages.feed(consumer="late"):
        (generation,) = pages.generations()
    assert generation.last_lease and generation.first_entry and generation.consumers == ("late",)
    again = v.generation_from(carried(v.generation_to(generation)))
    assert again == generation and [type(part) for part in again] == [type(part) for part in generation]


def sent(page: journal.Page) -> dict[str, Any]:
    """A page as a daemon sends it."""
    return {
        "entries": [columns(entry) for entry in page.entries],
        "after": None if page.after is None else bytes.fromhex(page.after),
    }


def test_pages_and_forecasts_come_back(store: journal.Store) -> None:
    """Pages with the place where to go on, as the engine takes it, and the load ahead with its counts."""
    pages = store.journal("pages")
    pages.put_many([journal.Put(f"/{n}", n, priority=n, delay=n * 40_000) for n in range(5)])
    assert pages.claim() is not None
    first = v.page_from(carried(sent(pages.select(limit=2))))
    assert first == pages.select(limit=2) and first.has_more
    last = v.page_from(carried(sent(pages.select(after=first.after))))
    assert [entry.key for entry in last] == ["/2", "/3", "/4"] and last.after is None and not last.has_more
    forecast = pages.forecast()
    assert forecast.total == 5 and v.forecast_from(carried(v.forecast_to(forecast))) == forecast


def test_what_a_load_came_to_comes_back() -> None:
    """With the rows that were left out."""
    loaded = journal.Loaded(journal.Cursor(1, 5), 1, 2, 3, 4, 5, 6, True, [journal.Rejected(0, 7, "no key")])
    assert v.loaded_from(carried(v.loaded_to(loaded))) == loaded


def test_flags_and_errors_come_back() -> None:
    """Also an error in the place of a result."""
    flag = Flag("pages", "timeouts", "look", 1, 2, 3)
    assert v.flag_from(carried(v.flag_to(flag))) == flag
    compacted = Compacted(4, 3, 2, 1)
    assert v.compacted_from(carried(list(compacted))) == compacted
    error = v.result_from(carried(v.result_to(KeyExists("there is one"))))
    assert type(error) is KeyExists and str(error) == "there is one"
    assert v.error_to(None) is None
    deleted = codec_of("[bool or error]")
    yes, no, error = deleted.read(carried(deleted.to([True, False, KeyExists("there is one")])))
    assert yes is True and no is False and type(error) is KeyExists
    assert type(v.error_from(carried(v.error_to(LeaseLost("late"))))) is LeaseLost


def test_a_reply_is_read_by_what_it_is_declared_as() -> None:
    """A list of values, and a value or none, need no codec of their own; a reply without one is found when the daemon begins."""
    flags = [Flag("pages", "timeouts", "look", 1, 2, 3)]
    codec = codec_of("[flag]")
    assert codec.read(carried(codec.to(flags))) == flags
    codec = codec_of("[cursor or null]")
    assert codec.read(carried(codec.to([journal.Cursor(1, 2), None]))) == [journal.Cursor(1, 2), None]
    extended = codec_of("{deadline, version}")
    assert extended.read(carried(extended.to((5, 2)))) == (5, 2)
    begun = codec_of("{load}")
    assert begun.read(carried(begun.to("0" * 32))) == "0" * 32
    with pytest.raises(FrameError):
        codec_of("[flag]").read(None)
    with pytest.raises(KeyError):
        codec_of("[nothing]")


@pytest.mark.parametrize(
    ("read", "wrong"),
    [
        (v.result_from, ["inserted"]),
        (v.result_from, ["inserted", [1], 1, 2, 3]),
        (v.result_from, {"code": 7}),
        (v.lease_from, None),
        (v.entry_from, ["a", "no bytes", *range(9)]),
        (v.entry_from, ["a", b"\xc1", *range(9)]),
        (v.buried_from, [[], "", 1]),
        (v.generation_from, [*range(9), None, None, None, []]),
        (v.generation_from, [*range(9), [], [1], None, []]),
        (v.page_from, {"entries": [], "after": "00"}),
        (v.page_from, []),
        (v.forecast_from, [1, 2, [1, 2, []], None, [1, 2, []]]),
        (v.forecast_from, [1, 2, [1, 2, [7]], [], [1, 2, []]]),
        (v.deleted_from, 1),
        (v.feed_from, ["a", "b", 1, 2, 3, 4]),
        (v.event_from, [*range(10)]),
        (v.event_from, [1, 2, "sync", "pages", 0, "insert", "put", None, None, [*range(20)]]),
        (v.cursor_from, [True, 1]),
        (v.loaded_from, [[1, 1], 1, 2, 3, 4, 5, 6, False]),
        (v.loaded_from, [[1, 1], "1", 2, 3, 4, 5, 6, False, []]),
        (v.loaded_from, [[1, 1], 1, 2, 3, 4, 5, 6, 0, []]),
        (v.loaded_from, [[1, 1], 1, 2, 3, 4, 5, 6, False, [[1, 2]]]),
    ],
    ids=lambda value: getattr(value, "__name__", None) or repr(value)[:20],
)
def test_a_value_that_does_not_fit_is_a_frame_error(read: Any, wrong: Any) -> None:
    """A client does not trust a daemon's columns either."""
    with pytest.raises(FrameError):
        read(wrong)


def test_columns_are_those_of_the_views() -> None:
    """A column that is added to a view is a new version of the protocol."""
    assert v.COLUMNS["entry"] == journal.Entry.__slots__
    assert v.COLUMNS["result"] == journal.PutResult._fields
    assert v.COLUMNS["flag"] == Flag.__slots__
    assert v.COLUMNS["loaded"] == journal.Loaded.__slots__
    assert v.COLUMNS["rejected"] == journal.Rejected._fields
    assert v.COLUMNS["buried"] == Buried.__slots__
    assert v.COLUMNS["feed"] == journal.FeedView._fields
    assert len(v.COLUMNS["generation"]) == len(Generation._fields) == 13
    assert all(hasattr(journal.Lease, name) for name in v.COLUMNS["lease"])
