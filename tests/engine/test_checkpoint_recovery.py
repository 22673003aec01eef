"""Reopening: after a close, after a crash, before and after checkpoints; the same state every time."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import journal
from journal import Put
from journal.testing import ManualClock
from tests.top import top

Copy = Callable[[journal.Store], Path]


def everything(opened: journal.Store) -> dict[str, Any]:
    """All that callers can see of a store."""
    pages = opened.journal("pages")
    return {
        "entries": list(pages.scan()),
        "leases": [(x.token, x.key, x.deadline, x.version, x.timeouts, x.consumer) for x in pages.leases()],
        "buried": pages.buried(),
        "flags": opened.flags(),
        "successors": pages.statistics()["successors"],
    }


def busy(pages: journal.Journal, clock: ManualClock) -> None:
    """A bit of everything."""
    now = clock.now()
    pages.put_many([Put(f"k{i}", {"n": i}, priority=i % 5, owner="o" if i % 3 else None) for i in range(40)])
    pages.put("expiring", expiration=now + 10_000)
    pages.put("expired", expiration=now + 5)
    pages.put("k1", "merged", owner="o")
    pages.move("k2", delay="1h", owner="o")
    pages.delete("k3")
    leases = pages.claim_many(10, consumer="c", lease="1h")
    leases[0].done()
    leases[1].release(delay="5s")
    leases[2].bury("bad")
    leases[3].extend("2h")
    pages.put(leases[4].key, "next", owner="o" if int(str(leases[4].key)[1:]) % 3 else None)
    for _ in range(2):
        assert pages.claim(lease=1) is not None
        clock.advance(5)


@pytest.fixture
def worked(store: journal.Store, clock: ManualClock) -> journal.Store:
    """A store with something of every kind in it."""
    busy(store.journal("pages", timeouts_max=0), clock)
    found = everything(store)
    assert found["leases"] and found["buried"] and found["flags"] and found["successors"]
    return store


@pytest.mark.parametrize("checkpoints", [0, 1, 2, 3])
def test_a_crash_loses_nothing(worked: journal.Store, clock: ManualClock, crashed: Copy, checkpoints: int) -> None:
    """However many checkpoints were made before it, the same state comes back."""
    before = everything(worked)
    for _ in range(checkpoints):
        worked.checkpoint()
    with journal.open(crashed(worked), clock=clock) as again:
        assert everything(again) == before
        assert again.check() == []
        assert again.check(deep=True) == []


def test_a_clean_close_loses_nothing(tmp_path: Path, clock: ManualClock) -> None:
    """And the next opening finds nothing to replay."""
    with journal.open(tmp_path / "s", clock=clock) as opened:
        busy(opened.journal("pages", timeouts_max=0), clock)
        before = everything(opened)
    for _ in range(2):
        with journal.open(tmp_path / "s", clock=clock) as again:
            assert everything(again) == before
            assert again.check() == []


def test_a_crash_during_recovery_is_a_crash(worked: journal.Store, clock: ManualClock, crashed: Copy) -> None:
    """Opened, not closed, copied again, five times: still the same."""
    before = everything(worked)
    path = crashed(worked)
    opened = []
    for _ in range(5):
        again = journal.open(path, clock=clock)
        opened.append(again)
        again.journal("pages")
        path = crashed(again)
    with journal.open(path, clock=clock) as last:
        assert everything(last) == before
        assert last.check() == []
    for again in opened:
        again.close()


def test_work_goes_on_after_each_crash(tmp_path: Path, clock: ManualClock, crashed: Copy) -> None:
    """Put, claim and done over many crashes: every entry is done once, offsets only grow."""
    path = tmp_path / "s"
    offsets: list[int] = []
    done: list[object] = []
    for n in range(6):
        opened = journal.open(path, clock=clock)
        pages = opened.journal("pages")
        offsets.append(pages.put(f"a{n}").cursor.offset)
        offsets.append(pages.put(f"b{n}").cursor.offset)
        if n % 2:
            opened.checkpoint()
        lease = pages.claim()
        assert lease is not None
        lease.done()
        done.append(lease.key)
        path = crashed(opened)
        opened.close()
    assert offsets == sorted(set(offsets))
    with journal.open(path, clock=clock) as last:
        left = [e.key for e in last.journal("pages").scan()]
        assert len(set(done) | set(left)) == len(done) + len(left) == 12
        assert last.check() == []


def log_of(path: Path) -> Path:
    return sorted((path / top() / "000001" / "log").iterdir())[-1]


def end_of_log(path: Path) -> int:
    """Where the last record ends: after it there are only zeros."""
    return len(log_of(path).read_bytes().rstrip(b"\0"))


def test_a_torn_tail_is_cut_off(tmp_path: Path, crashed: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of bytes that may be missing of the last record: all before it is there, then the store goes on."""
    monkeypatch.setattr("journal.engine.checkpoints.AFTER_S", 3600.0)
    with journal.open(tmp_path / "s", durability="interval", sync_interval="1h") as opened:
        pages = opened.journal("pages")
        pages.put("a", 1)
        first = end_of_log(opened.path)
        pages.put("b", 2)
        last = end_of_log(opened.path)
        for cut in [*range(first + 1, last, 7), last - 1]:
            path = crashed(opened)
            with open(log_of(path), "r+b") as f:
                f.seek(cut)
                f.write(bytes(last - cut + 8))
            with journal.open(path) as again:
                there = again.journal("pages")
                assert [e.key for e in there.scan()] == ["a"], cut
                assert there.put("c").outcome == "inserted"
                assert again.check() == []
            with journal.open(path) as again:
                assert sorted(str(e.key) for e in again.journal("pages").scan()) == ["a", "c"]


