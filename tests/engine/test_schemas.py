"""Schemas on a journal: data is checked on put; a change waits for the next generation; readers get the union."""

from __future__ import annotations

from pathlib import Path

import pytest

import journal
from journal import Field, Put, Schema

PAGE = Schema([Field("uri", "text", required=True), Field("depth", "uint8", default=0)], key="uri")
WIDER = Schema([Field("uri", "text", required=True), Field("depth", "uint16"), Field("site", "text")], key="uri")


def test_data_is_checked_and_forms_the_key(store: journal.Store) -> None:
    """A refusal changes nothing; defaults are filled in; the key may be left to the schema."""
    pages = store.journal("pages", schema=PAGE)
    assert pages.put(None, {"uri": "/a"}).outcome == "inserted"
    assert pages.put("/a", {"uri": "/a", "depth": 3}).outcome == "merged"
    for key, data in (
        (None, {"depth": 1}), (None, {"uri": "/b", "depth": 256}), (None, {"uri": "/b", "size": 1}), ("x", {"uri": "/b"}),
        ("/b", "text"), (None, None),
    ):  # fmt: skip
        with pytest.raises(journal.Invalid):
            pages.put(key, data)
        with pytest.raises(journal.Invalid):
            pages.create(key, data)
    assert pages.count() == 1
    entry = pages.get("/a")
    assert entry is not None and entry.data == {"uri": "/a", "depth": 3}
    results = pages.put_many([Put(None, {"uri": "/c"}), Put(None, {"uri": 5}), Put("/d", {"uri": "/d", "depth": 1})])
    assert [isinstance(r, journal.Invalid) for r in results] == [False, True, False]
    assert {e.key: e.data["depth"] for e in pages.scan()} == {"/a": 3, "/c": 0, "/d": 1}


def test_a_key_is_needed_where_no_schema_forms_it(store: journal.Store) -> None:
    """None is not a key."""
    for pages in (store.journal("plain"), store.journal("open", schema=Schema({"n": "int"}))):
        with pytest.raises(journal.Invalid, match="key"):
            pages.put(None, {"n": 1})
        assert isinstance(pages.put_many([Put(None, {"n": 1})])[0], journal.Invalid)
        assert pages.count() == 0


def test_a_changed_schema_takes_effect_with_the_next_generation(tmp_path: Path) -> None:
    """Old generations keep theirs, over a reopen too; scans give the union of fields."""
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages", schema=PAGE)
        pages.put(None, {"uri": "/a"})
        store.journal("pages", schema=WIDER)
        with pytest.raises(journal.Invalid, match="site"):
            pages.put(None, {"uri": "/b", "site": "s"})
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        with pytest.raises(journal.Invalid, match="site"):
            pages.put(None, {"uri": "/b", "site": "s"})
        pages.rotate()
        pages.put(None, {"uri": "/b", "site": "s", "depth": 1000})
        assert {e.key: e.data for e in pages.scan()} == {
            "/a": {"uri": "/a", "depth": 0, "site": None},
            "/b": {"uri": "/b", "depth": 1000, "site": "s"},
        }
        with pages.feed(live=False) as feed:
            told = {event.key: event.data for event in feed if event.has_data}
        assert told["/b"] == {"uri": "/b", "depth": 1000, "site": "s"}
        assert pages.schema is not None
        assert [(f.name, f.type) for f in pages.schema.fields] == [
            ("uri", "text"),
            ("depth", "uint16"),
            ("site", "text"),
        ]
        pages.done_many(pages.claim_many(10))
        store.checkpoint()
        assert pages.schema == WIDER
        assert store.check() == []


def test_an_untouched_generation_takes_a_schema_at_once(store: journal.Store) -> None:
    """Nothing has the old form yet."""
    pages = store.journal("pages")
    store.journal("pages", schema=PAGE)
    with pytest.raises(journal.Invalid):
        pages.put("a", "text")
    pages.put(None, {"uri": "/a"})
    store.journal("pages", schema=None)
    with pytest.raises(journal.Invalid):
        pages.put("a", "text")
    pages.rotate()
    assert pages.put("a", "text").outcome == "inserted"


def test_a_schema_must_be_one(store: journal.Store) -> None:
    """Not a dict, not a text."""
    for wrong in ({"uri": "text"}, "uri", 5):
        with pytest.raises(journal.Invalid, match="schema"):
            store.journal("pages", schema=wrong)
    assert store.journals() == []
