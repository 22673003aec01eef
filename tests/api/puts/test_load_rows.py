"""Loads: very many rows as one change, whatever is there already."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import journal
from journal.engine.loads import prepare
from journal.loads import LoadRow, PartWriter, encode_block, encode_columns
from journal.testing import ManualClock
from tests.engine.helpers import Failing, collide
from tests.engine.loads.blocks import NOW, block, counts, log_size, many, shown

Copy = Callable[[journal.Store], Path]


@pytest.mark.parametrize("n", [1, 300, 3000])
def test_rows_become_entries(store: journal.Store, pages: journal.Journal, n: int) -> None:
    """Few or many, with one record, in blocks or in one."""
    before = pages.put("before").cursor.offset
    loaded = pages.load([many(n // 2), many(n - n // 2, n // 2)])
    assert counts(loaded) == {"inserted": n}
    assert (loaded.cursor.offset, loaded.rejected, loaded.is_repeated) == (before + n, [], False)
    assert pages.count() == n + 1
    entry = pages.get(f"k{n - 1}")
    assert entry is not None
    assert (entry.data, entry.priority, entry.version, entry.owner) == (n - 1, 100, 1, None)
    assert entry.process_date == entry.insertion_date == NOW
    assert pages.put("after").cursor.offset == before + n + 1


def test_values_are_kept_exactly(pages: journal.Journal) -> None:
    """What an export says of an entry, a load makes of it."""
    rows = [
        ("a", {"x": [1]}, 7, NOW + 5, NOW - 9, NOW + 50_000, "me"),
        (b"a", None, 255, NOW + 99, NOW + 9, 0, ""),
        ("b", b"raw", 0, NOW - 50, NOW - 50, 0, "me"),
    ]
    pages.load([block(*rows)])
    found = [
        (e.key, e.data, e.priority, e.process_date, e.insertion_date, e.expiration, e.owner or "") for e in pages.scan()
    ]
    assert sorted(found, key=repr) == sorted(rows, key=repr)


@pytest.mark.parametrize(
    "column",
    [
        {"priority": [1, 2, 3]}, {"process_date": [NOW, None, NOW + 5]}, {"process_date": NOW + 5}, {"insertion_date": NOW - 5},
        {"insertion_date": [None, NOW - 5, NOW + 5]}, {"expiration": [0, NOW + 99, NOW + 98]}, {"expiration": NOW + 99},
        {"owner": "me"}, {"owner": ["", "me", "you"]}, {"keys": ["a", b"a", b"b"]}, {},
    ],
    ids=repr,
)  # fmt: skip
def test_a_column_of_its_own(store: journal.Store, pages: journal.Journal, column: dict[str, Any]) -> None:
    """One value for all rows, or one for each, in any column: as puts would make it."""
    given = {
        "keys": ["a", "b", "c"],
        "priority": 7,
        "process_date": None,
        "insertion_date": None,
        "expiration": 0,
        "owner": "",
    }
    given |= column
    pages.load([encode_columns(given.pop("keys"), [b"\x01", b"\x02", b"\x03"], **given)])
    put = store.journal("put")
    for i, key in enumerate(column.get("keys", ["a", "b", "c"])):
        values = {name: value[i] if isinstance(value, list) else value for name, value in given.items()}
        put.put(key, i + 1, **values | {"owner": values["owner"] or None, "expiration": values["expiration"] or None})
    assert list(pages.scan()) == list(put.scan())


def test_many_rows_with_dates_owners_and_expirations(store: journal.Store, pages: journal.Journal) -> None:
    """All indexes are right when they are written in bulk; the fixture checks them."""
    n = 2500
    pages.load(
        [
            encode_columns(
                [f"k{i}" for i in range(n)],
                [msgpack.packb(i) for i in range(n)],
                [i % 3 for i in range(n)],
                [NOW + i * 7919 % n for i in range(n)],
                expiration=[NOW + 10_000 + i if i % 5 == 0 else 0 for i in range(n)],
                owner=["me" if i % 7 == 0 else "" for i in range(n)],
            )
        ]
    )
    assert pages.count(owner="me") == len(range(0, n, 7))
    found = [(e.priority, e.process_date) for e in pages.scan()]
    assert found == sorted(found)
    assert len(found) == n


def test_what_is_loaded_is_handed_out_in_order(pages: journal.Journal, clock: ManualClock) -> None:
    """With what was there before, by priority and date."""
    pages.put("mine", priority=50)
    pages.load([block(("late", 1, 100, NOW + 1000), ("first", 2, 10), ("old", 3, 100, NOW - 1000))])
    order = []
    while (lease := pages.claim()) is not None:
        order.append(lease.key)
    clock.advance(1000)
    assert order == ["first", "mine", "old"]
    assert pages.claim().key == "late"  # type: ignore[union-attr]


def test_a_sleeping_worker_is_woken(pages: journal.Journal) -> None:
    """A load tells who waits for something to fall due: the next claim by buckets finds it as well."""
    assert pages.claim(buckets=journal.Range.parse("0-1023")) is None
    pages.load([many(2000)])
    found = [pages.claim(buckets=journal.Range.parse(part)) for part in ("0-500", "501-1023")]
    assert None not in found


@pytest.mark.parametrize(
    ("on_conflict", "outcomes", "data"),
    [
        (
            "merge",
            {"inserted": 1, "merged": 1, "queued": 1, "ignored": 1},
            {"new": 1, "there": 2, "held": 0, "stale": 0},
        ),
        ("replace", {"inserted": 1, "replaced": 2, "queued": 1}, {"new": 1, "there": 2, "held": 0, "stale": 4}),
        ("skip", {"inserted": 1, "skipped": 3}, {"new": 1, "there": 0, "held": 0, "stale": 0}),
    ],
)
def test_rows_meet_entries(
    store: journal.Store, pages: journal.Journal, clock: ManualClock, on_conflict: str, outcomes: Any, data: Any
) -> None:
    """Waiting, processing and newer ones, by each rule."""
    pages.put("held", 0, priority=1)
    lease = pages.claim()
    pages.put("there", 0, process_date=NOW + 5)
    pages.put("stale", 0)
    clock.advance(10)
    rows = [("new", 1), ("there", 2, 7, NOW + 3, NOW + 3), ("held", 3), ("stale", 4, 100, NOW - 5, NOW - 5)]
    loaded = pages.load([block(*rows)], on_conflict=on_conflict)
    assert counts(loaded) == outcomes
    assert {key: entry.data for key, entry in shown(pages).items()} == data
    assert lease is not None
    lease.done()
    held = pages.get("held")
    assert (None if held is None else held.data) == (None if on_conflict == "skip" else 3)


def test_replace_takes_the_row_as_it_is(pages: journal.Journal) -> None:
    """Its dates and its priority, whatever the entry had; the version goes on."""
    pages.put("a", 1, priority=5, process_date=NOW + 99, expiration=NOW + 999_999)
    pages.load([block(("a", 2, 9, NOW + 1, NOW - 1, NOW + 500_000))], on_conflict="replace")
    entry = pages.get("a")
    assert entry is not None
    assert (entry.data, entry.priority, entry.process_date, entry.insertion_date, entry.expiration, entry.version) == (
        2, 9, NOW + 1, NOW - 1, NOW + 500_000, 2,
    )  # fmt: skip


def test_error_names_the_keys_and_changes_nothing(opened: journal.Store, pages: journal.Journal) -> None:
    """Not even the number of the load."""
    pages.put("a", 0)
    before, size = pages.statistics()["next_offset"], log_size(opened)
    with pytest.raises(journal.KeyExists, match=r"1 keys.*'a'.*Nothing was changed"):
        pages.load([many(2000), block(("a", 1), ("new", 1))], on_conflict="error", once=("n", 1))
    assert (pages.statistics()["next_offset"], log_size(opened), pages.count()) == (before, size, 1)
    with pytest.raises(journal.KeyExists, match="'twice'"):
        pages.load([block(("twice", 1), ("twice", 2))], on_conflict="error")
    assert pages.count() == 1
    assert counts(pages.load([block(("new", 1))], on_conflict="error", once=("n", 1))) == {"inserted": 1}


@pytest.mark.parametrize(
    ("on_conflict", "outcomes", "data"),
    [("merge", {"inserted": 1, "merged": 1}, 2), ("replace", {"inserted": 1, "replaced": 1}, 2),
     ("skip", {"inserted": 1, "skipped": 1}, 1)],
)  # fmt: skip
def test_a_key_twice(pages: journal.Journal, on_conflict: str, outcomes: dict[str, int], data: int) -> None:
    """The second row meets the first, in another part too."""
    loaded = pages.load([block(("a", 1)), block(("a", 2))], on_conflict=on_conflict)
    assert counts(loaded) == outcomes
    assert pages.get("a").data == data  # type: ignore[union-attr]


def test_colliding_keys(monkeypatch: pytest.MonkeyPatch, store: journal.Store, pages: journal.Journal) -> None:
    """Keys with one hash are different entries."""
    collide(monkeypatch, 2)
    pages.put("k1", 0)
    assert counts(pages.load([many(6)])) == {"inserted": 5, "merged": 1}
    assert {key: entry.data for key, entry in shown(pages).items()} == {f"k{i}": i for i in range(6)}


def test_too_many_colliding_keys(monkeypatch: pytest.MonkeyPatch, store: journal.Store, pages: journal.Journal) -> None:
    """The 257th of them has no place, and is a wrong row."""
    collide(monkeypatch)
    loaded = pages.load([many(300, 1000)], on_reject="list")
    assert loaded.inserted + len(loaded.rejected) == 300
    assert loaded.rejected and "share the hash" in loaded.rejected[0].reason
    assert pages.count() == loaded.inserted == 256


WRONG = [
    ("", b"\xc0"),
    ("x" * 1025, b"\xc0"),
    (7, b"\xc0"),
    (None, b"\xc0"),
    ("a", b""),
    ("a", b"\xc0\xc0"),
    ("a", b"\xc4\x09x"),
    ("a", b"\xc0", 256),
    ("a", b"\xc0", None),
    ("a", b"\xc0", 1, -1),
    ("a", b"\xc0", 1, 5, 6),
    ("a", b"\xc0", 1, "tomorrow"),
    ("a", b"\xc0", 1, None, None, None),
    ("a", b"\xc0", 1, None, None, 1 << 63),
    ("a", b"\xc0", 1, None, None, 0, "o" * 256),
    ("a", b"\xc0", 1, None, None, 0, 7),
    ("a", msgpack.packb(bytes(1 << 20))),
]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_wrong_row_is_refused_or_listed(store: journal.Store, pages: journal.Journal, wrong: tuple[Any, ...]) -> None:
    """With its part and its number; the others are loaded, or nothing is."""
    good, bad = many(3), encode_block([("g", b"\x01"), ("h", b"\x02"), wrong, ("i", b"\x03")])
    with pytest.raises(journal.Invalid, match=r"row 2 of part 1: .*Nothing was changed"):
        pages.load([good, bad], once=("n", 1))
    assert (pages.count(), pages.statistics()["next_offset"]) == (0, 0)
    loaded = pages.load([good, bad], once=("n", 1), on_reject="list")
    assert [(part, row) for part, row, _ in loaded.rejected] == [(1, 2)]
    assert 0 < len(loaded.rejected[0].reason) <= 200
    assert sorted(map(str, shown(pages))) == ["g", "h", "i", "k0", "k1", "k2"]


def test_a_row_of_another_owner_is_rejected(pages: journal.Journal) -> None:
    """What the rules refuse is a wrong row like any other."""
    pages.put("theirs", 0, owner="them")
    rows = block(("mine", 1), ("theirs", 1))
    with pytest.raises(journal.Invalid, match=r"row 1 of part 0: .*producer group"):
        pages.load([rows])
    assert pages.count() == 1
    loaded = pages.load([rows], on_reject="list")
    assert (counts(loaded), [each[:2] for each in loaded.rejected]) == ({"inserted": 1}, [(0, 1)])


def test_too_many_wrong_rows_end_a_load(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of those that were left out is complete, so it has a bound."""
    monkeypatch.setattr(prepare, "LOAD_REJECTS_MAX", 3)
    with pytest.raises(journal.Invalid, match="more than 3 rows are wrong, the first is row 1"):
        pages.load([block(("a", 1), *[("", 1)] * 4)], on_reject="list")
    assert pages.count() == 0
    assert len(pages.load([block(("a", 1), *[("", 1)] * 3)], on_reject="list").rejected) == 3


