"""
Producers and consumers, each a process with a connection of its own, that note all they ask and are answered.

X1  A client goes on through every error of ours, as a backend would: it asks for something else, and comes back when it is let in again.
X2  A key is put by one call; only after an unknown answer the same call is made again, now and then, as a careful program may do.
X3  A client ends when it finds something in its pipe, and only between two calls; or when it is killed.
X4  SIGUSR1 cuts its connection, in the middle of whatever it does.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import journal
from journal.errors import JournalError
from journal.net.client.connect import connect
from journal.net.client.connection.options import Backoff
from tests.jepsen.history import History, described, outcome_of

NAME = "pages"
LEASES_MS = (150, 250, 400, 600)
DELAYS_MS = (0, 0, 0, 0, 30, 150)
BACKOFF = Backoff(first="20ms", most="150ms", total="20s")
CRASHED = 70


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client connects, and as whom."""

    address: str
    token: str | None = None
    timeout: str = "10s"


class Client:
    """What producers and consumers share."""

    def __init__(self, name: str, place: Place, history: History, chance: random.Random, end: int) -> None:
        self.name = name
        self.place = place
        self.history = history
        self.chance = chance
        self._end = end
        self._store: journal.Store | None = None
        signal.signal(signal.SIGUSR1, self._cut)

    def is_over(self, wait_s: float = 0.0) -> bool:
        """Whether to end; waits a while for it."""
        return bool(select.select([self._end], [], [], wait_s)[0])

    def _cut(self, signum: int, frame: object) -> None:
        wire = None if self._store is None else self._store._backend.link._wire
        if wire is not None:
            wire.interrupt()

    def run(self) -> None:
        """Until it is over (X3)."""
        while not self.is_over():
            try:
                with connect(
                    self.place.address, token=self.place.token, name=self.name, timeout=self.place.timeout, wait="2s",
                    backoff=BACKOFF,
                ) as self._store:  # fmt: skip
                    self._work(self._store)
            except JournalError as e:
                self.history.note("connect", error=described(e))
                self.is_over(0.05)

    def _work(self, store: journal.Store) -> None:
        pages = store.journal(NAME)
        while not self.is_over(self.pause()):
            self.step(pages)

    def pause(self) -> float:
        """How long to wait before the next step."""
        raise NotImplementedError

    def step(self, pages: Any) -> None:
        """One or a few calls."""
        raise NotImplementedError


class Producer(Client):
    """Puts, creates and puts groups."""

    def __init__(self, *given: Any, rate_s: float) -> None:
        super().__init__(*given)
        self._number = 0
        self._rate_s = rate_s

    def pause(self) -> float:
        return self.chance.random() * 2 * self._rate_s

    def step(self, pages: Any) -> None:
        kind = self.chance.random()
        if kind < 0.5:
            key, how = self._key(), self._how()
            self._put("put", [key], lambda: [pages.put(key, self._data(key), **how)])
        elif kind < 0.75:
            self._create(pages)
        else:
            keys = [self._key() for _ in range(self.chance.randint(2, 10))]
            puts = [journal.Put(key, self._data(key), delay=self._delay()) for key in keys]
            self._put("put_many", keys, lambda: pages.put_many(puts))

    def _key(self) -> str:
        self._number += 1
        return f"{self.name}.{os.getpid()}.{self._number}"

    def _data(self, key: str) -> dict[str, Any]:
        return {"key": key, "filler": "x" * (len(key) * 37 % 500)}

    def _delay(self) -> int | None:
        return self.chance.choice(DELAYS_MS) or None

    def _how(self) -> dict[str, Any]:
        return {
            "delay": self._delay(),
            "priority": self.chance.choice((10, 100, 100, 210)),
            "durability": self.chance.choice((None, None, None, "full", "interval")),
        }

    def _create(self, pages: Any) -> None:
        key, how = self._key(), self._how()
        data = self._data(key)
        self._put("create", [key], lambda: [pages.create(key, data, **how)])
        if self.history.outcome == "unknown" and self.chance.random() < 0.7:
            self._put("create", [key], lambda: [pages.create(key, data, **how, is_repeatable=True)])  # X2

    def _put(self, verb: str, keys: list[str], make: Callable[[], list[Any]]) -> None:
        self.history.call(verb, [[key] for key in keys], make, lambda results: list(map(_told, results)))


