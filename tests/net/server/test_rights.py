"""Who may do what: roles, and names that somebody else has."""

from __future__ import annotations

from typing import Any

import pytest

import journal
from journal.net.server.verbs.served_journal import served_of
from journal.net.wire.auth import Grant
from tests.net.server.asking import ask, engine_of, grant, pack, whole

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
    monkeypatch.setattr("journal.net.server.verbs.served_journal.GRANTS", 3)
    monkeypatch.setattr("journal.net.server.verbs.served_journal.NAMES", 2)
    lease = pages.claim_key("free", consumer="x7")
    for i in [*range(10), *range(10)]:
        by = grant(f"x{i}", "consume")
        if i == 7:
            ask(store, "EXTEND", by=by, token=lease.token)
        else:
            with pytest.raises(journal.AccessDenied):
                ask(store, "EXTEND", by=by, token=lease.token)
    assert len(served_of(engine_of(store), "pages")._callers) <= 3


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


# --- some journals of a store ------------------------------------------------------------------------------------------

SOME = grant("keeper", "admin", journals="pages,mail-*")


@pytest.fixture
def others(store: journal.Store, pages: journal.Journal) -> journal.Journal:
    """Journals that `SOME` may not see, alone and merged, with something to hide in each; and merged ones that it may."""
    secret = store.journal("secret")
    for each in (pages, secret, store.journal("mail-1", merged=True), store.journal("hidden-1", merged=True)):
        each.put("a", 1)
        each.raise_flag("odd", f"look at {each.name}")
    return secret


def test_who_may_see_some_journals_is_told_of_no_others(store: journal.Store, others: journal.Journal) -> None:
    """Neither flags nor numbers nor what a check finds; an admin of everything sees everything."""
    names = ["hidden-1", "mail-1", "pages", "secret"]
    assert sorted(flag[0] for flag in ask(store, "FLAGS")) == names
    assert sorted(flag[0] for flag in ask(store, "FLAGS", by=SOME)) == ["mail-1", "pages"]
    everything, some = ask(store, "STORE_STATISTICS"), ask(store, "STORE_STATISTICS", by=SOME)
    assert sorted(everything["journals"]) == names and set(everything["merged"]["counts"]) >= {"hidden-1", "mail-1"}
    assert sorted(some["journals"]) == ["mail-1", "pages"] and "left_off" not in some
    assert set(some["merged"]) == {"counts"} and "hidden-1" not in some["merged"]["counts"]
    for told in (some, ask(store, "FLAGS", by=SOME), whole(store, "JOURNALS", "journals", by=SOME)):
        assert "secret" not in str(told) and "hidden" not in str(told)


@pytest.mark.alone(reason="what is merged is checked together")
def test_a_check_is_of_what_the_identity_may_see(
    store: journal.Store, others: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it finds names journals and files."""
    with monkeypatch.context() as patched:
        patched.setattr("journal.engine.store.checks.check", lambda p, is_deep: [f"{p.name}: odd"])
        assert ask(store, "CHECK") == ["pages: odd", "secret: odd", "_merged: odd"]
        assert ask(store, "CHECK", by=SOME) == ["pages: odd"]
        assert ask(store, "CHECK", by=grant("keeper", "admin", journals="mail-*")) == []


def test_what_merged_journals_have_together_is_for_who_may_see_all_of_them(
    store: journal.Store, others: journal.Journal
) -> None:
    """One journal's keeper does not turn the others' files."""
    with pytest.raises(journal.AccessDenied, match="_merged"):
        ask(store, "MERGED", by=SOME, settings={"generations_max": 4})
    assert ask(store, "MERGED")["generations_max"] == 8
    for by in (grant("keeper", "admin"), grant("keeper", "admin", journals="mail-*,_merged")):
        assert ask(store, "MERGED", by=by)["generations_max"] == 8


@pytest.mark.parametrize("name", ["secret", "hidden-1", "_merged"])
def test_flags_of_others_are_not_lowered(store: journal.Store, others: journal.Journal, name: str) -> None:
    """Nor is it told whether there are any."""
    with pytest.raises(journal.AccessDenied):
        ask(store, "LOWER", by=SOME, journal=name, name="odd")
    assert len(store.flags()) == 4
