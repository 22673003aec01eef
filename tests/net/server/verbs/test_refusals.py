"""What journal.api refuses is refused to a client that sends it past journal.api, and nothing changes."""

from __future__ import annotations

from typing import Any

import pytest

import journal
from journal.core.limits import FLAG_BYTES_MAX, KEY_BYTES_MAX, LIST_MAX, OWNER_BYTES_MAX, REASON_BYTES_MAX
from journal.net.server.verbs.open_feed import OpenFeed
from journal.net.server.verbs.served_journal import served_of
from journal.net.wire.auth import EVERYTHING
from tests.net.server.asking import ask, engine_of, pack, pipeline_of

DATA = pack(1)
BOTH: dict[str, Any] = {"process_date": 5, "delay": 5}
TOKEN = object()
"""Stands for the token of an active lease."""
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("PUT", {"key": "k", "data": DATA, **BOTH}, "not both"),
    ("PUT", {"key": "k", "data": DATA, "priority": 256}, "0 to 255"),
    ("PUT", {"key": "k" * (KEY_BYTES_MAX + 1), "data": DATA}, "key"),
    ("PUT", {"key": b"", "data": DATA}, "key"),
    ("PUT", {"data": DATA}, "key is None"),
    ("PUT", {"key": "k", "data": b"\xc4\x05x"}, "packed"),
    ("PUT", {"key": "k", "data": DATA, "owner": "g" * (OWNER_BYTES_MAX + 1)}, "owner"),
    ("PUT", {"key": "k", "data": DATA, "version": -1}, "version"),
    ("PUT", {"key": "k", "data": DATA, "durability": "os"}, "durability"),
    ("PUT", {"key": "k", "data": DATA, "process_date": 5, "insertion_date": 9}, "earlier"),
    ("CREATE", {"key": "k", "data": DATA, **BOTH}, "not both"),
    ("MOVE", {"key": "waiting"}, "needs"),
    ("MOVE", {"key": "waiting", **BOTH}, "not both"),
    ("MOVE", {"key": "waiting", "process_date": 5}, "earlier"),
    ("PUT_MANY", {"puts": [{"key": "k", "data": DATA}] * (LIST_MAX + 1)}, "16384"),
    ("DELETE_MANY", {"deletes": [{"key": "k"}] * (LIST_MAX + 1)}, "16384"),
    ("RETRY_MANY", {"keys": ["k"] * (LIST_MAX + 1)}, "16384"),
    ("GET_MANY", {"keys": ["k"] * (LIST_MAX + 1)}, "16384"),
    ("CLAIM", {"buckets": "0-9999"}, "bucket"),
    ("CLAIM", {"buckets": "3-1"}, "bucket"),
    ("CLAIM", {"lease": 0}, "lease"),
    ("CLAIM_MANY", {"n": 0}, "n is 0"),
    ("CLAIM_MANY", {"n": LIST_MAX + 1}, "an int from 1"),
    ("CLAIM_MANY", {"n": 1, "buckets": "0-9999"}, "bucket"),
    ("DONE", {"token": TOKEN, "next": {"key": "k", "data": DATA, **BOTH}}, "not both"),
    ("DONE_MANY", {"tokens": [1, 2], "nexts": [None]}, "1 items for 2"),
    ("EXTEND", {"token": TOKEN, "lease": 0}, "lease"),
    ("RELEASE", {"token": TOKEN, **BOTH}, "not both"),
    ("RELEASE", {"token": TOKEN, "priority": -1}, "priority"),
    ("BURY", {"token": TOKEN, "reason": "r" * (REASON_BYTES_MAX + 1)}, "reason"),
    ("RAISE_FLAG", {"name": "paused", "message": "m"}, "use pause"),
    ("RAISE_FLAG", {"name": "", "message": "m"}, "name"),
    ("RAISE_FLAG", {"name": "f" * (FLAG_BYTES_MAX + 1), "message": "m"}, "name"),
    ("PAUSE", {"reason": "r" * (REASON_BYTES_MAX + 1)}, "reason"),
    ("SELECT", {"status": "buried"}, "order of work"),
    ("SELECT", {"buckets": "0-9999"}, "bucket"),
    ("SELECT", {"after": b"x"}, "after"),
    ("SELECT", {"limit": 0}, "limit"),
    ("ENTRIES_OF", {"owner": "g", "after": b"x"}, "after"),
    ("ENTRIES_OF", {"owner": ""}, "owner"),
    ("COUNT", {"buckets": "0-9999"}, "bucket"),
    ("FORECAST", {"step": 1, "horizon": 1 << 40}, "steps"),
    ("WAIT_DURABLE", {"cursor": [7, 7]}, "not a change"),
    ("LOAD_COMMIT", {"load": "0" * 32, "parts": ["a", "a"]}, "twice"),
    ("LOAD_COMMIT", {"load": "0" * 32, "parts": ["a"], "once": ["", 1]}, "once"),
    ("LOAD_COMMIT", {"load": "0" * 32, "parts": ["a"], "on_conflict": "drop"}, "on_conflict"),
    ("LOAD_PART", {"load": "0" * 32, "part": "../a", "at": 0, "piece": b""}, "part"),
    ("DECLARE", {"settings": {"nonsense": 1}}, "nonsense"),
]


