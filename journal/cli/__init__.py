"""
The command line: `journal COMMAND STORE …`, every command with --json. One file a command.

Exit codes: 0 it worked; 1 refused, not found, or damage was found; 2 the arguments are wrong; 3 nothing is due.
"""

from __future__ import annotations

import argparse
import json
import sys

import journal
from journal.cli import bury, check, claim, done, flags, generations, ls, peek, put, release, retry, rotate, stat
from journal.errors import Invalid, JournalError

COMMANDS = (put, peek, ls, claim, done, release, bury, retry, stat, flags, check, generations, rotate)


def parser() -> argparse.ArgumentParser:
    """All commands with their arguments."""
    top = argparse.ArgumentParser(
        prog="journal",
        description="An embedded, durable journal of work to do.",
        epilog="See also: journal COMMAND --help",
    )
    top.add_argument("--version", action="version", version=f"journal {journal.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        summary = (module.__doc__ or "").strip()
        sub = commands.add_parser(
            module.__name__.rsplit(".", 1)[1], help=summary.splitlines()[0], description=summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        sub.add_argument("store", metavar="STORE", help="the store's directory")
        module.arguments(sub)
        sub.add_argument("--json", action="store_true", help="print JSON, one object a line")
        sub.set_defaults(run=module.run)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    args = parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except JournalError as e:
        if args.json:
            print(json.dumps({"error": type(e).__name__, "message": str(e)}), file=sys.stderr)
        else:
            print(f"journal: {e}", file=sys.stderr)
        return 2 if isinstance(e, Invalid) else 1
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); what is left to print has no reader.
        sys.stderr.close()
        return 0
    return code
