"""
The checker proves itself: daemons that are wrong on purpose, each of which it must catch, by the promise that is broken.

A mutant is a patch, made in the process of the daemon before it serves: `python -m tests.jepsen.mutants NAME serve STORE …`. When the
daemon changes and a patch no longer fits, `install` fails loudly, and so does the round.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from tests.crash.mutants import replace

Wrong = Callable[[Callable[..., Any]], Callable[..., Any]]


def patch(command: str, make: Wrong) -> None:
    """Another handler for a command."""
    from journal.net.server.verbs.handlers import HANDLERS

    HANDLERS[command] = make(HANDLERS[command])


def sometimes(every: int) -> Callable[[], bool]:
    """True each so many times."""
    numbers = count(1)
    return lambda: next(numbers) % every == 0


def not_durable() -> None:
    """Nothing is handed to the system before it is answered: kill -9 takes what the process had in its buffer."""
    import journal.engine.store
    from journal.engine.log.durability import NONE

    assert journal.engine.store
    replace("journal.engine.log.durability:level_named", lambda _real: lambda _name: NONE)


def forget_put() -> None:
    """Now and then a put is answered and thrown away."""
    is_time = sometimes(60)

    def make(real: Any) -> Any:
        def put(served: Any, given: Any, grant: Any) -> Any:
            result = real(served, given, grant)
            if is_time():
                served.journal.delete(given["key"])
            return result

        return put

    patch("PUT", make)


def two_holders() -> None:
    """Now and then an entry under a lease is free for others."""
    is_time = sometimes(40)

    def make(real: Any) -> Any:
        def claim(served: Any, given: Any, grant: Any) -> Any:
            result = real(served, given, grant)
            if result["lease"] is not None and is_time():
                served.journal.release(result["lease"][5])
            return result

        return claim

    patch("CLAIM", make)


def sessions_forget() -> None:
    """What is asked again is made again."""
    from journal.net.wire.sessions import Standing

    replace("journal.net.wire.sessions:Session.begin", lambda _real: lambda *_: Standing.NEW)


def forget_done() -> None:
    """Now and then a done is answered and not made."""
    is_time = sometimes(40)

    def make(real: Any) -> Any:
        return lambda *given: None if is_time() else real(*given)

    patch("DONE", make)


def full_is_fine() -> None:
    """A put that finds no room is answered as if there were some."""
    from journal.errors import StoreFull

    def make(real: Any) -> Any:
        last: list[Any] = []

        def put(*given: Any) -> Any:
            try:
                last[:] = real(*given)
            except StoreFull:
                if not last:
                    raise
            return list(last)

        return put

    patch("PUT", make)


def tokens_again() -> None:
    """Tokens begin anew with each start."""

    def make(real: Any) -> Any:
        def init(self: Any, *given: Any, **more: Any) -> None:
            real(self, *given, **more)
            self.opening = 1

        return init

    replace("journal.engine.catalog:Catalog.__init__", make)


def other_data() -> None:
    """Now and then a lease has the data of the one before."""
    is_time = sometimes(40)

    def make(real: Any) -> Any:
        last = b""

        def claim(*given: Any) -> Any:
            nonlocal last
            result = real(*given)
            if result["lease"] is not None:
                own = result["lease"][1]
                if last and is_time():
                    result["lease"][1] = last
                last = own
            return result

        return claim

    patch("CLAIM", make)


def refused_and_done() -> None:
    """Now and then a put is refused, and made all the same."""
    from journal.errors import StoreFull

    is_time = sometimes(60)

    def make(real: Any) -> Any:
        def put(*given: Any) -> Any:
            result = real(*given)
            if is_time():
                raise StoreFull("it is said that there is no room")
            return result

        return put

    patch("PUT", make)


def short_leases() -> None:
    """Leases end sooner than their holders are told."""

    def make(real: Any) -> Any:
        def claim(served: Any, given: Any, grant: Any) -> Any:
            result = real(served, {**given, "lease": max(1, given["lease"] // 4)}, grant)
            if result["lease"] is not None:
                result["lease"][4] += given["lease"] * 3 // 4
            return result

        return claim

    patch("CLAIM", make)


@dataclass(frozen=True, slots=True)
class Mutant:
    """How the daemon is broken, and which promise with it."""

    install: Callable[[], None]
    promise: str
    only: tuple[str, ...]
    """What disturbs it."""


MUTANTS: dict[str, Mutant] = {
    "not-durable": Mutant(not_durable, "Q1", ("kill",)),
    "forgets-put": Mutant(forget_put, "Q1", ("cut",)),
    "two-holders": Mutant(two_holders, "Q3", ("cut",)),
    "sessions-forget": Mutant(sessions_forget, "Q5", ("cut",)),
    "forgets-done": Mutant(forget_done, "Q4", ("cut",)),
    "full-is-fine": Mutant(full_is_fine, "Q1", ("fill",)),
    "tokens-again": Mutant(tokens_again, "Q6", ("kill", "stop")),
    "other-data": Mutant(other_data, "Q2", ("cut",)),
    "refused-and-done": Mutant(refused_and_done, "Q2", ("cut",)),
    "short-leases": Mutant(short_leases, "Q3", ("late",)),
}


def is_caught(name: str, seed: int, rounds: int, seconds: float) -> str | None:
    """Let the checker loose on a mutant; what it said about the promise that is broken, or None when it noticed nothing."""
    from tests.jepsen.rounds import campaign

    mutant = MUTANTS[name]
    found = campaign(rounds, seed, seconds, mutant=name, only=mutant.only)
    return next((line for line in found if line.startswith(mutant.promise)), None)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the campaign."""
    parser.add_argument(
        "--only", choices=sorted(MUTANTS), action="append", help="one mutant; may be repeated (default: all)"
    )
    parser.add_argument("--seed", type=int, default=1, help="where the random choices begin (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of disturbance in a round (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=8, help="give up on a mutant after so many (default %(default)s)")


def main(given: argparse.Namespace) -> int:
    """From the command line."""
    missed = []
    for name in given.only or MUTANTS:
        found = is_caught(name, given.seed, given.rounds, given.seconds)
        print(f"mutants: {name} " + (f"caught: {found[:160]}" if found else "WAS NOT NOTICED"), flush=True)
        missed += [] if found else [name]
    if missed:
        print(f"VIOLATION: the checker does not see {missed}")
        print(f"  reproduce: python -m tests.jepsen mutants --only {missed[0]} --seed {given.seed}")
    return 1 if missed else 0


if __name__ == "__main__":
    from journal.cli import main as cli

    MUTANTS[sys.argv[1]].install()
    sys.exit(cli(sys.argv[2:]))
