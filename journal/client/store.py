"""`journal.connect`: a store that a daemon keeps, with the verbs of journal.Store."""

from __future__ import annotations

import os
import ssl
from types import TracebackType
from typing import Any, TypeVar

from journal.client import keeping
from journal.client.address import parse_address
from journal.client.call import Call, as_it_is, call
from journal.client.journal import RemoteJournal
from journal.client.link import Link
from journal.client.options import Backoff, options_of
from journal.core.settings import check_name
from journal.core.times import DurationLike
from journal.errors import NotFound
from journal.net.limits import DEFAULT, Limits

R = TypeVar("R")


def connect(
    address: str | os.PathLike[str],
    *,
    identity: str | None = None,
    secret: bytes | str | None = None,
    token: str | None = None,
    name: str | None = None,
    timeout: DurationLike | None = "30s",
    wait: DurationLike = 0,
    backoff: Backoff | None = None,
    tls: ssl.SSLContext | None = None,
    limits: Limits = DEFAULT,
) -> RemoteStore:
    """
    Connect to a daemon, and use its store as if it were opened here.

    address    "unix:PATH", "tcp://HOST:PORT", "tls://HOST:PORT", or the path of a store whose daemon runs
    identity   who this is, with its secret (bytes or hexadecimal digits); or both as token="identity:secret". None: the
               system vouches, on the daemon's own Unix socket
    name       under which this program is known and claims, unless a call says otherwise; None: the identity
    timeout    how long a call waits for its answer; None: as long as the daemon is there
    wait       how long to wait here for a daemon that is not there yet
    backoff    how to come back after the connection was lost
    tls        for tls://; None: the system's certificates
    """
    options = options_of(
        identity=identity, secret=secret, token=token, name=name, timeout=timeout, wait=wait, backoff=backoff, tls=tls,
        limits=limits,
    )  # fmt: skip
    link = Link(parse_address(address), options)
    store = RemoteStore(link)
    try:
        link.call(call("PING", "", as_it_is), options.timeout_ms)
        if name is not None:
            link.call(call("REGISTER", "", as_it_is, service=name), options.timeout_ms)
    except BaseException:
        link.close()
        raise
    return store


class RemoteStore:
    """A store that a daemon keeps; a context manager. Made by `journal.connect`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._timeout_ms = link.options.timeout_ms

    def journal(self, name: str, **settings: Any) -> RemoteJournal:
        """Open a journal, or declare it. Settings are kept; those given here change what may be changed."""
        check_name(name)
        if settings:
            self._ask(keeping.declare(name, settings))
        else:
            try:
                self._ask(keeping.settings(name))
            except NotFound:
                self._ask(keeping.declare(name, {}))
        return RemoteJournal(self._link, name, self._timeout_ms)

    def _ask(self, call: Call[R]) -> R:
        return self._link.call(call, None if call.is_slow else self._timeout_ms)

    def close(self) -> None:
        """End the connection. Closing twice is fine."""
        self._link.close()

    def __enter__(self) -> RemoteStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteStore {self._link.address}>"
