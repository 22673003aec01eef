"""Let a buried entry wait again, or delete it with --discard."""

from __future__ import annotations

import argparse

from journal.cli.common import journal_argument, key_argument, key_of, open_existing, open_journal, show


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    journal_argument(sub)
    key_argument(sub)
    sub.add_argument("--discard", action="store_true", help="delete it instead")


def run(args: argparse.Namespace) -> int:
    """Retry or discard."""
    with open_existing(args.store) as store:
        pages = open_journal(store, args.journal)
        if args.discard:
            pages.discard(key_of(args))
        else:
            pages.retry(key_of(args))
    outcome = "discarded" if args.discard else "retried"
    show({"key": key_of(args), "outcome": outcome}) if args.json else print(f"{outcome} {key_of(args)!r}")
    return 0
