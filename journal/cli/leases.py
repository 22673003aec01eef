"""The commands about leases, and about entries that were buried: claim, done, release, bury, retry."""

from __future__ import annotations

import argparse
from typing import Any

from journal.cli.command import HEX, JOURNAL, STORE, Options, argument, command
from journal.cli.common import date, journal_of, key_of, lease_map, report
from journal.core.requests.consume import ClaimManyRequest, ReleaseRequest
from journal.core.requests.operate import BuriedRequest
from journal.errors import Invalid, JournalError

GROUP = 1000
"""So many buried entries wait again with one record."""

_TOKEN_HELP = "what `journal claim` printed"
_TOKEN = argument("token", metavar="TOKEN", type=int, help=_TOKEN_HELP)
_CLAIM = Options(
    ClaimManyRequest,
    consumer="the name of the consumer",
    lease="for how long, e.g. 30s; default: the journal's processing_timeout",
    buckets="only of these buckets, e.g. 0-3",
)
_RELEASE = Options(ReleaseRequest, delay="wait so long first, e.g. 2m", priority="0 (first) to 255 (last) from now on")
_BURIED = Options(BuriedRequest, prefix="all whose key begins so", reason="all whose reason has this text")


@command(
    "claim", STORE, JOURNAL,
    _CLAIM, argument("-n", type=int, default=1, help="at most so many; default 1"),
)  # fmt: skip
def claim(args: argparse.Namespace) -> int:
    """
    Take the next entries that are due, under leases; print their tokens for `done` or `release`.

    Exits with 3 when nothing is due.
    """
    with journal_of(args) as pages:
        leases = pages.claim_many(args.n, **_CLAIM.given(args))
    for lease in leases:
        text = f"{lease.token}  until {date(lease.deadline)}  {lease.key!r}  {lease.data!r}"
        report(args, lease_map(lease), text)
    if not leases and not args.json:
        print("nothing is due")
    return 0 if leases else 3


@command("done", STORE, JOURNAL, argument("token", metavar="TOKEN", type=int, nargs="+", help=_TOKEN_HELP))
def done(args: argparse.Namespace) -> int:
    """Finish leases by their tokens: their entries go. Repeating it is harmless."""
    with journal_of(args) as pages:
        errors = pages.done_many(args.token)
    for token, error in zip(args.token, errors, strict=True):
        fields = {"token": str(token), "done": error is None} | ({} if error is None else {"error": str(error)})
        report(args, fields, f"{token}  {'done' if error is None else error}")
    return 1 if any(errors) else 0


@command(
    "release", STORE, JOURNAL, _TOKEN, _RELEASE
)  # fmt: skip
def release(args: argparse.Namespace) -> int:
    """Give a lease back by its token: the entry waits again, now or later."""
    with journal_of(args) as pages:
        pages.release(args.token, **_RELEASE.given(args))
    report(args, {"token": str(args.token), "released": True}, f"{args.token}  released")
    return 0


@command(
    "bury", STORE, JOURNAL, _TOKEN, argument("reason", metavar="REASON", nargs="?", default="", help="why")
)  # fmt: skip
def bury(args: argparse.Namespace) -> int:
    """Give up on an entry by its lease's token: it is kept apart until it is retried."""
    with journal_of(args) as pages:
        pages.bury(args.token, args.reason)
    report(args, {"token": str(args.token), "buried": True}, f"{args.token}  buried")
    return 0


@command(
    "retry", STORE, JOURNAL,
    argument("key", metavar="KEY", nargs="?", help="the entry's key (a text; with --hex: bytes)"), HEX,
    _BURIED,
    argument("--all", action="store_true", help="all"),
    argument("--discard", action="store_true", help="delete it instead"),
)  # fmt: skip
def retry(args: argparse.Namespace) -> int:
    """
    Let a buried entry wait again, or delete it with --discard.

    Without a key, --prefix and --reason say which, and --all means every one; `journal ls STORE JOURNAL --buried` lists them.
    """
    is_many = args.prefix is not None or args.reason is not None or args.all
    if is_many == (args.key is not None):
        raise Invalid("give a KEY, or --prefix, --reason or --all")
    if is_many and args.discard:
        raise Invalid("--discard takes a KEY: what is deleted is named")
    with journal_of(args) as pages:
        if is_many:
            return _retry_many(args, pages)
        if args.discard:
            pages.discard(key_of(args))
        else:
            pages.retry(key_of(args))
    _report_retry(args, key_of(args), "discarded" if args.discard else "retried")
    return 0


def _retry_many(args: argparse.Namespace, pages: Any) -> int:
    """A selection, page by page; whether all of it could be done."""
    is_done, after = True, None
    while True:
        page = pages.buried(**_BURIED.given(args), limit=GROUP, after=after)
        keys = list(dict.fromkeys(buried.key for buried in page))
        for key, result in zip(keys, pages.retry_many(keys), strict=True):
            is_refused = isinstance(result, JournalError)
            is_done = is_done and not is_refused
            _report_retry(args, key, str(result) if is_refused else "retried")
        if not page.has_more:
            return 0 if is_done else 1
        after = page.after


def _report_retry(args: argparse.Namespace, key: Any, outcome: str) -> None:
    report(args, {"key": key, "outcome": outcome}, f"{outcome} {key!r}")
