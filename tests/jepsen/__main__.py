"""
The queue checker: `python -m tests.jepsen [rounds] --rounds 20`, `python -m tests.jepsen mutants`, `python -m tests.jepsen fuzz`.

Each prints its progress, and exits with 1 when a promise was broken, with the way to see it again.
"""

from __future__ import annotations

import argparse
import sys

from tests.jepsen import fuzz, mutants, rounds

CAMPAIGNS = {
    "rounds": (
        rounds,
        "clients of a disturbed daemon: nothing lost, nothing unexpected, nothing twice without a reason",
    ),
    "mutants": (mutants, "break the daemon on purpose: the checker must notice"),
    "fuzz": (fuzz, "malformed frames and lines: no crash, no growth, others are served"),
}


def main() -> int:
    """From the command line; without a name it is the rounds."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.jepsen", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="campaign", required=True)
    for name, (module, text) in CAMPAIGNS.items():
        command = commands.add_parser(
            name, help=text, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(command)
        command.set_defaults(main=module.main)
    arguments = sys.argv[1:]
    if not arguments or (arguments[0] not in CAMPAIGNS and arguments[0] not in ("-h", "--help")):
        arguments.insert(0, "rounds")
    given = parser.parse_args(arguments)
    return int(given.main(given))


if __name__ == "__main__":
    sys.exit(main())
