"""
From the path of a store or the address of a daemon to a store, whatever process owns it.

    an address                       the daemon there
    a path, and no owner             the store is opened in this process
    a path, and an owner that serves its daemon, by its Unix socket first
    another owner                    StoreLocked, with what to do; where reading is enough: a look at the last checkpoint
    a path, and no lmdb here         the daemon of the store

Engine modules are imported when a store is opened: programs that only connect do not need lmdb.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import journal
from journal.api.store import Store
from journal.engine.files.posix import announced
from journal.errors import AccessDenied, ConnectionLost, JournalError, StorageError, StoreLocked
from journal.net.client.connection.discovery import daemon_of
from journal.net.tls import client_context

Connect = Callable[[str], Store]
"""Connects to an address."""


def is_address(word: str) -> bool:
    """Whether a word is the address of a daemon, not the path of a store."""
    return word.startswith(("unix:", "tcp://", "tls://"))


def connect_to(address: str, *, token: str | None = None, tls_ca: str | None = None) -> Store:
    """Connect to a daemon; what is not given is of the environment: JOURNAL_TOKEN is identity:secret, JOURNAL_TLS_CA a file."""
    ca = tls_ca or os.environ.get("JOURNAL_TLS_CA")
    tls = client_context(ca=None if ca is None else Path(ca)) if address.startswith("tls:") else None
    return journal.connect(address, token=token or os.environ.get("JOURNAL_TOKEN"), tls=tls)


def connect_or_open(place: str | os.PathLike[str], *, readonly_too: bool = False, verify: str = "auto") -> Store:
    """
    The store at a path or an address; see the module.

    readonly_too   a look at the files will do when the owner cannot be asked
    verify         as of `journal.open`, where it is opened here
    """
    word = os.fspath(place)
    if is_address(word):
        return connect_to(word)
    try:
        return journal.open(word, verify=verify)
    except StoreLocked as e:
        return through_owner(word, e, readonly_too=readonly_too)
    except ImportError as e:
        try:
            return connect_to(str(daemon_of(os.path.abspath(word))))
        except ConnectionLost as lost:
            raise StorageError(f"{e}. {lost}") from e


def _connect_as_owner(address: str) -> Store:
    """On its Unix socket the kernel identifies the store's own user."""
    return journal.connect(address) if address.startswith("unix:") else connect_to(address)


def through_owner(
    path: str, locked: StoreLocked, *, connect: Connect = _connect_as_owner, readonly_too: bool = False
) -> Store:
    """The store at a path that another process owns, as `locked` says: through the daemon of its owner."""
    reason = "which listens nowhere: it is no daemon, or one that begins or ends just now"
    refused: JournalError = locked
    for address in sorted(announced(Path(path)), key=lambda each: not each.startswith("unix:")):
        try:
            return connect(address)
        except JournalError as e:
            reason, refused = f"whose daemon does not answer at {address} ({e})", e
    if readonly_too:
        return journal.open(path, readonly=True)
    if isinstance(refused, AccessDenied):
        raise refused
    pid = str(locked).partition("process ")[2].partition(":")[0]
    raise StoreLocked(
        f"{path} is owned by process {pid}, {reason}. Stop it, have it serve the store (store.serve()), or run `journal serve` in "
        "its place"
    ) from refused
