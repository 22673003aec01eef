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
from pathlib import Path
from typing import Any, TypeAlias

import journal
from journal.core.entry.keys import UserKey
from journal.core.settings import MERGED
from journal.engine.files.posix import announced
from journal.errors import ConnectionLost, Invalid, NotFound, StorageError, StoreLocked
from journal.net.client.connect import RemoteStore
from journal.net.client.connection.discovery import daemon_of
from journal.net.client.journal import RemoteJournal
from journal.net.client.lease import RemoteLease
from journal.net.client.merged import RemoteMergedJournals
from journal.net.tls import client_context

AnyStore: TypeAlias = "journal.Store | RemoteStore"  # as texts: looking at them would need lmdb (C2)
AnyJournal: TypeAlias = "journal.Journal | RemoteJournal"
AnyLog: TypeAlias = "AnyJournal | journal.MergedJournals | RemoteMergedJournals"


def open_existing(word: str, *, readonly_too: bool = False, verify: str = "auto") -> AnyStore:
    """
    The store that is meant: one that must be there, or a daemon's address. When another process owns it, requests go to its daemon; when
    it has none, the files are read where that is enough.
    """
    if is_address(word):
        return connect_to(word)
    if not os.path.isdir(os.path.join(word, "catalog")):
        raise NotFound(f"{word} is not a store: make one with `journal put {word} JOURNAL KEY`")
    try:
        return journal.open(word, verify=verify)
    except StoreLocked as e:
        try:
            return _through_owner(word, e)
        except StoreLocked:
            if not readonly_too:
                raise
            return journal.open(word, readonly=True)
    except ImportError as e:
        return _without_engine(word, e)


def open_or_make(word: str) -> AnyStore:
    """The store that is meant, made when it is not there; through its daemon when it has one."""
    if is_address(word):
        return connect_to(word)
    try:
        return journal.open(word)
    except StoreLocked as e:
        return _through_owner(word, e)
    except ImportError as e:
        return _without_engine(word, e)


def is_address(word: str) -> bool:
    """Whether a word is the address of a daemon, not the path of a store."""
    return word.startswith(("unix:", "tcp://", "tls://"))


def connect_to(address: str) -> RemoteStore:
    """Connect to a daemon with the identity of the environment: JOURNAL_TOKEN is identity:secret, JOURNAL_TLS_CA a file."""
    ca = os.environ.get("JOURNAL_TLS_CA")
    tls = client_context(ca=None if ca is None else Path(ca)) if address.startswith("tls:") else None
    return journal.connect(address, token=os.environ.get("JOURNAL_TOKEN"), tls=tls)


def _without_engine(path: str, missing: ImportError) -> RemoteStore:
    """The store through its daemon, where lmdb is missing (C2)."""
    try:
        return connect_to(str(daemon_of(os.path.abspath(path))))
    except ConnectionLost as e:
        raise StorageError(f"{missing}. {e}") from missing


def _through_owner(path: str, locked: StoreLocked) -> RemoteStore:
    """The store through the daemon of its owner; StoreLocked when there is none."""
    addresses = sorted(announced(Path(path)), key=lambda address: not address.startswith("unix:"))
    if not addresses:
        pid = str(locked).partition("process ")[2].partition(":")[0]
        raise StoreLocked(
            f"{path} is owned by process {pid}, which listens nowhere: it is no daemon, or one that begins or ends just now. Stop it, "
            "have it serve the store (store.serve()), or run `journal serve` in its place"
        ) from locked
    try:
        if addresses[0].startswith("unix:"):
            return journal.connect(addresses[0])  # the kernel identifies the store's own user
        return connect_to(addresses[0])
    except ConnectionLost as e:
        raise StoreLocked(f"{path} is owned by a process whose daemon does not answer at {addresses[0]}: {e}") from e


def open_journal(store: AnyStore, name: str) -> AnyJournal:
    """A journal that must exist."""
    names = store.journals()
    if name not in names:
        raise _unknown(store, name, names)
    return store.journal(name)


@contextmanager
def journal_of(args: argparse.Namespace, *, readonly_too: bool = False) -> Iterator[AnyJournal]:
    """The journal that was meant, in a store that is open meanwhile."""
    with open_existing(args.store, readonly_too=readonly_too) as store:
        yield open_journal(store, args.journal)


@contextmanager
def log_of(args: argparse.Namespace, *, readonly_too: bool = False) -> Iterator[AnyLog]:
    """The same, or all merged journals together."""
    with open_existing(args.store, readonly_too=readonly_too) as store:
        yield open_log(store, args.journal)


def open_log(store: AnyStore, name: str) -> AnyLog:
    """A journal that must exist, or all merged ones together, for what they have in common: log, generations, followers."""
    if name != MERGED:
        return open_journal(store, name)
    if isinstance(store, RemoteStore):
        return RemoteMergedJournals(store._heart, store._timeout_ms)
    from journal.engine.store import EngineStore  # lazily: a connection needs no engine

    if (
        isinstance(store._backend, EngineStore) and not store._backend.has_merged()
    ):  # `store.merged()` would declare them
        raise _unknown(store, name, store.journals())
    return store.merged()


def _unknown(store: AnyStore, name: str, names: list[str]) -> NotFound:
    where = "the daemon's store" if isinstance(store, RemoteStore) else store.path
    return NotFound(f"there is no journal {name!r} in {where}: it has {', '.join(names) or 'none'}")


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


def lease_map(lease: journal.Lease | RemoteLease) -> dict[str, Any]:
    """A lease as JSON has it; the token as text, since some JSON readers cut large integers."""
    names = (
        "key", "data", "priority", "process_date", "insertion_date", "expiration", "owner", "start", "deadline", "timeouts",
        "version", "consumer",
    )  # fmt: skip
    return {"token": str(lease.token)} | {name: getattr(lease, name) for name in names}
