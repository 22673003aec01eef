"""What is read from the pages of a copy is what LMDB reads there; what is damaged is an error and never another row."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import journal
from journal import Put
from journal.core.entry.rows import LeaseRow, decode_lease
from journal.testing import ManualClock

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'journal[spark]'")
from spark_export.columns import entry_arrays, lmdb_pages
from spark_export.columns.entry_arrays import of_copy, of_part

NOW = 1_700_000_000_000
Shown = tuple[bytes, bytes, LeaseRow | None]


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[journal.Journal]:
    """A journal of its own."""
    with journal.open(tmp_path / "work.journal", clock=ManualClock(NOW)) as store:
        yield store.journal("pages")


def by_lmdb(part: Any) -> list[Shown]:
    """Primary key, value without its checksum and lease row of each entry."""
    found: list[Shown] = []
    for block in part.read():
        for n, (primary, value) in enumerate(zip(block.primaries, block.values, strict=True)):
            lease = block.leases.get(n)
            found.append((primary, value[4:], None if lease is None else decode_lease(primary, lease)))
    return found


def shown(many: Iterable[entry_arrays.PackedEntries]) -> list[Shown]:
    """The same of what was read from pages."""
    found: list[Shown] = []
    for entries in many:
        places = zip(entries.tails.tolist(), entries.ends.tolist(), strict=True)
        for n, (tail, end) in enumerate(places):
            value = entries.heads[n].tobytes() + entries.whole[tail:end].tobytes()
            found.append((entries.primaries[n].tobytes(), value, entries.leases.get(n)))
    return found


def size_of(dice: random.Random) -> int:
    """Small ones, some around where a value gets pages of its own, and some that have many."""
    return dice.choice(
        [dice.randrange(60), dice.randrange(60), 300, dice.randrange(1850, 2000), 4000, 4050, 20_000, 70_000]
    )


def filled(pages: journal.Journal, seed: int, count: int) -> None:
    """Entries of all sizes, of which some are gone again, some have moved, and some are being worked on."""
    dice = random.Random(seed)
    spread = dice.choice([5, 10**6])
    puts = [
        Put(
            f"{'key' * dice.choice([1, 1, 40])}-{n}" if dice.random() < 0.9 else dice.randbytes(9),
            dice.randbytes(size_of(dice) if dice.random() < 0.2 else dice.randrange(90)),
            priority=dice.choice([0, 7, 100, 255]),
            process_date=NOW + dice.randrange(-spread, spread),
        )
        for n in range(count)
    ]
    pages.put_many(puts)
    for put in dice.sample(puts, count // 5):
        pages.put(put.key, b"again", priority=dice.choice([3, 200]))
    leases = pages.claim_many(count // 2 + 1, consumer="backend-1", lease="1h")
    dice.shuffle(leases)
    pages.done_many(leases[: count // 3])


@pytest.mark.parametrize("seed", range(8))
def test_pages_give_what_lmdb_gives(pages: journal.Journal, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All entries in the order of work, with their leases; whole, in parts and within ranges (P1)."""
    dice = random.Random(seed)
    monkeypatch.setattr(lmdb_pages, "CHUNK_BYTES", 4096 * dice.choice([1, 2, 7, 512]))
    monkeypatch.setattr(entry_arrays, "BYTES_MAX", dice.choice([1, 50_000, 64 << 20]))
    filled(pages, seed, dice.choice([1, 30, 900]))
    with pages.snapshot() as shot:
        for count in (1, 2, 9):
            parts = shot.parts(count)
            assert [row for part in parts for row in shown(of_part(part))] == [
                row for part in parts for row in by_lmdb(part)
            ]
        for limits in ({"priorities": [7, 255]}, {"since": NOW - 2, "until": NOW + 1}, {"priorities": [1]}):
            for part in shot.parts(3, **limits):
                assert shown(of_part(part)) == by_lmdb(part)


def test_a_deep_tree(pages: journal.Journal) -> None:
    """Branch pages below branch pages; a range that lies on one page, or between two keys."""
    pages.put_many([Put(f"k{n}", b"x" * 900, priority=n % 2, process_date=NOW + n) for n in range(20_000)])
    with pages.snapshot() as shot:
        (part,) = shot.parts(1)
        all_rows = by_lmdb(part)
        assert shown(of_part(part)) == all_rows and len(all_rows) == 20_000
        keys = [row[0] for row in all_rows]
        (copy,) = part.copies
        for at in (0, 1, 9_998, 19_999):
            assert [row[0] for row in shown(of_copy(copy, [(keys[at], keys[at] + b"\0")]))] == [keys[at]]
            assert shown(of_copy(copy, [(keys[at] + b"\0", keys[at] + b"\1")])) == []
        several = [(keys[5], keys[7]), (keys[7], keys[8]), (keys[900], keys[14_000]), (keys[19_998], b"\xff" * 27)]
        wanted = keys[5:8] + keys[900:14_000] + keys[19_998:]
        assert [row[0] for row in shown(of_copy(copy, several))] == wanted