def test_a_schema_checks_and_makes_keys(store: journal.Store) -> None:
    """What does not fit is rejected; what fits is stored as a put would store it."""
    schema = journal.Schema({"id": "int", "name": "string"}, key=["id"])
    pages = store.journal("rows", schema=schema)
    put = pages.put(None, {"id": 1, "name": "a"})
    rows = block((None, {"id": 1, "name": "b"}), (None, {"id": 2, "name": "c"}), (None, {"id": "x"}), ("no", {"id": 3}))
    loaded = pages.load([rows], on_reject="list")
    assert (counts(loaded), [each[:2] for each in loaded.rejected]) == ({"inserted": 1, "merged": 1}, [(0, 2), (0, 3)])
    assert {entry.data["name"] for entry in pages.scan()} == {"b", "c"}
    assert put.outcome == "inserted"


@pytest.mark.parametrize(
    "arguments",
    [
        {"on_conflict": "x"}, {"on_conflict": None}, {"on_reject": "x"}, {"once": "n"}, {"once": ("n", "1")}, {"once": ("", 1)},
        {"once": ("n", -1)}, {"once": ("n",)}, {"once": (7, 1)}, {"durability": "x"},
    ],
    ids=repr,
)  # fmt: skip
def test_wrong_arguments(pages: journal.Journal, arguments: dict[str, Any]) -> None:
    """Say what is allowed."""
    with pytest.raises(journal.Invalid):
        pages.load([many(1)], **arguments)
    assert pages.count() == 0


