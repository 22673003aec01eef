"""
Let a buried entry wait again, or delete it with --discard.

Without a key, --prefix and --reason say which, and --all means every one; `journal ls STORE JOURNAL --buried` lists them.
"""

from __future__ import annotations

import argparse
from typing import Any

from journal.cli.common import journal_argument, key_of, open_existing, open_journal, show
from journal.errors import Invalid, JournalError

GROUP = 1000
"""So many wait again with one record."""


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    journal_argument(sub)
    sub.add_argument("key", metavar="KEY", nargs="?", help="the entry's key (a text; with --hex: bytes)")
    sub.add_argument("--hex", action="store_true", help="KEY is hexadecimal bytes")
    sub.add_argument("--prefix", help="all whose key begins so")
    sub.add_argument("--reason", help="all whose reason has this text")
    sub.add_argument("--all", action="store_true", help="all")
    sub.add_argument("--discard", action="store_true", help="delete it instead")


def run(args: argparse.Namespace) -> int:
    """Retry or discard."""
    is_many = args.prefix is not None or args.reason is not None or args.all
    if is_many == (args.key is not None):
        raise Invalid("give a KEY, or --prefix, --reason or --all")
    if is_many and args.discard:
        raise Invalid("--discard takes a KEY: what is deleted is named")
    with open_existing(args.store) as store:
        pages = open_journal(store, args.journal)
        if is_many:
            return _many(args, pages)
        if args.discard:
            pages.discard(key_of(args))
        else:
            pages.retry(key_of(args))
    _told(args, key_of(args), "discarded" if args.discard else "retried")
    return 0


def _many(args: argparse.Namespace, pages: Any) -> int:
    """A selection, page by page; whether all of it could be done."""
    is_done, after = True, None
    while True:
        page = pages.buried(prefix=args.prefix, reason=args.reason, limit=GROUP, after=after)
        keys = list(dict.fromkeys(buried.key for buried in page))
        for key, result in zip(keys, pages.retry_many(keys), strict=True):
            is_refused = isinstance(result, JournalError)
            is_done = is_done and not is_refused
            _told(args, key, str(result) if is_refused else "retried")
        if not page.has_more:
            return 0 if is_done else 1
        after = page.after


def _told(args: argparse.Namespace, key: Any, outcome: str) -> None:
    show({"key": key, "outcome": outcome}) if args.json else print(f"{outcome} {key!r}")
