"""Closing while others work."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import journal
from tests.engine.helpers import must_end


def test_close_while_threads_put(tmp_path: Path) -> None:
    """Threads in the middle of a put get an answer or StoreClosed; nobody hangs; what was acknowledged is there."""
    for round_number in range(5):
        opened = journal.open(tmp_path / str(round_number))
        pages = opened.journal("pages")
        acknowledged: list[str] = []
        is_busy = threading.Event()

        def produce(pages: journal.Journal, acknowledged: list[str], is_busy: threading.Event, name: int) -> None:
            for i in range(100_000):
                try:
                    pages.put(f"{name}-{i}")
                except journal.StoreClosed:
                    return
                acknowledged.append(f"{name}-{i}")
                if len(acknowledged) > 50:
                    is_busy.set()

        threads = [
            threading.Thread(target=produce, args=(pages, acknowledged, is_busy, n), daemon=True) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        assert is_busy.wait(100)
        must_end(opened.close)
        for thread in threads:
            must_end(thread.join)
        with journal.open(tmp_path / str(round_number)) as again:
            found = {entry.key for entry in again.journal("pages").scan()}
            assert set(acknowledged) <= found
            assert again.check() == []


def test_everything_is_refused_after_close(tmp_path: Path) -> None:
    """A closed store answers StoreClosed, and closing it again is fine."""
    opened = journal.open(tmp_path / "s")
    pages = opened.journal("pages")
    pages.put("a")
    lease = pages.claim()
    assert lease is not None
    opened.close()
    opened.close()
    for call in (
        lambda: pages.put("b"),
        pages.claim,
        lambda: pages.get("a"),
        lease.done,
        opened.check,
        opened.journals,
    ):
        with pytest.raises(journal.StoreClosed):
            call()
    with journal.open(tmp_path / "s") as again:
        entry = again.journal("pages").get("a")
        assert entry is not None and entry.status == "P"


FORGETFUL = """
import gc, sys, threading
import journal
stores = []
for n in range(4):
    store = journal.open(f"{sys.argv[1]}/{n}", durability="interval")
    stores.append(store)
    pages = store.journal("pages")
    for i in range(10):
        pages.put(f"k{i}", bytes(1000))
del store, pages
stores.clear()
gc.collect()
threading.Event().wait(2)  # longer than a checkpoint takes to come by itself
"""


def test_stores_that_were_never_closed_harm_nobody(tmp_path: Path) -> None:
    """A program that forgets its stores ends well, and what it was acknowledged is there."""
    ended = subprocess.run([sys.executable, "-c", FORGETFUL, tmp_path], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    for n in range(4):
        with journal.open(tmp_path / str(n)) as again:
            assert again.journal("pages").count() == 10
            assert again.check() == []
