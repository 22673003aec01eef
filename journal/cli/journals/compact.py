"""
Compact the log of a journal now: of each key the last change stays.

Only of a journal that was declared with compact=True, and only up to what feed consumers hold. Its owner does it by itself
when there is enough to gain.
"""

from __future__ import annotations

import argparse

from journal.cli.common import log_argument, open_existing, open_log, show


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    log_argument(sub)


def run(args: argparse.Namespace) -> int:
    """Compact."""
    with open_existing(args.store) as store:
        found = open_log(store, args.journal).compact()
    if args.json:
        show(found._asdict())
    else:
        print(
            f"records {found.records_before} -> {found.records_after}, bytes {found.bytes_before} -> {found.bytes_after}"
        )
    return 0