@pytest.mark.parametrize("parts", [many(1), "path", 7, [7], [many(1), b"xx"], [many(1)[:-1]]], ids=repr)
def test_wrong_parts(pages: journal.Journal, parts: Any) -> None:
    """One part that is not in a list, something else, or damage: nothing is loaded."""
    with pytest.raises(journal.Invalid):
        pages.load(parts)
    assert pages.count() == 0


def test_part_files(tmp_path: Path, pages: journal.Journal) -> None:
    """Rows by the file; the numbers of a wrong row count through its file."""
    with PartWriter(tmp_path / "one") as one:
        one.write(many(5))
        one.write(many(5, 5))
    two = PartWriter(tmp_path / "two")
    two.write(block(("x", 1)))
    two.write(block(("y", 1), ("", 1)))
    rows, size, _ = two.close()
    assert (rows, size) == (3, (tmp_path / "two").stat().st_size)
    loaded = pages.load([str(tmp_path / "one"), tmp_path / "two"], on_reject="list")
    assert (loaded.inserted, [each[:2] for each in loaded.rejected]) == (12, [(1, 2)])
    with pytest.raises(journal.NotFound, match="no part file"):
        pages.load([tmp_path / "three"])
    with pytest.raises(journal.Invalid, match="its own name"):
        PartWriter(tmp_path / "two")
    with pytest.raises(journal.Invalid, match="closed"):
        two.write(many(1))


