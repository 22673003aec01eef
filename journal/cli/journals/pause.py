"""Hand nothing out of a journal until `journal resume`; puts, done and extend go on."""

from __future__ import annotations

import argparse

from journal.cli.common import journal_argument, open_existing, open_journal, show


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    journal_argument(sub)
    sub.add_argument("reason", metavar="REASON", nargs="?", default="", help="why, for those who look at the flags")


def run(args: argparse.Namespace) -> int:
    """Pause."""
    with open_existing(args.store) as store:
        open_journal(store, args.journal).pause(args.reason)
    show({"journal": args.journal, "paused": True}) if args.json else print(f"paused {args.journal}")
    return 0
