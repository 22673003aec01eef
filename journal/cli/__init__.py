"""
The command line: `journal COMMAND STORE …`, every command with --json. What a command is: see journal.cli.command.

Commands of other packages come by entry points: the group "journal.commands" names modules. They are looked for when the
word is none of ours, and when help is asked for, so that no other command waits for them.

Exit codes: 0 it worked; 1 refused, not found, or damage was found; 2 the arguments are wrong; 3 nothing is due.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points

import journal
from journal.cli import feed, forecast, log, serve, tokens
from journal.cli.command import CliCommand, command_of
from journal.cli.entries import ls, peek, put
from journal.cli.journals import compact, generations, pause, resume, rotate
from journal.cli.leases import bury, claim, done, release, retry
from journal.cli.store import backup, check, drop, flags, restore, stat
from journal.errors import Invalid, JournalError

COMMANDS = (
    put, peek, ls, claim, done, release, bury, retry, stat, flags, check, generations, rotate, pause, resume, compact,
    *map(command_of, (log, feed)), drop, *map(command_of, (forecast, serve, tokens)), backup, restore,
)  # fmt: skip
GROUP = "journal.commands"


def parser(word: str | None = None) -> argparse.ArgumentParser:
    """All commands with their arguments; those of other packages unless `word` is a command of ours."""
    top = argparse.ArgumentParser(
        prog="journal",
        description="An embedded, durable journal of work to do.",
        epilog="See also: journal COMMAND --help",
    )
    top.add_argument("--version", action="version", version=f"journal {journal.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    ours = {command.name for command in COMMANDS}
    for command in [*COMMANDS, *(_others() if word not in ours else ())]:
        command.add_to(commands)
    return top


def _others() -> Iterator[CliCommand]:
    """The commands of other packages; one that cannot be imported is left out."""
    for point in sorted(entry_points(group=GROUP)):
        try:
            yield command_of(point.load(), point.name)
        except ImportError:
            continue


def main(argv: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    words = sys.argv[1:] if argv is None else argv
    args = parser(words[0] if words else None).parse_args(words)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except JournalError as e:
        _say(args, e, str(e))
        return 2 if isinstance(e, Invalid) else 1
    except ImportError as e:
        if "lmdb" not in (e.name or str(e)):
            raise
        _say(args, e, f"`journal {args.command}` needs lmdb here, which is not installed: pip install lmdb")
        return 1
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); what is left to print has no reader.
        sys.stderr.close()
        return 0
    return code


def _say(args: argparse.Namespace, error: Exception, text: str) -> None:
    """Why a command failed."""
    if args.json:
        print(json.dumps({"error": type(error).__name__, "message": text}), file=sys.stderr)
    else:
        print(f"journal: {text}", file=sys.stderr)
