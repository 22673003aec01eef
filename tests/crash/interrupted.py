"""
The program that the interrupt campaign disturbs: a main thread that calls every verb, embedded or as a client, beside threads that work.

SIGINT comes at random moments, sent by a thread, or at random calls of functions of the library, sent by a profiler. The catcher goes
on with the next verb. No key is used twice, so what must be there and what must be gone is known in the end:

N1  A put that was answered is there, unless a call that may end its entry had begun.
N2  What was answered as done or deleted is gone.
N3  The other threads come to their end, `check(deep=True)` finds nothing, and no lock was given up for another thread.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import journal
from journal import shield
from journal.core.loads.blocks import encode_block
from tests.crash import mutants

HANG_S = 100
LIBRARY = f"{os.sep}journal{os.sep}"


class Known:
    """What was answered."""

    def __init__(self) -> None:
        self.put: set[str] = set()
        self.ending: set[str] = set()
        self.ended: set[str] = set()
        self.problems: list[str] = []


class Actor:
    """Calls verbs of one journal, wherever that is."""

    def __init__(self, name: str, pages: Any, known: Known, seed: str) -> None:
        self.name = name
        self.pages = pages
        self.known = known
        self.chance = random.Random(seed)
        self.numbers = count()

    def key(self) -> str:
        return f"{self.name}-{next(self.numbers)}"

    def put(self) -> None:
        key = self.key()
        self.pages.put(key, {"x": "y" * self.chance.choice((1, 100, 3000))}, priority=self.chance.randrange(200))
        self.known.put.add(key)

    def put_many(self) -> None:
        keys = [self.key() for _ in range(5)]
        self.pages.put_many(journal.Put(key, b"z") for key in keys)
        self.known.put.update(keys)

    def create(self) -> None:
        key = self.key()
        self.pages.create(key, 1, delay=self.chance.choice((0, 5)))
        self.known.put.add(key)

    def load(self) -> None:
        keys = [self.key() for _ in range(self.chance.choice((3, 300)))]
        self.pages.load([encode_block([(key, b"\x01") for key in keys])])
        self.known.put.update(keys)

    def work_off(self) -> None:
        for lease in self.pages.claim_many(4, lease="20s"):
            self._done(lease)

    def claim(self) -> None:
        lease = self.pages.claim(lease="20s")
        if lease is not None:
            lease.extend("30s")
            self._done(lease)

    def _done(self, lease: Any) -> None:
        self.known.ending.add(lease.key)
        lease.done()
        self.known.ended.add(lease.key)

    def done_many(self) -> None:
        leases = self.pages.claim_many(3, lease="20s")
        keys = [lease.key for lease in leases]
        self.known.ending.update(keys)
        if all(error is None for error in self.pages.done_many(leases)):
            self.known.ended.update(keys)

    def release(self) -> None:
        lease = self.pages.claim()
        if lease is not None:
            lease.release(delay=self.chance.choice((0, 3)))

    def bury(self) -> None:
        lease = self.pages.claim()
        if lease is not None:
            lease.bury("why not")
            self.pages.retry(lease.key)

    def move(self) -> None:
        key = self.key()
        self.pages.put(key, 1)
        self.pages.move(key, priority=3)
        self.known.put.add(key)

    def delete(self) -> None:
        key = self.key()
        self.pages.put(key, 1, delay="1h")
        self.known.ending.add(key)
        self.pages.delete(key)
        self.known.ended.add(key)

    def look(self) -> None:
        seen = sum(1 for _ in self.pages.scan())
        assert seen >= 0 <= self.pages.count()
        self.pages.get(self.name + "-0")
        self.pages.leases()
        self.pages.statistics()

    def usual(self) -> list[Callable[[], None]]:
        return [self.put, self.put, self.put_many, self.create, self.claim, self.done_many, self.work_off, self.release]

    def all(self) -> list[Callable[[], None]]:
        return [*self.usual(), self.load, self.bury, self.move, self.delete, self.look]


class Main(Actor):
    """The main thread, which is interrupted."""

    def __init__(self, store: Any, local: journal.Store, settings: dict[str, Any], *args: Any) -> None:
        super().__init__(*args)
        self.store = store
        self.local = local
        self.settings = settings
        self.fresh = count()

    def work(self) -> None:
        leases = self.pages.work(lease="20s")
        try:
            for lease, _ in zip(leases, range(3), strict=False):
                self._done(lease)
        finally:
            leases.close()

    def sleep(self) -> None:
        """Nothing is due there: only an interrupt ends it."""
        idle = self.store.journal("idle", **self.settings)
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        next(idle.work())

    def follow(self) -> None:
        with self.pages.feed(consumer="main", live=False) as feed:
            for _, event in zip(range(50), feed, strict=False):
                feed.ack(event)

    def wait_for_news(self) -> None:
        with self.pages.feed(start="END") as feed:
            next(iter(feed))

    def declare(self) -> None:
        name = f"more-{next(self.fresh)}"
        self.store.journal(name, **self.settings).put("x")
        if self.chance.random() < 0.7:
            self.store.drop(name)

    def rotate(self) -> None:
        (self.store.merged() if self.settings.get("merged") else self.pages).rotate()

    def keep(self) -> None:
        self.store.checkpoint()
        self.store.statistics()
        self.store.journals()
        self.store.flags()

    def shoot(self) -> None:
        with self.pages.snapshot() as shot:
            for part in shot.parts(2):
                for _ in part.read():
                    pass

    def aside(self) -> None:
        """A store that is opened and closed."""
        opened: list[journal.Store] = []
        try:
            opened.append(journal.open(self.local.path.parent / "aside"))
            opened[0].journal("pages").put(self.key())
        finally:
            while opened:
                try:
                    opened[0].close()
                    opened.pop()
                except KeyboardInterrupt:
                    continue

    def held_up(self) -> None:
        """The moment that broke it: a caller that must take its lock again is interrupted while another thread has it."""
        p = self.local.journal("pages", **self.settings)._backend.p
        shared = getattr(p, "shared", p)
        checkpoints, real, caller = shared.checkpoints, shared.checkpoints.hold, threading.get_ident()

        def take() -> None:
            with p.lock:
                until = time.monotonic() + 5
                while time.monotonic() < until and sys._current_frames()[caller].f_code.co_name != "_attend":
                    pass  # until it waits for the lock
                os.kill(os.getpid(), signal.SIGINT)
                while p.lock.locked() and not shield.is_noted() and time.monotonic() < until:
                    pass
                if not p.lock.locked():
                    os.write(2, b"a lock was given up for another thread\n")
                    os._exit(4)  # whatever comes now is damage

        def hold() -> None:
            del checkpoints.hold
            real()
            taker = threading.Thread(target=take)
            taker.start()
            while taker.is_alive() and not p.lock.locked():
                pass

        try:
            checkpoints.hold = hold
            checkpoints.is_hold_due = True
            self.local.journal("pages").put(self.key())
        finally:
            checkpoints.__dict__.pop("hold", None)

    def every(self) -> list[Callable[[], None]]:
        return [
            *self.all(), self.work, self.sleep, self.follow, self.wait_for_news, self.declare, self.rotate, self.keep, self.shoot,
            self.aside, self.held_up,
        ]  # fmt: skip


def send_at_moments(chance: random.Random, stop: threading.Event) -> None:
    """SIGINT at random moments."""
    while not stop.wait(chance.expovariate(1 / chance.choice((0.0005, 0.003, 0.02)))):
        os.kill(os.getpid(), signal.SIGINT)


def send_at_calls(chance: random.Random) -> Callable[[Any, str, Any], None]:
    """SIGINT at random calls of the library, on the main thread."""
    left = chance.randrange(400)

    def look(frame: Any, event: str, _: object) -> None:
        nonlocal left
        if event == "call" and LIBRARY in frame.f_code.co_filename:
            left -= 1
            if left < 0:
                left = chance.choice((20, 200, 2000))
                left = chance.randrange(left)
                signal.raise_signal(signal.SIGINT)

    return look


def run(path: Path, seed: int, calls: int, report: Path, *, ends: str) -> None:
    chance = random.Random(f"interrupt:{seed}")
    known, stop = Known(), threading.Event()
    settings: dict[str, Any] = {"merged": True} if seed % 2 else {}
    store = journal.open(path, durability=chance.choice(("full", "interval")), sync_interval="5ms")
    pages = store.journal("pages", **settings)
    server = store.serve() if seed % 4 >= 2 else None
    far = None if server is None else journal.connect(server.addresses[0])
    used = store if far is None else far
    others = [Actor("t0", pages, known, f"{seed}:0"), Actor("t1", used.journal("pages"), known, f"{seed}:1")]

    def work(actor: Actor) -> None:
        verbs = [*actor.usual(), actor.load, actor.delete]
        try:
            while not stop.is_set():
                try:
                    actor.chance.choice(verbs)()
                except journal.Refused:
                    pass
        except BaseException as e:
            known.problems.append(f"{actor.name} ended with {e!r}")
            raise

    threads = [threading.Thread(target=work, args=(actor,), daemon=True) for actor in others]
    main = Main(used, store, settings, "m", used.journal("pages"), known, f"{seed}:m")
    try:
        main.held_up()  # first while no other thread is there: then it is the main one that is held up
    except KeyboardInterrupt:
        pass
    for thread in threads:
        thread.start()
    interrupts = _disturb(main, chance, calls, stop)
    for thread in threads:
        thread.join(HANG_S / 2)
        if thread.is_alive():
            known.problems.append("a thread does not end")
            faulthandler.dump_traceback()
            os._exit(3)
    if not shield.is_down():
        known.problems.append("the shield is up after the last call")
    known.problems += store.check(deep=True)
    if far is not None:
        known.problems += far.check()
        far.close()
    report.write_text(
        json.dumps(
            {
                "interrupts": interrupts,
                "there": sorted(known.put - known.ending),
                "gone": sorted(known.ended),
                "problems": known.problems,
            }
        )
    )
    if ends == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    store.close()


def _disturb(main: Main, chance: random.Random, calls: int, stop: threading.Event) -> int:
    """Call verbs, and count how often they were interrupted."""
    interrupts = 0
    verbs = main.every()
    is_at_calls = chance.random() < 0.5
    sender = threading.Thread(target=send_at_moments, args=(chance, stop), daemon=True)
    if not is_at_calls:
        try:
            with shield.SHIELD:
                sender.start()
        except KeyboardInterrupt:
            interrupts += 1
    look = send_at_calls(chance)
    called = 0
    while called < calls:
        try:
            called += 1
            verb = main.chance.choice(verbs)
            if is_at_calls:
                sys.setprofile(look)
            verb()
            sys.setprofile(None)
        except KeyboardInterrupt:
            interrupts += 1
        except journal.Refused:
            pass
        finally:
            sys.setprofile(None)
    while True:
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            stop.set()
            return interrupts
        except KeyboardInterrupt:
            interrupts += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--ends", choices=("kill", "close"), default="kill")
    parser.add_argument("--mutant", choices=sorted(mutants.MUTANTS))
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what runs beside others with it ignored
    faulthandler.dump_traceback_later(HANG_S, exit=True)
    if given.mutant:
        mutants.install(given.mutant)
    run(given.store, given.seed, given.calls, given.report, ends=given.ends)


if __name__ == "__main__":
    main()