def test_several_generations_are_one(pages: journal.Journal) -> None:
    """By LMDB, which merges them."""
    pages.put_many([Put(f"a{n}", n, priority=n % 3) for n in range(100)])
    pages.rotate()
    pages.put_many([Put(f"b{n}", n, priority=n % 3) for n in range(100)])
    with pages.snapshot() as shot:
        (part,) = shot.parts(1)
        assert len(part.copies) == 2
        found = shown(of_part(part))
        assert found == by_lmdb(part) and [row[0] for row in found] == sorted(row[0] for row in found)


def test_an_empty_journal_has_no_entries(pages: journal.Journal) -> None:
    """Neither one that never had any, nor one whose entries are gone."""
    for _ in range(2):
        with pages.snapshot() as shot:
            assert [shown(of_part(part)) for part in shot.parts(2)] == [[]]
        pages.put("a")
        pages.claim(lease="1h").done()  # type: ignore[union-attr]


def test_a_merged_journal_has_its_own_entries(tmp_path: Path) -> None:
    """Its rows are written to a file without those of the others."""
    with journal.open(tmp_path / "work.journal") as store:
        first, second = (store.journal(name, merged=True) for name in ("first", "second"))
        first.put_many([Put(f"a{n}", b"x" * (n * 50)) for n in range(300)])
        second.put("b")
        assert first.claim(lease="1h")
        with first.snapshot() as shot:
            (part,) = shot.parts(1)
            assert shown(of_part(part)) == by_lmdb(part) and shot.size == 300


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_damaged_row_is_named(pages: journal.Journal) -> None:
    """P2: it was damaged before it was copied, so only its own checksum tells."""
    pages.put_many([Put(f"k{n}", b"same-%05d" % n) for n in range(500)])
    with pages.snapshot() as shot:
        (part,) = shot.parts(1)
        primary = next(row[0] for row in by_lmdb(part) if b"same-00123" in row[1])
        path = Path(part.copies[0].path)
        path.write_bytes(path.read_bytes().replace(b"same-00123", b"same-0x123"))
        (copy,) = part.copies
        with pytest.raises(journal.StoreDamaged, match=primary.hex()):
            list(of_copy(copy._replace(digest=None, state=()), part.ranges))


@pytest.mark.parametrize("how", ["flip", "cut", "grow"])
def test_a_file_that_has_changed_is_an_error(pages: journal.Journal, how: str) -> None:
    """Wherever, in use or not: its digest is compared."""
    pages.put_many([Put(f"k{n}", bytes(100)) for n in range(200)])
    with pages.snapshot() as shot:
        (part,) = shot.parts(1)
        path = Path(part.copies[0].path)
        whole = path.read_bytes()
        for at in range(7, len(whole), len(whole) // 20):
            broken = bytearray(whole)
            if how == "flip":
                broken[at] ^= 0x10
            elif how == "cut":
                del broken[at:]
            else:
                broken += b"x"
            path.write_bytes(broken)
            with pytest.raises(journal.StoreDamaged):
                list(of_part(part))


@pytest.mark.parametrize("seed", range(4))
def test_pages_are_not_trusted(pages: journal.Journal, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a digest, too: an error or rows that were there, in order (lmdb_pages V1); never others, never a crash."""
    monkeypatch.setattr(entry_arrays, "check", lambda copy: None)
    filled(pages, seed, 250)
    dice = random.Random(seed)
    with pages.snapshot() as shot:
        (part,) = shot.parts(1)
        path = Path(part.copies[0].path)
        whole = path.read_bytes()
        right = by_lmdb(part)
        errors = 0
        for _ in range(250):
            broken = bytearray(whole)
            how = dice.random()
            page = dice.randrange(len(whole) // 4096) * 4096
            if how < 0.1:
                del broken[dice.randrange(len(whole)) :]
            elif how < 0.2:  # one page in the place of another
                other = dice.randrange(len(whole) // 4096) * 4096
                broken[page : page + 4096] = whole[other : other + 4096]
            else:
                for _ in range(dice.choice([1, 1, 8])):
                    at = page + dice.randrange(64 if how < 0.7 else 4096)
                    broken[at] = dice.randrange(256)
            path.write_bytes(broken)
            try:
                found = shown(of_part(part))
            except journal.StoreDamaged:
                errors += 1
                continue
            assert {row[:2] for row in found} <= {row[:2] for row in right}
            assert [row[0] for row in found] == sorted({row[0] for row in found})
        assert errors > 20
