"""List the journals of a store, or the entries of a journal in the order of work."""

from __future__ import annotations

import argparse
from itertools import islice

from journal.cli.common import date, entry_map, open_existing, open_journal, show, when
from journal.errors import Invalid


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    sub.add_argument("journal", metavar="JOURNAL", nargs="?", help="the journal's name; left out: list the journals")
    sub.add_argument(
        "--status",
        choices=("waiting", "available", "processing", "buried"),
        help="only these; available: waiting, and due now; buried: those that were given up on",
    )
    sub.add_argument("--since", type=when, help="process date from here on: milliseconds or ISO 8601")
    sub.add_argument("--until", type=when, help="process date before this")
    sub.add_argument("--limit", type=int, default=100, help="at most so many; 0: all. Default 100")
    sub.add_argument(
        "--buried", action="store_true", help="list the entries that were given up on instead, with the reasons"
    )
    sub.add_argument("--prefix", help="of buried ones: those whose key begins so")
    sub.add_argument("--reason", help="of buried ones: those whose reason has this text")


def run(args: argparse.Namespace) -> int:
    """List."""
    with open_existing(args.store, readonly_too=True) as store:
        if args.journal is None:
            for name in store.journals():
                show({"journal": name}) if args.json else print(name)
            return 0
        pages = open_journal(store, args.journal)
        if args.limit < 0:
            raise Invalid(f"--limit is {args.limit}: it must be 0 (all) or more")
        if args.buried:
            for b in pages.buried(prefix=args.prefix, reason=args.reason, limit=args.limit or None):
                line = entry_map(b.entry) | {"reason": b.reason, "buried": b.date}
                show(line) if args.json else print(f"{date(b.date)}  {b.entry.key!r}  {b.reason}")
            return 0
        entries = pages.scan(status=args.status, since=args.since, until=args.until)
        for entry in islice(entries, args.limit or None):
            if args.json:
                show(entry_map(entry))
            else:
                print(f"{entry.status} {entry.priority:3} {date(entry.process_date)}  {entry.key!r}  {entry.data!r}")
    return 0
