"""The commands about entries: put, peek, ls."""

from __future__ import annotations

import argparse
from functools import partial
from itertools import islice

from journal.cli.command import HEX, JOURNAL, STORE, Options, argument, command
from journal.cli.common import (
    data_of,
    date,
    entry_map,
    journal_of,
    key_of,
    open_existing,
    open_journal,
    report,
    show,
)  # fmt: skip
from journal.connect_or_open import connect_or_open
from journal.core.requests.operate import BuriedRequest
from journal.core.requests.produce import PutRequest
from journal.core.requests.read import ScanRequest
from journal.errors import Invalid

_PUT = Options(
    PutRequest,
    priority="0 (first) to 255 (last)",
    delay="how long to wait, e.g. 500ms, 30s, 2m, 1h",
    process_date="when it is due: milliseconds or ISO 8601 with a time zone",
    expiration="when it is dropped if still waiting",
    owner="the producer group that owns it",
)
_SCAN = Options(
    ScanRequest,
    status="only these; available: waiting, and due now; buried: those that were given up on",
    since="process date from here on: milliseconds or ISO 8601",
    until="process date before this",
)
_BURIED = Options(
    BuriedRequest,
    prefix="of buried ones: those whose key begins so",
    reason="of buried ones: those whose reason has this text",
)


@command(
    "put", STORE, JOURNAL,
    argument("key", metavar="KEY", help="the entry's key (a text; with --hex: bytes)"), HEX,
    argument("data", metavar="DATA", nargs="?", help="JSON, or a text; `-` reads bytes from standard input"),
    _PUT, argument("--create", action="store_true", help="refuse when the key exists"),
    Options(PutRequest, version="refuse when the entry has another version; 0: when there is one"),
)  # fmt: skip
def put(args: argparse.Namespace) -> int:
    """Put an entry, or merge it into the one with this key. Makes the store and the journal when they are not there."""
    if args.create and args.version is not None:
        raise Invalid("give --create or --version, not both: --version 0 puts a new entry only")
    with connect_or_open(args.store) as store:
        pages = store.journal(args.journal)
        verb = pages.create if args.create else partial(pages.put, version=args.version)
        result = verb(key_of(args), data_of(args.data), **_PUT.given(args))
    text = f"{result.outcome} {result.cursor} version {result.version} due {date(result.process_date)}"
    report(args, result._asdict() | {"cursor": str(result.cursor)}, text)
    return 0


@command(
    "peek", STORE, JOURNAL,
    argument("key", metavar="KEY", nargs="?", help="the entry's key; left out: the next waiting entry"), HEX,
)  # fmt: skip
def peek(args: argparse.Namespace) -> int:
    """Show one entry: by its key, or the one that is next in the order of work."""
    with journal_of(args, readonly_too=True) as pages:
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


@command(
    "ls", STORE,
    argument("journal", metavar="JOURNAL", nargs="?", help="the journal's name; left out: list the journals"),
    _SCAN,
    argument("--limit", type=int, default=100, help="at most so many; 0: all. Default 100"),
    argument("--buried", action="store_true", help="list the entries that were given up on instead, with the reasons"),
    _BURIED,
)  # fmt: skip
def ls(args: argparse.Namespace) -> int:
    """List the journals of a store, or the entries of a journal in the order of work."""
    with open_existing(args.store, readonly_too=True) as store:
        if args.journal is None:
            for name in store.journals():
                report(args, {"journal": name}, name)
            return 0
        pages = open_journal(store, args.journal)
        if args.limit < 0:
            raise Invalid(f"--limit is {args.limit}: it must be 0 (all) or more")
        if args.buried:
            for b in pages.buried(**_BURIED.given(args), limit=args.limit or None):
                fields = entry_map(b.entry) | {"reason": b.reason, "buried": b.date}
                report(args, fields, f"{date(b.date)}  {b.entry.key!r}  {b.reason}")
            return 0
        entries = pages.scan(**_SCAN.given(args))
        for entry in islice(entries, args.limit or None):
            text = f"{entry.status} {entry.priority:3} {date(entry.process_date)}  {entry.key!r}  {entry.data!r}"
            report(args, entry_map(entry), text)
    return 0
