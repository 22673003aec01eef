"""Begin a new generation of a journal now."""

from __future__ import annotations

import argparse

from journal.cli.common import log_argument, open_existing, open_log, show


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    log_argument(sub)


def run(args: argparse.Namespace) -> int:
    """Rotate."""
    with open_existing(args.store) as store:
        active = open_log(store, args.journal).rotate()
    show(active._asdict()) if args.json else print(f"generation {active.order} is active")
    return 0
