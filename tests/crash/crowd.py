"""
Several threads at work on one journal, and what must be left of it after kill -9.

Each thread puts to keys of its own, with a stamp in the data that grows; claims bring it whatever is due. Every call is told twice to the
marks: when it begins and when it is answered. So what is acknowledged is known, and what was under way may have happened or not.

C1  A put that was answered is there, with its stamp or a higher one, unless a call that takes such an entry away had begun.
C2  What was answered as done or deleted does not come back: no entry of that key has that stamp or a lower one.
C3  A lease that was answered is held under its token, unless a call that ends it had begun.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import journal
from journal.testing import ManualClock
from tests.crash.program import LEASE, NAME, Shape

KEYS_EACH = 6


class Worker:
    """One thread's calls."""

    def __init__(self, number: int, pages: journal.Journal, shape: Shape, marks: int, run: str) -> None:
        self.name = f"thread-{number}"
        self.pages = pages
        self.marks = marks
        self.run_name = run
        self.chance = random.Random(f"crowd:{shape.seed}:{number}")
        self.keys = [f"{self.name}/{key}" for key in range(KEYS_EACH)]
        self.held = {lease.token: lease for lease in pages.leases(consumer=self.name)}
        self.stamp = 0

    def tell(self, when: str, verb: str, **more: Any) -> None:
        os.write(self.marks, json.dumps({"when": when, "verb": verb, "thread": self.name, **more}).encode() + b"\n")

    def work(self, calls: int, first_stamp: int) -> None:
        self.stamp = first_stamp
        verbs = [
            self.put,
            self.put,
            self.put_many,
            self.claim,
            self.claim,
            self.claim_many,
            self.done,
            self.done,
            self.release,
            self.delete,
        ]
        for _ in range(calls):
            try:
                self.chance.choice(verbs)()
            except journal.Refused:
                pass

    def data(self) -> dict[str, Any]:
        self.stamp += 1
        return {"stamp": self.stamp, "filler": b"x" * self.chance.choice((0, 100, 3000))}

    def put(self) -> None:
        key, data = self.chance.choice(self.keys), self.data()
        self.tell("begun", "put", puts=[[key, data["stamp"]]])
        self.pages.put(key, data)
        self.tell("answered", "put", puts=[[key, data["stamp"]]])

    def put_many(self) -> None:
        puts = [(key, self.data()) for key in self.chance.sample(self.keys, 3)]
        told = [[key, data["stamp"]] for key, data in puts]
        self.tell("begun", "put", puts=told)
        self.pages.put_many([journal.Put(key, data) for key, data in puts])
        self.tell("answered", "put", puts=told)

    def claim(self) -> None:
        self._took([lease] if (lease := self.pages.claim(consumer=self.name, lease=LEASE)) else [])

    def claim_many(self) -> None:
        self._took(self.pages.claim_many(3, consumer=self.name, lease=LEASE))

    def _took(self, leases: list[journal.Lease]) -> None:
        self.held.update((lease.token, lease) for lease in leases)
        if leases:
            self.tell("answered", "claim", leases=[[lease.key, lease.data["stamp"], lease.token] for lease in leases])

    def done(self) -> None:
        self._end("done", lambda lease: lease.done())

    def release(self) -> None:
        self._end("release", lambda lease: lease.release())

    def _end(self, verb: str, end: Any) -> None:
        if not self.held:
            return
        lease = self.held.pop(self.chance.choice(sorted(self.held)))
        told = {"leases": [[lease.key, lease.data["stamp"], lease.token]]}
        self.tell("begun", verb, **told)
        end(lease)
        self.tell("answered", verb, **told)

    def delete(self) -> None:
        key = self.chance.choice(self.keys)
        self.tell("begun", "delete", key=key, stamp=self.stamp)
        if self.pages.delete(key):
            self.tell("answered", "delete", key=key, stamp=self.stamp)


def run(store_path: Path, shape: Shape, calls: int, marks_path: Path, *, now: int, threads: int) -> None:
    """Open a store and let the threads work on it. Stamps go on where earlier runs ended."""
    store = journal.open(store_path, durability=shape.durability, claims=shape.claims, clock=ManualClock(now))
    shape.journal(store)
    pages = store.journal(NAME, merge="merge")
    marks = os.open(marks_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    first = max((stamp for line in _lines(marks_path) for _, stamp in line.get("puts", [])), default=0)
    os.write(marks, b'{"when": "open", "verb": "open"}\n')
    workers = [Worker(number, pages, shape, marks, str(now)) for number in range(threads)]
    crew = [threading.Thread(target=worker.work, args=(calls, first), name=worker.name) for worker in workers]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    store.close()


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@dataclass(slots=True)
class Expected:
    """What the marks of all runs on a store say."""

    put: dict[str, int] = field(default_factory=dict)  # the highest stamp answered
    may_go: dict[str, int] = field(default_factory=dict)  # the highest stamp that some begun call may have taken away
    gone: dict[str, int] = field(default_factory=dict)  # the highest stamp answered as done or deleted
    leases: dict[int, str] = field(default_factory=dict)  # answered, and no call that ends it had begun

    def read(self, lines: Iterable[dict[str, Any]]) -> Expected:
        for line in lines:
            is_answer = line["when"] == "answered"
            for key, stamp in line.get("puts", []):
                if is_answer:
                    _raise(self.put, key, stamp)
            for key, stamp, token in line.get("leases", []):
                if line["verb"] == "claim":
                    self.leases[token] = key
                    continue
                self.leases.pop(token, None)
                if line["verb"] == "done":
                    _raise(self.may_go, key, stamp)
                    if is_answer:
                        _raise(self.gone, key, stamp)
            if line["verb"] == "delete":
                _raise(self.may_go, line["key"], line["stamp"])
                if is_answer:
                    _raise(self.gone, line["key"], line["stamp"])
        return self


def _raise(highest: dict[str, int], key: str, stamp: int) -> None:
    highest[key] = max(stamp, highest.get(key, 0))


def inspect(pages: journal.Journal, marks_path: Path) -> str | None:
    """What is wrong with a recovered journal; its leases are finished on the way, to see what waits behind them."""
    expected = Expected().read(_lines(marks_path))
    held = {lease.token: lease for lease in pages.leases()}
    for token, key in expected.leases.items():
        if token not in held:
            return f"the lease {token} of {key} was answered and is not held (C3)"
    there = {str(entry.key): entry.data["stamp"] for entry in pages.scan()}
    if problem := _resurrected(expected, there):
        return problem
    highest = dict(there)
    for lease in held.values():
        pages.done(lease.token)
    for entry in pages.scan():  # what waited behind a lease is the entry now
        highest[str(entry.key)] = max(entry.data["stamp"], highest.get(str(entry.key), 0))
    for key, stamp in expected.put.items():
        if highest.get(key, 0) < stamp and expected.may_go.get(key, 0) < stamp:
            return f"put {stamp} of {key} was answered; found {highest.get(key)}, and nothing had begun to take it away (C1)"
    return None


def _resurrected(expected: Expected, there: dict[str, int]) -> str | None:
    for key, stamp in expected.gone.items():
        if key in there and there[key] <= stamp:
            return f"{key} is there with stamp {there[key]}, though {stamp} was answered as done or deleted (C2)"
    return None
