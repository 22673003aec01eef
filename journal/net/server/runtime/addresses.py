"""
Where a daemon listens on TCP, and whether it may.

A1  A bind that other machines can reach has tokens and TLS, or there is none: what is not plainly loopback counts as reachable.
A2  A name is looked up once, and bound is what was checked: another answer later changes nothing.
A3  On TCP without tokens every user of the machine may do everything. That is said, or there is none.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from journal.core.quoting import shown
from journal.errors import Invalid

_TCP = re.compile(r"(?:tcp://)?(?:\[(?P<six>[^\]\s]+)\]|(?P<host>[^\[\]:\s]+)):(?P<port>[0-9]{1,5})", re.ASCII)
_HOW = "HOST:PORT, e.g. 127.0.0.1:7070, [::1]:7070; port 0: any that is free"


class Bind(NamedTuple):
    """A place on TCP, looked up."""

    host: str
    """A number, not a name (A2)."""
    port: int
    is_loopback: bool

    def __str__(self) -> str:
        return place(self.host, self.port)


def place(host: str, port: int) -> str:
    """Host and port as they are written."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_tcp(word: str) -> tuple[str, int]:
    """Host and port of a word such as 127.0.0.1:7070."""
    match = _TCP.fullmatch(word)
    if match is None:
        raise Invalid(f"{shown(word)} is no place to listen: say {_HOW}")
    port = int(match["port"])
    if port > 65535:
        raise Invalid(f"{shown(word)} has the port {port}: it must be from 0 to 65535")
    return match["six"] or match["host"], port


def look_up(host: str, port: int) -> Bind:
    """The address of a host: of a name that has several, the first of IPv4, else the first there is."""
    if type(host) is not str or type(port) is not int or not host or not 0 <= port <= 65535:
        raise Invalid(f"{shown(host)}, {shown(port)} is no place to listen: a host and a port from 0 to 65535")
    try:
        found = [ip_address(host)]
    except ValueError:
        found = _addresses_of(host, port)
    chosen = next((address for address in found if address.version == 4), found[0])
    return Bind(str(chosen), port, all(map(_is_loopback, found)))


def _addresses_of(host: str, port: int) -> list[IPv4Address | IPv6Address]:
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as e:
        raise Invalid(f"the host {shown(host)} cannot be looked up: {e}. Give its address, e.g. 127.0.0.1") from e
    return [ip_address(answer[4][0]) for answer in answers]


def _is_loopback(address: IPv4Address | IPv6Address) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def checked_places(tcp: object) -> list[tuple[str, int]]:
    """What a program has given as places to listen on."""
    if not isinstance(tcp, Iterable) or isinstance(tcp, (str, bytes)):
        raise Invalid(f"tcp is {shown(tcp)}: it must be a list of hosts and ports, e.g. [('127.0.0.1', 7070)]")
    places = []
    for each in tcp:
        if not isinstance(each, (tuple, list)) or len(each) != 2:
            raise Invalid(
                f"{shown(each)} in tcp is no place to listen: give a host and a port, e.g. ('127.0.0.1', 7070)"
            )
        places.append((each[0], each[1]))
    return places


def check_consent(*, has_places: bool, has_tokens: bool, trust_loopback: object) -> None:
    """Refuse to let every user of the machine in without explicit consent (A3)."""
    if type(trust_loopback) is not bool:
        raise Invalid(f"trust_loopback is {trust_loopback!r}: it must be True or False")
    if trust_loopback and (has_tokens or not has_places):
        raise Invalid("trust_loopback is for tcp= without tokens: leave it out")
    if has_places and not has_tokens and not trust_loopback:
        raise Invalid(
            "over TCP clients cannot be told apart without tokens: give tokens= (read_tokens of "
            "journal.net.server.runtime.token_file), or say trust_loopback=True: then every user of this machine may do everything"
        )


def checked_binds(places: Sequence[tuple[str, int]], *, has_tokens: bool, has_tls: bool) -> list[Bind]:
    """Look all of them up, and refuse what other machines could reach without tokens and TLS (A1)."""
    binds = [look_up(host, port) for host, port in places]
    for bind, (host, port) in zip(binds, places, strict=True):
        if bind.is_loopback or (has_tokens and has_tls):
            continue
        missing = " and ".join(
            what
            for what, has in (
                ("a token file with an identity (--tokens FILE; `journal tokens add`)", has_tokens),
                ("TLS (--tls-cert FILE --tls-key FILE)", has_tls),
            )
            if not has
        )
        raise Invalid(
            f"{place(host, port)} is not loopback, so others can reach it: it needs {missing}. "
            "Or listen on 127.0.0.1, or on the Unix socket alone"
        )
    return binds
