"""A daemon is found by the path of its store, wherever it listens; and who finds it full is told so."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.net.client.connect import connect
from journal.net.client.connection.address import DaemonAddress
from journal.net.client.connection.discovery import daemon_of
from journal.net.client.connection.options import Backoff
from journal.net.server.server import ServeOptions

TCP: ServeOptions = {"unix": False, "tcp": [("127.0.0.1", 0)], "trust_loopback": True}
QUICK = Backoff(first="1ms", most="10ms", total="30s")


@pytest.mark.parametrize("where", ["tcp", "unix", "both"])
def test_a_daemon_that_listens_elsewhere(
    store: journal.Store, pages: journal.Journal, tmp_path: Path, where: str
) -> None:
    """Another socket, or TCP alone; a socket comes first."""
    options: ServeOptions = {"unix": tmp_path / "other"} if where == "unix" else TCP
    if where == "both":
        options = {**TCP, "unix": tmp_path / "other"}
    with store.serve(**options) as server, connect(store.path) as far:
        assert str(far._backend.link.address) == server.addresses[0]
        assert far.journal("pages").put("a").outcome == "inserted"
    assert pages.get("a") is not None


def test_a_daemon_that_moved_is_found_again(store: journal.Store, pages: journal.Journal, tmp_path: Path) -> None:
    """Its successor listens at another place; the client, which has the store's path, comes there by itself."""
    with store.serve(**TCP) as first, connect(store.path, backoff=QUICK) as far:
        far_pages = far.journal("pages")
        first.stop()
        assert first.join(100)
        with store.serve(unix=tmp_path / "other") as second:
            assert far_pages.put("a").outcome == "inserted"
            assert str(far._backend.link.address) == second.addresses[0]


def test_who_waits_finds_it_when_it_comes(store: journal.Store, pages: journal.Journal, tmp_path: Path) -> None:
    """Also at a place that nobody knew of when the waiting began."""
    got: list[Any] = []
    began = threading.Event()

    def run() -> None:
        began.set()
        with connect(store.path, wait="20s", backoff=QUICK) as far:
            got.append(far.journal("pages").put("a").outcome)

    thread = threading.Thread(target=run)
    thread.start()
    assert began.wait(100)
    with store.serve(unix=tmp_path / "other"):
        thread.join(100)
    assert got == ["inserted"]


def lock(path: Path, *lines: str, owner: str = "") -> str:
    """A store of which there is only the LOCK."""
    path.mkdir(exist_ok=True)
    start = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19]
    (path / "LOCK").write_text("\n".join([owner or f"{os.getpid()} {start}".ljust(63), *lines, ""]))
    return str(path)


def test_what_a_dead_daemon_has_written_does_not_count(tmp_path: Path) -> None:
    """Its port may be another store's by now; nor does what is no address, or no LOCK."""
    own = DaemonAddress("unix", str(tmp_path / "s" / "SOCKET"))
    here = "tcp://127.0.0.1:7070"
    store = lock(tmp_path / "s", here)
    assert daemon_of(store) == DaemonAddress("tcp", "127.0.0.1", 7070)
    assert daemon_of(lock(tmp_path / "s", "tls://h:1", here, "unix:/x")) == DaemonAddress("unix", "/x")
    for owner in (f"{os.getpid()} 1", "1 x", "999999999 5", "../self 5", "x", " "):
        assert daemon_of(lock(tmp_path / "s", here, owner=owner)) == own
    assert daemon_of(lock(tmp_path / "s", "garbage", "tcp://", "unix:", "\ufffd")) == own
    assert daemon_of(lock(tmp_path / "s")) == own
    (tmp_path / "s" / "LOCK").unlink()
    assert daemon_of(store) == own
    os.mkfifo(tmp_path / "s" / "LOCK")
    assert daemon_of(store) == own


def test_a_daemon_with_no_room_is_busy(store: journal.Store, pages: journal.Journal) -> None:
    """Not gone: who can wait is let in when another leaves."""
    with store.serve(connections_max=1):
        first = connect(store.path)
        with pytest.raises(
            journal.Busy, match=r"takes no further connection .*1 connections already.*--connections-max"
        ):
            connect(store.path)
        got: list[Any] = []

        def run() -> None:
            with connect(store.path, wait="20s", backoff=QUICK) as second:
                got.append(second.journal("pages").put("a").outcome)

        thread = threading.Thread(target=run)
        thread.start()
        first.close()
        thread.join(100)
        assert got == ["inserted"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"token": 5}, "identity:secret"),
        ({"token": b"a:" + b"00" * 16}, "identity:secret"),
        ({"limits": 5}, r"journal\.net\.wire\.limits"),
        ({"limits": None}, r"journal\.net\.wire\.limits"),
        ({"identity": "a", "secret": 20}, "16 to 64 bytes"),
        ({"identity": "a", "secret": [1] * 20}, "16 to 64 bytes"),
        ({"identity": 5, "secret": bytes(16)}, "no identity"),
        ({"name": 5}, "no name"),
        ({"backoff": 5}, "Backoff"),
        ({"tls": "ca.pem"}, "SSLContext"),
    ],
    ids=str,
)
def test_options_that_mean_nothing(store: journal.Store, options: Any, said: str) -> None:
    """Refused with what would do, before anybody is asked; a secret is not shown."""
    with pytest.raises(journal.Invalid, match=said):
        connect(store.path, **options)