@pytest.mark.parametrize(("command", "given", "reason"), REFUSED)
def test_it_is_refused(
    command: str, given: dict[str, Any], reason: str, store: journal.Store, pages: journal.Journal
) -> None:
    """As an argument that is wrong; the log has no record of it, and the lease goes on."""
    pages.put("waiting", 1, delay="1h")
    pages.put("leased", 2)
    lease = pages.claim(consumer="c")
    assert lease is not None
    before = pipeline_of(pages).next_offset, list(pages.scan()), store.flags()
    with pytest.raises(journal.Invalid, match=reason):
        ask(store, command, **{name: lease.token if value is TOKEN else value for name, value in given.items()})
    assert (pipeline_of(pages).next_offset, list(pages.scan()), store.flags()) == before
    lease.extend()


@pytest.mark.parametrize(
    ("command", "given"),
    [
        ("PUT_MANY", {"puts": [{"key": "k", "data": DATA, **BOTH}]}),
        ("CREATE_MANY", {"puts": [{"key": "k", "data": DATA, **BOTH}]}),
        ("MOVE_MANY", {"moves": [{"key": "waiting"}]}),
        ("MOVE_MANY", {"moves": [{"key": "waiting", **BOTH}]}),
    ],
)
def test_it_is_refused_in_a_group(
    command: str, given: dict[str, Any], store: journal.Store, pages: journal.Journal
) -> None:
    """In its place."""
    pages.put("waiting", 1, delay="1h")
    before = pipeline_of(pages).next_offset
    (found,) = ask(store, command, **given)
    assert found["code"] == "invalid" and pipeline_of(pages).next_offset == before


@pytest.mark.parametrize("given", [{}, {"consumer": "c", "start": "END"}, {"consumer": "c", "start": [1, 0]}])
def test_a_copy_needs_a_name_and_all_entries(
    given: dict[str, Any], store: journal.Store, pages: journal.Journal
) -> None:
    """No consumer is remembered then."""
    with pytest.raises(journal.Invalid, match="a copy needs"):
        OpenFeed(served_of(engine_of(store), "pages"), {"copy": True, **given}, EVERYTHING)
    assert pages.feeds() == []


@pytest.mark.parametrize("name", ["", "a/b", "_a", ".", "a" * 300])
def test_a_journal_has_a_good_name(name: str, store: journal.Store, pages: journal.Journal) -> None:
    """No directory is made."""
    with pytest.raises((journal.Invalid, journal.errors.FrameError)):
        ask(store, "DECLARE", name)
    assert store.journals() == ["pages"]
