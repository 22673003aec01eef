"""Calls over the socket: many clients that put durably, one client that makes one call at a time, and groups."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import journal
from benchmarks.measure import DATA, Contender, Times, interleave, say
from benchmarks.net import slowdisk
from benchmarks.net.clients import Crowd
from benchmarks.net.daemon import Daemon
from benchmarks.ours import JOURNAL
from benchmarks.peers import beanstalkd
from benchmarks.plan import Plan
from benchmarks.rows.calls import cycle_repeatedly, put_repeatedly
from benchmarks.table import Row

BATCH = 100
_numbers = itertools.count()


class Remote:
    """Our daemon, seen by one client as a peer: put, get, ack."""

    def __init__(self, address: str) -> None:
        self.store = journal.connect(address)
        self.journal = self.store.journal(JOURNAL)
        self._put = self.journal.put
        self._claim = self.journal.claim

    def put(self, data: bytes) -> None:
        self._put(f"page-{next(_numbers)}", data)

    def get(self) -> Any:
        return self._claim(consumer="bench")

    def ack(self, token: Any) -> None:
        token.done()

    def put_batches(self, batches: int) -> None:
        for _ in range(batches):
            for result in self.journal.put_many(fresh(BATCH)):
                if isinstance(result, Exception):
                    raise result

    def drain(self) -> None:
        """Take everything away."""
        while leases := self.journal.claim_many(1_000, consumer="bench", lease="1d"):
            self.journal.done_many(leases)

    def tidy(self) -> None:
        """Nothing is left behind."""

    def close(self) -> None:
        self.store.close()


def fresh(size: int) -> list[journal.Put]:
    return [journal.Put(f"page-{next(_numbers)}", DATA) for _ in range(size)]


@contextlib.contextmanager
def _daemon(path: Path, durability: str, before: Sequence[str] = ()) -> Iterator[Daemon]:
    daemon = Daemon(path, durability, before)
    try:
        yield daemon
    finally:
        daemon.close()


@contextlib.contextmanager
def _beanstalkd(path: Path, sync_ms: int, before: Sequence[str] = ()) -> Iterator[beanstalkd.Process]:
    path.mkdir()
    process = beanstalkd.Process(path, sync_ms, before)
    try:
        yield process
    finally:
        process.stop()


def durable(directory: Path, plan: Plan) -> list[Row]:
    """Many clients that put at `full`: those that come during a sync share the next one. On this disk, and on one that is slower."""
    rows = _durable(directory / "durable", plan, 0, "")
    what = f"syncs {slowdisk.DELAY_US} µs slower"
    why = slowdisk.missing()
    if why is not None:
        return [*rows, Row(f"full: {plan.clients} clients putting, {what}", "not measured", "", "", note=why)]
    return rows + _durable(directory / "slow", plan, slowdisk.DELAY_US, f", {what}")


def _durable(directory: Path, plan: Plan, delay_us: int, what: str) -> list[Row]:
    size, calls = plan.clients, plan.client_calls
    before = slowdisk.held_up(delay_us)
    say(f"{size} clients that put durably{what}")
    directory.mkdir()
    with (
        _daemon(directory / "ours", "full", before) as ours,
        _beanstalkd(directory / "beanstalkd", 0, before) as theirs,
        contextlib.ExitStack() as stack,
    ):
        addresses = {"ours": ours.tcp, "unix": ours.unix, "beanstalkd -f 0": f"beanstalkd:{theirs.port}"}
        crowds = {name: Crowd(address, size) for name, address in addresses.items()}
        for crowd in crowds.values():
            stack.callback(crowd.close)
        one = Remote(ours.tcp)
        stack.callback(one.close)
        first = one.store.statistics()
        contenders = [Contender(name, size * calls, partial(crowd.put, calls)) for name, crowd in crowds.items()]
        times = interleave(contenders, plan.client_rounds)
        shared = _puts_a_sync(first, one.store.statistics(), 2 * size * calls * (plan.client_rounds + 1))
    note = f"{_rates(times)}; {shared:.1f} puts share a sync"
    reference = times["beanstalkd -f 0"]
    return [
        Row.compare(f"full: {size} clients putting, TCP{what}", times["ours"], reference, 3.0, note=note),
        Row.compare(f"full: {size} clients putting, Unix socket against TCP{what}", times["unix"], reference, 3.0),
    ]


def _rates(times: dict[str, Times]) -> str:
    return ", ".join(f"{name} {1e6 / each.median_us:,.0f}/s" for name, each in times.items())


def _puts_a_sync(before: dict[str, Any], after: dict[str, Any], puts: int) -> float:
    syncs = [each["journals"][JOURNAL]["syncs"] for each in (before, after)]
    return puts / max(1, syncs[1] - syncs[0])


def single(directory: Path, plan: Plan) -> list[Row]:
    """One client, one call at a time, at `interval`: what a round trip costs."""
    calls = plan.unsynced_calls
    rows: list[Row] = []
    with (
        _daemon(directory / "single", "interval") as ours,
        _beanstalkd(directory / "single-beanstalkd", 50) as theirs,
        contextlib.ExitStack() as stack,
    ):
        clients: dict[str, Any] = {
            "TCP": Remote(ours.tcp),
            "Unix socket": Remote(ours.unix),
            "beanstalkd -f 50": beanstalkd.Connection(theirs.port),
        }
        for client in clients.values():
            stack.callback(client.close)
        # The cycles come first: they leave nothing behind, and no worker has a queue that the puts have filled.
        for what, repeat in (("put + claim + done", cycle_repeatedly), ("one put", put_repeatedly)):
            say(f"one client, {what}")
            contenders = [Contender(name, calls, partial(repeat, each, calls)) for name, each in clients.items()]
            times = interleave(contenders, plan.rounds)
            reference = times["beanstalkd -f 50"]
            rows += [
                Row.compare(f"interval: {what}, TCP", times["TCP"], reference, 0.5, note="its round trip is TCP too"),
                Row.compare(f"interval: {what}, Unix socket", times["Unix socket"], reference, 0.5),
            ]
    return rows


def groups(directory: Path, plan: Plan) -> list[Row]:
    """Groups of a hundred against single puts, both over TCP."""
    rows: list[Row] = []
    for durability in ("interval", "full"):
        say(f"{durability}: groups of {BATCH}")
        with _daemon(directory / f"groups-{durability}", durability) as ours:
            client = Remote(ours.tcp)
            times = interleave(
                [
                    Contender("ours", 10 * BATCH, partial(client.put_batches, 10)),
                    Contender("one at a time", plan.calls, partial(put_repeatedly, client, plan.calls)),
                ],
                plan.rounds,
            )
            client.close()
        rows.append(
            Row.compare(
                f"{durability}: put_many({BATCH}), TCP", times["ours"], times["one at a time"], 5.0, note="per entry"
            )
        )
    return rows
