"""
One round: an empty store, a daemon, four producers and four consumers, disturbances, peace, a drain, and the verdict. And many rounds.

R1  A round ends with all that was put worked off: what is left comes out in the drain, so nothing can hide.
R2  The store is checked whole (`check(deep=True)`), over the wire and after the daemon has ended in good order.
R3  A daemon that does not come up, a client that hangs, a drain that finds no end: each is a violation too.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import journal
from journal.net.client.connect import connect
from tests.crash.campaign import Progress, keep
from tests.crash.scratch import scratch
from tests.jepsen.checker import Verdict, judge
from tests.jepsen.clients import BACKOFF, NAME, Place, leased
from tests.jepsen.history import History, described, read_histories
from tests.jepsen.nemesis import Crew, Member, Nemesis
from tests.jepsen.serving import Failed, Serving

SECONDS = 1.6
PRODUCERS = CONSUMERS = 4
DRAIN_S = 20.0
END_S = 40.0
RATE_S = 0.004
"""A producer waits so long between two calls, on the average: consumers keep up, and the history stays readable."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a round goes."""

    number: int
    seed: int
    seconds: float = SECONDS
    mutant: str | None = None
    only: tuple[str, ...] = ()
    """Which disturbances; none named: all."""
    options: tuple[str, ...] = ()
    """More arguments of `journal serve`."""

    @property
    def chance(self) -> random.Random:
        """Its random choices."""
        return random.Random(f"jepsen:{self.seed}:{self.number}")


@dataclass(slots=True)
class Outcome:
    """What became of a round."""

    verdict: Verdict
    disturbed: list[str]


def play(plan: Plan, folder: Path) -> Outcome:
    """One round in an empty folder."""
    chance = plan.chance
    disturbed: list[str] = []
    serving = Serving(folder / "store", options=plan.options, mutant=plan.mutant, seed=plan.seed + plan.number)
    problems: list[str] = []
    still_there: list[str] = []
    with ExitStack() as at_end:
        at_end.callback(serving.close)
        history = History(folder / "drain~0.jsonl")
        at_end.callback(history.close)
        try:
            serving.start()
            _declare(serving, is_merged=chance.random() < 0.3)
            crew = Crew(_members(serving, chance), folder, f"{plan.seed}:{plan.number}", RATE_S)
            at_end.callback(crew.close)
            nemesis = Nemesis(serving, crew, history, chance)
            disturbed = nemesis.done
            nemesis.run(plan.seconds, plan.only)
            by = monotonic() + END_S
            crew.end("producer", by)
            crew.end("consumer", by)
            problems += _drain(serving, history)
            serving.stop()
            still_there = _look(folder / "store", problems)
        except Failed as e:
            problems.append(str(e))
    ops, notes = read_histories(sorted(folder.glob("*.jsonl")))
    verdict = judge(ops, notes, still_there)
    for problem in [*problems, *serving.troubles()]:
        verdict.blame("Q8", problem)
    return Outcome(verdict, disturbed)


def _declare(serving: Serving, *, is_merged: bool) -> None:
    with connect(serving.unix, wait="5s") as store:
        store.journal(NAME, timeouts_max=255, **({"merged": True} if is_merged else {}))


def _members(serving: Serving, chance: random.Random) -> list[Member]:
    """Half of them over TCP with a token, half over the Unix socket; some are impatient."""
    members: list[Member] = []
    for kind, number in (("producer", PRODUCERS), ("consumer", CONSUMERS)):
        for n in range(number):
            timeout = chance.choice(("10s", "10s", "300ms"))
            place = Place(serving.tcp, serving.token, timeout) if n % 2 else Place(serving.unix, None, timeout)
            members.append(Member(f"{kind}-{n}", place))
    return members


def _drain(serving: Serving, history: History) -> list[str]:
    """Work off what is left, and have the daemon check itself; what is wrong."""
    try:
        with connect(serving.unix, name="drain", wait="5s", backoff=BACKOFF) as store:
            pages = store.journal(NAME)
            by = monotonic() + DRAIN_S
            while pages.count():
                if monotonic() > by:
                    return [
                        f"after {DRAIN_S} s of draining {pages.count()} entries are left: {pages.select(limit=5).entries}"
                    ]
                _drain_some(pages, history)
            return [f"check over the wire: {problem}" for problem in store.check(deep=True)] + _flags(store)
    except journal.JournalError as e:
        return [f"the drain failed: {described(e)}"]


