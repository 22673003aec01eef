"""The commands of those who keep a store."""

from __future__ import annotations

from pathlib import Path

import pytest

import journal
from journal import Field, Schema
from journal.core.settings import from_map
from journal.core.values import Generation
from journal.net.server.verbs.frame_sizes import CUTS
from journal.net.wire.values import flag_from, forecast_from, generation_from, generation_to
from tests.net.server.asking import FRAME, ask, engine_of, pack

SCHEMA = Schema([Field("uri", "text", required=True), Field("depth", "uint8", default=0)], key="uri")


def test_a_journal_is_declared_changed_and_dropped(store: journal.Store) -> None:
    """With all settings, answered as they are now; what cannot be is refused, and makes nothing."""
    made = ask(store, "DECLARE", settings={"timeouts_max": 3, "buckets": 16, "schema": SCHEMA.to_dict()})
    pages = store.journal("pages")
    assert from_map(made) == pages.settings and (pages.settings.buckets, pages.settings.schema) == (16, SCHEMA)
    assert from_map(ask(store, "DECLARE", settings={"timeouts_max": 4})).timeouts_max == 4
    assert from_map(ask(store, "DECLARE")) == from_map(ask(store, "SETTINGS")) == pages.settings
    for wrong in ({"buckets": 8}, {"no_such": 1}, {"schema": {"v": 99}}, {"schema": 7}, {"timeouts_max": "x"}):
        with pytest.raises(journal.Invalid):
            ask(store, "DECLARE", settings=wrong)
        with pytest.raises(journal.Invalid):
            ask(store, "DECLARE", "other", settings=wrong | {"no_such": 1})
    assert store.journals() == ["pages"] and pages.settings.timeouts_max == 4
    ask(store, "DROP")
    assert store.journals() == []
    with pytest.raises(journal.NotFound):
        ask(store, "DROP")
    with pytest.raises(journal.Invalid):
        ask(store, "DECLARE", "lock")


def test_a_schema_is_taken_away(store: journal.Store) -> None:
    """Null is a value of a setting, not one that was left out."""
    ask(store, "DECLARE", settings={"schema": SCHEMA.to_dict(), "rotate": "1d"})
    assert from_map(ask(store, "DECLARE", settings={"rotate": None})).rotate is None
    assert from_map(ask(store, "DECLARE", settings={"schema": None})).schema is None


def test_settings_of_merged_journals(store: journal.Store) -> None:
    """Those that they have together."""
    store.journal("a", merged=True)
    assert ask(store, "MERGED")["generations_max"] == 8
    assert ask(store, "MERGED", settings={"generations_max": 4})["generations_max"] == 4
    assert store.merged().settings.generations_max == 4
    with pytest.raises(journal.Invalid):
        ask(store, "MERGED", settings={"timeouts_max": 1})


def test_flags_are_shown_and_lowered(store: journal.Store, pages: journal.Journal) -> None:
    """What a person must look at; what is not there cannot be lowered, and no journal is made by trying."""
    ask(store, "RAISE_FLAG", name="odd", message="look")
    store.journal("other", merged=True).raise_flag("f", "m")
    assert [flag_from(flag) for flag in ask(store, "FLAGS")] == store.flags() and len(store.flags()) == 2
    ask(store, "LOWER", journal="pages", name="odd")
    ask(store, "LOWER", journal="other", name="f")
    for place in ("pages", "nowhere", "_merged"):
        with pytest.raises(journal.NotFound):
            ask(store, "LOWER", journal=place, name="odd")
    assert store.flags() == [] and store.journals() == ["other", "pages"]


def test_very_many_flags(store: journal.Store, pages: journal.Journal) -> None:
    """All of them are listed, with as much of their messages as there is room for."""
    for i in range(300):
        pages.raise_flag(f"{i:03}", "ä" * 2048, durability="none")
    flags = [flag_from(flag) for flag in ask(store, "FLAGS")]
    assert [flag.name for flag in flags] == [f"{i:03}" for i in range(300)]
    assert all(1000 < len(flag.message) < 2048 for flag in flags)


