"""Show one entry: by its key, or the one that is next in the order of work."""

from __future__ import annotations

import argparse

from journal.cli.common import date, entry_map, journal_argument, key_of, open_existing, open_journal, show


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    journal_argument(sub)
    sub.add_argument("key", metavar="KEY", nargs="?", help="the entry's key; left out: the next waiting entry")
    sub.add_argument("--hex", action="store_true", help="KEY is hexadecimal bytes")


def run(args: argparse.Namespace) -> int:
    """Look, change nothing."""
    with open_existing(args.store, readonly_too=True) as store:
        pages = open_journal(store, args.journal)
        entry = next(pages.scan(status="waiting"), None) if args.key is None else pages.get(key_of(args))
    if entry is None:
        if not args.json:
            print("there is no such entry" if args.key is not None else "nothing waits")
        return 1
    if args.json:
        show(entry_map(entry))
    else:
        status = {"W": "waiting", "P": "processing"}[entry.status]
        print(f"{entry.key!r} {status}, priority {entry.priority}, due {date(entry.process_date)}")
        print(f"  inserted {date(entry.insertion_date)}, version {entry.version}, timeouts {entry.timeouts}")
        if entry.expiration:
            print(f"  expires {date(entry.expiration)}")
        if entry.owner:
            print(f"  owner {entry.owner}")
        print(f"  data {entry.data!r}")
    return 0
