"""Give up on an entry by its lease's token: it is kept apart until it is retried."""

from __future__ import annotations

import argparse

from journal.cli.common import journal_argument, open_existing, open_journal, show


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    journal_argument(sub)
    sub.add_argument("token", metavar="TOKEN", type=int, help="what `journal claim` printed")
    sub.add_argument("reason", metavar="REASON", nargs="?", default="", help="why")


def run(args: argparse.Namespace) -> int:
    """Bury."""
    with open_existing(args.store) as store:
        open_journal(store, args.journal).bury(args.token, args.reason)
    show({"token": str(args.token), "buried": True}) if args.json else print(f"{args.token}  buried")
    return 0
