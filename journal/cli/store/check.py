"""
Recompute every index, counter and invariant from the entries and the log, and list what differs.

A store without an owner is checked whole, page by page; one that a daemon serves, by the daemon, except for its pages; of one
that another process owns, what its last checkpoint committed.
Exits with 1 when something is wrong.
"""

from __future__ import annotations

import argparse

from journal.cli.common import open_existing, show
from journal.errors import StoreDamaged


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    sub.add_argument("--deep", action="store_true", help="replay the log from its beginning, however long it is")


def run(args: argparse.Namespace) -> int:
    """Check."""
    try:
        with open_existing(args.store, readonly_too=True, verify="full") as store:
            found = store.check(deep=args.deep)
    except StoreDamaged as e:
        found = [str(e)]
    if args.json:
        show({"store": args.store, "differences": found})
    else:
        for line in found:
            print(line)
        print(f"{args.store}: {len(found)} differences" if found else f"{args.store}: clean")
    return 1 if found else 0
