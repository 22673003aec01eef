"""
Make a store of a backup, at a path that is not there yet.

All files are compared with the backup's digests, before and after; then the store is opened and checked. It is a store of its own: its
tokens, generations and cursors begin far behind those of the store that was backed up, which may still be in use. Feed consumers
stand where they stood then.
"""

from __future__ import annotations

import argparse

import journal
from journal.cli.common import show
from journal.cli.meter import Meter

STORE = "the directory of backups, of which the newest counts; or one of them"


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    sub.add_argument("dest", metavar="DEST", help="the path of the store to make")


def run(args: argparse.Namespace) -> int:
    """Restore."""
    with Meter(is_quiet=args.json) as meter:
        made = journal.restore(args.store, args.dest, progress=meter.show)
    if args.json:
        show(made._asdict())
    else:
        print(f"{made.path}: {made.files} files, {made.bytes} bytes; verified, opened and checked")
    return 0