def _drain_some(pages: Any, history: History) -> None:
    def claim() -> list[Any]:
        found: list[Any] = pages.claim_many(200, consumer="drain", lease="10s")
        return found

    leases = history.call("claim_many", [], claim, lambda found: [leased(each) for each in found])
    if leases:
        asked = [[each.key, each.token] for each in leases]
        history.call(
            "done_many", asked, lambda: pages.done_many(leases), lambda errors: [e and described(e) for e in errors]
        )


def _flags(store: journal.Store) -> list[str]:
    return [f"a flag was raised: {flag}" for flag in store.flags() if flag.name != "store-full"]


def _look(path: Path, problems: list[str]) -> list[str]:
    """The store as the daemon left it (R2): what is wrong, and the keys that are still there."""
    try:
        with journal.open(path) as store:
            problems += [f"check after the end: {problem}" for problem in store.check(deep=True)]
            pages = store.journal(NAME)
            return [*(str(entry.key) for entry in pages.scan()), *(str(each.entry.key) for each in pages.buried())]
    except journal.JournalError as e:
        problems.append(f"the store cannot be opened after the end: {described(e)}")
        return []


# --- many rounds ------------------------------------------------------------------------------------------------------


def campaign(
    rounds: int, seed: int, seconds: float, *, mutant: str | None = None, only: tuple[str, ...] = (), is_kept: bool = False,
    options: tuple[str, ...] = (), first: int = 0,
) -> list[str]:  # fmt: skip
    """So many rounds; the first violations end it, and are returned with the way to see them again."""
    progress = Progress("jepsen")
    counts: Counter[str] = Counter()
    repeated: Counter[str] = Counter()
    disturbed: Counter[str] = Counter()
    for number in range(first, first + rounds):
        with scratch("jepsen", is_fast=False) as place:
            plan = Plan(number, seed, seconds, mutant, only, options)
            outcome = play(plan, place)
            verdict = outcome.verdict
            counts += verdict.counts
            repeated += verdict.repeated
            disturbed.update(outcome.disturbed)
            evidence = keep(place, "jepsen") if is_kept or not verdict.is_good else None
        if not verdict.is_good:
            again = f"python -m tests.jepsen --first {number} --rounds 1 --seed {seed} --seconds {seconds}"
            again += f" --mutant {mutant}" if mutant else ""
            return [
                *verdict.lines(),
                f"round {number}, {' '.join(outcome.disturbed)}",
                f"reproduce: {again}",
                f"evidence in {evidence}",
            ]
        progress.tell(
            f"{number + 1 - first} of {rounds} rounds, {counts['puts ok']} puts acknowledged, {sum(disturbed.values())} disturbances"
        )
    progress.tell(report(rounds, counts, repeated, disturbed), is_last=True)
    return []


def report(rounds: int, counts: Counter[str], repeated: Counter[str], disturbed: Counter[str]) -> str:
    """A campaign in figures."""
    return (
        f"{rounds} rounds: {counts['puts ok']} puts acknowledged, {counts['puts unknown']} unknown, {counts['puts fail']} refused; "
        f"{counts['leases']} leases; lost 0, unexpected 0, shared 0; handed out again after: "
        + (", ".join(f"{reason} {n}" for reason, n in sorted(repeated.items())) or "nothing")
        + "; disturbed: "
        + ", ".join(f"{name} {n}" for name, n in sorted(disturbed.items()))
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the campaign."""
    parser.add_argument("--rounds", type=int, default=20, help="how many (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="where the random choices begin (default %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="of disturbance in a round (default %(default)s)"
    )
    parser.add_argument(
        "--only", action="append", default=[], help="one kind of disturbance; may be repeated (default: all)"
    )
    parser.add_argument("--mutant", help="break the daemon in this way: it must be found")
    parser.add_argument("--keep", action="store_true", help="keep the stores and histories of all rounds")


def main(given: argparse.Namespace) -> int:
    """From the command line."""
    broken = campaign(
        given.rounds,
        given.seed,
        given.seconds,
        mutant=given.mutant,
        only=tuple(given.only),
        is_kept=given.keep,
        first=given.first,
    )
    for line in broken:
        print(f"VIOLATION: {line}" if line.startswith("Q") else f"  {line}")
    return 1 if broken else 0
