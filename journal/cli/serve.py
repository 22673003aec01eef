"""
Serve a store to many programs: own it, and listen on its Unix socket and on TCP, until SIGTERM or SIGINT.

The store's own user needs no token on the Unix socket. Other users do, and over TCP all users do: see `journal tokens`.
An address that is not loopback needs TLS, too. SIGHUP reads tokens and certificates again. Logs go to standard error.
Exits with 0 when it was stopped, 1 when it could not begin or failed, 2 when the arguments are wrong. A second signal
ends it at once, with 128 + the signal's number.
"""

from __future__ import annotations

import argparse
import logging
import os
import ssl
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

import journal
from journal.cli.common import show
from journal.core.times import duration_ms
from journal.engine.files.posix import SOCKET, TOKENS
from journal.engine.log.durability import LEVELS as DURABILITIES
from journal.errors import Invalid, JournalError
from journal.net.server.runtime.addresses import checked_binds, parse_tcp
from journal.net.server.runtime.log_format import FORMATS, LEVELS, logged
from journal.net.server.runtime.process import PidFile, Process, make_room, map_large_blocks, signals_held
from journal.net.server.runtime.systemd import Notify
from journal.net.server.runtime.token_file import read_tokens
from journal.net.server.runtime.unix_socket import checked_path
from journal.net.tls import TlsFiles, reload_context, server_context
from journal.net.wire.limits import Limits
from journal.net.wire.sessions import ANSWERS_MAX
from journal.net.wire.tokens import Token

log = logging.getLogger("journal.daemon")

STORE = "the store's directory; made when it is not there"
_LIMITS = {
    "frame_bytes_max": "the longest frame, in bytes",
    "in_flight_max": "requests of a connection that are not answered yet; more are not read",
    "output_bytes_max": "bytes that wait for a connection; with more nothing is read from it",
    "subscriptions_max": "subscriptions and feeds of a connection",
    "credit_max": "what a subscription may have pushed ahead",
    "hello_ms": "how long a connection may take to identify itself",
    "frame_ms": "how long a frame may take from its first byte to its last",
    "idle_ms": "how long a connection may be silent",
    "send_ms": "how long a connection may take nothing of what is sent",
    "stop_ms": "how long what is in flight may take at the end",
}


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    listening = sub.add_argument_group("where it listens")
    one = listening.add_mutually_exclusive_group()
    one.add_argument("--unix", metavar="PATH", help=f"the Unix socket; default: {SOCKET} in the store")
    one.add_argument("--no-unix", action="store_true", help="no Unix socket")
    listening.add_argument(
        "--tcp",
        metavar="HOST:PORT",
        action="append",
        default=[],
        help="listen on TCP, too; port 0: any. Several times: several",
    )
    listening.add_argument("--name", default="journal", help="what it calls itself; default journal")
    access = sub.add_argument_group("access")
    access.add_argument(
        "--tokens", metavar="FILE", help=f"identities (see `journal tokens`); default: {TOKENS} in the store"
    )
    access.add_argument(
        "--trust-loopback", action="store_true", help="every user of this machine may do everything over TCP"
    )
    access.add_argument("--tls-cert", metavar="FILE", help="TLS on TCP: the certificate (PEM)")
    access.add_argument("--tls-key", metavar="FILE", help="its key, 0600; default: in the certificate's file")
    access.add_argument("--tls-client-ca", metavar="FILE", help="clients need certificates, too, of these authorities")
    storing = sub.add_argument_group("the store")
    storing.add_argument("--durability", choices=tuple(DURABILITIES), default="full", help="default full")
    storing.add_argument("--sync-interval", default="50ms", help="of durability interval; default 50ms")
    storing.add_argument(
        "--claims", choices=("os", "full"), default="os", help="full: claims are synced, too; default os"
    )
    limiting = sub.add_argument_group("limits")
    limiting.add_argument("--connections-max", metavar="N", type=int, default=1024, help="default 1024")
    for field in fields(Limits):
        if field.name in _LIMITS:
            _limit_argument(limiting, field.name, field.default)
    running = sub.add_argument_group("how it runs")
    running.add_argument("--log-format", choices=FORMATS, default="text", help="default text")
    running.add_argument("--log-level", choices=LEVELS, default="info", help="default info")
    running.add_argument("--pid-file", metavar="PATH", help="written when it serves, removed at the end")
    running.add_argument(
        "--ready-fd", metavar="FD", type=int, help="when it serves, its addresses are written there, one a line"
    )
    running.add_argument("--print-addresses", action="store_true", help="the same to standard output")


