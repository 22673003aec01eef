"""List the generations of a journal: state, size, what keeps each (of the last checkpoint, when another process owns it)."""

from __future__ import annotations

import argparse

from journal.cli.common import date, log_argument, open_existing, open_log, show


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    log_argument(sub)


def run(args: argparse.Namespace) -> int:
    """List."""
    with open_existing(args.store, readonly_too=True) as store:
        generations = open_log(store, args.journal).generations()
    for g in generations:
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
