"""Where a daemon may listen on TCP: words, names, and what other machines could reach."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from journal.errors import Invalid
from journal.net.server.runtime import addresses
from journal.net.server.runtime.addresses import Bind, checked_binds, look_up, parse_tcp


@pytest.mark.parametrize(
    ("word", "host", "port"),
    [
        ("127.0.0.1:7070", "127.0.0.1", 7070),
        ("tcp://127.0.0.1:7070", "127.0.0.1", 7070),
        ("[::1]:0", "::1", 0),
        ("tcp://[::]:65535", "::", 65535),
        ("localhost:1", "localhost", 1),
        ("0.0.0.0:80", "0.0.0.0", 80),
        ("work.example.org:80", "work.example.org", 80),
    ],
)
def test_places(word: str, host: str, port: int) -> None:
    """A host and a port, as they are usually written."""
    assert parse_tcp(word) == (host, port)


@pytest.mark.parametrize(
    "word",
    ["", "7070", ":7070", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1", "::1:7070",
     "[::1]", "[]:1", "a b:1", "127.0.0.1:7070\n", "127.0.0.1:٣", "tls://127.0.0.1:1"],
)  # fmt: skip
def test_what_is_no_place(word: str) -> None:
    """The error says how one is written."""
    with pytest.raises(Invalid, match=r"HOST:PORT|65535"):
        parse_tcp(word)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.0.0.53", True),
        ("127.255.255.254", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("192.168.1.1", False),
        ("169.254.1.1", False),
        ("fe80::1", False),
        ("128.0.0.1", False),
    ],
)
def test_loopback(host: str, is_loopback: bool) -> None:
    """127.0.0.0/8 and ::1; everything and private networks are not."""
    assert look_up(host, 1).is_loopback is is_loopback


def answering(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    def getaddrinfo(host: str, port: int, **options: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in hosts]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", getaddrinfo)


def test_a_name_is_bound_where_it_was_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number comes back, IPv4 first: nobody looks it up again."""
    answering(monkeypatch, "::1", "127.0.0.1")
    assert look_up("localhost", 7070) == Bind("127.0.0.1", 7070, True)
    answering(monkeypatch, "::1")
    assert str(look_up("localhost", 7070)) == "[::1]:7070"


def test_a_name_with_one_address_outside_is_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is what has loopback addresses only, whatever it is called."""
    answering(monkeypatch, "127.0.0.1", "10.0.0.1")
    assert not look_up("localhost", 7070).is_loopback
    with pytest.raises(Invalid, match="not loopback"):
        checked_binds([("localhost", 7070)], has_tokens=True, has_tls=False)


def test_a_name_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names it."""

    def getaddrinfo(host: str, port: int, **options: Any) -> list[Any]:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(addresses.socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(Invalid, match=r"nowhere.*Name or service not known"):
        look_up("nowhere", 1)


@pytest.mark.parametrize(
    ("has_tokens", "has_tls", "named"),
    [(False, False, ["--tokens", "--tls-cert"]), (True, False, ["--tls-cert"]), (False, True, ["--tokens"])],
)
def test_others_are_not_let_in_without_tokens_and_tls(has_tokens: bool, has_tls: bool, named: list[str]) -> None:
    """Refused, with what is missing and a way out; loopback needs neither."""
    with pytest.raises(Invalid) as refused:
        checked_binds([("127.0.0.1", 1), ("0.0.0.0", 7070)], has_tokens=has_tokens, has_tls=has_tls)
    assert "0.0.0.0:7070 is not loopback" in str(refused.value) and "127.0.0.1" in str(refused.value)
    assert [word for word in ("--tokens", "--tls-cert") if word in str(refused.value)] == named
    assert checked_binds([("127.0.0.1", 1)], has_tokens=has_tokens, has_tls=has_tls) == [Bind("127.0.0.1", 1, True)]


def test_others_are_let_in_with_both() -> None:
    """In the order that was given."""
    binds = checked_binds([("::", 1), ("127.0.0.1", 2)], has_tokens=True, has_tls=True)
    assert [str(bind) for bind in binds] == ["[::]:1", "127.0.0.1:2"]


@pytest.mark.parametrize("place", [("", 1), ("127.0.0.1", -1), ("127.0.0.1", 65536), ("127.0.0.1", True), (None, 1)])
def test_what_a_program_gives_is_checked_too(place: Any) -> None:
    """`store.serve(tcp=…)` has no words that were parsed."""
    with pytest.raises(Invalid, match="no place to listen"):
        checked_binds([place], has_tokens=True, has_tls=True)
