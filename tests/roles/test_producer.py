"""A producer: it publishes once, has the say over its group's entries, and none over others'."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import journal
from journal import Delete, Move, Producer, Put
from journal.core.entry.uuid7 import created
from journal.roles import fresh_keys
from journal.roles.fresh_keys import KeySource
from journal.testing import ManualClock


@pytest.fixture
def billing(pages: journal.Journal) -> Producer:
    return Producer(pages, group="billing")


@pytest.fixture
def mail(pages: journal.Journal) -> Producer:
    return Producer(pages, group="mail")


# -- publishing --------------------------------------------------------------------------------------------------------


def test_published_now_at_and_in(billing: Producer, clock: ManualClock, pages: journal.Journal) -> None:
    """The engine reckons; the entry belongs to the group."""
    now = clock.now()
    later = datetime.fromtimestamp(now / 1000, UTC) + timedelta(seconds=9)
    assert billing.publish(1, key="now").process_date == now
    assert billing.publish(2, key="in", delay="5s").process_date == now + 5000
    assert (
        billing.publish(3, key="at", process_date=later, priority=7, expiration=now + 10**6).process_date == now + 9000
    )
    entries = {entry.key: entry for entry in pages.scan()}
    assert {entry.owner for entry in entries.values()} == {"billing"}
    assert (entries["at"].priority, entries["at"].expiration, entries["at"].data) == (7, now + 10**6, 3)


def test_what_is_returned_is_what_is_stored(billing: Producer, pages: journal.Journal) -> None:
    """Key, outcome, version, date, priority, and the place in the log."""
    first, second = billing.publish("a", key="a"), billing.publish("b", key=b"b")
    for published in (first, second):
        entry = pages.get(published.key)
        assert entry is not None
        assert (published.outcome, published.version) == ("inserted", entry.version)
        assert (published.process_date, published.priority) == (entry.process_date, entry.priority)
    assert second.cursor == pages.durable_cursor
    assert first.cursor < second.cursor


def test_a_key_is_made_where_none_is_given(
    billing: Producer, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of publication, telling the engine's time."""
    monkeypatch.setattr(fresh_keys, "_source", KeySource())  # that of the process may have seen later times
    keys = [billing.publish(n).key for n in range(3)]
    clock.advance(1000)
    keys.append(billing.publish(3).key)
    assert keys == sorted(keys) and len(set(keys)) == 4
    assert [created(key) for key in keys] == [clock.now() - 1000] * 3 + [clock.now()]


def test_a_schema_may_form_the_key(store: journal.Store) -> None:
    """Then none is made, and a repetition is one although the defaults were filled in."""
    schema = journal.Schema([journal.Field("uri", "text"), journal.Field("n", "int64", default=3)], key="uri")
    producer = Producer(store.journal("typed", schema=schema), group="g")
    assert producer.publish({"uri": "/home"}).key == "/home"
    assert producer.publish({"uri": "/home"}).outcome == "exists"
    assert producer.publish({"n": 3, "uri": "/home"}, key="/home").outcome == "exists"
    with pytest.raises(journal.KeyExists):
        producer.publish({"uri": "/home", "n": 4})
    with pytest.raises(journal.Invalid):
        producer.publish({"n": 4})
    assert producer.journal.count() == 1


def test_a_schema_without_a_key_leaves_it_to_us(store: journal.Store) -> None:
    """A fresh one, and the data is checked all the same."""
    schema = journal.Schema([journal.Field("uri", "text")])
    producer = Producer(store.journal("typed", schema=schema), group="g")
    assert created(producer.publish({"uri": "/home"}).key) is not None
    with pytest.raises(journal.Invalid):
        producer.publish({"url": "/home"})


# -- repeating ---------------------------------------------------------------------------------------------------------


def test_a_repetition_succeeds_and_changes_nothing(
    billing: Producer, pages: journal.Journal, clock: ManualClock
) -> None:
    """A caller that did not get an answer asks again; dates count from the first time."""
    key = billing.new_key()
    first = billing.publish({"n": [1, 2]}, key=key, delay="5s")
    before, cursor = pages.get(key), pages.durable_cursor
    clock.advance(1000)
    second = billing.publish({"n": (1, 2)}, key=key, delay="5s")
    assert second == first._replace(outcome="exists")
    assert (pages.get(key), pages.durable_cursor, pages.count()) == (before, cursor, 1)