def _limit_argument(group: Any, name: str, default: Any) -> None:
    if name.endswith("_ms"):
        group.add_argument(
            f"--{name[:-3]}-timeout", dest=name, metavar="TIME", default=f"{default // 1000}s",
            help=f"{_LIMITS[name]}; default {default // 1000}s",
        )  # fmt: skip
    else:
        group.add_argument(
            f"--{name.replace('_', '-')}", dest=name, metavar="N", type=int, default=default,
            help=f"{_LIMITS[name]}; default {default}",
        )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Serve."""
    with logged(args.log_format, args.log_level):
        try:
            with signals_held():
                _serve(args)
        except JournalError as e:
            if args.log_format == "text":
                raise
            log.error("failed error=%s", e)
            return 2 if isinstance(e, Invalid) else 1
    return 0


def _serve(args: argparse.Namespace) -> None:
    limits, tls_files = _limits(args), _tls_files(args)
    tls = None if tls_files is None else server_context(tls_files)
    places = [parse_tcp(word) for word in args.tcp]
    tokens = _tokens(args)
    _check_who(args, places, tokens, tls)
    unix = _unix(args)
    make_room(args.connections_max)
    map_large_blocks()
    with ExitStack() as at_end:
        store = journal.open(
            args.store, durability=args.durability, sync_interval=args.sync_interval, claims=args.claims
        )
        at_end.callback(store.close)
        server = store.serve(
            unix=unix, tcp=places, tokens=None if args.trust_loopback else tokens, tls=tls, name=args.name, limits=limits,
            connections_max=args.connections_max, trust_loopback=args.trust_loopback,
        )  # fmt: skip
        if args.pid_file is not None:
            at_end.callback(PidFile(Path(args.pid_file)).remove)
        _say_ready(args, server.addresses)

        def reload() -> str:
            found = _tokens(args)
            if args.trust_loopback and found:
                raise Invalid(
                    f"there are {len(found)} identities now, and --trust-loopback still accepts every client without one: "
                    "start the daemon without it, or take the identities away. With both it does not start again"
                )
            if tls is not None and tls_files is not None:
                reload_context(tls, tls_files)
            if args.trust_loopback:
                access = "every user of this machine is let in (--trust-loopback)"
            else:
                server.reload(found)
                access = f"{len(found)} identities"
            return access + ("" if tls is None else ", certificates")

        Process(
            server, notify=Notify(os.environ), reload=reload, close=store.close, stop_s=limits.stop_ms / 1000,
            status=f"serves {args.store} at {', '.join(server.addresses)}",
        ).run()  # fmt: skip


def _say_ready(args: argparse.Namespace, addresses: list[str]) -> None:
    """Write the addresses to --ready-fd, and print them with --print-addresses."""
    if args.ready_fd is not None:
        try:
            with open(args.ready_fd, "w") as ready:
                ready.writelines(f"{address}\n" for address in addresses)
        except OSError as e:
            raise Invalid(f"--ready-fd {args.ready_fd} cannot be written to: {e.strerror or e}") from e
    if args.print_addresses:
        if args.json:
            show({"addresses": addresses, "pid": os.getpid()})
        else:
            print("\n".join(addresses))
        sys.stdout.flush()


# --- what the arguments mean ------------------------------------------------------------------------------------------


def _limits(args: argparse.Namespace) -> Limits:
    given = {name: getattr(args, name) for name in _LIMITS}
    for name in given:
        if name.endswith("_ms"):
            given[name] = duration_ms(given[name], f"--{name[:-3]}-timeout")
    if given["in_flight_max"] > ANSWERS_MAX:
        raise Invalid(f"--in-flight-max is {given['in_flight_max']}: it must be from 1 to {ANSWERS_MAX}")
    if args.connections_max < 1:
        raise Invalid(f"--connections-max is {args.connections_max}: it must be at least 1")
    return Limits(**given)


def _tls_files(args: argparse.Namespace) -> TlsFiles | None:
    if args.tls_cert is None:
        for option in ("tls_key", "tls_client_ca"):
            if getattr(args, option) is not None:
                raise Invalid(f"--{option.replace('_', '-')} without --tls-cert: give the certificate, too")
        return None
    if not args.tcp:
        raise Invalid("--tls-cert without --tcp: TLS is for TCP; a Unix socket needs none")
    key, ca = (None if word is None else Path(word) for word in (args.tls_key, args.tls_client_ca))
    return TlsFiles(Path(args.tls_cert), key, ca)


def _tokens(args: argparse.Namespace) -> dict[str, Token]:
    """The identities; of a store that has no token file, none."""
    path = Path(args.store) / TOKENS if args.tokens is None else Path(args.tokens)
    if args.tokens is None and not os.path.lexists(path):
        return {}
    return read_tokens(path)


def _check_who(
    args: argparse.Namespace, places: list[tuple[str, int]], tokens: Mapping[str, Token], tls: ssl.SSLContext | None
) -> None:
    """Check that no client is let in by accident, and that some client can be let in at all."""
    checked_binds(places, has_tokens=bool(tokens) and not args.trust_loopback, has_tls=tls is not None)
    if args.trust_loopback:
        if tokens or not places:
            raise Invalid("--trust-loopback is for --tcp without tokens: leave it out")
        log.warning("loopback_trusted places=%s", ",".join(args.tcp))
    elif places and not tokens:
        raise Invalid(
            "over TCP clients cannot be told apart without tokens: make one (`journal tokens add`) and give the file "
            "with --tokens FILE, or say --trust-loopback: then every user of this machine may do everything"
        )


def _unix(args: argparse.Namespace) -> Path | bool:
    """The Unix socket's path; True: the store's own."""
    if args.no_unix:
        if not args.tcp:
            raise Invalid("--no-unix without --tcp: it would listen nowhere")
        return False
    if args.unix is not None:
        return checked_path(Path(args.unix))
    checked_path(Path(args.store) / SOCKET)
    return True
