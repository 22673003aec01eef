"""Put an entry, or merge it into the one with this key. Makes the store and the journal when they are not there."""

from __future__ import annotations

import argparse
from functools import partial

from journal.cli.common import data_of, date, journal_argument, key_argument, key_of, open_or_make, show, when
from journal.errors import Invalid


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    journal_argument(sub)
    key_argument(sub)
    sub.add_argument("data", metavar="DATA", nargs="?", help="JSON, or a text; `-` reads bytes from standard input")
    sub.add_argument("--priority", type=int, default=100, help="0 (first) to 255 (last); default 100")
    sub.add_argument("--delay", help="how long to wait, e.g. 500ms, 30s, 2m, 1h")
    sub.add_argument("--process-date", type=when, help="when it is due: milliseconds or ISO 8601 with a time zone")
    sub.add_argument("--expiration", type=when, help="when it is dropped if still waiting")
    sub.add_argument("--owner", help="the producer group that owns it")
    sub.add_argument("--create", action="store_true", help="refuse when the key exists")
    sub.add_argument("--version", type=int, help="refuse when the entry has another version; 0: when there is one")


def run(args: argparse.Namespace) -> int:
    """Put."""
    if args.create and args.version is not None:
        raise Invalid("give --create or --version, not both: --version 0 puts a new entry only")
    with open_or_make(args.store) as store:
        pages = store.journal(args.journal)
        verb = pages.create if args.create else partial(pages.put, version=args.version)
        result = verb(
            key_of(args), data_of(args.data), priority=args.priority, delay=args.delay, process_date=args.process_date,
            expiration=args.expiration, owner=args.owner,
        )  # fmt: skip
    if args.json:
        show(result._asdict() | {"cursor": str(result.cursor)})
    else:
        print(f"{result.outcome} {result.cursor} version {result.version} due {date(result.process_date)}")
    return 0
