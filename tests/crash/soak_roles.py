"""
The processes of a soak: `python -m tests.crash.soak_roles owner|reader|client TOP SEED PAUSE_MS`, until there is a file TOP/stop-ROLE.

Each writes what it has called, and how often, to TOP/<role>.json.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import journal
from journal.errors import JournalError
from journal.loads import encode_block
from journal.net.server.runtime.process import map_large_blocks

KEYS = 2000
PRIORITIES = (10, 100, 100, 200)
LEASE_MS = (500, 500, 500, 60_000)
BURIED_MAX = 50
TELL_S = 1.0


class Role:
    """Threads that call until it is time to stop."""

    def __init__(self, name: str, top: Path, seed: int, pause_s: float) -> None:
        self.name = name
        self.top = top
        self.path = top / "soak.journal"
        self.seed = seed
        self.pause_s = pause_s
        self.calls: Counter[str] = Counter()
        self.stop = threading.Event()
        self.died: list[str] = []
        """Threads that an error ended."""

    def loop(self, step: Callable[[random.Random], str], pause_s: float) -> threading.Thread:
        """Call a step again and again, on a thread; errors of the journal are counted by name."""

        def run() -> None:
            chance = random.Random(f"{self.seed}:{self.name}:{step.__name__}")
            while not self.stop.is_set():
                try:
                    self.calls[step(chance)] += 1
                except JournalError as e:
                    self.calls[type(e).__name__] += 1
                except BaseException:
                    self.died.append(step.__name__)
                    raise
                self.stop.wait(pause_s)

        thread = threading.Thread(target=run, name=step.__name__, daemon=True)
        thread.start()
        return thread

    def wait(self) -> None:
        """Tell what was called, each second, until it is time, or a thread has died."""
        while not (self.top / f"stop-{self.name}").exists() and not self.died:
            fresh = self.top / f"{self.name}.new"
            fresh.write_text(json.dumps(dict(self.calls)))
            os.replace(fresh, self.top / f"{self.name}.json")
            threading.Event().wait(TELL_S)
        self.stop.set()


def key_of(chance: random.Random) -> str:
    return f"key-{chance.randrange(KEYS)}"


def produce(pages: Any, chance: random.Random) -> str:
    """One call of a producer."""
    verb = chance.choice(("put", "put", "put", "put_many", "create", "expiring", "delayed", "move", "delete"))
    key, priority = key_of(chance), chance.choice(PRIORITIES)
    match verb:
        case "put":
            pages.put(key, {"n": chance.random(), "text": "x" * chance.randrange(200)}, priority=priority)
        case "put_many":
            pages.put_many([journal.Put(key_of(chance), n, priority=priority) for n in range(20)])
        case "create":
            pages.create(key, 1)
        case "expiring":
            pages.put(key, 1, expiration=pages.now() + chance.randrange(3000))
        case "delayed":
            pages.put(key, 1, delay=f"{chance.randrange(3000)}ms")
        case "move":
            pages.move(key, priority=priority, delay="10ms")
        case "delete":
            pages.delete(key)
    return verb


def consume(pages: Any, chance: random.Random) -> str:
    """One call of a consumer, with what becomes of its leases."""
    leases = pages.claim_many(chance.randrange(1, 30), consumer="soak", lease=f"{chance.choice(LEASE_MS)}ms")
    for lease in leases:
        end = chance.random()
        if end < 0.9:
            lease.done()
        elif end < 0.94:
            lease.release(delay="20ms", failed=end < 0.92)
        elif end < 0.96:
            lease.extend("1s")
            lease.done()
        elif end < 0.965:
            lease.bury("soak")
        # the others end by themselves
    return "claim_many"


def clear_buried(pages: Any) -> None:
    """Buried entries do not pile up."""
    buried = list(pages.buried())
    for each in buried[BURIED_MAX:]:
        pages.discard(each.entry.key)


class Owner(Role):
    """Owns and serves the store."""

    def run(self) -> None:
        map_large_blocks()  # as `journal serve` does
        with journal.open(self.path, durability="interval") as store:
            pages = store.journal("pages", generations_max=4, timeouts_max=3)
            small = [store.journal(f"small-{n}", merged=True) for n in range(20)]
            store.serve()

            def producing(chance: random.Random) -> str:
                return produce(pages, chance)

            def consuming(chance: random.Random) -> str:
                return consume(pages, chance)

            def rotating(chance: random.Random) -> str:
                clear_buried(pages)
                pages.rotate()
                if chance.random() < 0.2:
                    store.merged().rotate()
                return "rotate"

            def merging(chance: random.Random) -> str:
                each = chance.choice(small)
                each.put(key_of(chance)[:6], 1)
                for lease in each.claim_many(5, lease="300ms"):
                    if chance.random() < 0.95:
                        lease.done()
                return "merged"

            def looking(chance: random.Random) -> str:
                pages.get(key_of(chance))
                pages.statistics()
                pages.count(status="W")
                sum(1 for _ in pages.scan())
                return "look"

            def snapshotting(chance: random.Random) -> str:
                with pages.snapshot() as shot:
                    for part in shot.parts(2):
                        sum(len(block.values) for block in part.read())
                return "snapshot"

            def following(chance: random.Random) -> str:
                with pages.feed(consumer="soak", live=False) as feed:
                    for event in feed:
                        feed.ack(event)
                return "feed"

            def loading(chance: random.Random) -> str:
                pages.load([encode_block([(key_of(chance), b"\x01") for _ in range(300)])])
                return "load"

            threads = [
                self.loop(producing, self.pause_s),
                self.loop(consuming, self.pause_s * 2),
                self.loop(rotating, 1.0),
                self.loop(merging, self.pause_s * 4),
                self.loop(looking, 0.5),
                self.loop(snapshotting, 4.0),
                self.loop(following, 0.3),
                self.loop(loading, 5.0),
            ]
            self.wait()
            for thread in threads:
                thread.join()
            assert store.check() == []


class Reader(Role):
    """Reads beside the owner."""

    def run(self) -> None:
        self.await_store()

        def reading(chance: random.Random) -> str:
            with journal.open(self.path, readonly=True) as store:
                pages = store.journal("pages")
                for _ in range(20):
                    pages.get(key_of(chance))
                    sum(1 for _ in pages.scan())
                    if self.stop.wait(0.2):
                        break
                with pages.snapshot() as shot:
                    sum(len(block.values) for part in shot.parts(1) for block in part.read())
            return "open"

        thread = self.loop(reading, 0.2)
        self.wait()
        thread.join()

    def await_store(self) -> None:
        """The owner needs a moment, and may not come to it: then it is time to stop."""
        while not (self.top / "owner.json").exists() and not (self.top / f"stop-{self.name}").exists():
            threading.Event().wait(0.1)


class Client(Reader):
    """Works through the daemon, and connects again now and then."""

    def run(self) -> None:
        self.await_store()

        def working(chance: random.Random) -> str:
            with journal.connect(self.path) as store:
                pages = store.journal("pages")
                for _ in range(200):
                    try:
                        self.calls[produce(pages, chance)] += 1
                        self.calls[consume(pages, chance)] += 1
                    except JournalError as e:
                        self.calls[type(e).__name__] += 1
                    if self.stop.wait(self.pause_s * 10):
                        break
            return "connect"

        def following(chance: random.Random) -> str:
            with journal.connect(self.path) as store:
                pages = store.journal("pages")
                with pages.feed(consumer="far", live=False) as feed:
                    for event in feed:
                        feed.ack(event)
            return "feed"

        threads = [self.loop(working, 0.1), self.loop(following, 2.0)]
        self.wait()
        for thread in threads:
            thread.join()


def main(role: str, top: str, seed: str, pause_ms: str) -> None:
    made = {"owner": Owner, "reader": Reader, "client": Client}[role]
    at_work = made(role, Path(top), int(seed), float(pause_ms) / 1000)
    at_work.run()
    if at_work.died:
        sys.exit(f"threads died: {', '.join(at_work.died)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