def _told(result: Any) -> list[Any]:
    if isinstance(result, BaseException):
        return ["error", described(result), outcome_of(result)]
    return [result.outcome, result.cursor.order, result.cursor.offset]


class Consumer(Client):
    """Claims, and finishes what it gets; or gives it back, or is too late, or forgets it."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._is_idle = False

    def pause(self) -> float:
        return 0.01 if self._is_idle else 0.0

    def step(self, pages: Any) -> None:
        kind, lease = self.chance.random(), self.chance.choice(LEASES_MS)
        if kind < 0.55:
            leases = self._take("claim", lambda: [pages.claim(consumer=self.name, lease=lease)])
        elif kind < 0.97:
            n = self.chance.randint(2, 12)
            leases = self._take("claim_many", lambda: pages.claim_many(n, consumer=self.name, lease=lease))
        else:
            leases = self._take("leases", lambda: pages.leases(consumer=self.name))
        self._is_idle = not leases
        if len(leases) > 1 and self.chance.random() < 0.6:
            self._done_many(pages, leases)
        else:
            for each in leases:
                self._handle(pages, each)

    def _take(self, verb: str, make: Callable[[], list[Any]]) -> list[Any]:
        found = self.history.call(verb, [], make, lambda leases: [leased(each) for each in leases if each is not None])
        return [] if found is None else [each for each in found if each is not None]

    def _done_many(self, pages: Any, leases: list[Any]) -> None:
        asked = [[each.key, each.token] for each in leases]
        self.history.call(
            "done_many", asked, lambda: pages.done_many(leases), lambda errors: [e and described(e) for e in errors]
        )

    def _handle(self, pages: Any, lease: Any) -> None:
        kind = self.chance.random()
        if kind < 0.06:
            return  # it is forgotten, and lost when its deadline passes
        asked = [[lease.key, lease.token]]
        if kind < 0.14:
            delay = self.chance.choice((None, None, 50))
            self.history.call("release", asked, lambda: lease.release(delay=delay), _nothing)
            return
        if kind < 0.18:
            self.is_over(0.2)  # it takes its time, and may come too late
        elif kind < 0.26:
            self.history.call("extend", asked, lambda: lease.extend("400ms"), lambda deadline: [deadline])
        self.history.call("done", asked, lease.done, _nothing)


def leased(lease: Any) -> list[Any]:
    """A lease in a history."""
    data = lease.data["key"] if isinstance(lease.data, dict) else repr(lease.data)
    return [lease.key, lease.token, lease.version, lease.start, lease.deadline, data]


def _nothing(_: None) -> list[Any]:
    return []


def start(name: str, number: int, place: Place, folder: Path, seed: str, *, rate_s: float) -> tuple[int, int]:
    """Fork a client: its pid, and a pipe; whatever is written to it ends the client."""
    end, control = os.pipe()
    pid = os.fork()
    if pid:
        os.close(end)
        return pid, control
    code = CRASHED
    try:
        os.close(control)
        chance = random.Random(f"{seed}:{name}:{number}")
        history = History(folder / f"{name}~{number}.jsonl")
        given = name, place, history, chance, end
        client = Producer(*given, rate_s=rate_s) if name.startswith("producer") else Consumer(*given)
        client.run()
        code = 0
    except BaseException:  # noqa: BLE001 - it is told, and the round fails
        (folder / f"{name}~{number}.crash").write_text(traceback.format_exc())
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
