"""
The engine at work: producers put and merge, backends claim under leases, one backend dies, then the whole process is killed.

Two programs in one file. The *witness* (the parent) owns no store: it starts the *owner*, kills it with SIGKILL half way, starts another
one on the same directory, and keeps the ledger. The owner (a child) opens the store, runs producer and backend threads, and
writes one line into a pipe for everything that the engine has acknowledged. Only what arrived in that pipe counts, so the ledger can
be behind the store but never ahead of it.

D1  A put that was acknowledged is worked on, itself or merged into a later put of its key. Nothing is lost.
D2  Work whose `done` was acknowledged is never handed out again.
D3  Two leases of the same work never overlap: it is handed out again only once the lease before has run out. A backend that
    comes back under its name after the kill goes on with the leases that it had.
D4  At the end the store is empty and `check()` finds nothing.

Each key has one producer, which numbers its puts; the number is the data. Then "worked on, itself or a later one" is `>=`.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import demo_daemon  # beside this file

import journal

PRODUCERS = 4
BACKENDS = 4
KEYS = 3_000  # for each producer
HOT_KEYS = 20  # for each producer: put again and again, so that they merge
HOT_SHARE = 0.4
LEASE_MS = 2_000
HELD = 25  # leases that the dying backend takes with it
BACKLOG_MAX = 3_000  # producers pause here, so that the end does not have to drain what backends could never follow
LIFE = 1_000_000_000  # numbers that one life of the owner may give to its puts


# --- the owner: the process that has the store open -------------------------------------------------------------------


def say(*words: object) -> None:
    """One line, one write: lines of several threads never mix, and none waits in a buffer when the process is killed."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


@dataclass
class Owner:
    """The threads around one open journal, and what they share."""

    pages: journal.Journal
    life: int
    stop_producers: threading.Event = field(default_factory=threading.Event)
    stop_backends: threading.Event = field(default_factory=threading.Event)
    must_die: threading.Event = field(default_factory=threading.Event)
    put: int = 0  # entries inserted, roughly: it only paces the producers
    done: int = 0

    def produce(self, number: int) -> None:
        """Put numbered work, some of it hot: due soon, and merged while it waits."""
        chance = random.Random(f"{self.life}/{number}")
        serial = self.life * LIFE
        while not self.stop_producers.is_set():
            if self.put - self.done > BACKLOG_MAX:
                self.stop_producers.wait(0.005)
                continue
            serial += 1
            is_hot = chance.random() < HOT_SHARE
            key = f"p{number}/{'hot' if is_hot else 'page'}-{chance.randrange(HOT_KEYS if is_hot else KEYS)}"
            before = time.perf_counter_ns()
            result = self.pages.put(key, serial, priority=chance.choice((20, 100, 180)), delay="100ms" if is_hot else 0)
            took_us = (time.perf_counter_ns() - before) // 1000
            say("PUT", key, serial, result.outcome, took_us)
            self.put += result.outcome in ("inserted", "queued")

    def back(self, number: int) -> None:
        """Take work as it falls due, do it, finish it; first of all what a former life of this backend still holds."""
        me = f"backend-{number}"
        for lease in self.pages.leases(consumer=me):
            self.work(lease)
        for lease in self.pages.work(consumer=me, lease=LEASE_MS, stop=self.stop_backends):
            if number == BACKENDS and self.must_die.is_set():
                self.die(me, lease)
                return
            self.work(lease)

    def work(self, lease: journal.Lease) -> None:
        say("CLAIM", lease.key, lease.data, lease.token, lease.deadline)
        # The work itself would be here. It leaves its trace before it is finished, as a mail is sent before it is ticked off.
        say("WORK", lease.key, lease.data)
        try:
            lease.done()
        except journal.LeaseLost:
            say("LATE", lease.key, lease.data)
            return
        self.done += 1
        say("DONE", lease.key, lease.data)

    def die(self, me: str, last: journal.Lease) -> None:
        """Fall silent with leases in hand: no release, no error, nothing."""
        for lease in [last, *self.pages.claim_many(HELD - 1, consumer=me, lease=LEASE_MS)]:
            say("CLAIM", lease.key, lease.data, lease.token, lease.deadline)
            say("HELD", lease.key, lease.token)
        say("DEAD", me)


