"""Finish leases by their tokens: their entries go. Repeating it is harmless."""

from __future__ import annotations

import argparse

from journal.cli.common import journal_argument, open_existing, open_journal, show


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    journal_argument(sub)
    sub.add_argument("token", metavar="TOKEN", type=int, nargs="+", help="what `journal claim` printed")


def run(args: argparse.Namespace) -> int:
    """Finish."""
    with open_existing(args.store) as store:
        errors = open_journal(store, args.journal).done_many(args.token)
    for token, error in zip(args.token, errors, strict=True):
        if args.json:
            show({"token": str(token), "done": error is None} | ({} if error is None else {"error": str(error)}))
        else:
            print(f"{token}  {'done' if error is None else error}")
    return 1 if any(errors) else 0
