"""Show the flags: what an operator must look at. --lower takes them down, except that of a paused journal: see `journal resume`."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from journal.cli.common import date, open_existing, show
from journal.core.values import PAUSED


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    sub.add_argument("--lower", action="store_true", help="take down the flags that are shown")


def run(args: argparse.Namespace) -> int:
    """Show, and lower if asked."""
    with open_existing(args.store, readonly_too=not args.lower) as store:
        flags = store.flags()
        for flag in flags:
            if args.json:
                show(asdict(flag))
            else:
                print(f"{date(flag.modified)}  {flag.journal}  {flag.name} ({flag.count}x): {flag.message}")
            if args.lower and flag.name != PAUSED:
                store.lower(flag)
    return 0