def test_a_buried_entry_is_retried_or_discarded(store: journal.Store, pages: journal.Journal) -> None:
    """As the library does."""
    for key in ("a", "b"):
        ask(store, "PUT", key=key, data=pack(key))
        ask(store, "BURY", token=ask(store, "CLAIM")["lease"][5], reason="no")
    assert ask(store, "RETRY", key="a")[0] == "retried"
    assert ask(store, "DISCARD", key="b") is None
    assert pages.buried() == [] and ask(store, "GET", key="a")[1] == pack("a")


def test_the_store_is_counted_checked_and_committed(store: journal.Store, pages: journal.Journal) -> None:
    """Maps that a frame can hold."""
    ask(store, "PUT", key="a", data=pack(1))
    statistics = ask(store, "STORE_STATISTICS")
    assert statistics["journals"]["pages"]["entries"] == 1 and "left_off" not in statistics
    before = pages.statistics()["checkpoints"]
    ask(store, "CHECKPOINT")
    assert pages.statistics()["checkpoints"] == before + 1
    assert ask(store, "CHECK") == ask(store, "CHECK", deep=True) == []


def test_the_store_has_more_to_say_than_a_frame_holds(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left off is counted."""
    for i in range(30):
        store.journal(f"j{i}", merged=True)
    engine_of(store).frame_bytes_max = 8192
    statistics = ask(store, "STORE_STATISTICS", frame=8192)
    assert 1 < len(statistics["journals"]) < 31 and statistics["left_off"] == 31 - len(statistics["journals"])
    monkeypatch.setattr(engine_of(store), "check", lambda *, deep: [f"wrong {i} " + "x" * 100 for i in range(1000)])
    said = ask(store, "CHECK", frame=8192)
    assert 50 < len(said) < 80 and said[-1] == f"… and {1000 - len(said) + 1} more"
    monkeypatch.undo()


def test_generations(store: journal.Store, pages: journal.Journal) -> None:
    """The periods, and a new one."""
    ask(store, "PUT", key="a", data=pack(1))
    active = generation_from(ask(store, "ROTATE"))
    assert active.order == 2 and [generation_from(each) for each in ask(store, "GENERATIONS")] == pages.generations()
    assert pages.generations()[-1] == active


def test_generations_that_very_many_follow() -> None:
    """Where a frame cannot name all followers, it names some."""
    one = Generation(1, "active", 0, None, 0, 0, 0, 0, 0, (), None, None, tuple(f"{i:0250}" for i in range(10_000)))
    wire = CUTS["[generation]"]([generation_to(one), generation_to(one)], FRAME)
    assert len(pack(wire)) <= FRAME and len(generation_from(wire[0]).consumers) > 500


def test_a_forecast_that_is_too_long(store: journal.Store, pages: journal.Journal) -> None:
    """It says what to ask for instead, and that is enough."""
    pages.put_many([journal.Put(f"{i}", i, delay=i) for i in range(2000)])
    engine_of(store).frame_bytes_max = 16_384
    with pytest.raises(
        journal.Invalid, match="ask for longer steps, or for a shorter horizon and the rest with `since`"
    ):
        ask(store, "FORECAST", step=1, horizon=2000)
    whole = pages.forecast(step=1, horizon=2000)
    found = []
    for since in range(whole.now, whole.now + 2000, 400):
        found += forecast_from(ask(store, "FORECAST", step=1, horizon=400, since=since, frame=16_384)).steps
    assert tuple(found) == whole.steps
    assert forecast_from(ask(store, "FORECAST", step=100, horizon=2000)).total == 2000


def test_a_store_that_is_closed(tmp_path: Path) -> None:
    """Every command says so."""
    store = journal.open(tmp_path / "w.journal")
    store.journal("pages")
    store.close()
    for command, given in {
        "GET": {"key": "a"},
        "PUT": {"key": "a", "data": pack(1)},
        "CLAIM": {},
        "SCAN": {},
        "FLAGS": {},
        "DECLARE": {},
    }.items():
        with pytest.raises(journal.StoreClosed):
            ask(store, command, **given)