@pytest.mark.parametrize("in_first_sector", [8, 9, 11])
def test_a_head_that_was_torn_between_two_sectors_is_a_torn_tail(
    tmp_path: Path, crashed: Copy, monkeypatch: pytest.MonkeyPatch, in_first_sector: int
) -> None:
    """A recycled file has old bytes where the size of the torn record should be; they say that it goes on for long."""
    monkeypatch.setattr("journal.engine.checkpoints.AFTER_S", 3600.0)
    with journal.open(tmp_path / "s", durability="interval", sync_interval="1h") as opened:
        pages = opened.journal("pages")
        log = pages._backend.p.log
        before = log.position
        pages.put("a", bytes([1]) * 300)
        besides = log.position - before - 300  # what a record has besides its data
        left = (512 - in_first_sector - log.position - besides) % 512
        pages.put("b", bytes([1]) * (left + 512))  # the next head begins so many bytes before the end of a sector
        first = log.position
        pages.put("c", 2)
        last = log.position
        path, cut = crashed(opened), crashed(opened)
    boundary = first + in_first_sector
    with open(log_of(path), "r+b") as f:
        f.seek(boundary)
        f.write(bytes([5]) * (last - boundary + 4096))
    assert boundary % 512 == 0
    with journal.open(path) as again:
        assert [e.key for e in again.journal("pages").scan()] == ["a", "b"]
        assert again.journal("pages").put("d").outcome == "inserted"
        assert again.check() == []
    os.truncate(log_of(cut), last - 1)
    with journal.open(cut) as again, pytest.raises(journal.LogDamaged, match="was cut at byte"):
        again.journal("pages")


def test_damage_before_the_end_is_named(tmp_path: Path, crashed: Copy) -> None:
    """A durable record that rotted is never skipped: the open is refused, with the segment."""
    with journal.open(tmp_path / "s") as opened:
        pages = opened.journal("pages")
        pages.put("a", 1)
        first = end_of_log(opened.path)
        for i in range(5):
            pages.put(f"k{i}", 2)
        path = crashed(opened)
    with open(log_of(path), "r+b") as f:
        f.seek(first - 5)
        byte = f.read(1)[0]
        f.seek(first - 5)
        f.write(bytes((byte ^ 1,)))
    with journal.open(path) as again, pytest.raises(journal.LogDamaged, match=r"\.log"):
        again.journal("pages")


