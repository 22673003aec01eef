"""What replies hold."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

import journal
from journal.core.views import Buried, Compacted, Flag, Generation
from journal.errors import FrameError, KeyExists, LeaseLost
from journal.net import values as v


def carried(value: Any) -> Any:
    """As it comes out of a frame."""
    return msgpack.unpackb(msgpack.packb(value))


def test_what_a_store_answers_comes_back(store: journal.Store) -> None:
    """Entries, results, leases, generations, feeds and events are the same at the other end."""
    pages = store.journal("pages")
    result = pages.put("/home", {"uri": "/home", 1: [None]}, owner="shop")
    assert v.result_from(carried(v.result_to(result))) == result
    pages.put(b"raw", b"x", priority=0)
    for entry in pages.scan():
        assert v.entry_from(carried(v.entry_to(entry))) == entry
    lease = pages.claim(consumer="c")
    assert lease is not None
    row = v.LeaseRow(*(getattr(lease, name) if name != "data" else b"\xc4\x01x" for name in v.LeaseRow._fields))
    assert v.lease_from(carried(list(row))) == row
    lease.bury("unreadable")
    (buried,) = pages.buried()
    assert v.buried_from(carried(v.buried_to(buried))) == buried
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


def test_flags_and_errors_come_back() -> None:
    """Also an error in the place of a result."""
    flag = Flag("pages", "timeouts", "look", 1, 2, 3)
    assert v.flag_from(carried(v.flag_to(flag))) == flag
    compacted = Compacted(4, 3, 2, 1)
    assert v.compacted_from(carried(list(compacted))) == compacted
    error = v.result_from(carried(v.result_to(KeyExists("there is one"))))
    assert type(error) is KeyExists and str(error) == "there is one"
    assert v.error_to(None) is None
    assert type(v.error_from(carried(v.error_to(LeaseLost("late"))))) is LeaseLost


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
        (v.generation_from, [*range(8), None]),
        (v.feed_from, ["a", "b", 1, 2, 3, 4]),
        (v.event_from, [*range(10)]),
        (v.event_from, [1, 2, "sync", "pages", 0, "insert", "put", None, None, [*range(20)]]),
        (v.cursor_from, [True, 1]),
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
    assert v.COLUMNS["buried"] == Buried.__slots__
    assert v.COLUMNS["feed"] == journal.FeedView._fields
    assert len(v.COLUMNS["generation"]) == len(Generation._fields) == 9
