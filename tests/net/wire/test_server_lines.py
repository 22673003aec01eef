"""The daemon's end of a connection that speaks lines."""

from __future__ import annotations

from typing import Any

import pytest

from journal.errors import (
    LineError,
    TimedOut,
)
from journal.net.wire.auth import EVERYTHING
from journal.net.wire.events import Ended, Requested
from journal.net.wire.limits import Limits
from journal.net.wire.server_connection import ServerConnection
from tests.net.wire.peers import Peers, of


def said(server: ServerConnection, text: str) -> list[str]:
    """What a person with netcat sees."""
    server.receive(text.encode(), 0)
    lines = bytes(server.outgoing).decode().splitlines()
    server.sent(len(server.outgoing), 0)
    return [line.removeprefix("<work:journal ") for line in lines]


def person(grant: Any = EVERYTHING, **limits: int) -> ServerConnection:
    return ServerConnection(Peers().daemon, nonce=bytes(32), now=0, grant=grant, limits=Limits(**limits))


def test_a_person_with_netcat() -> None:
    """Control commands as lines, answered as lines."""
    server = person()
    assert said(server, "ALIVE serial=7\r\n") == ["ABSOLUTELY serial=7"]
    assert said(server, "<host:me work:journal/REGIS") == []
    help_, ready = said(server, "TER service=backend_1;version=1\n")
    assert help_ == "HELP" and ready.startswith("READY commands=REGISTER,") and server.registered == "backend_1"
    (commands,) = said(server, "COMMANDS list=STOP,READY\n")
    assert commands.startswith("COMMANDS list=REGISTER,UNREGISTER")
    assert ready == f"READY commands={commands.removeprefix('COMMANDS list=')};service=backend_1"
    assert said(server, "FLY me=moon\n") == ["UNKNOWN command=FLY;message=COMMANDS lists those that there are"]
    (event,) = server.receive(b"STATUS\n", 0)
    assert isinstance(event, Requested) and event.command.name == "STATUS"
    server.reply(event.id, {"status": "up", "up_since": 5, "is_full": False, "none": None}, 0)
    assert said(server, "") == ["STATUS is_full=false;status=up;up_since=5"]


def test_a_person_is_told_of_the_commands_that_lines_can_hold() -> None:
    """Each of them is understood, whatever it comes to; others would be refused."""
    server = person()
    (commands,) = said(server, "COMMANDS\n")
    names = commands.removeprefix("COMMANDS list=").split(",")
    assert "PING" in names and "PUT" not in names
    for name in names:
        (answer,) = said(person(), f"{name} no_such=1\n")
        assert answer.startswith(f"INVALID code=invalid;command={name};message=") and "no_such" in answer


def test_all_that_is_listed_of_a_ping_can_be_written() -> None:
    """The heartbeat by hand, with numbers."""
    (event,) = person().receive(b"PING sent=5;offset=-2.5;delay=1\n", 0)
    assert isinstance(event, Requested) and event.parameters == {"sent": 5, "offset": -2.5, "delay": 1}


@pytest.mark.parametrize("to", ["", "journal/", "work:journal/"])
def test_a_line_for_us(to: str) -> None:
    """With or without an address."""
    assert said(person(), f"{to}ALIVE\n") == ["ABSOLUTELY"]


@pytest.mark.parametrize(
    ("to", "why"), [("nowhere:journal/", "nothing is passed on"), ("nowhere:other/", "nothing is passed on"),
                    ("work:other/", "not for the journal 'other'"), ("other/", "not for the journal 'other'")],
)  # fmt: skip
def test_a_line_for_somebody_else_is_not_ours(to: str, why: str) -> None:
    """It is not answered as if it were."""
    server = person()
    for line in ("ALIVE", "REGISTER service=a"):
        (answer,) = said(server, f"{to}{line}\n")
        assert answer.startswith("INVALID code=invalid") and why in answer
    assert server.registered is None


def test_nobody_takes_a_name_away_that_it_has_not() -> None:
    """READY would say that it is gone."""
    server = person()
    said(server, "REGISTER service=bob\n")
    (answer,) = said(server, "UNREGISTER service=alice\n")
    assert answer.startswith("INVALID code=invalid") and "'bob', not 'alice'" in answer and server.registered == "bob"
    assert said(server, "UNREGISTER service=bob\n") == ["READY"] and server.registered is None
    assert said(server, "UNREGISTER service=bob\n")[0].startswith("INVALID") and said(server, "UNREGISTER\n") == [
        "READY"
    ]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("put\n", "INVALID code=line;message="),
        ("ALIVE x=1\n", "INVALID code=invalid;command=ALIVE;message=ALIVE has no parameter"),
        ("PUT\n", 'INVALID code=invalid;command=PUT;message="PUT cannot be sent as a line'),
        ("\n", "INVALID code=line;"),
    ],
    ids=["case", "parameter", "verb", "empty"],
)
def test_lines_that_are_wrong(line: str, answer: str) -> None:
    """A person is told why, and may try again."""
    server = person()
    (said_,) = said(server, line)
    assert said_.replace('"', "").startswith(answer.replace('"', ""))
    assert said(server, "ALIVE\n") == ["ABSOLUTELY"]


def test_lines_prove_no_identity() -> None:
    """Where a token is needed, a line gets a sign of life and nothing else."""
    server = person(grant=None)
    assert said(server, "ALIVE\n") == ["ABSOLUTELY"]
    for line in ("STATUS\n", "STOP\n", "REGISTER service=a\n", "LISTEN port=1;journals=*\n"):
        (answer,) = said(server, line)
        assert answer.startswith("INVALID code=access_denied"), answer


def test_lines_have_limits() -> None:
    """A line that does not end, and one that trickles in, and garbage for ever, are not waited for."""
    server = person(line_bytes_max=100)
    server.receive(b"A" * 101, 0)
    assert server.is_ended and b"too" not in server.outgoing[:5]
    server = person(frame_ms=1000)
    server.receive(b"ALI", 0)
    assert isinstance(server.tick(1000)[0].error, TimedOut)  # type: ignore[union-attr]
    server = person()
    answers = said(server, "garbage\n" * 20)
    assert len(answers) == 10 and server.is_ended
    assert isinstance(server.more(0), list)
    server = person()
    assert isinstance(of(Ended, server.receive(b"GET / HTTP/1.1\r\n" * 20, 0))[0].error, LineError)


def test_a_stop_says_so_in_lines() -> None:
    """QUITTING is the last line."""
    server = person()
    said(server, "ALIVE\n")
    server.stop(0)
    assert said(server, "") == ["QUITTING"] and server.is_ended
