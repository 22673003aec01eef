"""When a call returns: levels, cursors, and how many syncs are paid for it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import journal
from journal import Cursor, Put
from journal.engine.log.deferred_syncs import deferred
from tests.engine.helpers import HANG_S, Failing, wait_blocked

Copy = Callable[[journal.Store], Path]


class Gate:
    """fdatasync that waits until it is let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._real = os.fdatasync
        self.entered = threading.Event()
        self.open = threading.Event()
        self.calls = 0
        monkeypatch.setattr(os, "fdatasync", self)

    def __call__(self, fd: int) -> None:
        self.calls += 1
        self.entered.set()
        assert self.open.wait(HANG_S), "nobody opened the gate"
        self._real(fd)


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[journal.Store]:
    """A store that syncs an hour later unless it is told to."""
    with journal.open(tmp_path / "s", durability="interval", sync_interval="1h") as opened:
        opened.journal("pages")
        yield opened
        assert opened.check() == []


def test_a_put_costs_one_sync(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """At full, and so do done, release, bury, move and delete."""
    disk = Failing(monkeypatch, "fdatasync")
    pages.put("a")
    assert disk.calls == 1
    pages.move("a", priority=1)
    assert disk.calls == 2
    pages.delete("a")
    assert disk.calls == 3


def test_put_claim_done_cost_two_syncs(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim and an extend are answered from the OS: a power cut that forgets them only hands the work out again."""
    disk = Failing(monkeypatch, "fdatasync")
    for _ in range(5):
        pages.put("a")
        lease = pages.claim()
        assert lease is not None
        lease.extend("1h")
        lease.done()
    assert disk.calls == 10


def test_claims_may_be_synced_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """claims="full" for the store, durability="full" for a call."""
    with journal.open(tmp_path / "s", claims="full") as opened:
        pages = opened.journal("pages")
        pages.put_many([Put("a"), Put("b")])
        disk = Failing(monkeypatch, "fdatasync")
        lease = pages.claim()
        assert lease is not None
        lease.extend("1h")
        assert disk.calls == 2
        assert pages.claim(durability="interval") is not None
        assert disk.calls == 2


def test_done_again_costs_nothing_more_than_it_must(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of the first done is durable: no new one, no sync."""
    pages.put("a")
    lease = pages.claim()
    assert lease is not None
    lease.done()
    disk = Failing(monkeypatch, "fdatasync")
    lease.done()
    assert disk.calls == 0


@pytest.mark.parametrize("level", ["interval", "none"])
def test_lower_levels_do_not_sync(quiet: journal.Store, monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    """A call returns without a sync; the store's level may be raised for a call."""
    pages = quiet.journal("pages")
    disk = Failing(monkeypatch, "fdatasync")
    for i in range(20):
        cursor = pages.put(f"k{i}", durability=level).cursor
    assert disk.calls == 0
    assert pages.durable_cursor < cursor
    last = pages.put("full", durability="full").cursor
    assert disk.calls == 1
    assert pages.durable_cursor == last


def test_interval_is_in_the_os_at_once(quiet: journal.Store, crashed: Copy) -> None:
    """kill -9 loses nothing."""
    pages = quiet.journal("pages")
    for i in range(50):
        pages.put(f"k{i}")
    with journal.open(crashed(quiet)) as again:
        assert again.journal("pages").count() == 50
        assert again.check() == []


def test_none_is_in_the_process_and_consistent(quiet: journal.Store, crashed: Copy) -> None:
    """kill -9 may lose the buffer: a prefix is there, never a hole; then a higher level takes all before it along."""
    pages = quiet.journal("pages")
    for i in range(50):
        pages.put(f"k{i:02}", i, durability="none")
    with journal.open(crashed(quiet)) as again:
        found = sorted(e.data for e in again.journal("pages").scan())
        assert found == list(range(len(found)))
        assert again.check() == []
    pages.put("last", 50, durability="full")
    with journal.open(crashed(quiet)) as again:
        assert again.journal("pages").count() == 51


def test_wait_durable_syncs_up_to_its_cursor(quiet: journal.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sync for all before it; none when it is durable already."""
    pages = quiet.journal("pages")
    cursors = [pages.put(f"k{i}").cursor for i in range(10)]
    disk = Failing(monkeypatch, "fdatasync")
    pages.wait_durable(cursors[4])
    assert disk.calls == 1
    assert pages.durable_cursor >= cursors[4]
    pages.wait_durable(cursors[2])
    pages.wait_durable(Cursor(1, -1))
    assert disk.calls == 1


def test_wait_durable_of_what_was_never_written_is_invalid(pages: journal.Journal) -> None:
    """Instead of waiting for ever."""
    last = pages.put("a").cursor
    for wrong in (Cursor(1, last.offset + 1), Cursor(2, 0), Cursor(0, 0), "001-0001-000000000000000000", None, 5):
        with pytest.raises(journal.Invalid):
            pages.wait_durable(wrong)  # type: ignore[arg-type]


def test_the_interval_syncs_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody calls: what was put is on disk an interval later."""
    with journal.open(tmp_path / "s", durability="interval", sync_interval="5ms") as opened:
        pages = opened.journal("pages")
        gate = Gate(monkeypatch)
        cursor = pages.put("a").cursor
        assert gate.entered.wait(HANG_S)
        assert pages.durable_cursor < cursor
        gate.open.set()
        pages.wait_durable(cursor)
        assert pages.durable_cursor >= cursor


def test_threads_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one sync is under way, all who come form one batch: nine puts, two syncs."""
    with journal.open(tmp_path / "s") as opened:
        pages = opened.journal("pages")
        pages.put("warm")
        gate = Gate(monkeypatch)
        answered: list[str] = []

        def put(key: str) -> None:
            pages.put(key)
            answered.append(key)

        threads = [threading.Thread(target=put, args=("first",), daemon=True)]
        threads[0].start()
        assert gate.entered.wait(HANG_S)
        threads += [threading.Thread(target=put, args=(f"k{i}",), daemon=True) for i in range(8)]
        for thread in threads[1:]:
            thread.start()
        for thread in threads[1:]:
            wait_blocked(thread)
        assert answered == []
        gate.open.set()
        for thread in threads:
            thread.join(HANG_S)
        assert sorted(answered) == ["first", *(f"k{i}" for i in range(8))]
        assert gate.calls <= 3  # the first, the batch, and perhaps one who came just too late for it


@pytest.mark.parametrize("verb", ["claim", "claim_many", "get", "scan"])
def test_nobody_sees_what_could_still_vanish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """The put waits for its sync, and whoever is handed its entry waits with it."""
    with journal.open(tmp_path / "s") as opened:
        pages = opened.journal("pages")
        gate = Gate(monkeypatch)
        putter = threading.Thread(target=pages.put, args=("a",), daemon=True)
        putter.start()
        assert gate.entered.wait(HANG_S)
        reads: dict[str, Callable[[], object]] = {
            "claim": pages.claim,
            "claim_many": lambda: pages.claim_many(1),
            "get": lambda: pages.get("a"),
            "scan": lambda: list(pages.scan()),
        }
        seen = threading.Event()

        def read() -> None:
            assert reads[verb]()
            seen.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        assert not seen.wait(0.1)
        gate.open.set()
        assert seen.wait(HANG_S)
        putter.join(HANG_S)
        reader.join(HANG_S)


def test_a_claim_of_a_put_that_asked_for_less_does_not_wait(
    quiet: journal.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As durable as that put asked for, and no more."""
    pages = quiet.journal("pages")
    pages.put("a")
    disk = Failing(monkeypatch, "fdatasync")
    assert pages.claim() is not None
    assert disk.calls == 0


def test_wrong_levels_are_invalid(pages: journal.Journal) -> None:
    """For every verb, before anything changes."""
    pages.put("a")
    lease = pages.claim()
    assert lease is not None
    calls: list[Callable[[object], object]] = [
        lambda level: pages.put("b", durability=level),  # type: ignore[arg-type]
        lambda level: pages.put_many([Put("b")], durability=level),  # type: ignore[arg-type]
        lambda level: pages.claim(durability=level),  # type: ignore[arg-type]
        lambda level: lease.done(durability=level),  # type: ignore[arg-type]
        lambda level: lease.release(durability=level),  # type: ignore[arg-type]
        lambda level: pages.delete("a", durability=level),  # type: ignore[arg-type]
        lambda level: pages.move("a", priority=1, durability=level),  # type: ignore[arg-type]
    ]
    for call in calls:
        for level in ("fast", 2, ["full"]):
            with pytest.raises(journal.Invalid):
                call(level)
    assert pages.count() == 1
    lease.done()


def test_puts_that_share_a_sync_share_its_write(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """In company, as in the daemon, a record stays with us until the sync; it is durable when that is over, not before."""
    disk = Failing(monkeypatch, "pwrite")
    p = pages._backend.p
    monkeypatch.setattr(deferred, "waits", {})
    monkeypatch.setattr(deferred, "has_company", True)
    for key in ("a", "b", "c"):
        pages.put(key)
    (offset,) = deferred.waits.values()
    assert (disk.calls, p.log.last_in_os, p.log.synced) == (0, offset - 3, offset - 3)
    p.commit.wait(offset)
    assert (disk.calls, p.log.last_in_os, p.log.synced) == (1, offset, offset)


def test_a_claim_takes_the_puts_before_it_to_the_system(
    pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own record must be with the operating system when it is answered, and comes after theirs."""
    monkeypatch.setattr(deferred, "waits", {})
    monkeypatch.setattr(deferred, "has_company", True)
    pages.put("a")
    assert pages._backend.p.log.last_in_os < pages._backend.p.log.next_offset - 1
    assert pages.claim(consumer="one") is not None
    assert pages._backend.p.log.last_in_os == pages._backend.p.log.next_offset - 1


def test_a_group_of_refusals_rests_on_what_it_met(pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one of them is told before the entry that is in its way, or the change that removed one, is as durable as was asked."""
    monkeypatch.setattr(deferred, "waits", {})
    pages.put("a", durability="full")
    for verb in (
        lambda: pages.create_many([journal.Put("a")], durability="full"),
        lambda: pages.put_many([journal.Put("a", version=7)], durability="full"),
        lambda: pages.move_many([journal.Move("b", delay=1)], durability="full"),
        lambda: pages.delete_many(["b"], durability="full"),
    ):
        waits: dict[object, int] = {}
        monkeypatch.setattr(deferred, "waits", waits)
        (refused,) = verb()
        assert refused is False or isinstance(refused, journal.Refused)
        assert list(waits.values()) == [pages._backend.p.log.next_offset - 1]
