"""
What the commands share: keys and data from words, values as text or JSON, a store that another process may own.

C1  A command works the same on a store without an owner and on one that a daemon serves: the request goes to the owner.
C2  Where there is no lmdb, requests go to a daemon, and a command that needs the engine says so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import journal
from journal import Journal, MergedJournals, Store
from journal.connect_or_open import connect_or_open, is_address
from journal.core.entry.keys import UserKey
from journal.core.settings import MERGED
from journal.errors import Invalid, NotFound


def open_existing(word: str, *, readonly_too: bool = False, verify: str = "auto") -> Store:
    """
    The store that is meant: one that must be there, or a daemon's address. When another process owns it, requests go to its daemon; when
    it has none, the files are read where that is enough.
    """
    if not is_address(word) and not os.path.isdir(os.path.join(word, "catalog")):
        raise NotFound(f"{word} is not a store: make one with `journal put {word} JOURNAL KEY`")
    return connect_or_open(word, readonly_too=readonly_too, verify=verify)


def open_journal(store: Store, name: str) -> Journal:
    """A journal that must exist."""
    names = store.journals()
    if name not in names:
        where = "the daemon's store" if store.is_remote else store.path
        raise NotFound(f"there is no journal {name!r} in {where}: it has {', '.join(names) or 'none'}")
    return store.journal(name)


@contextmanager
def journal_of(args: argparse.Namespace, *, readonly_too: bool = False) -> Iterator[Journal]:
    """The journal that was meant, in a store that is open meanwhile."""
    with open_existing(args.store, readonly_too=readonly_too) as store:
        yield open_journal(store, args.journal)


@contextmanager
def log_of(args: argparse.Namespace, *, readonly_too: bool = False) -> Iterator[Journal | MergedJournals]:
    """The same, or all merged journals together."""
    with open_existing(args.store, readonly_too=readonly_too) as store:
        yield open_log(store, args.journal)


def open_log(store: Store, name: str) -> Journal | MergedJournals:
    """A journal that must exist, or all merged ones together, for what they have in common: log, generations, followers."""
    return store.existing_merged() if name == MERGED else open_journal(store, name)


def key_of(args: argparse.Namespace) -> UserKey:
    """The key that was meant."""
    if not args.hex:
        key: str = args.key
        return key
    try:
        return bytes.fromhex(args.key)
    except ValueError as e:
        raise Invalid(f"{args.key!r} is not hexadecimal: {e}") from e


def data_of(word: str | None) -> Any:
    """JSON when it is JSON, else the text itself; `-` reads bytes from standard input."""
    if word is None:
        return None
    if word == "-":
        return sys.stdin.buffer.read()
    try:
        return json.loads(word)
    except ValueError:
        return word


def plain(value: Any) -> Any:
    """A value that JSON can carry: bytes as {"hex": …}."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dict):
        return {str(plain(k)): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def show(value: Any) -> None:
    """One JSON object a line."""
    print(json.dumps(plain(value), ensure_ascii=False))


def report(args: argparse.Namespace, fields: Any, text: str) -> None:
    """What a command found or did: as JSON when that was asked for, else the text."""
    if args.json:
        show(fields)
    else:
        print(text)


def date(ms: int) -> str:
    """A date for people."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return str(ms)


def entry_map(entry: journal.Entry) -> dict[str, Any]:
    """An entry as JSON has it."""
    return {name: getattr(entry, name) for name in entry.__slots__}


def lease_map(lease: journal.Lease) -> dict[str, Any]:
    """A lease as JSON has it; the token as text, since some JSON readers cut large integers."""
    names = (
        "key", "data", "priority", "process_date", "insertion_date", "expiration", "owner", "start", "deadline", "timeouts",
        "version", "consumer",
    )  # fmt: skip
    return {"token": str(lease.token)} | {name: getattr(lease, name) for name in names}