def test_another_producer_of_the_group_may_repeat(billing: Producer, pages: journal.Journal) -> None:
    """It is the group that owns: the first one may have died."""
    billing.publish(1, key="a")
    assert Producer(pages, group="billing").publish(1, key="a").outcome == "exists"


def test_a_repetition_after_a_restart(tmp_path: Path) -> None:
    """What was published is there after a reopen, and so is the answer."""
    for outcome in ("inserted", "exists"):
        with journal.open(tmp_path / "store") as store:
            assert Producer(store.journal("pages"), group="g").publish({"a": 1}, key="k").outcome == outcome


def test_a_repetition_while_it_is_processed(billing: Producer, pages: journal.Journal) -> None:
    """It exists, and no successor is queued behind it."""
    billing.publish(1, key="a")
    lease = pages.claim()
    assert lease is not None
    assert billing.publish(1, key="a").outcome == "exists"
    lease.done()
    assert pages.count() == 0


def test_a_repetition_of_one_that_was_moved(billing: Producer) -> None:
    """The same data is the same publication, wherever it stands by now."""
    billing.publish(1, key="a")
    moved = billing.move("a", delay="1h", priority=3)
    again = billing.publish(1, key="a")
    assert (again.outcome, again.process_date, again.priority) == ("exists", moved.process_date, 3)


@pytest.mark.parametrize("data", [2, "1", 1.0, True, None, [1], {"a": 1}], ids=repr)
def test_other_data_is_no_repetition(billing: Producer, pages: journal.Journal, data: Any) -> None:
    """KeyExists, and what is there stays."""
    billing.publish(1, key="a")
    before = pages.get("a")
    with pytest.raises(journal.KeyExists, match="other data"):
        billing.publish(data, key="a")
    assert pages.get("a") == before


def test_anothers_entry_is_no_repetition(billing: Producer, mail: Producer, pages: journal.Journal) -> None:
    """Not with the same data either; nor one without an owner."""
    mail.publish(1, key="a")
    pages.put("b", 1)
    for key in ("a", "b"):
        with pytest.raises(journal.KeyExists, match="does not belong to 'billing'"):
            billing.publish(1, key=key)
    assert [entry.owner for entry in pages.scan()].count("billing") == 0


