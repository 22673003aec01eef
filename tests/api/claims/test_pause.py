"""A journal that is paused hands nothing out, and does all else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Put, Range
from journal.testing import ManualClock
from tests.engine.helpers import HANG_S, must_end, wait_asleep

Copy = Callable[[journal.Store], Path]


def test_nothing_is_handed_out(pages: journal.Journal) -> None:
    """By no kind of claim; then all of it, in the order of work."""
    pages.put_many([Put("a", priority=1), Put("b", priority=2)])
    pages.pause("the mail server is down")
    assert pages.claim() is None
    assert pages.claim_many(5) == []
    assert pages.claim(buckets=Range(0, 512)) is None and pages.claim_many(5, buckets=Range(0, 512)) == []
    with pytest.raises(journal.Paused, match="pages is paused"):
        pages.claim_key("a")
    with pytest.raises(journal.NotFound):
        pages.claim_key("x")
    assert pages.count(status="processing") == 0
    assert pages.resume() is True
    assert [lease.key for lease in pages.claim_many(5)] == ["a", "b"]
    assert pages.resume() is False


def test_all_else_goes_on(pages: journal.Journal, clock: ManualClock) -> None:
    """Puts, done, extend, release, bury, retry, and the timers."""
    pages.put_many([Put(key) for key in "abcde"])
    leases = {lease.key: lease for lease in pages.claim_many(5, lease="10s")}
    pages.pause()
    assert pages.put("x").outcome == "inserted"
    leases["a"].extend("1m")
    leases["b"].done(next=Put("b", 2))
    leases["c"].release()
    leases["d"].bury("bad")
    assert pages.retry("d").outcome == "retried"
    clock.advance(10_000)
    assert [lease.key for lease in pages.leases()] == ["a"]
    assert pages.get("e").timeouts == 1  # type: ignore[union-attr]
    assert sorted(str(e.key) for e in pages.scan(status="waiting")) == ["b", "c", "d", "e", "x"]


def test_it_is_seen(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """In the statistics and as a flag, with the reason and the date; the flag goes with it, and not before."""
    assert pages.statistics()["paused"] is None
    began = clock.now()
    pages.pause("one")
    clock.advance(1000)
    pages.pause("two")
    assert pages.statistics()["paused"] == {"reason": "two", "since": began}
    (flag,) = store.flags()
    assert (flag.journal, flag.name, flag.message, flag.raised, flag.modified) == (
        "pages",
        "paused",
        "two",
        began,
        began + 1000,
    )
    with pytest.raises(journal.Refused, match="resume it"):
        store.lower(flag)
    with pytest.raises(journal.Invalid, match="use pause"):
        pages.raise_flag("paused", "by hand")
    assert pages.claim() is None and pages.statistics()["paused"] is not None
    pages.resume()
    assert store.flags() == [] and pages.statistics()["paused"] is None


@pytest.mark.parametrize("how", ["replayed", "checkpoint", "rotated"])
def test_it_lasts(store: journal.Store, pages: journal.Journal, crashed: Copy, how: str) -> None:
    """Over a crash, from the log and from the rows, and over generations; so does its end."""
    pages.put("a")
    pages.pause("for a while")
    if how == "checkpoint":
        store.checkpoint()
    elif how == "rotated":
        pages.rotate()
    for is_paused in (True, False):
        with journal.open(crashed(store), clock=ManualClock(1_700_000_000_000)) as again:
            there = again.journal("pages")
            assert (there.claim() is None) is is_paused
            assert len(again.flags()) == is_paused
            assert again.check() == []
        if is_paused:
            pages.resume()


def test_each_journal_is_paused_by_itself(store: journal.Store) -> None:
    """Also of those that share their files, and one that was dropped is forgotten."""
    one, two = (store.journal(name, merged=True) for name in ("one", "two"))
    for pages in (one, two):
        pages.put("a")
    one.pause("one")
    assert one.claim() is None and two.claim() is not None
    assert [flag.journal for flag in store.flags()] == ["one"]
    store.drop("one")
    anew = store.journal("one", merged=True)
    anew.put("a")
    assert anew.claim() is not None


@pytest.mark.embedded(reason="tests/net/client/test_pause.py has it of workers that listen")
@pytest.mark.parametrize("buckets", [None, Range(0, 512), Range(512, 1024)])
def test_workers_sleep_and_are_woken(pages: journal.Journal, buckets: Range | None) -> None:
    """What is due does not keep them busy; resume wakes them."""
    keys = [str(n) for n in range(30)]
    pages.put_many([Put(key) for key in keys])
    pages.pause()
    stop, found = threading.Event(), threading.Event()

    def work() -> None:
        for lease in pages.work(stop=stop, buckets=buckets):
            lease.done()
            found.set()
            stop.set()

    worker = threading.Thread(target=work)
    worker.start()
    wait_asleep(worker)
    pages.put("later")
    wait_asleep(worker)
    assert not found.is_set()
    pages.resume()
    assert found.wait(HANG_S)
    must_end(worker.join)


def test_a_paused_journal_can_be_looked_at(tmp_path: Path) -> None:
    """From outside."""
    with journal.open(tmp_path / "s") as store:
        store.journal("pages").pause("why not")
    with journal.open(tmp_path / "s", readonly=True) as look:
        assert look.journal("pages").statistics()["paused"]["reason"] == "why not"
        assert [flag.name for flag in look.flags()] == ["paused"]
