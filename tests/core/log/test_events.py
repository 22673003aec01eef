"""Events of the log: one for each change, with what its record holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.entry import effects as fx
from journal.core.entry.keys import buried_key, primary_key
from journal.core.entry.rows import BuriedRow, Row, encode_buried, encode_row, encode_successor, pack_data
from journal.core.log.cursor import Cursor
from journal.core.log.events import Event, Where, completed, copied, events_of
from journal.core.log.record import CHECKED, Payload, Record, decode, encoder, payload
from journal.errors import LogDamaged, StoreDamaged
from tests.core.rows_of import NOW, SLOT, row

DATE = NOW + 9


def events(effect: fx.Effect, offset: int = 5, order: int = 3, changes: int | None = None) -> list[Event]:
    """The events of an effect that went through the bytes of the log."""
    record = decode(encoder(b"pages")(offset, DATE, 1, changes or fx.changes(effect), effect))
    assert record is not None
    return events_of(record, payload(record), order)


def event(effect: fx.Effect) -> Event:
    """The event of an effect that is one change."""
    (found,) = events(effect)
    assert (found.cursor, found.timestamp, found.namespace, found.mode) == (Cursor(3, 5), DATE, "pages", "sync")
    return found


def pair(entry: Row) -> tuple[bytes, bytes]:
    """An entry as effects hold it."""
    return entry.primary, encode_row(entry)


OLD = row().primary
NEW = row(20, NOW + 5, key="b", data=pack_data([2]), version=4, timeouts=1, owner=b"shop", expiration=NOW + 99)
NAME = buried_key(SLOT, 5)
BURIED = encode_buried(NAME, BuriedRow(NOW, "unreadable", row(version=3, timeouts=2)))


def assert_written(found: Event) -> None:
    """All columns of NEW are there."""
    assert (found.key, found.data, found.has_data) == ("b", [2], True)
    assert (found.priority, found.process_date, found.insertion_date, found.expiration) == (20, NOW + 5, NOW, NOW + 99)
    assert (found.version, found.timeouts, found.owner) == (4, 1, "shop")


def assert_unwritten(found: Event) -> None:
    """Nothing of an entry's data is there."""
    assert (found.data, found.has_data, found.insertion_date, found.owner) == (None, False, None, None)


def test_a_put_is_an_insert_with_its_data() -> None:
    """A new entry comes with every column of its row."""
    found = event(fx.PutEffect(*pair(NEW)))
    assert (found.op, found.verb, found.token) == ("insert", "put", None)
    assert_written(found)
    assert (found.old, found.has_old) == (None, False)


def test_a_group_of_puts_is_an_event_for_each_offset() -> None:
    """The i-th entry of the record has the i-th offset."""
    found = events(fx.PutsEffect([*pair(row()), *pair(NEW)]))
    assert [(e.cursor, e.op, e.verb, e.key) for e in found] == [
        (Cursor(3, 5), "insert", "put", "a"),
        (Cursor(3, 6), "insert", "put", "b"),
    ]
    assert_written(found[1])


@pytest.mark.parametrize(
    ("effect", "op", "verb", "token"),
    [
        (fx.Replace(OLD, *pair(NEW)), "update", "replace", None),
        (fx.Queue(SLOT, encode_successor(NEW)), "update", "queue", None),
        (fx.Release(OLD, 7, *pair(NEW)), "update", "release", 7),
        (fx.RetryEffect(NAME, *pair(NEW)), "insert", "retry", None),
        (fx.Done([OLD, "b", 7, *pair(NEW)]), "update", "done", 7),
    ],
    ids=["replace", "queue", "release", "retry", "done with a successor"],
)
def test_whatever_writes_an_entry_has_its_data(effect: fx.Effect, op: str, verb: str, token: int | None) -> None:
    """A change that writes a row gives all of it; one that ends a lease names it."""
    found = event(effect)
    assert (found.op, found.verb, found.token) == (op, verb, token)
    assert_written(found)


def test_a_claim_names_the_consumer_and_a_token_for_each_lease() -> None:
    """A claim writes no entry: its place and counters are known, its data is not."""
    first, second = events(fx.Claim("w", NOW, NOW + 30, 7, [OLD, "a", 2, 0, NEW.primary, b"b", 3, 1]))
    assert (first.cursor, first.op, first.verb, first.consumer) == (Cursor(3, 5), "update", "claim", "w")
    assert (first.key, first.token, first.deadline, first.version, first.timeouts) == ("a", 7, NOW + 30, 2, 0)
    assert (second.cursor, second.key, second.token, second.version) == (Cursor(3, 6), b"b", 8, 3)
    assert (second.priority, second.process_date) == (20, NOW + 5)
    assert_unwritten(second)


