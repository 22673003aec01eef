"""What the commands share: keys and data from words, values as text or JSON, a store that another process may own."""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from typing import Any

import journal
from journal.core.keys import UserKey
from journal.errors import Invalid, NotFound, StoreLocked


def open_existing(path: str, *, readonly_too: bool = False, verify: str = "auto") -> journal.Store:
    """The store at a path, which must be there; a look at it when another process owns it and a look is enough."""
    if not os.path.isdir(os.path.join(path, "catalog")):
        raise NotFound(f"{path} is not a store: make one with `journal put {path} JOURNAL KEY`")
    try:
        return journal.open(path, verify=verify)
    except StoreLocked:
        if not readonly_too:
            raise
        return journal.open(path, readonly=True)


def open_journal(store: journal.Store, name: str) -> journal.Journal:
    """A journal that must exist."""
    if name not in store.journals():
        raise NotFound(f"there is no journal {name!r} in {store.path}: it has {', '.join(store.journals()) or 'none'}")
    return store.journal(name)


def journal_argument(sub: argparse.ArgumentParser) -> None:
    """The JOURNAL word."""
    sub.add_argument("journal", metavar="JOURNAL", help="the journal's name")


def key_argument(sub: argparse.ArgumentParser) -> None:
    """The KEY word."""
    sub.add_argument("key", metavar="KEY", help="the entry's key (a text; with --hex: bytes)")
    sub.add_argument("--hex", action="store_true", help="KEY is hexadecimal bytes")


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


def date(ms: int) -> str:
    """A date for people."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return str(ms)


def when(word: str) -> int:
    """A date argument: milliseconds, or ISO 8601 with a time zone."""
    if word.isdigit():
        return int(word)
    try:
        moment = datetime.fromisoformat(word)
    except ValueError as e:
        raise argparse.ArgumentTypeError(f"{word!r} is neither milliseconds nor an ISO 8601 date: {e}") from e
    if moment.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{word!r} has no time zone: add Z or +hh:mm")
    return int(moment.timestamp() * 1000)


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
