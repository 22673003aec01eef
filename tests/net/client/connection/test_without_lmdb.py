"""A client is installed where there is no lmdb: everything that goes over a connection works there, and the rest says what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import journal
from journal.net.server.server import Server

ROOT = Path(__file__).resolve().parents[4]

PROGRAM = """
import sys

sys.modules["lmdb"] = None  # importing it fails
import journal

for name in ("open", "restore"):
    try:
        getattr(journal, name)
    except ImportError as e:
        assert f"journal.{name} needs lmdb" in str(e) and "journal.connect" in str(e)
    else:
        raise AssertionError(name)

with journal.connect(sys.argv[1]) as store:
    pages = store.journal("pages")
    pages.put("a", {"n": 1}, priority=journal.NOW)
    pages.put_many([journal.Put("b", 2), journal.Put("c", 3)])
    with pages.claim(consumer="one") as lease:
        assert lease.key == "a"
    lease = next(pages.work(consumer="one"))
    lease.release(delay="1h")
    assert [event.key for event in pages.feed(live=False)][:3] == ["a", "b", "c"]
"""


AIO = """
import asyncio, sys

sys.modules["lmdb"] = None
import journal, journal.aio
from journal.aio.roles import AsyncConsumer, AsyncProducer


async def main():
    try:
        await journal.aio.open("work.journal")
    except ImportError as e:
        assert "lmdb" in str(e)
    else:
        raise AssertionError
    async with await journal.aio.connect(sys.argv[1]) as store:
        pages = await store.journal("pages")
        await AsyncProducer(pages, group="g").publish({"n": 1}, key="a")
        async with AsyncConsumer(pages, name="one") as consumer:
            async for lease in consumer:
                await lease.done()
                break


asyncio.run(main())

with journal.connect(sys.argv[1]) as store:
    pages = store.journal("pages")
    journal.Producer(pages, group="g").publish({"n": 1}, key="b")
    with journal.Consumer(pages, name="one") as consumer:
        for lease in consumer:
            lease.done()
            break
"""


def run(program: str, *args: object) -> None:
    """Run a program in a process of its own."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program, *map(str, args)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_connection_needs_no_lmdb(store: journal.Store, server: Server, pages: journal.Journal) -> None:
    """Verbs, work and feeds; what needs the engine is named when it is asked for."""
    run(PROGRAM, store.path)
    assert pages.get("a") is None and pages.count() == 2


def test_roles_and_asyncio_need_no_lmdb(store: journal.Store, server: Server, pages: journal.Journal) -> None:
    """Nor do they over a connection."""
    run(AIO, store.path)
    assert pages.count() == 0
