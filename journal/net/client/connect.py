"""`journal.connect`: a store that a daemon keeps, with the verbs of journal.Store."""

from __future__ import annotations

import os
import ssl
from types import TracebackType
from typing import Any

from journal.core.settings import check_name
from journal.core.times import DurationLike
from journal.core.values import Flag
from journal.errors import Invalid, NotFound
from journal.net.client.backups import RemoteBackups
from journal.net.client.calls import operations
from journal.net.client.connection.address import parse_address, store_of
from journal.net.client.connection.discovery import daemon_of
from journal.net.client.connection.due_notices import Ear
from journal.net.client.connection.heartbeat import TIMEOUT_MS, Heart
from journal.net.client.connection.link import Link
from journal.net.client.connection.options import Backoff, options_of
from journal.net.client.journal import RemoteJournal
from journal.net.client.merged import RemoteMergedJournals
from journal.net.wire.limits import DEFAULT, Limits


def connect(
    address: str | os.PathLike[str],
    *,
    identity: str | None = None,
    secret: bytes | str | None = None,
    token: str | None = None,
    name: str | None = None,
    timeout: DurationLike | None = "30s",
    wait: DurationLike = 0,
    poll: DurationLike = "30s",
    backoff: Backoff | None = None,
    tls: ssl.SSLContext | None = None,
    limits: Limits = DEFAULT,
) -> RemoteStore:
    """
    Connect to a daemon, and use its store as if it were opened here.

    address    "unix:PATH", "tcp://HOST:PORT", "tls://HOST:PORT", or the path of a store whose daemon runs,
               wherever that listens
    identity   the identity to prove, with its secret (bytes or hexadecimal digits); or both as token="identity:secret". None:
               the system vouches, on the daemon's own Unix socket
    name       under which this program is known and claims, unless a call says otherwise; None: the identity
    timeout    how long a call waits for its answer; None: as long as the daemon is there
    wait       how long to wait here for a daemon that is not there yet
    poll       work() asks for work when the daemon says that there is some, and at least this often without a word from it
    backoff    how to reconnect after the connection was lost
    tls        for tls://; None: the system's certificates
    """
    options = options_of(
        identity=identity, secret=secret, token=token, name=name, timeout=timeout, wait=wait, poll=poll, backoff=backoff,
        tls=tls, limits=limits,
    )  # fmt: skip
    where, path = parse_address(address), store_of(address)
    if path is not None:
        where = daemon_of(path)
    if tls is not None and where.kind != "tls":
        raise Invalid(f"{where} is an address without TLS, and tls= is given: write tls://HOST:PORT, or leave tls out")
    link = Link(where, options, path)
    store = RemoteStore(Heart(link))
    try:
        store._heart.beat(options.wait_ms + TIMEOUT_MS)
        if name is not None:
            store._ask(operations.register(name))
            link.first = operations.register(name)
    except BaseException:
        link.close()
        raise
    return store


class RemoteStore(RemoteBackups):
    """A store that a daemon keeps; a context manager. Made by `journal.connect`."""

    def __init__(self, heart: Heart) -> None:
        super().__init__(heart, heart.link.options.timeout_ms)
        self._ear = Ear(heart)

    def journal(self, name: str, **settings: Any) -> RemoteJournal:
        """Open a journal, or declare it. Settings are kept; those given here change what may be changed."""
        check_name(name)
        if settings:
            self._ask(operations.declare(name, settings))
        else:
            try:
                self._ask(operations.settings(name))
            except NotFound:
                self._ask(operations.declare(name, {}))
        return RemoteJournal(self._heart, name, self._timeout_ms, self._ear)

    def journals(self) -> list[str]:
        """The names of all journals, as far as this identity may see them."""
        return self._walk(operations.journals())

    def merged(self, **settings: Any) -> RemoteMergedJournals:
        """What all merged journals have together: settings of their files, generations, and a feed of all changes."""
        self._ask(operations.merged(settings))
        return RemoteMergedJournals(self._heart, self._timeout_ms)

    def drop(self, name: str) -> None:
        """
        Delete a journal with all that is in it, also what is under a lease. It cannot be brought back.

        Of a merged journal followers of all changes see its entries go; its own feed consumers are forgotten.
        """
        self._ask(operations.drop(name))

    def flags(self) -> list[Flag]:
        """What a person must look at."""
        return self._ask(operations.flags())

    def lower(self, flag: Flag) -> None:
        """A person has looked: take a flag down."""
        self._ask(operations.lower(flag))

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes of the store and of its journals."""
        return self._ask(operations.statistics())

    def checkpoint(self) -> None:
        """Commit everything to LMDB now, so that readers outside of the daemon see it."""
        self._ask(operations.checkpoint())

    def check(self, *, deep: bool = False) -> list[str]:
        """Recompute every index, counter and invariant from the entries and the log; what differs, in words."""
        return self._ask(operations.check(deep=deep))

    def close(self) -> None:
        """End the connection. Closing twice is fine."""
        self._link.close()
        self._heart.close()
        self._ear.tell()

    def __enter__(self) -> RemoteStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteStore {self._link.address}>"
