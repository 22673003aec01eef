"""
From a path or an address to an open store, whatever process owns it.

    no process owns it        reads look at it when it was closed cleanly; else it is opened here, for as long as it takes
    a daemon owns it          requests go to the daemon
    another process owns it   reads look at what the last checkpoint committed; writes are refused, with what to do

T1  A job that opens a store here for a moment waits for other such jobs on this machine: two jobs that begin together must not take
    each other for a lasting owner.
T2  Nothing is made: a store or a journal that is not there is an error.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import journal
from journal import Journal, Store
from journal.connect_or_open import connect_to, through_owner
from journal.errors import AccessDenied, ConnectionLost, NotFound, StoreLocked
from journal.net.client.snapshot import RemoteSnapshotPart
from journal.net.tls import client_context
from spark_export.errors import NOT_FOUND, STORE_LOCKED, STORE_NOT_FOUND, STORE_UNREACHABLE, coded, problem
from spark_export.options.common import PLACE, JournalPlace, place_of, taken


@contextlib.contextmanager
def opened_to_read(place: JournalPlace) -> Iterator[Journal]:
    """The journal, from the newest state that can be had."""
    with contextlib.ExitStack() as held:
        whole = None if place.is_address else _whole(place, held)
        yield existing(held.enter_context(_opened(place, is_look_enough=True)), place) if whole is None else whole


def _whole(place: JournalPlace, held: contextlib.ExitStack) -> Journal | None:
    """A look at a journal that was closed cleanly: to open it would read all of it twice, to check it and to close it."""
    with contextlib.ExitStack() as looking:
        try:
            pages = looking.enter_context(looked_at(place))
        except StoreLocked:
            return None  # it is open in this process; if it is served, its daemon can be asked
        if not pages.is_remote and pages.shows_all:
            held.push(looking.pop_all())
            return pages
    return None


@contextlib.contextmanager
def opened_to_write(place: JournalPlace) -> Iterator[Journal]:
    """The journal, to change it."""
    with _opened(place, is_look_enough=False) as store:
        yield existing(store, place)


@contextlib.contextmanager
def looked_at(place: JournalPlace) -> Iterator[Journal]:
    """The journal, for its settings and its schema: the catalog is enough, so the store is not locked for it."""
    if place.is_address:
        with connected(place.path, place) as store:
            yield existing(store, place)
    else:
        check_is_store(place.path)
        with journal.open(place.path, readonly=True) as look:
            yield existing(look, place)


def existing(store: Store, place: JournalPlace) -> Journal:
    """A journal that must be there (T2)."""
    names = store.journals()
    if place.journal not in names:
        raise problem(
            NotFound,
            NOT_FOUND,
            f"there is no journal {place.journal!r} in {place.path}: it has {', '.join(names) or 'none'}",
        )
    return store.journal(place.journal)


def connected(address: str, place: JournalPlace) -> Store:
    """Connect to a daemon with the identity of the options or of the environment."""
    try:
        return connect_to(address, token=place.token, tls_ca=place.tls_ca)
    except (ConnectionLost, AccessDenied) as e:
        raise coded(e, STORE_UNREACHABLE) from e


def told_all(place: JournalPlace) -> JournalPlace:
    """The same place for tasks, which may run where the driver's environment is not: with the token that is there."""
    token = place.token or os.environ.get("JOURNAL_TOKEN")
    return replace(place, token=token) if place.is_address and token else place


def check_is_store(path: str) -> None:
    """Refuses a path where no store is."""
    if not os.path.isdir(os.path.join(path, "catalog")):
        raise problem(
            NotFound,
            STORE_NOT_FOUND,
            f"{path} is not a store on this machine: give the path of one, or its daemon's address (tcp://HOST:PORT)",
        )


def place_in(
    store: Store | str | os.PathLike[str], name: str, *, token: str | None = None, tls_ca: str | None = None
) -> JournalPlace:
    """The place of a journal in a store that is open, or named."""
    found = {"journal": name, "token": token, "tls_ca": tls_ca, "path": _path_of(store)}
    return place_of(taken({word: text for word, text in found.items() if text is not None}, PLACE, "finding"))


def _path_of(store: Store | str | os.PathLike[str]) -> str:
    return store.location if isinstance(store, Store) else os.fspath(store)


@contextlib.contextmanager
def opened_place(
    store: Store | str | os.PathLike[str], place: JournalPlace, *, is_written: bool = False
) -> Iterator[Journal]:
    """The journal, of a store that is open and stays so, or of one that is opened for the time of the block, to read or to write."""
    if isinstance(store, Store):
        yield existing(store, place)
    else:
        with opened_to_write(place) if is_written else opened_to_read(place) as pages:
            yield pages


def trusting(part: Any, place: JournalPlace) -> Any:
    """A part of a snapshot, to be read in another process than it was made in: the trusted authorities are not sent along with it."""
    if isinstance(part, RemoteSnapshotPart) and part.address.startswith("tls:") and place.tls_ca is not None:
        return replace(part, tls=client_context(ca=Path(place.tls_ca)))
    return part


@contextlib.contextmanager
def _opened(place: JournalPlace, *, is_look_enough: bool) -> Iterator[Store]:
    if place.is_address:
        with connected(place.path, place) as remote:
            yield remote
        return
    check_is_store(place.path)
    with contextlib.ExitStack() as held:
        store = _owned_or_asked(place, held, is_look_enough)
        held.callback(store.close)
        yield store


def _owned_or_asked(place: JournalPlace, held: contextlib.ExitStack, is_look_enough: bool) -> Store:
    held.enter_context(_turn(place.path))
    try:
        return journal.open(place.path)
    except StoreLocked as e:
        locked = e
    held.close()  # another process owns the store: other jobs need not wait for this one
    try:
        return through_owner(
            place.path, locked, connect=lambda address: connected(address, place), readonly_too=is_look_enough
        )
    except StoreLocked as e:
        raise coded(e, STORE_LOCKED) from e


@contextlib.contextmanager
def _turn(path: str) -> Iterator[None]:
    """This machine's turn to own a store for a moment (T1)."""
    name = hashlib.sha256(os.path.realpath(path).encode()).hexdigest()[:32]
    place = os.path.join(tempfile.gettempdir(), f"journal-turn-{os.geteuid()}-{name}")
    while True:
        fd = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if not os.fstat(fd).st_nlink:
                continue  # the holder before us has removed it: other jobs wait for a new file by now
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(place)
            return
        finally:
            os.close(fd)
