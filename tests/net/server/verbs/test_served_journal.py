"""A journal as it is served: found by its name, never declared by being asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

import journal
from journal.net.server.verbs.served_journal import known, served_of
from tests.net.server.asking import ask, engine_of, pack


def test_a_journal_that_there_is_not(store: journal.Store) -> None:
    """It is refused, with those that there are, and nothing is made."""
    with pytest.raises(journal.NotFound, match="there are none; DECLARE makes one"):
        ask(store, "PUT", "pages", key="a", data=pack(1))
    store.journal("mail")
    with pytest.raises(journal.NotFound, match="no journal 'pages': there are mail;"):
        ask(store, "GET", "pages", key="a")
    assert store.journals() == ["mail"]


def test_one_that_is_open_is_looked_up_in_memory(store: journal.Store, pages: journal.Journal) -> None:
    """The same object each time, without a lock, whoever has the store's."""
    served = served_of(engine_of(store), "pages")
    assert (
        known(engine_of(store), "pages") is served is served_of(engine_of(store), "pages")
        and served.journal is pages._backend
    )
    assert known(engine_of(store), "others") is None


def test_one_that_nobody_has_opened_yet(tmp_path: Path) -> None:
    """It is opened when it is first asked for."""
    with journal.open(tmp_path / "w.journal") as store:
        store.journal("pages").put("a", 1)
    with journal.open(tmp_path / "w.journal") as store:
        assert known(engine_of(store), "pages") is None
        assert ask(store, "GET", key="a")[1] == pack(1)
        assert known(engine_of(store), "pages") is not None


def test_one_that_was_dropped_and_declared_anew(store: journal.Store, pages: journal.Journal) -> None:
    """What was served before is not there any more; what is asked for is the new one."""
    ask(store, "PUT", key="a", data=pack(1))
    before = served_of(engine_of(store), "pages")
    ask(store, "DROP")
    with pytest.raises(journal.NotFound):
        ask(store, "GET", key="a")
    ask(store, "DECLARE")
    assert served_of(engine_of(store), "pages") is not before and ask(store, "GET", key="a") is None


def test_the_library_goes_on_beside_it(store: journal.Store, pages: journal.Journal) -> None:
    """Both work on the same entries, each with its own form of data and leases."""
    pages.put("a", {"n": 1})
    ask(store, "PUT", key="b", data=pack({"n": 2}))
    assert pages.get("b").data == {"n": 2}  # type: ignore[union-attr]
    lease = pages.claim(consumer="c")
    assert isinstance(lease, journal.Lease)
    assert ask(store, "CLAIM")["lease"][1] in (pack({"n": 1}), pack({"n": 2}))
    assert isinstance(pages.lease(lease.token), journal.Lease)
    ask(store, "DONE", token=lease.token)
    assert pages.count() == 1
