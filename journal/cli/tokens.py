"""
Manage a token file: the identities that may connect to a daemon, and their rights.

A file is named by its path, or by the store that has it (then `journal serve` finds it by itself). A running daemon reads
it again on SIGHUP. Secrets are shown once, when they are made. All verbs take --json.
"""

from __future__ import annotations

import argparse
from typing import Any

from journal.cli.command import argument, command
from journal.cli.common import report
from journal.net.server.runtime.token_file import add_token, list_tokens, remove_token, token_path
from journal.net.wire.auth import Grant

_FILE = argument("file", metavar="STORE|FILE", help="a store, or a token file")
_NAME = argument("identity", metavar="NAME", help="the identity: letters, digits, _ . and -")


@command(
    "add", _FILE, _NAME,
    argument(
        "--roles", required=True, help="what it may do, with commas between: produce, consume, admin (everything)"
    ),
    argument("--journals", default="*", help="the journals it may name: patterns with * ? [ ]; default: all"),
    argument(
        "--names", default="",
        help="consumers and producer groups it may act as, beside its own name: patterns; default: none",
    ),
)  # fmt: skip
def run_add(args: argparse.Namespace) -> int:
    """Make a token for a new identity and print it, once: NAME:SECRET, as clients take it. Makes the file, too."""
    roles, journals, names = (_words(written) for written in (args.roles, args.journals, args.names))
    token = add_token(token_path(args.file), args.identity, roles, journals, names)
    secret = token.secret.hex()
    fields = _map(args.identity, token.grant) | {"secret": secret, "token": f"{args.identity}:{secret}"}
    report(args, fields, f"{args.identity}:{secret}")
    return 0


@command("list", _FILE)
def run_list(args: argparse.Namespace) -> int:
    """List the identities and what they may do, without their secrets."""
    for identity, grant in list_tokens(token_path(args.file)).items():
        fields = _map(identity, grant)
        roles, journals, names = (",".join(fields[what]) or "-" for what in ("roles", "journals", "names"))
        report(args, fields, f"{identity}  roles {roles}  journals {journals}  names {names}")
    return 0


@command("remove", _FILE, _NAME)
def run_remove(args: argparse.Namespace) -> int:
    """Remove an identity; a daemon that reads the file again (SIGHUP) ends its connections."""
    remove_token(token_path(args.file), args.identity)
    report(args, {"removed": args.identity}, f"{args.identity}  removed")
    return 0


VERBS = (run_add, run_list, run_remove)


def _words(written: str) -> list[str]:
    return [word.strip() for word in written.split(",")] if written.strip() else []


def _map(identity: str, grant: Grant) -> dict[str, Any]:
    return {
        "identity": identity,
        "roles": sorted(grant.roles),
        "journals": list(grant.journals),
        "names": list(grant.names),
    }
