"""
The command line: `journal COMMAND STORE …`, every command with --json. One file a command.

A command's module has `arguments` and `run`, and its text is the help. A group of commands (`journal log show …`) has
VERBS instead of `run`, a function for each word, whose text is the help; its `arguments` gets the word and declares all.

Commands of other packages come by entry points: the group "journal.commands" names modules of the same form. They are looked for when
the word is none of ours, and when help is asked for, so that no other command waits for them.

Exit codes: 0 it worked; 1 refused, not found, or damage was found; 2 the arguments are wrong; 3 nothing is due.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from typing import Any

import journal
from journal.cli import feed, forecast, log, serve, tokens
from journal.cli.common import STORE_HELP
from journal.cli.entries import ls, peek, put
from journal.cli.journals import compact, generations, pause, resume, rotate
from journal.cli.leases import bury, claim, done, release, retry
from journal.cli.store import backup, check, drop, flags, restore, stat
from journal.errors import Invalid, JournalError

COMMANDS = (
    put, peek, ls, claim, done, release, bury, retry, stat, flags, check, generations, rotate, pause, resume, compact, log, feed, drop,
    forecast, serve, tokens, backup, restore,
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
    ours = {module.__name__.rsplit(".", 1)[1]: module for module in COMMANDS}
    for name, module in [*ours.items(), *(_others() if word not in ours else ())]:
        sub = _command(commands, name, module.__doc__)
        if hasattr(module, "VERBS"):
            verbs = sub.add_subparsers(dest="verb", metavar="VERB", required=True)
            for verb, run in module.VERBS.items():
                one = _command(verbs, verb, run.__doc__)
                module.arguments(one, verb)
                _finish(one, run)
        else:
            sub.add_argument("store", metavar="STORE", help=getattr(module, "STORE", STORE_HELP))
            module.arguments(sub)
            _finish(sub, module.run)
    return top


def _others() -> Iterator[tuple[str, Any]]:
    """The commands of other packages; one that cannot be imported is left out."""
    for point in sorted(entry_points(group=GROUP)):
        try:
            yield point.name, point.load()
        except ImportError:
            continue


def _command(commands: Any, name: str, text: str | None) -> argparse.ArgumentParser:
    summary = inspect.cleandoc(text or "")
    sub: argparse.ArgumentParser = commands.add_parser(
        name, help=summary.splitlines()[0], description=summary, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    return sub


def _finish(sub: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]) -> None:
    sub.add_argument("--json", action="store_true", help="print JSON, one object a line")
    sub.set_defaults(run=run)


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
