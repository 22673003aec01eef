"""Hand out again what is due in a journal that was paused."""

from __future__ import annotations

import argparse

from journal.cli.common import journal_argument, open_existing, open_journal, show


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    journal_argument(sub)


def run(args: argparse.Namespace) -> int:
    """Resume."""
    with open_existing(args.store) as store:
        was_paused = open_journal(store, args.journal).resume()
    if args.json:
        show({"journal": args.journal, "resumed": was_paused})
    else:
        print(f"resumed {args.journal}" if was_paused else f"{args.journal} was not paused")
    return 0