def own(directory: Path, life: int) -> int:
    """Open the store, obey the witness's commands on standard input, report on standard output."""
    before = time.perf_counter()
    with journal.open(directory) as store:
        pages = store.journal("pages", processing_timeout="10s", timeouts_max=5, postpone_max="500ms")
        say("OPEN", round((time.perf_counter() - before) * 1000), pages.count(status="W"), pages.count(status="P"))
        owner = Owner(pages, life)
        producers = [threading.Thread(target=guard, args=(owner.produce, n)) for n in range(1, PRODUCERS + 1)]
        backends = [threading.Thread(target=guard, args=(owner.back, n)) for n in range(1, BACKENDS + 1)]
        for thread in producers + backends:
            thread.start()
        for command in sys.stdin:
            if command.strip() == "die":
                owner.must_die.set()
            else:
                break
        owner.stop_producers.set()
        for thread in producers:
            thread.join()
        drain(pages)
        owner.stop_backends.set()
        for thread in backends:
            thread.join()
        say("END", json.dumps({"left": pages.count(), "buried": len(list(pages.buried())), "check": store.check()}))
    return 0


def drain(pages: journal.Journal) -> None:
    """Wait until the backends have emptied the journal. A lease that was lost here comes back within LEASE_MS."""
    give_up = time.monotonic() + 30
    while pages.count() and time.monotonic() < give_up:
        time.sleep(0.05)


def guard(run: Any, number: int) -> None:
    """A thread that fails ends the process: a demo that goes on with half of its threads would show nothing."""
    try:
        run(number)
    except BaseException as error:  # noqa: BLE001 - whatever it was, the witness must hear of it
        say("FAIL", f"{type(error).__name__}: {error}".replace("\n", " "))
        os._exit(3)


# --- the witness: the ledger, and what it proves ----------------------------------------------------------------------


@dataclass
class Ledger:
    """All that the owner reported, in the order in which it said it."""

    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("put", "merged", "claimed", "done", "late"), 0)
    )
    acknowledged: dict[str, int] = field(default_factory=dict)  # key: the last number acknowledged
    worked: dict[str, int] = field(default_factory=dict)  # key: the last number worked on
    finished: set[tuple[str, int]] = field(default_factory=set)
    leases: dict[tuple[str, int], tuple[int, int]] = field(
        default_factory=dict
    )  # work: its last lease's token, deadline
    again: set[tuple[str, int]] = field(default_factory=set)  # work handed out under more than one lease
    resumed: int = 0  # leases that a backend went on with after the kill
    held: dict[str, int] = field(default_factory=dict)  # key: the dead backend's token, until the key has another one
    returned: int = 0
    dead: str = ""
    put_us: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    opened: list[tuple[int, int, int]] = field(default_factory=list)
    end: dict[str, Any] | None = None

    def read(self, line: str) -> None:
        what, _, rest = line.partition(" ")
        getattr(self, f"on_{what.lower()}")(*([rest] if what in ("END", "FAIL") else rest.split()))

    def on_put(self, key: str, number: str, outcome: str, took_us: str) -> None:
        self.counts["put"] += 1
        self.counts["merged"] += outcome != "inserted"
        self.acknowledged[key] = max(int(number), self.acknowledged.get(key, 0))
        self.put_us.append(int(took_us))

    def on_claim(self, key: str, number: str, token: str, deadline: str) -> None:
        work, lease = (key, int(number)), (int(token), int(deadline))
        self.counts["claimed"] += 1
        if work in self.finished:
            self.wrong.append(f"{key} number {number} was handed out after its done was acknowledged")  # D2
        if (last := self.leases.get(work)) is not None:
            if last[0] == lease[0]:
                self.resumed += 1
            else:
                self.again.add(work)
                if abs(lease[1] - last[1]) < LEASE_MS:
                    self.wrong.append(f"{key} number {number} was handed out while its lease was active")  # D3
        self.leases[work] = lease
        if self.held.get(key, lease[0]) != lease[0]:
            del self.held[key]
            self.returned += 1

    def on_work(self, key: str, number: str) -> None:
        self.worked[key] = max(int(number), self.worked.get(key, 0))

    def on_done(self, key: str, number: str) -> None:
        self.counts["done"] += 1
        self.finished.add((key, int(number)))

    def on_late(self, key: str, number: str) -> None:
        self.counts["late"] += 1

    def on_held(self, key: str, token: str) -> None:
        self.held[key] = int(token)

    def on_dead(self, backend: str) -> None:
        self.dead = backend

    def on_open(self, took_ms: str, waiting: str, processing: str) -> None:
        self.opened.append((int(took_ms), int(waiting), int(processing)))

    def on_end(self, facts: str) -> None:
        self.end = json.loads(facts)

    def on_fail(self, reason: str) -> None:
        self.wrong.append(f"a thread of the owner failed: {reason}")

    @property
    def lost(self) -> list[str]:
        """D1: acknowledged, and neither it nor a later put of its key was ever worked on."""
        return [key for key, number in self.acknowledged.items() if self.worked.get(key, -1) < number]