def test_done_is_a_delete_for_each_lease() -> None:
    """Of what is removed the log has the key."""
    found = events(fx.Done([OLD, "a", 7, None, None, NEW.primary, b"b", 8, None, None]))
    assert [(e.cursor.offset, e.op, e.verb, e.key, e.token) for e in found] == [
        (5, "delete", "done", "a", 7),
        (6, "delete", "done", b"b", 8),
    ]
    for each in found:
        assert_unwritten(each)


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        (fx.Extend(OLD, "a", 7, NOW + 60, 2), ("update", "extend", "a", 7, NOW + 60, 2, None)),
        (fx.Timeout(OLD, b"a", 7, 3, 1), ("update", "timeout", b"a", 7, None, 3, 1)),
        (fx.DeleteEffect(OLD, "a"), ("delete", "delete", "a", None, None, None, None)),
        (fx.Unbury(NAME, "a"), ("command", "unbury", "a", None, None, None, None)),
        (fx.Lower("timeouts"), ("command", "lower", None, None, None, None, None)),
        (fx.Raise("feed", "look", 9), ("command", "raise", None, None, None, None, None)),
        (fx.Carry([*pair(NEW)], [], [], []), ("noop", "carry", None, None, None, None, None)),
    ],
    ids=["extend", "timeout", "delete", "unbury", "lower", "raise", "carry"],
)
def test_whatever_writes_no_entry_names_its_key(effect: fx.Effect, expected: tuple[Any, ...]) -> None:
    """The key and the counters that the record has, and no data."""
    found = event(effect)
    told = (found.op, found.verb, found.key, found.token, found.deadline, found.version, found.timeouts)
    assert told == expected
    assert_unwritten(found)


def test_a_lowered_flag_is_named() -> None:
    """The flag is the only thing that such a change has."""
    assert event(fx.Lower("timeouts")).flag == "timeouts"


def test_expired_entries_are_deletes() -> None:
    """One event for each entry of the group."""
    found = events(fx.Expire([OLD, "a", NEW.primary, b"b"]))
    assert [(e.cursor.offset, e.op, e.verb, e.key) for e in found] == [
        (5, "delete", "expire", "a"),
        (6, "delete", "expire", b"b"),
    ]


def test_a_buried_entry_is_a_delete_with_the_old_data() -> None:
    """What is given up stays in the log whole, with the reason."""
    found = event(fx.Bury(OLD, 7, NAME, BURIED, "a", NOW, "timeouts", None, None))
    assert (found.op, found.verb, found.key, found.token) == ("delete", "bury", "a", 7)
    assert (found.old, found.has_old, found.reason, found.flag) == ({"n": 1}, True, "unreadable", "timeouts")
    assert (found.version, found.timeouts) == (3, 2)
    assert_unwritten(found)


def test_a_buried_entry_with_a_successor_is_an_update() -> None:
    """The key still has an entry: the old data and the new."""
    found = event(fx.Bury(OLD, 7, NAME, BURIED, "b", NOW, None, *pair(NEW)))
    assert (found.op, found.old, found.has_old, found.reason) == ("update", {"n": 1}, True, "unreadable")
    assert_written(found)


def test_a_group_is_an_event_for_each_part() -> None:
    """Each part has the op and the verb of its own."""
    parts = [fx.PutEffect(*pair(NEW)), fx.Replace(OLD, *pair(NEW)), fx.DeleteEffect(OLD, "a"), fx.Expire([OLD, "a"])]
    found = events(fx.Group([fx.to_list(part) for part in parts]))
    assert [(e.cursor.offset, e.op, e.verb) for e in found] == [
        (5, "insert", "put"),
        (6, "update", "replace"),
        (7, "delete", "delete"),
        (8, "delete", "expire"),
    ]
    assert_written(found[0])


def test_a_copied_successor_is_an_update() -> None:
    """It waits behind an entry that was copied before it."""
    found = copied(NEW, Cursor(0, 5), Where(0, DATE, "copy", "pages"), is_successor=True)
    assert (found.cursor, found.op, found.mode, found.verb) == (Cursor(0, 5), "update", "copy", "queue")
    assert_written(found)


def test_an_event_shows_its_fields() -> None:
    """As a map of all of them, and as a text of those that it has."""
    found = event(fx.DeleteEffect(OLD, "a"))
    shown = found._asdict()
    assert (shown["op"], shown["key"], shown["cursor"], shown["data"]) == ("delete", "a", Cursor(3, 5), None)
    assert "op='delete'" in repr(found)
    assert "owner" not in repr(found)
    assert found == event(fx.DeleteEffect(OLD, "a"))


def test_every_verb_has_events() -> None:
    """A verb that the log knows and events do not would stop every follower."""
    samples: list[fx.Effect] = [
        fx.PutEffect(*pair(NEW)), fx.PutsEffect([*pair(NEW)]), fx.Replace(OLD, *pair(NEW)), fx.Queue(SLOT, encode_successor(NEW)),
        fx.Claim("w", 1, 2, 3, [OLD, "a", 1, 0]), fx.Done([OLD, "a", 3, None, None]), fx.Extend(OLD, "a", 3, 9, 2),
        fx.Release(OLD, 3, *pair(NEW)), fx.Timeout(OLD, "a", 3, 2, 1),
        fx.Bury(OLD, 3, NAME, BURIED, "a", 9, None, None, None), fx.RetryEffect(NAME, *pair(NEW)), fx.DeleteEffect(OLD, "a"),
        fx.Expire([OLD, "a"]), fx.Lower("timeouts"), fx.Unbury(NAME, "a"), fx.Group([fx.to_list(fx.DeleteEffect(OLD, "a"))]),
        fx.Carry([*pair(NEW)], [], [], []), fx.Raise("feed", "look", 9), fx.Clear([OLD, "a"], [], []),
        fx.LoadEffect("n", 1, [*pair(NEW)]), fx.LoadGroup("n", 1, [fx.to_list(fx.DeleteEffect(OLD, "a"))]), fx.LoadGroup("n", 1, []),
        fx.StepEffect(3_600_000, 9, 9),
    ]  # fmt: skip
    assert {type(sample) for sample in samples} == set(fx.VERBS) - {fx.Skip}
    for sample in samples:
        assert len(events(sample)) == 1


