"""What a service manager hears, with a real socket."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from time import monotonic_ns

import pytest

from journal.net.server.runtime.systemd import Notify


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A manager's socket and how the environment names it."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@journal-test-{os.getpid()}-{id(request)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(name.replace("@", "\0", 1) if name.startswith("@") else name)
        sock.settimeout(10)
        yield sock, name


def heard(sock: socket.socket) -> list[str]:
    return sock.recv(4096).decode().split("\n")


def test_a_manager_hears_all_of_it(manager: tuple[socket.socket, str]) -> None:
    """Each in one datagram, with what it must have beside it."""
    sock, name = manager
    notify = Notify({"NOTIFY_SOCKET": name})
    notify.ready("serves unix:/x\nREADY=0")
    assert heard(sock) == ["READY=1", "STATUS=serves unix:/x READY=0"]
    before = monotonic_ns() // 1000
    notify.reloading()
    word, when = heard(sock)
    assert word == "RELOADING=1"
    assert before <= int(when.removeprefix("MONOTONIC_USEC=")) <= monotonic_ns() // 1000
    notify.stopping("finishes 3")
    assert heard(sock) == ["STOPPING=1", "STATUS=finishes 3"]
    notify.alive()
    assert heard(sock) == ["WATCHDOG=1"]


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "vsock:2:5"}])
def test_without_a_manager_nothing_is_told(environment: dict[str, str]) -> None:
    """Nor does anything fail."""
    Notify(environment).ready("serves")


def test_a_manager_that_is_gone_or_full_is_not_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A warning, and the daemon goes on."""
    gone = Notify({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    with caplog.at_level(logging.WARNING):
        gone.ready("serves")
    assert "notify_failed message=READY=1" in caplog.text
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
        deaf.bind(str(tmp_path / "deaf"))
        full = Notify({"NOTIFY_SOCKET": str(tmp_path / "deaf")})
        caplog.clear()
        for _ in range(100_000):
            full.alive()
            if caplog.records:
                break
        assert "notify_failed message=WATCHDOG=1" in caplog.text


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "{pid}"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "-5"}, None),
    ],
    ids=["none", "plain", "ours", "of another", "zero", "word", "negative"],
)
def test_the_watchdog(environment: dict[str, str], expected: float | None) -> None:
    """A sign of life twice in the time that is allowed, if it is we who are meant."""
    meant = {name: value.replace("{pid}", str(os.getpid())) for name, value in environment.items()}
    assert Notify(meant).watchdog_s == expected
