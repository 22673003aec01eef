"""`journal.connect`: a store that a daemon keeps, with the verbs of journal.Store."""

from __future__ import annotations

import os
import ssl

from journal.api.store import Store
from journal.core.requests.control import RegisterRequest
from journal.core.times import DurationLike
from journal.errors import Invalid
from journal.net.client.connection.address import parse_address, store_of
from journal.net.client.connection.call import call_of
from journal.net.client.connection.discovery import daemon_of
from journal.net.client.connection.due_notices import Ear
from journal.net.client.connection.heartbeat import TIMEOUT_MS, Heart
from journal.net.client.connection.link import Link
from journal.net.client.connection.options import Backoff, options_of
from journal.net.client.store import ClientStore
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
) -> Store:
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
    heart = Heart(link)
    store = ClientStore(Ear(heart), options.timeout_ms)
    try:
        heart.beat(options.wait_ms + TIMEOUT_MS)
        if name is not None:
            register = call_of(RegisterRequest(service=name))
            store.ask(register)
            link.first = register
    except BaseException:
        link.close()
        raise
    return Store(store)