def test_a_part_that_was_not_closed_is_refused(tmp_path: Path, pages: journal.Journal) -> None:
    """Of one that was given up nothing is left."""
    part = PartWriter(tmp_path / "one")
    part.write(many(5))
    with pytest.raises(journal.Invalid, match="cut short"):
        pages.load([tmp_path / "one"])
    assert pages.count() == 0
    part.abort()
    assert not (tmp_path / "one").exists()
    with pytest.raises(journal.Invalid, match="given up"):
        part.close()


def test_a_part_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """StoreFull, and no half of it stays."""
    part = PartWriter(tmp_path / "one")
    disk = Failing(monkeypatch, "write", errno.ENOSPC)
    with pytest.raises(journal.StoreFull, match="free some room"):
        part.write(many(5))
    disk.error = None
    assert not (tmp_path / "one").exists()


KEYS = st.sampled_from(["a", "b", "c", b"a", "d"])
DATES = st.none() | st.integers(NOW - 3, NOW + 3)


def _row(key: Any, data: int, priority: int, date: int | None, insertion: int | None, owner: str) -> LoadRow:
    if date is not None and insertion is not None:
        insertion = min(date, insertion)
    return LoadRow(key, msgpack.packb(data), priority, date, insertion, 0, owner)


LOAD = st.lists(
    st.builds(_row, KEYS, st.integers(0, 9), st.integers(0, 2), DATES, DATES, st.sampled_from(["", "me"])), max_size=6
)


