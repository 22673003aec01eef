"""
Manage the feed consumers of a journal: which ones follow its log, how far each has come, and what each holds of it.

A consumer that never comes back keeps the log for ever: move it on (mark), or remove it. When it fails again and again at
one change, look at it (`journal log show`), then skip it, or deliver it by hand (next). All verbs take --json.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import journal
from journal.cli.command import LOG, STORE, argument, command
from journal.cli.common import date, log_of, report, show
from journal.cli.log import place
from journal.core.values import FeedView
from journal.errors import NotFound, Refused

_CONSUMER = argument("consumer", metavar="CONSUMER", help="the feed consumer's name")
_CURSOR = argument(
    "cursor", metavar="CURSOR", type=place,
    help="001-<generation>-<offset>, or a bare offset of the first generation; mark: also BEGIN",
)  # fmt: skip


@command("list", STORE, LOG)
def run_list(args: argparse.Namespace) -> int:
    """List the consumers: name, mode, position, how many changes are not acknowledged, bytes of the log that hold them."""
    with log_of(args, readonly_too=True) as pages:
        for view in pages.feeds():
            text = f"{view.name}  {view.mode}  {view.position}  lag {view.lag}  holds {view.held_bytes} bytes"
            report(args, _map(view), text)
    return 0


@command("show", STORE, LOG, _CONSUMER)
def run_show(args: argparse.Namespace) -> int:
    """Show one consumer."""
    with log_of(args, readonly_too=True) as pages:
        fields = _map(_view(pages, args.consumer))
    report(args, fields, "\n".join(f"{name + ':':12} {value}" for name, value in fields.items()))
    return 0


@command("next", STORE, LOG, _CONSUMER)
def run_next(args: argparse.Namespace) -> int:
    """Deliver the next change only, and acknowledge it. Exits with 3 when there is none."""
    with log_of(args) as pages:
        if _view(pages, args.consumer).mode == "copy":
            raise Refused(f"the consumer {args.consumer!r} has not completed its copy: let it copy, or mark a position")
        with pages.feed(consumer=args.consumer, live=False) as feed:
            event = next(feed, None)
            if event is None:
                return 3
            data = f"  {event.data!r}" if event.has_data else ""
            text = f"{event.cursor}  {date(event.timestamp)}  {event.op} {event.verb}  {event.key!r}{data}"
            report(args, _event_map(event), text)
            sys.stdout.flush()  # shown before it counts as delivered
            feed.ack(event)
    return 0


@command("mark", STORE, LOG, _CONSUMER, _CURSOR)
def run_mark(args: argparse.Namespace) -> int:
    """Set a consumer's position: all up to CURSOR counts as acknowledged, nothing after it does."""
    with log_of(args) as pages:
        pages.mark_feed(args.consumer, args.cursor)
        _said(args, pages)
    return 0


@command("skip", STORE, LOG, _CONSUMER, _CURSOR)
def run_skip(args: argparse.Namespace) -> int:
    """Acknowledge one change without delivering it. Exits with 3 when it was acknowledged before."""
    with log_of(args) as pages:
        is_new = pages.skip_feed(args.consumer, args.cursor)
        _said(args, pages)
    return 0 if is_new else 3


@command("remove", STORE, LOG, _CONSUMER)
def run_remove(args: argparse.Namespace) -> int:
    """Forget a consumer; what only it held of the log may go."""
    with log_of(args) as pages:
        pages.remove_feed(args.consumer)
    if args.json:
        show({"removed": args.consumer})
    return 0


VERBS = (run_list, run_show, run_next, run_mark, run_skip, run_remove)


def _view(pages: journal.Journal | journal.MergedJournals, name: str) -> FeedView:
    views = {view.name: view for view in pages.feeds()}
    if name not in views:
        raise NotFound(
            f"there is no feed consumer {name!r} of journal {pages.name}: there is {', '.join(views) or 'none'}"
        )
    return views[name]


def _said(args: argparse.Namespace, pages: journal.Journal | journal.MergedJournals) -> None:
    if args.json:
        show(_map(_view(pages, args.consumer)))


def _map(view: FeedView) -> dict[str, Any]:
    return view._asdict() | {"position": str(view.position)}


def _event_map(event: journal.Event) -> dict[str, Any]:
    """An event as JSON has it, without what it does not have; the token as text: some JSON readers cut large integers."""
    fields = {name: value for name, value in event._asdict().items() if value is not None and name[:4] != "has_"}
    fields["cursor"] = str(event.cursor)
    if event.has_data:
        fields["data"] = event.data
    if event.token is not None:
        fields["token"] = str(event.token)
    return fields