class Child:
    """One life of the owner: its process, and a thread that empties its pipe."""

    def __init__(self, directory: Path, life: int) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "--own", str(directory), "--life", str(life)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._pump, daemon=True).start()

    def _pump(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):  # a line that was cut by the kill was never said
                self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def tell(self, command: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it is gone: the witness sees the end of its pipe

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)

    def until(self, moment: float) -> Iterator[str]:
        """What the child says before a moment of the monotonic clock, or until it ends."""
        while (left := moment - time.monotonic()) > 0:
            try:
                line = self.lines.get(timeout=left)
            except queue.Empty:
                return
            if line is None:
                self.process.wait()
                self.lines.put(None)
                return
            yield line

    @property
    def has_ended(self) -> bool:
        return self.process.returncode is not None


class Witness:
    """Runs the play and prints it: a line each half second, and one for each thing that happens."""

    def __init__(self, directory: Path, seconds: float) -> None:
        self.directory = directory
        self.seconds = seconds
        self.ledger = Ledger()
        self.started = time.monotonic()
        self.shown = dict(self.ledger.counts)
        self.shown_at = self.started
        self.is_return_told = False
        self.child: Child | None = None

    def tell(self, text: str) -> None:
        print(f"{time.monotonic() - self.started:6.1f} s  {text}", flush=True)

    def progress(self) -> None:
        now, counts = time.monotonic(), self.ledger.counts
        rates = {what: (counts[what] - self.shown[what]) / (now - self.shown_at) for what in counts}
        self.shown, self.shown_at = dict(counts), now
        shown = "   ".join(f"{what} {rates[what]:7,.0f}/s" for what in ("put", "merged", "claimed", "done"))
        self.tell(f"  {shown}")
        if self.ledger.dead and not self.ledger.held and not self.is_return_told:
            self.is_return_told = True
            self.tell(f"* the {self.ledger.returned} leases of {self.ledger.dead} ran out; others took its work over")

    def listen(self, child: Child, until: float) -> None:
        """Keep the ledger up to a moment, with a line each half second."""
        while time.monotonic() < until and not child.has_ended:
            for line in child.until(min(until, self.shown_at + 0.5)):
                self.ledger.read(line)
            if time.monotonic() >= self.shown_at + 0.5:
                self.progress()

    def start(self, life: int) -> Child:
        self.child = Child(self.directory, life)
        while len(self.ledger.opened) < life and not self.child.has_ended:
            for line in self.child.until(time.monotonic() + 0.1):
                self.ledger.read(line)
        return self.child

    def run(self) -> bool:
        """The play in three acts; True when everything that was promised was seen."""
        t0, length = time.monotonic(), self.seconds
        child = self.start(1)
        self.tell(f"* process {child.process.pid} owns the store: {PRODUCERS} producers, {BACKENDS} backends")
        self.listen(child, t0 + length * 0.25)
        child.tell("die")
        self.tell(f"* backend-{BACKENDS} falls silent with {HELD} leases of {LEASE_MS / 1000:g} s in its hands")
        self.listen(child, t0 + length * 0.55)
        if not child.has_ended:
            child.kill()
            self.tell(f"* kill -9 of process {child.process.pid}, in the middle of everything")
            for line in child.until(time.monotonic() + 30):
                self.ledger.read(line)
            child = self.start(2)
        if len(self.ledger.opened) == 2:
            took_ms, waiting, processing = self.ledger.opened[-1]
            self.tell(
                f"* process {child.process.pid} opened it in {took_ms} ms: {waiting:,} waiting, {processing:,} leased"
            )
        self.listen(child, t0 + length)
        child.tell("stop")
        if not child.has_ended:
            self.tell("* producers stop; backends empty the journal")
        self.listen(child, time.monotonic() + 45)
        return self.report()

    def report(self) -> bool:
        """What was promised (D1 to D4), what was seen, and the figures."""
        ledger, took = self.ledger, time.monotonic() - self.started
        puts, dones, lost = ledger.counts["put"], ledger.counts["done"], ledger.lost
        end = ledger.end or {"left": "?", "buried": "?", "check": ["the owner did not reach its end"]}
        found = "; ".join(end["check"]) or "clean"
        promises = [
            (not lost, f"{len(ledger.acknowledged):,} keys acknowledged in {puts:,} puts, {len(lost):,} lost"),
            (not ledger.wrong, f"{dones:,} done, {len(ledger.wrong):,} handed out when they should not have been"),
            (
                bool(ledger.dead) and not ledger.held,
                f"{ledger.returned:,} leases of a dead backend came back, {len(ledger.held):,} did not",
            ),
            (end["left"] == end["buried"] == 0, f"{end['left']} entries left, {end['buried']} buried"),
            (end["check"] == [], f"check(): {found}"),
        ]
        print()
        for is_kept, text in promises:
            print(f"  {'ok  ' if is_kept else 'FAIL'}  {text}")
        for text in [f"lost: {key}" for key in lost[:5]] + ledger.wrong[:5]:
            print(f"        {text}")
        us = sorted(ledger.put_us) or [0]
        print()
        print(f"  handed out twice: {len(ledger.again):,}, each after its lease had run out")
        print(f"  gone on with after the kill, under the lease it had: {ledger.resumed:,}")
        print(f"  merged, or queued behind work in processing: {ledger.counts['merged']:,} of {puts:,} puts")
        print(f"  {puts / took:,.0f} puts/s and {dones / took:,.0f} done/s, each on disk before its answer")
        print(
            f"  a put, beside {PRODUCERS + BACKENDS - 1} other threads: median {ms(us, 50)}, 99 % within {ms(us, 99)}"
        )
        return all(is_kept for is_kept, _ in promises)