@example([[LoadRow("a", b"\0", insertion_date=NOW + 1), LoadRow("a", b"\1", insertion_date=NOW)]], "merge", 0)
@example(
    [[LoadRow(None, b"\0"), LoadRow("a", b"\0", insertion_date=NOW + 1), LoadRow("a", b"\1", insertion_date=NOW)]],
    "merge",
    0,
)
@settings(max_examples=40)
@given(st.lists(LOAD, max_size=4), st.sampled_from(["merge", "keep", "replace", "debounce"]), st.integers(0, 2))
def test_a_load_equals_puts(loads: list[list[LoadRow]], merge: str, claims: int) -> None:
    """One after the other, on whatever is there: the same outcomes, entries and refusals."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        clock = ManualClock(NOW)
        with journal.open(Path(folder) / "s", clock=clock, durability="none") as store:
            loaded, put = store.journal("loaded", merge=merge), store.journal("put", merge=merge)
            for rows in loads:
                result = loaded.load([encode_block(rows)], on_reject="list")
                outcomes: dict[str, int] = {}
                refused = []
                for number, row in enumerate(rows):
                    try:
                        outcome = put.put(
                            row.key, msgpack.unpackb(row.data), priority=row.priority, process_date=row.process_date,
                            insertion_date=row.insertion_date, owner=row.owner or None,
                        ).outcome  # fmt: skip
                        outcomes[outcome] = outcomes.get(outcome, 0) + 1
                    except journal.JournalError:
                        refused.append((0, number))
                assert counts(result) == outcomes
                assert [each[:2] for each in result.rejected] == refused
                for _ in range(claims):
                    keys = [None if lease is None else lease.key for lease in (loaded.claim(), put.claim())]
                    assert keys[0] == keys[1]
                assert list(loaded.scan()) == list(put.scan())
                clock.advance(1)
            assert store.check() == []


def test_a_load_without_rows_has_a_cursor_that_there_is(pages: journal.Journal) -> None:
    """That of the last change, or the one before the first; after a rotation, too."""
    assert pages.load([]).cursor == pages.durable_cursor == journal.Cursor(1, -1)
    last = pages.put("a").cursor
    assert pages.load([], on_conflict="error").cursor == last
    pages.rotate()
    empty = pages.load([]).cursor
    assert empty == journal.Cursor(2, -1) and pages.distance(last, empty) == 0
    assert pages.load([block(("a", 1))], on_conflict="skip").cursor == empty
