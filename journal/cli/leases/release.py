"""Give a lease back by its token: the entry waits again, now or later."""

from __future__ import annotations

import argparse

from journal.cli.common import journal_argument, open_existing, open_journal, show


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    journal_argument(sub)
    sub.add_argument("token", metavar="TOKEN", type=int, help="what `journal claim` printed")
    sub.add_argument("--delay", help="wait so long first, e.g. 2m")
    sub.add_argument("--priority", type=int, help="0 (first) to 255 (last) from now on")


def run(args: argparse.Namespace) -> int:
    """Release."""
    with open_existing(args.store) as store:
        open_journal(store, args.journal).release(args.token, delay=args.delay, priority=args.priority)
    show({"token": str(args.token), "released": True}) if args.json else print(f"{args.token}  released")
    return 0
