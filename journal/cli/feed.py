"""
Manage the feed consumers of a journal: which ones follow its log, how far each has come, and what each holds of it.

A consumer that never comes back keeps the log for ever: move it on (mark), or remove it. When it fails again and again at
one change, look at it (`journal log show`), then skip it, or deliver it by hand (next). All verbs take --json.
"""

from __future__ import annotations

import argparse
from typing import Any

import journal
from journal.cli.common import STORE_HELP, AnyLog, date, log_argument, open_existing, open_log, show
from journal.cli.log import place
from journal.engine.feed.consumers import FeedView
from journal.errors import NotFound, Refused


def arguments(sub: argparse.ArgumentParser, verb: str) -> None:
    """Declare those of a verb."""
    sub.add_argument("store", metavar="STORE", help=STORE_HELP)
    log_argument(sub)
    if verb != "list":
        sub.add_argument("consumer", metavar="CONSUMER", help="the feed consumer's name")
    if verb in ("mark", "skip"):
        sub.add_argument(
            "cursor", metavar="CURSOR", type=place,
            help="001-<generation>-<offset>, or a bare offset of the first generation; mark: also BEGIN",
        )  # fmt: skip


def run_list(args: argparse.Namespace) -> int:
    """List the consumers: name, mode, position, how many changes are not acknowledged, bytes of the log that hold them."""
    with open_existing(args.store, readonly_too=True) as store:
        for view in open_log(store, args.journal).feeds():
            if args.json:
                show(_map(view))
            else:
                print(f"{view.name}  {view.mode}  {view.position}  lag {view.lag}  holds {view.held_bytes} bytes")
    return 0


def run_show(args: argparse.Namespace) -> int:
    """Show one consumer."""
    with open_existing(args.store, readonly_too=True) as store:
        view = _view(open_log(store, args.journal), args.consumer)
        if args.json:
            show(_map(view))
        else:
            for name, value in _map(view).items():
                print(f"{name + ':':12} {value}")
    return 0


def run_next(args: argparse.Namespace) -> int:
    """Deliver the next change only, and acknowledge it. Exits with 3 when there is none."""
    with open_existing(args.store) as store:
        pages = open_log(store, args.journal)
        if _view(pages, args.consumer).mode == "copy":
            raise Refused(f"the consumer {args.consumer!r} has not completed its copy: let it copy, or mark a position")
        with pages.feed(consumer=args.consumer, live=False) as feed:
            event = next(feed, None)
            if event is None:
                return 3
            if args.json:
                show(_event_map(event))
            else:
                data = f"  {event.data!r}" if event.has_data else ""
                print(
                    f"{event.cursor}  {date(event.timestamp)}  {event.op} {event.verb}  {event.key!r}{data}", flush=True
                )
            feed.ack(event)
    return 0


def run_mark(args: argparse.Namespace) -> int:
    """Set a consumer's position: all up to CURSOR counts as acknowledged, nothing after it does."""
    with open_existing(args.store) as store:
        pages = open_log(store, args.journal)
        pages.mark_feed(args.consumer, args.cursor)
        _said(args, pages)
    return 0


def run_skip(args: argparse.Namespace) -> int:
    """Acknowledge one change without delivering it. Exits with 3 when it was acknowledged before."""
    with open_existing(args.store) as store:
        pages = open_log(store, args.journal)
        is_new = pages.skip_feed(args.consumer, args.cursor)
        _said(args, pages)
    return 0 if is_new else 3


def run_remove(args: argparse.Namespace) -> int:
    """Forget a consumer; what only it held of the log may go."""
    with open_existing(args.store) as store:
        open_log(store, args.journal).remove_feed(args.consumer)
        if args.json:
            show({"removed": args.consumer})
    return 0


VERBS = {
    "list": run_list,
    "show": run_show,
    "next": run_next,
    "mark": run_mark,
    "skip": run_skip,
    "remove": run_remove,
}
"""A function for each word; the first line of its text is the help."""


def _view(pages: AnyLog, name: str) -> FeedView:
    views = {view.name: view for view in pages.feeds()}
    if name not in views:
        raise NotFound(
            f"there is no feed consumer {name!r} of journal {pages.name}: there is {', '.join(views) or 'none'}"
        )
    return views[name]


def _said(args: argparse.Namespace, pages: AnyLog) -> None:
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
