"""The commands about a whole journal: generations, rotate, compact, pause, resume."""

from __future__ import annotations

import argparse

from journal.cli.command import JOURNAL, LOG, STORE, argument, command
from journal.cli.common import date, journal_of, log_of, report, show


@command("generations", STORE, LOG)
def generations(args: argparse.Namespace) -> int:
    """List the generations of a journal: state, size, what keeps each (of the last checkpoint, when another process owns it)."""
    with log_of(args, readonly_too=True) as pages:
        found = pages.generations()
    for g in found:
        if args.json:
            show(g._asdict())
            continue
        until = "" if g.ended is None else f" to {date(g.ended)}"
        print(
            f"{g.order:6}  {g.state:8}  {date(g.began)}{until}  last offset {g.last_offset}  {g.entries} entries, "
            f"{g.processing} processing, {g.buried} buried  {g.bytes} bytes  kept by {', '.join(g.kept_by) or '-'}"
        )
        if g.first_entry is not None and g.state == "draining":
            print(f"          first entry {g.first_entry.key!r}, due {date(g.first_entry.date)}")
        if g.last_lease is not None:
            print(f"          last lease on {g.last_lease.key!r}, until {date(g.last_lease.date)}")
        if g.consumers and g.state != "active":
            print(f"          not acknowledged by {', '.join(g.consumers)}")
    return 0


@command("rotate", STORE, LOG)
def rotate(args: argparse.Namespace) -> int:
    """Begin a new generation of a journal now."""
    with log_of(args) as pages:
        active = pages.rotate()
    report(args, active._asdict(), f"generation {active.order} is active")
    return 0


@command("compact", STORE, LOG)
def compact(args: argparse.Namespace) -> int:
    """
    Compact the log of a journal now: of each key the last change stays.

    Only of a journal that was declared with compact=True, and only up to what feed consumers hold. Its owner does it by itself
    when there is enough to gain.
    """
    with log_of(args) as pages:
        found = pages.compact()
    text = f"records {found.records_before} -> {found.records_after}, bytes {found.bytes_before} -> {found.bytes_after}"
    report(args, found._asdict(), text)
    return 0


@command(
    "pause", STORE, JOURNAL,
    argument("reason", metavar="REASON", nargs="?", default="", help="why; shown with the flag"),
)  # fmt: skip
def pause(args: argparse.Namespace) -> int:
    """Hand nothing out of a journal until `journal resume`; puts, done and extend go on."""
    with journal_of(args) as pages:
        pages.pause(args.reason)
    report(args, {"journal": args.journal, "paused": True}, f"paused {args.journal}")
    return 0


@command("resume", STORE, JOURNAL)
def resume(args: argparse.Namespace) -> int:
    """Hand out again what is due in a journal that was paused."""
    with journal_of(args) as pages:
        was_paused = pages.resume()
    text = f"resumed {args.journal}" if was_paused else f"{args.journal} was not paused"
    report(args, {"journal": args.journal, "resumed": was_paused}, text)
    return 0
