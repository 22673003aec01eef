"""Flags that a program raises, and clocks that are off."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal.testing import ManualClock


def report(pages: journal.Journal, peer: str, off: int, delay: int = 2) -> bool:
    """A round trip to a peer whose clock is `off` ms fast."""
    now = pages.now()
    return pages.measure_drift(peer, now, now + off + delay // 2, now + off + delay // 2, now + delay)


def test_a_flag_is_shown_until_it_is_lowered(store: journal.Store, pages: journal.Journal, clock: ManualClock) -> None:
    """Raised once more it counts, with the last message."""
    assert store.flags() == []
    pages.raise_flag("disk", "slow")
    clock.advance(5)
    pages.raise_flag("disk", "slower")
    pages.raise_flag("other", "")
    now = clock.now()
    disk, other = sorted(store.flags(), key=lambda flag: flag.name)
    assert disk == journal.Flag("pages", "disk", "slower", now - 5, now, 2)
    assert other == journal.Flag("pages", "other", "", now, now, 1)
    store.lower(disk)
    assert store.flags() == [other]
    store.lower(other)


def test_a_flag_survives(
    store: journal.Store, pages: journal.Journal, clock: ManualClock, crashed: Callable[[journal.Store], Path]
) -> None:
    """A crash, a checkpoint, a rotation; followers see it."""
    pages.raise_flag("a", "one")
    store.checkpoint()
    pages.raise_flag("b", "two")
    with pages.feed(start="BEGIN", live=False) as feed:
        assert [(event.verb, event.flag) for event in feed] == [("raise", "a"), ("raise", "b")]
    pages.rotate()
    with journal.open(crashed(store), clock=clock) as opened:
        assert sorted(flag.message for flag in opened.flags()) == ["one", "two"]
        assert opened.check() == []


def test_wrong_flags(store: journal.Store, pages: journal.Journal) -> None:
    """Texts, not too long."""
    for name, message in (("", "x"), (7, "x"), ("x" * 256, "x"), ("x", 7), ("x", "y" * 4097), ("\udcff", "x")):
        with pytest.raises(journal.Invalid):
            pages.raise_flag(name, message)  # type: ignore[arg-type]
    assert store.flags() == []


def test_a_clock_that_is_off_raises_a_flag_once(store: journal.Store, pages: journal.Journal) -> None:
    """When it is certain, twice on end; statistics tell by how much."""
    assert [report(pages, "mail-1", 400) for _ in range(4)] == [False, True, True, True]
    assert [report(pages, "mail-2", 40) for _ in range(4)] == [False] * 4
    (flag,) = store.flags()
    assert (flag.journal, flag.name, flag.count) == ("pages", "drift", 1)
    assert "'mail-1' is 400 ms fast" in flag.message
    drift = store.statistics()["drift"]
    assert (drift["peers"], drift["flagged"], drift["worst"]["mail-1"]["offset_ms"]) == (2, 1, 400.0)
    assert store.drifts.flagged == ["mail-1"]
    store.lower(flag)


def test_a_clock_that_was_set_right_and_goes_wrong_again(store: journal.Store, pages: journal.Journal) -> None:
    """The flag stays for a person to lower, and is raised once more."""
    for off in (-400, -400, 0, 0, -900, -900):
        report(pages, "mail-1", off)
    (flag,) = store.flags()
    assert flag.count == 2 and "900 ms slow" in flag.message
    store.lower(flag)


def test_when_all_are_off_it_is_ours(store: journal.Store, pages: journal.Journal) -> None:
    """Most of three or more, in the same direction."""
    for peer in ("a", "b", "c"):
        for _ in range(2):
            report(pages, peer, 1000)
    (flag,) = store.flags()
    assert "this machine" in flag.message and store.statistics()["drift"]["is_ours"]


def test_drifts_are_the_stores(store: journal.Store, pages: journal.Journal) -> None:
    """A peer that talks to two journals is one peer."""
    other = store.journal("other")
    report(pages, "mail-1", 400)
    assert report(other, "mail-1", 400)
    assert [flag.journal for flag in store.flags()] == ["other"]


def test_senseless_reports(store: journal.Store, pages: journal.Journal) -> None:
    """Refused, counted, and nothing is flagged."""
    for times in ((5, 1, 1, 4), (1, 5, 4, 9), (1, 2, 3, float("nan"))):
        with pytest.raises(journal.Invalid):
            pages.measure_drift("mail-1", *times)
    for peer in ("", 7, "x" * 272):
        with pytest.raises(journal.Invalid):
            report(pages, peer, 400)  # type: ignore[arg-type]
    drift = store.statistics()["drift"]
    assert (drift["peers"], drift["rejected"], store.flags()) == (0, 3, [])


def test_reports_from_many_threads(store: journal.Store, pages: journal.Journal) -> None:
    """None is lost."""
    threads = [
        threading.Thread(target=lambda n=n: [report(pages, f"p{n}-{i}", 0) for i in range(50)]) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.statistics()["drift"]["peers"] == 200


def test_a_readonly_look_measures_and_flags_nothing(tmp_path: Path, clock: ManualClock) -> None:
    """It may not write."""
    with journal.open(tmp_path / "store", clock=clock) as store:
        store.journal("pages")
    with journal.open(tmp_path / "store", readonly=True, clock=clock) as look:
        pages = look.journal("pages")
        assert [report(pages, "mail-1", 400) for _ in range(2)] == [False, True]
        with pytest.raises(journal.ReadOnly):
            pages.raise_flag("a", "b")
        assert look.flags() == []
