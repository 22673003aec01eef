"""
Take the next entries that are due, under leases; print their tokens for `done` or `release`.

Exits with 3 when nothing is due.
"""

from __future__ import annotations

import argparse

from journal.cli.common import date, journal_argument, lease_map, open_existing, open_journal, show
from journal.core.buckets import Range


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    journal_argument(sub)
    sub.add_argument("--consumer", default="", help="who takes them")
    sub.add_argument("--lease", help="for how long, e.g. 30s; default: the journal's processing_timeout")
    sub.add_argument("--buckets", metavar="FIRST-LAST", help="only of these buckets, e.g. 0-3")
    sub.add_argument("-n", type=int, default=1, help="at most so many; default 1")


def run(args: argparse.Namespace) -> int:
    """Claim."""
    buckets = None if args.buckets is None else Range.parse(args.buckets)
    with open_existing(args.store) as store:
        leases = open_journal(store, args.journal).claim_many(
            args.n, consumer=args.consumer, lease=args.lease, buckets=buckets
        )
    for lease in leases:
        if args.json:
            show(lease_map(lease))
        else:
            print(f"{lease.token}  until {date(lease.deadline)}  {lease.key!r}  {lease.data!r}")
    if not leases and not args.json:
        print("nothing is due")
    return 0 if leases else 3
