"""Schemas on a journal: data is checked on put; a change waits for the next generation; readers get the union."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Field, Put, Schema
from journal.core.entry.rows import pack_data
from journal.engine.caller import LOCAL
from tests.engine.helpers import own_pipeline

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


OLD = Schema([Field("uri", "text", required=True), Field("page", "int")], key="uri")
NEW = Schema([Field("uri", "text", required=True), Field("site", "text")], key="uri")
ALL = {"uri", "page", "site"}


def fields(pages: journal.Journal) -> set[str]:
    assert pages.schema is not None
    return {field.name for field in pages.schema.fields}


def two_generations(store: journal.Store) -> journal.Journal:
    """An entry of the old schema in the first, and none in the second, which has the new one."""
    pages = store.journal("pages", schema=OLD)
    pages.put(None, {"uri": "/a", "page": 1})
    store.journal("pages", schema=NEW)
    pages.rotate()
    return pages


def test_data_that_moves_takes_its_schema_along(tmp_path: Path) -> None:
    """The generation it was put in is gone, and readers still get its fields of every entry."""
    with journal.open(tmp_path / "s") as store:
        pages = two_generations(store)
        pages.move("/a", priority=1)
        pages.put(None, {"uri": "/b", "site": "s"})
        store.checkpoint()
        assert pages.generations()[0].state == "gone"
        assert fields(pages) == ALL and all(e.data.keys() == ALL for e in pages.scan())
    with journal.open(tmp_path / "s") as store:
        pages = store.journal("pages")
        pages.rotate()
        pages.move("/a", priority=2)
        pages.delete("/b")
        store.checkpoint()
        assert [g.state for g in pages.generations()] == ["gone", "gone", "active"]
        assert [e.data for e in pages.scan()] == [{"uri": "/a", "page": 1, "site": None}]
        assert store.check() == []


def test_a_kill_before_the_checkpoint_forgets_no_schema(
    tmp_path: Path, crashed: Callable[[journal.Store], Path]
) -> None:
    """The log has the move, and the replay finds out whose data it is."""
    with journal.open(tmp_path / "s") as store:
        pages = two_generations(store)
        pages.move("/a", priority=1)
        copy = crashed(store)
    with journal.open(copy) as store:
        pages = store.journal("pages")
        store.checkpoint()
        assert [g.state for g in pages.generations()] == ["gone", "active"]
        assert fields(pages) == ALL and [e.data.keys() for e in pages.scan()] == [ALL]


def test_a_successor_has_the_schema_of_its_put(store: journal.Store) -> None:
    """It waits in its entry's generation, which is older than the one that was active when it came."""
    pages = two_generations(store)
    lease = pages.claim()
    assert lease is not None
    assert pages.put(None, {"uri": "/a", "site": "s"}).outcome == "queued"
    store.journal("pages", schema=None)
    pages.rotate()
    store.checkpoint()
    assert [g.state for g in pages.generations()] == ["draining", "gone", "active"]
    assert fields(pages) == ALL
    lease.done()
    store.checkpoint()
    assert [g.state for g in pages.generations()] == ["gone", "gone", "active"]
    assert [e.data["site"] for e in pages.scan()] == ["s"] and fields(pages) == ALL


@pytest.mark.alone(reason="a merged journal forgets no schema")
def test_what_is_done_takes_no_schema_along(store: journal.Store) -> None:
    """The fields of data that is gone are gone."""
    pages = two_generations(store)
    pages.done_many(pages.claim_many(1))
    pages.put(None, {"uri": "/b"})
    store.checkpoint()
    assert pages.schema == NEW


def test_a_buried_entry_is_told_with_all_fields(store: journal.Store) -> None:
    """What a follower gets as old data has the union of fields as well."""
    pages = two_generations(store)
    with pages.feed(consumer="c", live=False) as feed:
        lease = pages.claim()
        assert lease is not None
        lease.bury("unreadable")
        assert [event.old for event in feed if event.has_old] == [{"uri": "/a", "page": 1, "site": None}]


MAKE: dict[str, Callable[[journal.Journal, str, object], object]] = {
    "put": lambda pages, key, data: pages.put(key, data),
    "put with options": lambda pages, key, data: pages.put(key, data, delay=5),
    "create": lambda pages, key, data: pages.create(key, data),
    "put_many": lambda pages, key, data: one(pages.put_many([Put(key, data)])),
    "put_many with options": lambda pages, key, data: one(pages.put_many([Put(key, data, delay=5)])),
}


def one(results: list[journal.PutResult | journal.JournalError]) -> journal.PutResult:
    (result,) = results
    if isinstance(result, journal.JournalError):
        raise result
    return result


@pytest.mark.parametrize("how", MAKE)
@pytest.mark.parametrize("before", [None, OLD], ids=["no schema", "another schema"])
def test_a_put_that_rotates_is_checked_with_the_new_schema(
    store: journal.Store, how: str, before: Schema | None
) -> None:
    """A rotation that is due is made by whoever comes next: its data goes to the new generation."""
    pages = store.journal("pages", rotate_bytes=1 << 16, schema=before)
    pages.put_many([Put(f"k{i}", {"uri": f"k{i}", "page": i}) for i in range(3000)])
    store.journal("pages", schema=Schema({"uri": "text", "n": "int"}))
    store.checkpoint()
    assert own_pipeline(pages).generations.is_due
    with pytest.raises(journal.Invalid, match="page"):
        MAKE[how](pages, "new", {"uri": "new", "page": 1})
    assert len(pages.generations()) == 2 and pages.count() == 3000
    MAKE[how](pages, "other", {"uri": "other", "n": 1})
    assert pages.generations()[1].entries == 1


@pytest.mark.parametrize("how", MAKE)
def test_a_rotation_between_the_check_and_the_put(
    store: journal.Store, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Another thread begins a generation with a schema while a put without one is on its way."""
    pages = store.journal("pages")
    pages.put("a", 1)
    store.journal("pages", schema=NEW)
    is_rotated = False

    def pack(data: object) -> bytes:
        nonlocal is_rotated
        if not is_rotated:
            is_rotated = True
            pages.rotate()
        return pack_data(data)

    caller = dataclasses.replace(LOCAL, pack=pack)
    backend = pages._backend
    group = inspect.unwrap(backend.put_many.__func__)
    monkeypatch.setattr(backend.puts.usual.__func__, "__defaults__", (caller,))
    monkeypatch.setattr(group, "__kwdefaults__", {**group.__kwdefaults__, "caller": caller})
    monkeypatch.setattr(inspect.unwrap(backend.call.__func__), "__defaults__", (caller,))
    with pytest.raises(journal.Invalid, match="takes a dict"):
        MAKE[how](pages, "b", "no map")
    assert pages.count() == 1 and len(pages.generations()) == 2
