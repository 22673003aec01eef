"""One call at a time: a put, and a put with its claim and its done, beside the raw limit and the peers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.measure import DATA, Contender, Times, interleave, say
from benchmarks.ours import Ours, written_bytes
from benchmarks.peers import SETTINGS, Peer, Setting
from benchmarks.plan import Plan
from benchmarks.raw import RawLog
from benchmarks.table import Measured, Row

OURS = "ours"
RAW = "pwrite + fdatasync"


def put_repeatedly(queue: Peer, times: int) -> None:
    for _ in range(times):
        queue.put(DATA)


def cycle_repeatedly(queue: Peer, times: int) -> None:
    for _ in range(times):
        queue.put(DATA)
        queue.ack(queue.get())


Loop = Callable[[Peer, int], None]


def synced(directory: Path, plan: Plan) -> tuple[list[Row], list[Measured]]:
    """`full` against the raw limit and the peers that sync each call."""
    say("one put, synced")
    with _open_all(directory / "put-full", "full", is_durable=True) as queues:
        record_bytes = record_bytes_of(queues[OURS])
        raw = RawLog(directory / "raw.log", record_bytes)
        raw_contender = Contender(RAW, plan.calls, lambda: raw.append_repeatedly(plan.calls))
        puts = interleave([raw_contender, *_contenders(queues, put_repeatedly, plan.calls)], plan.rounds)
        raw.close()
    say("put + claim + done, synced")
    with _open_all(directory / "cycle-full", "full", is_durable=True) as queues:
        cycles = interleave(_contenders(queues, cycle_repeatedly, plan.calls), plan.rounds)
    note = f"{record_bytes} bytes a record"
    rows = [
        Row.compare("full: one put", puts[OURS], puts[RAW], 0.75, note=note),
        Row.best_of("full: one put, best durable peer", puts[OURS], _peers(puts), 1.3),
        _cycle_row("full: put + claim + done, best durable peer", cycles, 1.6),
    ]
    return rows, [*_measured("put", puts, "full", True), *_measured("put + get + ack", cycles, "full", True)]


def unsynced(directory: Path, plan: Plan) -> tuple[list[Row], list[Measured]]:
    """`interval` against the peers that do not sync each call."""
    calls = plan.unsynced_calls
    say("one put, not synced")
    with _open_all(directory / "put-interval", "interval", is_durable=False) as queues:
        puts = interleave(_contenders(queues, put_repeatedly, calls), plan.rounds)
    say("put + claim + done, not synced")
    with _open_all(directory / "cycle-interval", "interval", is_durable=False) as queues:
        cycles = interleave(_contenders(queues, cycle_repeatedly, calls), plan.rounds)
    rows = [
        Row.best_of("interval: one put, best peer without fsync", puts[OURS], _peers(puts), 2.0),
        _cycle_row("interval: put + claim + done, best without fsync", cycles, 2.0),
    ]
    return rows, [*_measured("put", puts, "interval", False), *_measured("put + get + ack", cycles, "interval", False)]


def peers_only(directory: Path, plan: Plan) -> list[Measured]:
    """The peers without us."""
    found: list[Measured] = []
    for is_durable in (True, False):
        calls = plan.calls if is_durable else plan.unsynced_calls
        for what, loop in (("put", put_repeatedly), ("put + get + ack", cycle_repeatedly)):
            say(f"peers, {what}, {'synced' if is_durable else 'not synced'}")
            with _open_peers(directory / f"{loop.__name__}-{is_durable}", is_durable) as queues:
                times = interleave(_contenders(queues, loop, calls), plan.rounds) if queues else {}
                found += _measured(what, times, "", is_durable)
    return found


def record_bytes_of(ours: Peer) -> int:
    """What one put writes: the least of a few, as a checkpoint or new log space may write beside it."""
    sizes = []
    for _ in range(20):
        before = written_bytes()
        ours.put(DATA)
        sizes.append(written_bytes() - before)
    return min(sizes)


@contextlib.contextmanager
def _open_all(directory: Path, durability: str, *, is_durable: bool) -> Iterator[dict[str, Peer]]:
    directory.mkdir()
    with contextlib.ExitStack() as stack:
        ours = Ours(directory / "ours", durability)
        stack.callback(ours.close)
        yield {OURS: ours, **stack.enter_context(_open_peers(directory / "peers", is_durable))}


@contextlib.contextmanager
def _open_peers(directory: Path, is_durable: bool) -> Iterator[dict[str, Peer]]:
    queues: dict[str, Peer] = {}
    with contextlib.ExitStack() as stack:
        for number, setting in enumerate(_installed(is_durable)):
            place = directory / str(number)
            place.mkdir(parents=True)
            queues[setting.name] = setting.open(place)
            stack.callback(queues[setting.name].close)
        yield queues


def _installed(is_durable: bool) -> list[Setting]:
    return [setting for setting in SETTINGS if setting.is_durable == is_durable and setting.missing() is None]


def _contenders(queues: dict[str, Peer], loop: Loop, calls: int) -> list[Contender]:
    return [Contender(name, calls, partial(loop, queue, calls), queue.tidy) for name, queue in queues.items()]


def _peers(times: dict[str, Times]) -> list[Times]:
    return [one for name, one in times.items() if name not in (OURS, RAW)]


def _cycle_row(what: str, cycles: dict[str, Times], target: float) -> Row:
    """The best peer that does the same work, put + get + ack; the note names those that have no ack and do less."""
    without_ack = {setting.name for setting in SETTINGS if not setting.has_ack}
    less_work = [Row.compare(what, cycles[OURS], peer, target) for peer in _peers(cycles) if peer.name in without_ack]
    note = ", ".join(f"{row.against}, which has no ack: {row.ratio:.2f} ×" for row in less_work)
    with_ack = [peer for peer in _peers(cycles) if peer.name not in without_ack]
    return Row.best_of(what, cycles[OURS], with_ack, target, note=note)


def _measured(what: str, times: dict[str, Times], durability: str, is_durable: bool) -> list[Measured]:
    found = [_one(what, times[name], durability if name == OURS else "synced") for name in (OURS, RAW) if name in times]
    for setting in SETTINGS:
        if setting.is_durable != is_durable:
            continue
        if setting.name in times:
            found.append(_one(what, times[setting.name], setting.durability))
        else:
            found.append(Measured(what, setting.name, setting.durability, note=setting.missing() or ""))
    return found


def _one(what: str, times: Times, durability: str) -> Measured:
    return Measured(what, times.name, durability, times.median_us, times.mean_us)