def test_a_repetition_is_one_step(billing: Producer, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is looked at outside of the lock: whatever others do meanwhile, the answer is about one moment."""
    billing.publish(1, key="a")
    for verb in ("get", "scan", "leases"):
        monkeypatch.setattr(pages, verb, None)
    assert billing.publish(1, key="a").outcome == "exists"


# -- the say over one's own --------------------------------------------------------------------------------------------


def test_its_own_entries(billing: Producer) -> None:
    """Read, merge, move, delete."""
    billing.publish(1, key="a")
    assert billing.put("a", 2).outcome == "merged"
    assert billing.move("a", priority=3).priority == 3
    entry = billing.get("a")
    assert entry is not None and (entry.data, entry.owner) == (2, "billing")
    assert (billing.delete("a"), billing.delete("a"), billing.get("a")) == (True, False, None)
    with pytest.raises(journal.NotFound):
        billing.move("a", priority=1)


def test_others_entries(billing: Producer, mail: Producer, pages: journal.Journal) -> None:
    """Nothing at all, and they stay as they were; not even their data is told."""
    mail.publish({"secret": 1}, key="a")
    before = pages.get("a")
    calls: list[Callable[[], object]] = [
        lambda: billing.get("a"),
        lambda: billing.put("a", 2),
        lambda: billing.move("a", priority=1),
        lambda: billing.delete("a"),
    ]
    for call in calls:
        with pytest.raises(journal.NotOwner) as caught:
            call()
        assert "secret" not in str(caught.value)
    assert pages.get("a") == before


def test_what_nobody_owns(billing: Producer, pages: journal.Journal) -> None:
    """Belongs to all."""
    pages.put("a", 1)
    assert billing.get("a") == pages.get("a")
    assert billing.move("a", priority=1).priority == 1
    assert billing.delete("a")


def test_nothing_is_changed_under_a_lease(billing: Producer, pages: journal.Journal, clock: ManualClock) -> None:
    """Until the very millisecond of its deadline; reading is allowed."""
    billing.publish(1, key="a")
    assert pages.claim(lease=1000) is not None
    for call in (lambda: billing.move("a", priority=1), lambda: billing.delete("a")):
        with pytest.raises(journal.Leased):
            call()
    entry = billing.get("a")
    assert entry is not None and entry.status == "P"
    clock.advance(999)
    with pytest.raises(journal.Leased):
        billing.delete("a")
    clock.advance(1)
    assert billing.delete("a")


def test_a_change_of_what_one_has_read(billing: Producer) -> None:
    """With its version; VersionMismatch when another program was faster."""
    version = billing.publish(1, key="a").version
    assert billing.move("a", delay="1h", version=version).version > version
    with pytest.raises(journal.VersionMismatch):
        billing.delete("a", version=version)


# -- many at once ------------------------------------------------------------------------------------------------------


def test_a_group_is_published_once(
    billing: Producer, mail: Producer, pages: journal.Journal, clock: ManualClock
) -> None:
    """Whole or in part repeated, each with its own answer; keys are made where none is given."""
    mail.publish(1, key="theirs")
    puts = [Put("a", 1, delay="5s"), Put("b", 2, priority=3), Put("theirs", 1)]
    first = billing.publish_many(puts)
    again = billing.publish_many([*puts, Put("a", 2), Put(None, 4)])
    a, b = first[:2]
    assert isinstance(a, journal.Published) and isinstance(b, journal.Published)
    assert (a.key, a.outcome, a.process_date, b.priority) == ("a", "inserted", clock.now() + 5000, 3)
    assert again[:2] == [a._replace(outcome="exists"), b._replace(outcome="exists")]
    assert {type(one) for one in (first[2], again[2], again[3])} == {journal.KeyExists}
    fresh = again[4]
    made = created(fresh.key) if isinstance(fresh, journal.Published) else None
    assert made is not None and made >= clock.now()  # keys ascend, also when an earlier one had a later clock
    assert {entry.key for entry in billing.list()} == {"a", "b", fresh.key}


def test_a_group_with_a_schema(store: journal.Store) -> None:
    """It forms the keys; what it refuses is an error of its own."""
    schema = journal.Schema([journal.Field("uri", "text")], key="uri")
    producer = Producer(store.journal("typed", schema=schema), group="g")
    good, bad = producer.publish_many([Put(None, {"uri": "/a"}), Put(None, {"uri": 7})])
    assert isinstance(good, journal.Published) and good.key == "/a"
    assert isinstance(bad, journal.Invalid)


def test_groups_of_moves_and_deletes(billing: Producer, mail: Producer, pages: journal.Journal) -> None:
    """In the name of the group, whatever they say."""
    mail.publish(1, key="theirs")
    billing.publish_many([Put(key) for key in "abc"])
    moved = billing.move_many([Move("a", priority=1), Move("theirs", priority=1, owner="mail")])
    assert isinstance(moved[0], journal.PutResult) and isinstance(moved[1], journal.NotOwner)
    gone = billing.delete_many(["a", Delete("b", version=9), Delete("theirs", owner="mail"), "none"])
    assert [one if isinstance(one, bool) else type(one) for one in gone] == [
        True,
        journal.VersionMismatch,
        journal.NotOwner,
        False,
    ]
    assert pages.owners() == {"billing": 2, "mail": 1}


def test_what_is_not_its_own_is_not_published(billing: Producer, pages: journal.Journal) -> None:
    """Nor what is no put."""
    for wrong in ([Put("a", owner="mail")], ["a"], 7):
        with pytest.raises(journal.Invalid):
            billing.publish_many(wrong)  # type: ignore[arg-type]
    assert pages.count() == 0


# -- making one --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "group", [None, "", 7, "x" * 256, "\udcff"], ids=["none", "empty", "number", "long", "surrogate"]
)
def test_wrong_groups(pages: journal.Journal, group: Any) -> None:
    """A text of 1 to 255 bytes."""
    with pytest.raises(journal.Invalid):
        Producer(pages, group=group)


def test_it_needs_a_journal(store: journal.Store) -> None:
    """Not a store, and not a name."""
    for wrong in (store, "pages", None):
        with pytest.raises(journal.Invalid, match=r"Store\.journal"):
            Producer(wrong, group="g")  # type: ignore[arg-type]


def test_it_says_who_it_is(billing: Producer) -> None:
    """For logs."""
    assert repr(billing) == "<Producer billing of pages>"


def test_durability_may_be_chosen(billing: Producer) -> None:
    """As for every put; what does not exist is refused."""
    assert billing.publish(1, key="a", durability="none").outcome == "inserted"
    with pytest.raises(journal.Invalid):
        billing.publish(1, key="b", durability="much")
    assert billing.get("b") is None
