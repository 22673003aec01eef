"""An interrupt (Ctrl-C) may come at any moment; the store goes on, and what it acknowledged afterwards stands."""

from __future__ import annotations

import linecache
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import journal
from journal import shield
from journal.core.loads.blocks import encode_block
from journal.engine import pipeline
from journal.engine.log import group_commit, writer
from journal.engine.state import apply
from tests.engine.helpers import must_end, poll, wait_waiting

Copy = Callable[[journal.Store], Path]


def interrupt_at(module: Any, function: str, step: int, call: Callable[[], object]) -> bool:
    """Raise KeyboardInterrupt before the step-th line of a function that `call` reaches; False when it has fewer."""
    count = 0

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal count
        if frame.f_code.co_filename != module.__file__ or frame.f_code.co_name != function:
            return trace
        line = linecache.getline(module.__file__, frame.f_lineno)
        if event == "line" and not line.lstrip().startswith("with "):  # leaving a with cannot be told from entering it
            count += 1
            if count == step:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def keys(opened: journal.Journal) -> list[Any]:
    return sorted(entry.key for entry in opened.scan())


def test_interrupt_in_apply_is_mended(store: journal.Store, pages: journal.Journal, crashed: Copy) -> None:
    """An apply that was cut short is done again from the log; nothing before it changes."""
    pages.put("before", 1)
    assert interrupt_at(apply, "insert_usual", 2, lambda: pages.put("cut", 2))
    assert must_end(lambda: pages.put("after", 3)).outcome == "inserted"
    assert keys(pages) == ["after", "before", "cut"]
    assert store.check() == []
    with journal.open(crashed(store)) as again:
        assert keys(again.journal("pages")) == ["after", "before", "cut"]


