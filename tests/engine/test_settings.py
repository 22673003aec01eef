"""Settings of a journal and of a store: kept, changed, refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import journal
from journal.testing import ManualClock
from tests.top import top


def test_settings_are_kept_over_a_reopen(tmp_path: Path) -> None:
    """Opening without settings finds those that were given; a change is kept too."""
    path = tmp_path / "s"
    with journal.open(path) as opened:
        opened.journal("pages", processing_timeout="5s", timeouts_max=1, merge="keep", slow_from=150)
    with journal.open(path) as opened:
        found = opened.journal("pages").settings
        assert (found.processing_timeout, found.timeouts_max, found.merge, found.slow_from) == (5000, 1, "keep", 150)
        opened.journal("pages", timeouts_max=2)
    with journal.open(path) as opened:
        found = opened.journal("pages").settings
        assert (found.timeouts_max, found.merge) == (2, "keep")


def test_settings_given_at_the_reopen_are_kept(tmp_path: Path) -> None:
    """The first call after the open may change them as well."""
    path = tmp_path / "s"
    for given, expected in (({"timeouts_max": 1}, 1), ({"timeouts_max": 2}, 2), ({}, 2)):
        with journal.open(path) as opened:
            assert opened.journal("pages", **given).settings.timeouts_max == expected


@pytest.mark.alone(reason="what is shared may have been made before")
def test_a_wrong_setting_declares_no_journal(store: journal.Store) -> None:
    """Invalid, and nothing of it is left, neither in the catalog nor on disk."""
    for given in ({"merge": "x"}, {"timeouts_max": 256}, {"unknown": 1}, {"merged": 1}):
        with pytest.raises(journal.Invalid):
            store.journal("pages", **given)
    assert store.journals() == []
    assert not (store.path / top()).exists()
    assert store.journal("pages").settings.merge == "merge"


def test_a_wrong_change_changes_nothing(store: journal.Store) -> None:
    """All or nothing: the good one beside it is not taken either."""
    pages = store.journal("pages", timeouts_max=3)
    for name in ("pages", "pages"):
        with pytest.raises(journal.Invalid):
            store.journal(name, timeouts_max=4, merge="x")
        with pytest.raises(journal.Invalid):
            store.journal(name, timeline="other")
    assert pages.settings.timeouts_max == 3


def test_a_wrong_change_at_the_reopen_changes_nothing(tmp_path: Path) -> None:
    """The journal can still be opened without it."""
    path = tmp_path / "s"
    with journal.open(path) as opened:
        opened.journal("pages", timeouts_max=3).put("a")
    with journal.open(path) as opened:
        with pytest.raises(journal.Invalid):
            opened.journal("pages", timeline="other")
        assert opened.journal("pages").settings.timeouts_max == 3
        assert opened.journal("pages").count() == 1


def test_a_journal_is_one_object(store: journal.Store) -> None:
    """Whoever opens it by name gets the same one, with the changed settings."""
    first = store.journal("pages")
    assert store.journal("pages", timeouts_max=1) is first
    assert first.settings.timeouts_max == 1


def test_journals_do_not_mix(store: journal.Store) -> None:
    """One key in two journals is two entries; the list is sorted."""
    b, a = store.journal("b"), store.journal("a")
    a.put("k", 1)
    b.put("k", 2)
    lease = a.claim()
    assert lease is not None
    with pytest.raises(journal.LeaseLost):
        b.done(lease.token)
    lease.done()
    assert (a.get("k"), b.count()) == (None, 1)
    assert store.journals() == ["a", "b"]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "x" * 65, "LOCK", "catalog", "a\n", None, 5])
def test_wrong_names_are_refused(store: journal.Store, name: Any) -> None:
    """Nothing is made, inside or outside of the store."""
    before = sorted(path.name for path in store.path.parent.rglob("*"))
    with pytest.raises(journal.Invalid):
        store.journal(name)
    assert sorted(path.name for path in store.path.parent.rglob("*")) == before


@pytest.mark.parametrize(
    "options",
    [
        {"durability": "best"}, {"durability": None}, {"durability": ["full"]}, {"claims": "none"}, {"verify": "no"},
        {"sync_interval": "soon"}, {"sync_interval": -1}, {"map_bytes": 5}, {"map_bytes": "1G"},
    ],
    ids=repr,
)  # fmt: skip
def test_wrong_options_of_open_make_no_store(tmp_path: Path, options: dict[str, Any]) -> None:
    """Invalid before anything is made."""
    with pytest.raises(journal.Invalid):
        journal.open(tmp_path / "s", **options)
    assert not (tmp_path / "s").exists()


def test_a_clock_must_be_a_clock(tmp_path: Path) -> None:
    """Something without now() is refused before anything is made."""
    with pytest.raises((TypeError, journal.Invalid)):
        journal.open(tmp_path / "s", clock=5)
    assert not (tmp_path / "s").exists()


def test_a_clock_that_only_knows_now_is_enough(tmp_path: Path) -> None:
    """Any object with now() in milliseconds."""

    class Plain:
        ms = 5000

        def now(self) -> int:
            return self.ms

    clock = Plain()
    with journal.open(tmp_path / "s", clock=clock) as opened:
        pages = opened.journal("pages")
        assert pages.put("a", delay=10).process_date == 5010
        assert pages.claim() is None
        clock.ms += 10
        assert pages.claim() is not None


def test_statistics_are_complete(store: journal.Store, clock: ManualClock) -> None:
    """Of the store and of each journal; cheap numbers that agree with the counts."""
    pages = store.journal("pages")
    pages.put_many([journal.Put(k) for k in "abc"])
    lease = pages.claim()
    assert lease is not None
    pages.put(lease.key, "next")
    found = store.statistics()
    assert found["now"] == clock.now()
    numbers = found["journals"]["pages"]
    assert (numbers["entries"], numbers["waiting"], numbers["processing"], numbers["successors"]) == (3, 2, 1, 1)
    assert numbers["next_due"] == clock.now()
    assert numbers["durable_offset"] < numbers["next_offset"]
