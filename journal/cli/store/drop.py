"""
Delete a journal with all that is in it, also what is under a lease. It cannot be brought back.

Asks first, when it is typed at a terminal; elsewhere it needs --yes.
"""

from __future__ import annotations

import argparse
import sys

from journal.cli.common import journal_argument, open_existing, open_journal, show
from journal.errors import Invalid, Refused


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    journal_argument(sub)
    sub.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """Drop."""
    with open_existing(args.store) as store:
        entries = open_journal(store, args.journal).count()
        if not args.yes:
            if not sys.stdin.isatty():
                raise Invalid(f"{args.journal} has {entries} entries, which cannot be brought back: say --yes")
            print(f"{args.journal} has {entries} entries, which cannot be brought back. Its name again, to drop it:")
            if input().strip() != args.journal:
                raise Refused("that is another name: nothing was changed")
        store.drop(args.journal)
    show({"dropped": args.journal, "entries": entries}) if args.json else print(f"dropped, with {entries} entries")
    return 0
