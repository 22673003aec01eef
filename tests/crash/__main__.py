"""
The crash campaigns: `python -m tests.crash kill|power|faults|interrupt|mutants|damage|soak`.

Each prints its progress, and exits with 1 when a promise was broken, with the way to see it again.
"""

from __future__ import annotations

import argparse
import sys

from tests.crash import damage, faults, interrupt, kill, mutants, power, soak
from tests.crash.campaign import quiet

CAMPAIGNS = {
    "kill": (kill, "kill -9 a working child at random and at named points, reopen, compare"),
    "power": (power, "simulate power cuts over a recording of the system calls"),
    "faults": (faults, "let the k-th system call fail, for every k"),
    "interrupt": (interrupt, "Ctrl-C at random moments in every verb, beside threads that work"),
    "mutants": (mutants, "break the engine on purpose: the campaigns must notice"),
    "damage": (damage, "flip bits, zero pages and cut files: named errors, never other data"),
    "soak": (soak, "work for a long time with everything at once: memory and descriptors stay flat"),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="campaign", required=True)
    for name, (module, text) in CAMPAIGNS.items():
        command = commands.add_parser(
            name, help=text, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        command.add_argument("--seed", type=int, default=1, help="where the random choices begin (default %(default)s)")
        module.add_arguments(command)
        command.set_defaults(main=module.main)
    given = parser.parse_args()
    quiet()
    return int(given.main(given))


if __name__ == "__main__":
    sys.exit(main())
