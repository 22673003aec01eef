"""
What fails, and how often the work is processed then: once, or perhaps twice.

    broker fails     before the lease is stored                       once
                     after it is stored, before it is answered        once
                     at an extension: its holder must stop             perhaps twice
                     before the delete is stored                      perhaps twice; once, if its holder comes back in time and repeats it
                     after it is stored, before it is answered        once, repeated or not
    consumer fails   before it processes                              once
                     after it processed, before it says so            perhaps twice
                     does not come in time with its answer            perhaps twice

A process that embeds a journal is broker and consumer at once, so most of it is shown with one that is killed with -9. No work is lost
in any case, and never are two active leases on one entry.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Consumer
from journal.testing import ManualClock
from tests.roles.consuming import Said, brief, pass_time, taken
from tests.roles.failing import process

ROOT = Path(__file__).resolve().parents[2]

KILLED: dict[str, tuple[int, int]] = {
    "before the lease is stored": (0, 1),
    "after the lease is stored": (0, 1),
    "before processing": (0, 1),
    "after processing": (1, 1),
    "when it extends": (1, 1),
    "before the delete is stored": (1, 1),
    "after the delete is stored": (1, 0),
}
"""How often the entry is processed before the process dies, and after."""


def killed(tmp_path: Path, step: str) -> tuple[Path, Path]:
    """Let a worker die at a step; its store and its effects."""
    path, effects = tmp_path / "s", tmp_path / "effects"
    with journal.open(path) as store:
        store.journal("pages").put("a", 1)
    child = subprocess.run(
        [sys.executable, "-m", "tests.roles.failing", str(path), str(effects), step],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    return path, effects


def lines(effects: Path) -> list[list[str]]:
    return [line.split() for line in effects.read_text().splitlines()] if effects.exists() else []


@pytest.mark.parametrize("who", ["worker", "other"])
@pytest.mark.parametrize("step", KILLED, ids=lambda step: step.replace(" ", "-"))
def test_a_process_that_is_killed(tmp_path: Path, step: str, who: str) -> None:
    """Restarted under its name in time it goes on with its own lease; another one gets the entry when the lease is over."""
    before, after = KILLED[step]
    path, effects = killed(tmp_path, step)
    assert len(lines(effects)) == before
    clock = ManualClock(time.time_ns() // 1_000_000 + (0 if who == "worker" else 11 * 60_000))
    with journal.open(path, clock=clock) as store:
        pages = store.journal("pages")
        stored = [lease.token for lease in pages.leases()]
        with brief(pages, name=who) as consumer:
            consumer.subscribe()
            while (lease := consumer.take_nowait()) is not None:
                process(lease, effects)
                lease.done()
        found = lines(effects)
        assert len(found) == before + after
        assert pages.count() == 0
        assert store.check() == []
    if who == "worker" and stored:
        # The same lease, so the same token: a program that keeps it with its effect can tell that it is the same work.
        assert {token for _, token in found} == {str(token) for token in stored}


def test_the_delete_is_repeated_in_time(
    tmp_path: Path, clock: ManualClock, crashed: Callable[[journal.Store], Path]
) -> None:
    """The broker failed before it stored the delete; it is back before the lease is over: once."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        pages = store.journal("pages")
        pages.put("a")
        lease = pages.claim(consumer="c", lease="1m")
        assert lease is not None
        copy = crashed(store)
    clock.advance(59_999)
    with journal.open(copy, clock=clock) as store:
        pages = store.journal("pages")
        pages.done(lease.token)
        clock.advance(3_600_000)
        assert (pages.count(), pages.claim()) == (0, None)


def test_the_delete_is_repeated_too_late(
    tmp_path: Path, clock: ManualClock, crashed: Callable[[journal.Store], Path]
) -> None:
    """The broker was away until the lease was over: the holder is told, and another one processes it again."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        pages = store.journal("pages")
        pages.put("a")
        lease = pages.claim(consumer="c", lease="1m")
        assert lease is not None
        copy = crashed(store)
    clock.advance(60_000)
    with journal.open(copy, clock=clock) as store:
        pages = store.journal("pages")
        with pytest.raises(journal.LeaseLost):
            pages.done(lease.token)
        second = pages.claim(consumer="other")
        assert second is not None and (second.key, second.timeouts) == ("a", 1)
        with pytest.raises(journal.LeaseLost):
            pages.done(lease.token)
        second.done()
        assert pages.count() == 0


def test_the_reply_to_the_delete_is_lost(
    tmp_path: Path, clock: ManualClock, crashed: Callable[[journal.Store], Path]
) -> None:
    """It was stored: repeating it succeeds and changes nothing, also after a restart, and long after the lease's end."""
    with journal.open(tmp_path / "s", clock=clock) as store:
        pages = store.journal("pages")
        pages.put("a")
        lease = pages.claim(consumer="c", lease="1m")
        assert lease is not None
        lease.done()
        lease.done()
        copy = crashed(store)
    for advance in (0, 3_600_000):
        clock.advance(advance)
        with journal.open(copy, clock=clock) as store:
            pages = store.journal("pages")
            pages.done(lease.token)
            assert (pages.count(), pages.claim()) == (0, None)


def test_an_extension_fails(pages: journal.Journal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its holder is warned, must stop when the lease ends, and is told; what it did half may be done again."""
    pages.put("a")
    said = Said()

    def full(*_: object) -> None:
        raise journal.StoreFull("no room")

    with brief(
        pages, name="c", lease="16s", on_warning=lambda lease, left: said(left), on_lost=lambda lease: said("lost")
    ) as consumer:
        consumer.subscribe()
        lease = taken(consumer)
        monkeypatch.setattr(journal.Journal, "extended", full)
        for _ in range(15):
            pass_time(clock, 1000)
            assert consumer.holds(lease)  # no other consumer has it
            assert pages.claim(consumer="other") is None
        said.until([5000])
        consumer.unsubscribe()
        pass_time(clock, 1000)
        said.until([5000, "lost"])
        assert not consumer.holds(lease)
    second = pages.claim(consumer="other")
    assert second is not None and second.key == "a"
    with pytest.raises(journal.LeaseLost):
        lease.done()
    second.done()


def test_a_consumer_that_never_comes_back(pages: journal.Journal, clock: ManualClock) -> None:
    """Whatever it did: its work goes to the next one at its deadline, and not a millisecond earlier."""
    pages.put("a")
    gone = Consumer(pages, name="gone", lease="30s", extend=False)
    gone.subscribe()
    taken(gone)
    with brief(pages, name="next") as consumer:
        consumer.subscribe()
        pass_time(clock, 29_999)
        assert consumer.take_nowait() is None
        pass_time(clock, 1)
        assert taken(consumer).timeouts == 1
    gone.close()


def test_never_two_active_leases(pages: journal.Journal, clock: ManualClock) -> None:
    """At every millisecond about a deadline an entry is with one consumer, or free."""
    pages.put("a")
    first = pages.claim(consumer="one", lease=1000)
    assert first is not None
    clock.advance(998)
    holders = []
    for _ in range(4):
        second = pages.claim(consumer="two", lease=1000)
        active = pages.leases()
        assert len(active) == 1
        holders.append(active[0].consumer)
        if second is not None:
            with pytest.raises(journal.LeaseLost):
                first.extend()
        clock.advance(1)
    assert holders == ["one", "one", "two", "two"]
