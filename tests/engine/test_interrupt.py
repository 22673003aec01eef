"""An interrupt (Ctrl-C) may come at any moment; the store goes on, and what it acknowledged afterwards stands."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.engine import commit, log, pipeline, state
from tests.engine.helpers import must_end

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
    assert interrupt_at(state, "insert_usual", 2, lambda: pages.put("cut", 2))
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
        (log, "append"),
        (pipeline, "write"),
        (commit, "_begin"),
        (commit, "_fdatasync"),
        (commit, "_finish"),
        (commit, "_sync"),
    ],
    ids=lambda x: getattr(x, "__name__", x).rpartition(".")[2],
)
@pytest.mark.parametrize("verb", ["put", "merge", "done"])
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
    from journal.engine import consuming as verbs

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