def test_rows_that_rotted_at_rest_are_named(tmp_path: Path) -> None:
    """After a clean close any flipped bit of rows.mdb is found at the next open."""
    with journal.open(tmp_path / "s") as opened:
        opened.journal("pages").put("a", bytes(5000))
    rows = tmp_path / "s" / top() / "000001" / "rows.mdb"
    whole = rows.read_bytes()
    for at in (100, len(whole) // 2, len(whole) - 1):
        rotten = bytearray(whole)
        rotten[at] ^= 4
        rows.write_bytes(rotten)
        with journal.open(tmp_path / "s") as again, pytest.raises(journal.StoreDamaged, match=r"rows\.mdb"):
            again.journal("pages")
    rows.write_bytes(whole)
    with journal.open(tmp_path / "s") as again:
        assert again.journal("pages").count() == 1


def test_checkpoints_come_by_themselves(tmp_path: Path, crashed: Copy, caplog: pytest.LogCaptureFixture) -> None:
    """By the number of changes: a long run is not replayed from its beginning, and the log does not grow for ever."""
    caplog.set_level(logging.ERROR)
    with journal.open(tmp_path / "s", durability="interval") as opened:
        pages = opened.journal("pages")
        for n in range(30):
            pages.put_many([Put(f"{n}-{i}") for i in range(1000)])
            pages.done_many(pages.claim_many(1000))
        assert pages.statistics()["checkpoints"] >= 2
        with journal.open(crashed(opened)) as again:
            assert again.journal("pages").count() == 0
            assert again.check() == []
    assert caplog.records == []


def test_a_checkpoint_of_an_idle_store_is_fine(store: journal.Store) -> None:
    """Without journals, without changes, twice."""
    store.checkpoint()
    store.journal("pages").put("a")
    store.checkpoint()
    store.checkpoint()
    assert store.journal("pages").count() == 1


def test_nothing_is_left_behind_a_cut_tail(tmp_path: Path, crashed: Copy) -> None:
    """Of a torn record any sector may be left; a new record's first bytes must never make it whole again."""
    opened = journal.open(tmp_path / "s")
    pages = opened.journal("pages")
    pages.put("kept")
    pages.put("torn", bytes(1000))
    copy = crashed(opened)
    opened.close()
    segment = log_of(copy)
    data = bytearray(segment.read_bytes())
    end = end_of_log(copy)
    head = data.rindex(b"pages") - 25
    data[head : head + 40] = bytes(40)  # its head is lost, its other bytes are there
    segment.write_bytes(data)
    with journal.open(copy) as recovered:
        assert [entry.key for entry in recovered.journal("pages").scan()] == ["kept"]
        assert not any(segment.read_bytes()[head:end])


def test_rows_that_end_where_a_segment_ended_are_found(tmp_path: Path) -> None:
    """The applied place may be the end of a segment that was let go: the next one begins with the same offset."""
    directory = tmp_path / "s"
    with journal.open(directory) as opened:
        opened.journal("pages").put("a")
    log = log_of(directory)
    with journal.open(directory) as opened:
        pages = opened.journal("pages")
        with pages._backend.p.commit.io, pages._backend.p.lock:
            pages._backend.p.log.roll()
        copied = journal_copy(directory, tmp_path / "copy")
    (copied / log.relative_to(directory)).unlink()
    with journal.open(copied) as recovered:
        assert [entry.key for entry in recovered.journal("pages").scan()] == ["a"]
        assert recovered.journal("pages").put("b").cursor == journal.Cursor(1, 1)
        assert recovered.check() == []


def journal_copy(store: Path, copy: Path) -> Path:
    """What a crash leaves of an open store."""
    shutil.copytree(store, copy, ignore=shutil.ignore_patterns("*-lock"))
    return copy
