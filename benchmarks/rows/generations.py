"""`python -m benchmarks generations`: what rotation, dropping and far-future entries cost workers that go on."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from pathlib import Path

import journal
from benchmarks.measure import DATA, Contender, interleave, percentile, say
from benchmarks.ours import JOURNAL, Ours, load
from benchmarks.plan import Plan
from benchmarks.table import Row, us

ROTATIONS = 10
"""While puts are timed."""
PERIODS_FEW, PERIODS_MANY, PERIOD_PUTS = 2, 50, 2_000
AHEAD_ROTATIONS, AHEAD_PUTS = 200, 50
GENERATIONS_MAX = 8


def generations(directory: Path, plan: Plan) -> list[Row]:
    return [_pauses(directory, plan), _disk(directory), *_far_ahead(directory, plan)]


def _pauses(directory: Path, plan: Plan) -> Row:
    """The p99 of a put while generations rotate and a large one is given up, against the p99 of quiet puts."""
    say(f"puts while generations rotate and {plan.many:,} entries are dropped")
    queue = Ours(directory / "rotating", "full")
    load(queue.journal, plan.many, "old")
    queue.store.checkpoint()
    queue.journal.rotate()
    for _ in range(plan.many // 10_000):
        queue.journal.done_many(queue.journal.claim_many(10_000))
    seconds = plan.pause_seconds
    last = queue.journal.claim_many(10_000)
    quiet = _puts(queue, seconds)

    def turn() -> None:
        queue.journal.done_many(last)
        for _ in range(ROTATIONS):
            queue.journal.rotate()
            time.sleep(seconds / ROTATIONS / 2)

    worker = threading.Thread(target=turn)
    worker.start()
    busy = _puts(queue, seconds)
    worker.join()
    left = [g.order for g in queue.journal.generations() if g.state == "draining" and g.order == 1]
    queue.close()
    p99 = [percentile(times, 0.99) for times in (busy, quiet)]
    note = f"longest {us(max(busy))}, quiet {us(max(quiet))}" + (", the large one is still there" if left else "")
    what = f"p99 of a put while {ROTATIONS} generations rotate and one of {plan.many:,} goes"
    return Row(what, us(p99[0]), "quiet puts", us(p99[1]), p99[0] / p99[1], None, 3.0, is_at_most=True, note=note)


def _puts(queue: Ours, seconds: float) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        queue.put(DATA)
        times.append((time.perf_counter() - started) * 1e6)
    return times


def _disk(directory: Path) -> Row:
    """A steady queue takes no more room after many rotations than after few."""
    say(f"the disk after {PERIODS_MANY} rotations")
    sizes = []
    for periods in (PERIODS_FEW, PERIODS_MANY):
        path = directory / f"periods-{periods}"
        with journal.open(path, durability="interval") as store:
            pages = store.journal(JOURNAL)
            for period in range(periods):
                load(pages, PERIOD_PUTS, str(period))
                pages.done_many(pages.claim_many(PERIOD_PUTS))
                pages.rotate()
            store.checkpoint()
        sizes.append(sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file()))
    ratio = sizes[1] / sizes[0]
    ours, theirs = (f"{size / 1e6:.2f} MB" for size in reversed(sizes))
    what = f"the disk of a steady queue after {PERIODS_MANY} rotations"
    return Row(what, ours, f"after {PERIODS_FEW}", theirs, ratio, None, 1.5, is_at_most=True)


def _far_ahead(directory: Path, plan: Plan) -> list[Row]:
    """Entries a year ahead, a few in each of many generations: few files, and claims as fast as without them."""
    say(f"{AHEAD_ROTATIONS * AHEAD_PUTS:,} entries a year ahead over {AHEAD_ROTATIONS} rotations")
    ahead, plain = Ours(directory / "ahead", "interval"), Ours(directory / "plain", "interval")
    ahead.store.journal(JOURNAL, generations_max=GENERATIONS_MAX)
    most = 0
    for period in range(AHEAD_ROTATIONS):
        load(ahead.journal, AHEAD_PUTS, f"ahead-{period}", delay="365d")
        ahead.journal.rotate()
        most = max(most, _files(directory / "ahead" / JOURNAL))
    calls = plan.unsynced_calls

    def work(queue: Ours) -> None:
        for _ in range(calls):
            queue.ack(queue.get())

    def contender(name: str, queue: Ours) -> Contender:
        load_more = partial(_waiting, queue, calls)
        load_more()
        return Contender(name, calls, partial(work, queue), load_more)

    times = interleave([contender("ahead", ahead), contender("none ahead", plain)], plan.rounds)
    what = f"claim + done, {AHEAD_ROTATIONS * AHEAD_PUTS:,} entries a year ahead"
    speed = Row.compare(what, times["ahead"], times["none ahead"], 0.7)
    files = Row("the most files with rows over these rotations", str(most), "", "", float(most), None,
                float(GENERATIONS_MAX), is_at_most=True, unit="files")  # fmt: skip
    ahead.close()
    plain.close()
    return [files, speed]


def _waiting(queue: Ours, size: int) -> None:
    queue.journal.put_many(queue.fresh(size))


def _files(top: Path) -> int:
    return sum(1 for name in os.listdir(top) if name.isdigit() and (top / name / "rows.mdb").exists())