def ms(sorted_us: list[int], percent: int) -> str:
    return f"{sorted_us[len(sorted_us) * percent // 100] / 1000:.1f} ms"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="The engine at work: merged puts, leases, a backend that dies, a kill -9, a daemon; and nothing lost.",
    )
    parser.add_argument("--seconds", type=float, default=16, help="how long producers put (default 16; at least 8)")
    parser.add_argument("--dir", type=Path, help="make the store in this directory, and keep it")
    parser.add_argument("--own", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--life", type=int, default=1, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.seconds < 8:  # the dead backend's leases must run out before the kill
        parser.error(f"--seconds {args.seconds:g}: the play needs at least 8")
    return args


def main() -> int:
    args = arguments()
    if args.own:
        return own(args.own, args.life)
    if args.dir:
        args.dir.mkdir(parents=True, exist_ok=True)
    # A disk, please: where the temporary directory is memory, a sync costs nothing and proves nothing.
    parent = args.dir or ("/var/tmp" if os.access("/var/tmp", os.W_OK) else None)
    place = Path(tempfile.mkdtemp(prefix="journal-demo-", dir=parent))
    witness = Witness(place / "demo.journal", args.seconds)
    print(f"A journal in {place}, about {args.seconds + 12:.0f} seconds. Nothing is simulated.\n", flush=True)
    try:
        is_kept = witness.run()
        print()
        promises = demo_daemon.play(place / "served.journal", witness.tell)
        print()
        for is_seen, text in promises:
            print(f"  {'ok  ' if is_seen else 'FAIL'}  {text}")
        is_kept = is_kept and all(is_seen for is_seen, _ in promises)
    except KeyboardInterrupt:
        print("\nstopped")
        return 130
    finally:
        if witness.child and witness.child.process.poll() is None:
            witness.child.kill()
            witness.child.process.wait()
        if not args.dir:
            shutil.rmtree(place, ignore_errors=True)
    print(f"\n{'Nothing was lost.' if is_kept else 'Something was lost, or was not as promised.'}")
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