def test_a_skip_has_no_events() -> None:
    """It stands for changes that were taken out; one that does not fit its offsets is damage."""
    assert events(fx.Skip(3)) == []
    with pytest.raises(LogDamaged, match="skips 3 changes and takes 4 offsets"):
        events(fx.Skip(3), changes=4)


def test_an_unknown_verb_is_an_error() -> None:
    """A change of a later version is never skipped."""
    with pytest.raises(LogDamaged, match="newer version"):
        events(fx.Group([[99, b"x"]]))


def test_a_record_whose_changes_do_not_fit_its_offsets_is_damage() -> None:
    """Else each later event would have another's cursor."""
    record = Record(5, DATE, CHECKED | 1, b"pages", b"", 0)
    with pytest.raises(LogDamaged, match="1 changes and takes 2 offsets"):
        events_of(record, Payload(1, 2, fx.DeleteEffect(OLD, "a")), 1)
    with pytest.raises(LogDamaged, match="more than one"):
        events(fx.Group([fx.to_list(fx.Expire([OLD, "a", OLD, "b"]))]))


def test_a_row_that_rotted_is_named() -> None:
    """A record may be whole and hold a row that is not."""
    primary, value = pair(NEW)
    with pytest.raises(StoreDamaged, match="checksum"):
        events(fx.PutEffect(primary, value[:-1] + b"\x07"))


def test_the_mode_is_that_of_the_record() -> None:
    """Copy 0, sync 1, complete 2; another one is an error."""
    for mode, word in enumerate(("copy", "sync", "complete")):
        record = Record(5, DATE, CHECKED | mode, b"pages", b"", 0)
        assert events_of(record, Payload(1, 1, fx.DeleteEffect(OLD, "a")), 1)[0].mode == word
    with pytest.raises(LogDamaged, match="mode 3"):
        events_of(Record(5, DATE, CHECKED | 3, b"pages", b"", 0), Payload(1, 1, fx.DeleteEffect(OLD, "a")), 1)


def test_a_copy_is_inserts_and_an_end() -> None:
    """Copied entries look like inserts; the end is a noop."""
    found = copied(NEW, Cursor(3, 5), Where(3, DATE, "copy", "pages"), is_successor=False)
    assert (found.cursor, found.op, found.mode, found.verb) == (Cursor(3, 5), "insert", "copy", "copy")
    assert_written(found)
    last = completed(Cursor(3, 5), DATE, "pages")
    assert (last.cursor, last.op, last.mode, last.key, last.has_data) == (Cursor(3, 5), "noop", "complete", None, False)
    assert_unwritten(last)


keys = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9), st.binary(min_size=1))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.binary() | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=6,
)
entries = st.tuples(keys, values, st.integers(0, 255), st.integers(0, 2**63 - 1))


@given(st.lists(entries, min_size=1, max_size=5), st.integers(0, 2**62), st.integers(1, 9999))
def test_what_was_put_is_read_back(puts: list[tuple[Any, Any, int, int]], offset: int, order: int) -> None:
    """Any key, data, priority and date goes through the bytes of the log and comes back at its offset."""
    items: list[bytes] = []
    for key, data, priority, date in puts:
        items += pair(row()._replace(primary=primary_key(priority, date, 5, SLOT), key=key, data=pack_data(data)))
    found = events(fx.PutsEffect(items), offset, order)
    assert [(e.key, e.data, e.priority, e.process_date) for e in found] == puts
    assert [e.cursor for e in found] == [Cursor(order, offset + i) for i in range(len(puts))]


@given(
    st.lists(st.tuples(keys, st.integers(1, 99), st.integers(0, 255)), min_size=1, max_size=5), st.integers(0, 2**60)
)
def test_leases_are_read_back(leases: list[tuple[Any, int, int]], token: int) -> None:
    """A claim of many and their end: a token and a cursor for each."""
    claim = fx.Claim("w", NOW, NOW + 1, token, [part for k, v, t in leases for part in (OLD, k, v, t)])
    assert [(e.key, e.version, e.timeouts) for e in events(claim)] == leases
    assert [e.token for e in events(claim)] == [token + i for i in range(len(leases))]
    done = fx.Done([part for i, (k, _, _) in enumerate(leases) for part in (OLD, k, token + i, None, None)])
    assert [(e.key, e.token) for e in events(done)] == [(k, token + i) for i, (k, _, _) in enumerate(leases)]
