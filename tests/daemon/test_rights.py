"""Who may do what: roles, and names that somebody else has."""

from __future__ import annotations

from typing import Any

import pytest

import journal
from journal.daemon.handlers import served_of
from journal.net.auth import Grant
from tests.daemon.asking import ask, grant, pack, whole

PRODUCER = grant("us", "produce", names="us-*")
CONSUMER = grant("c", "consume", names="c-*")
BOTH = grant("c", "produce", "consume")
ADMIN = grant("root", "admin")
EVERY_NAME = grant("boss", "consume", "produce", names="*")
ENDS: dict[str, dict[str, Any]] = {
    "DONE": {}, "EXTEND": {}, "RELEASE": {}, "BURY": {}, "LEASE": {},
}  # fmt: skip
MAY_END = [
    ("c", CONSUMER, True), ("c-1", CONSUMER, True), ("d", CONSUMER, False), ("", CONSUMER, False), ("c-1", BOTH, False),
    ("d", EVERY_NAME, True), ("", EVERY_NAME, True), ("d", grant("d", "consume"), True), ("d", grant("e", "consume", names="d"), True),
]  # fmt: skip


@pytest.fixture
def pages(pages: journal.Journal) -> journal.Journal:
    """Entries of everybody."""
    for key, owner in (("free", None), ("ours", "us"), ("ours-1", "us-1"), ("theirs", "them")):
        pages.put(key, b"x", owner=owner)
    return pages


@pytest.mark.parametrize("command", ENDS)
@pytest.mark.parametrize(
    ("consumer", "by", "may"), MAY_END, ids=[f"{a}-{b.identity}-{len(b.names)}" for a, b, _ in MAY_END]
)
def test_a_lease_is_its_consumers(
    store: journal.Store, pages: journal.Journal, command: str, consumer: str, by: Grant, may: bool
) -> None:
    """Nobody ends, extends or looks at a lease that was claimed under a name that it may not use, whatever token it guesses."""
    lease = pages.claim_key("free", consumer=consumer)
    if may:
        ask(store, command, by=by, token=lease.token)
        return
    before = pages.lease(lease.token)
    with pytest.raises(journal.AccessDenied, match="may not act under the name"):
        ask(store, command, by=by, token=lease.token)
    after = pages.lease(lease.token)
    assert (after.deadline, after.version) == (before.deadline, before.version) and pages.buried() == []


def test_of_a_group_only_ones_own_are_done(store: journal.Store, pages: journal.Journal) -> None:
    """The others are refused one by one, and stay as they are."""
    own, others = pages.claim_key("free", consumer="c"), pages.claim_key("theirs", consumer="d")
    done, denied, lost = ask(store, "DONE_MANY", by=CONSUMER, tokens=[own.token, others.token, 7])
    assert done is None and denied["code"] == "access_denied" and lost["code"] == "lease_lost"
    assert [lease.key for lease in pages.leases()] == ["theirs"]


def test_a_name_is_checked_for_each_lease(store: journal.Store, pages: journal.Journal) -> None:
    """What was allowed for one consumer says nothing about another, however often it is asked."""
    tokens = [pages.claim_many(1, consumer=name)[0].token for name in ("c", "d", "c-1", "d")]
    for _ in range(2):
        outcomes = []
        for token in tokens:
            try:
                ask(store, "EXTEND", by=CONSUMER, token=token)
                outcomes.append(True)
            except journal.AccessDenied:
                outcomes.append(False)
        assert outcomes == [True, False, True, False]


def test_many_identities(store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of them is bounded, and never mixed up."""
    monkeypatch.setattr("journal.daemon.served.GRANTS", 3)
    monkeypatch.setattr("journal.daemon.served.NAMES", 2)
    lease = pages.claim_key("free", consumer="x7")
    for i in [*range(10), *range(10)]:
        by = grant(f"x{i}", "consume")
        if i == 7:
            ask(store, "EXTEND", by=by, token=lease.token)
        else:
            with pytest.raises(journal.AccessDenied):
                ask(store, "EXTEND", by=by, token=lease.token)
    assert len(served_of(store, "pages")._guarded) <= 3


READABLE = [
    ("producer", PRODUCER, {"free", "ours", "ours-1"}),
    ("producer of another name", grant("x", "produce"), {"free"}),
    ("consumer", CONSUMER, {"free", "ours", "ours-1", "theirs"}),
    ("both", BOTH, {"free", "ours", "ours-1", "theirs"}),
    ("admin", ADMIN, {"free", "ours", "ours-1", "theirs"}),
    ("every name", grant("x", "produce", names="*"), {"free", "ours", "ours-1", "theirs"}),
]


@pytest.mark.parametrize(("by", "readable"), [case[1:] for case in READABLE], ids=[case[0] for case in READABLE])
def test_who_reads_what(store: journal.Store, pages: journal.Journal, by: Grant, readable: set[str]) -> None:
    """Who may consume reads all; who only produces reads what nobody owns and what is its own, as if there were nothing else."""
    keys = ["free", "ours", "ours-1", "theirs"]
    found = ask(store, "GET_MANY", by=by, keys=keys)
    assert {key for key, entry in zip(keys, found, strict=True) if entry is not None} == readable
    assert {key for key in keys if ask(store, "GET", by=by, key=key) is not None} == readable
    for command in ("SCAN", "SELECT"):
        for limit in (1, 2, 100):
            assert {entry[0] for entry in whole(store, command, "entries", by=by, limit=limit)} == readable
    assert ask(store, "COUNT", by=by) == 4


@pytest.mark.parametrize("command", ["SELECT", "COUNT", "ENTRIES_OF", "COUNT_OF", "PUT", "MOVE", "DELETE"])
def test_nobody_acts_for_another_group(store: journal.Store, pages: journal.Journal, command: str) -> None:
    """To name another's group is refused, for reading too."""
    more: dict[str, Any] = {
        "PUT": {"key": "a", "data": pack(1)},
        "MOVE": {"key": "theirs", "delay": 1},
        "DELETE": {"key": "theirs"},
    }.get(command, {})
    with pytest.raises(journal.AccessDenied, match="'them'"):
        ask(store, command, by=PRODUCER, owner="them", **more)
    if command in ("MOVE", "DELETE"):
        with pytest.raises(journal.NotOwner):
            ask(store, command, by=PRODUCER, owner="us", **more)
    assert pages.count_of("them") == 1


def test_leases_of_all_are_for_admins(store: journal.Store, pages: journal.Journal) -> None:
    """Whoever else does not say whose, is refused; its own are shown."""
    pages.claim_many(1, consumer="c")
    pages.claim_many(1, consumer="d")
    assert len(ask(store, "LEASES", by=ADMIN)["leases"]) == 2
    assert [lease[8] for lease in ask(store, "LEASES", by=CONSUMER, consumer="c")["leases"]] == ["c"]
    with pytest.raises(journal.AccessDenied):
        ask(store, "LEASES", by=CONSUMER)
    with pytest.raises(journal.AccessDenied):
        ask(store, "LEASES", by=CONSUMER, consumer="d")


def test_names_of_journals_are_for_those_who_may_see_them(store: journal.Store, pages: journal.Journal) -> None:
    """In lists and in messages."""
    store.journal("secret")
    by = grant("x", "produce", "admin", journals="p*")
    assert ask(store, "JOURNALS", by=by)["journals"] == ["pages"]
    for command in ("COUNT", "DROP"):
        with pytest.raises(journal.NotFound, match="there are pages") as found:
            ask(store, command, "psst", by=by)
        assert "secret" not in str(found.value)