def test_interrupt_in_a_sync_stops_nobody(
    store: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C is delivered when fdatasync returns, where a put spends its time: later calls and close go on."""
    real = os.fdatasync

    def interrupted(fd: int) -> None:
        real(fd)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pages.put("cut")
    assert must_end(partial(pages.put, "after")).outcome == "inserted"
    must_end(store.checkpoint)


@pytest.mark.parametrize(
    ("module", "function"),
    [
        (writer, "append"),
        (pipeline, "write"),
        (group_commit, "_begin"),
        (group_commit, "_fdatasync"),
        (group_commit, "_finish"),
        (group_commit, "_sync"),
    ],
    ids=lambda x: getattr(x, "__name__", x).rpartition(".")[2],
)
@pytest.mark.parametrize("verb", ["put", *(pytest.param(verb, marks=pytest.mark.slow) for verb in ("merge", "done"))])
def test_what_follows_an_interrupt_survives_a_crash(
    tmp_path: Path, crashed: Copy, module: Any, function: str, verb: str
) -> None:
    """Wherever the write path was cut, memory and log agree afterwards and later acknowledged puts are kept."""
    step = 0
    while True:
        step += 1
        opened = journal.open(tmp_path / f"{step}")
        pages = opened.journal("pages")
        pages.put("old", 0)
        pages.put("work", 0, priority=0)
        lease = pages.claim()
        assert lease is not None
        calls = {"put": partial(pages.put, "cut"), "merge": partial(pages.put, "old", 1), "done": lease.done}
        was_cut = interrupt_at(module, function, step, calls[verb])
        assert must_end(partial(pages.put, "after")).outcome == "inserted"
        assert must_end(opened.check) == [], f"interrupted before line {step}"
        seen = keys(pages)
        with journal.open(crashed(opened)) as again:
            assert keys(again.journal("pages")) == seen, f"interrupted before line {step}"
            assert again.check() == []
        opened.close()
        if not was_cut:
            break


def test_interrupted_claim_leaves_the_entry_to_others(store: journal.Store, pages: journal.Journal) -> None:
    """A claim that was cut short before its record takes nothing out of the order of work."""
    from journal.engine.work import claim as verbs

    for function in ("_take", "_lend"):
        step = 0
        while True:
            step += 1
            pages.put(f"{function}-{step}")
            was_cut = interrupt_at(verbs, function, step, pages.claim)
            assert store.check() == [], f"interrupted before line {step} of {function}"
            pages.done_many(pages.leases())
            pages.done_many(pages.claim_many(10))
            assert pages.count() == 0
            if not was_cut:
                break


# -- with signals, as a person sends them ----------------------------------------------------------------------------------


def on_call(number: int, call: Callable[[], object], *, raises: int = signal.SIGINT) -> bool:
    """Send a signal at the n-th call of a function of the library; False when there are fewer."""
    count = 0

    def look(frame: Any, event: str, _: object) -> None:
        nonlocal count
        if event == "call" and f"{os.sep}journal{os.sep}" in frame.f_code.co_filename:
            count += 1
            if count == number:
                sys.setprofile(None)
                signal.raise_signal(raises)

    sys.setprofile(look)
    try:
        call()
    except (KeyboardInterrupt, SystemExit):
        return True
    finally:
        sys.setprofile(None)
    return count >= number


VERBS: dict[str, Callable[[journal.Store, journal.Journal], object]] = {
    "put": lambda store, pages: pages.put("new", 1),
    "merge": lambda store, pages: pages.put("old", 1),
    "put_many": lambda store, pages: pages.put_many([journal.Put("a"), journal.Put("old", 3)]),
    "claim and done": lambda store, pages: pages.done_many(pages.claim_many(2)),
    "one claim and done": lambda store, pages: [lease.done() for lease in [pages.claim()] if lease is not None],
    "bury and retry": lambda store, pages: _bury(pages),
    "delete": lambda store, pages: pages.delete("old"),
    "scan": lambda store, pages: [*pages.scan(), pages.count(), pages.get("old")],
    "work": lambda store, pages: _work(pages),
    "load": lambda store, pages: pages.load([encode_block([("loaded", b"\1"), ("old", b"\2")])]),
    "feed": lambda store, pages: _follow(pages),
    "journal": lambda store, pages: store.journal("other").put("x"),
    "drop": lambda store, pages: (store.journal("gone"), store.drop("gone")),
    "rotate": lambda store, pages: pages.rotate(),
    "checkpoint": lambda store, pages: (store.checkpoint(), store.statistics()),
    "snapshot": lambda store, pages: _shoot(pages),
}


def _work(pages: journal.Journal) -> None:
    leases = pages.work()
    next(leases).done()
    next(leases)
    leases.close()  # type: ignore[attr-defined]  # not by the collector, where Python can only print what a handler raises


def _bury(pages: journal.Journal) -> None:
    lease = pages.claim()
    assert lease is not None
    lease.bury("why")
    pages.retry(lease.key)


def _follow(pages: journal.Journal) -> None:
    with pages.feed(consumer="follower", live=False) as feed:
        for event in feed:
            feed.ack(event)


def _shoot(pages: journal.Journal) -> None:
    with pages.snapshot() as shot:
        for part in shot.parts(2):
            list(part.read())


@pytest.mark.parametrize("is_merged", [False, True], ids=["alone", "merged"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_signal_at_any_call_leaves_the_store_whole(tmp_path: Path, crashed: Copy, verb: str, is_merged: bool) -> None:
    """Ctrl-C wherever a verb calls a function: the verb has happened or not, all others go on, and the disk says the same."""
    opened = journal.open(tmp_path / "store", durability="interval", sync_interval="1h")
    pages = opened.journal("pages", merged=is_merged)
    number = 0
    while True:
        number += 1 + number // 3
        pages.put("old", 0)
        pages.put("work", 0, priority=0)
        was_cut = on_call(number, partial(VERBS[verb], opened, pages))
        assert shield.is_down(), f"at call {number}"
        pages.done_many(pages.leases())
        assert must_end(partial(pages.put, f"after-{number}")).outcome == "inserted", f"at call {number}"
        assert must_end(lambda: opened.check(deep=True)) == [], f"at call {number}"
        if not was_cut:
            break
    seen = keys(pages)
    must_end(opened.journal("pages").count)
    with journal.open(crashed(opened)) as again:
        assert keys(again.journal("pages")) == seen
        assert again.check(deep=True) == []
    must_end(opened.close)


@pytest.mark.parametrize("step", range(1, 60, 3))
def test_an_interrupted_open_leaves_nothing_open(tmp_path: Path, step: int) -> None:
    """The store can be opened again at once, in the same process, and closed."""
    opened: list[journal.Store] = []
    for number in (step, step * 20):
        on_call(number, lambda: opened.append(journal.open(tmp_path / "store")))
        for each in opened:
            each.close()
        again = journal.open(tmp_path / "store")
        again.journal("pages").put("x")
        assert again.check() == []
        on_call(number, again.close)
        must_end(again.close)


def test_a_lock_is_never_given_up_for_another(store: journal.Store, pages: journal.Journal) -> None:
    """Ctrl-C while a caller waits to take its lock again: the thread that has the lock meanwhile keeps it."""
    p = pages._backend.p
    found: list[bool] = []

    def take() -> None:
        with p.lock:
            os.kill(os.getpid(), signal.SIGINT)
            poll(lambda: shield.is_noted() or not p.lock.locked(), "the interrupt does not come")
            found.append(p.lock.locked())

    taker = threading.Thread(target=take)

    def hold() -> None:
        p.checkpoints.is_hold_due = False
        taker.start()
        poll(p.lock.locked, "the lock is not taken")

    p.checkpoints.is_hold_due = True
    p.checkpoints.hold = hold  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        pages.put("x")
    taker.join()
    assert found == [True]
    assert pages.get("x") is not None
    assert store.check(deep=True) == []


def test_a_sleeping_worker_is_interrupted_at_once(store: journal.Store, pages: journal.Journal) -> None:
    """Ctrl-C ends the sleep of `work` and of a live feed; others are not touched by it, and what comes later wakes as ever."""
    main = threading.current_thread()
    for wait in (lambda: next(pages.work()), lambda: next(iter(pages.feed(start="END")))):
        sender = threading.Thread(target=lambda: (wait_waiting(main), os.kill(os.getpid(), signal.SIGINT)))
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            wait()
        sender.join()
        assert not pages._backend.p.sleeping and not pages._backend.p.followers.latches
    pages.put("x")
    assert next(pages.work()).key == "x"
    assert store.check() == []


def test_handlers_are_those_of_the_program(pages: journal.Journal) -> None:
    """While the program's own code runs, and after each call, its handlers are in place; a SIGTERM that exits is postponed as well."""
    seen: list[object] = []

    def leave(number: int, frame: object) -> None:
        raise SystemExit(3)

    before = signal.signal(signal.SIGTERM, leave)
    try:

        def puts() -> Iterator[journal.Put]:
            seen.extend((signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)))
            yield journal.Put("x")

        pages.put_many(puts())
        assert seen == [signal.default_int_handler, leave]
        number = 1
        while on_call(number, partial(pages.put, f"k{number}"), raises=signal.SIGTERM):
            assert signal.getsignal(signal.SIGTERM) is leave
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            number += 1
        assert number > 5
    finally:
        signal.signal(signal.SIGTERM, before)


def test_signals_that_python_does_not_handle_are_left_alone(pages: journal.Journal) -> None:
    """An ignored SIGINT stays ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert on_call(3, partial(pages.put, "x")) and pages.get("x") is not None
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
