"""
Copy a store to a directory while it is in use, or only what has changed since the backup that is there.

Each journal is copied as of one change; what was acknowledged before is in it. A store that a daemon serves is copied by the daemon, to
a directory of its machine. The backup is verified, and takes the place of an older one when it is whole: until then, also when this is
cut short, the older one is there. `journal restore` makes a store of it. A plain copy (cp -r) is good only of a store that is closed.
"""

from __future__ import annotations

import argparse
import os

from journal.cli.common import is_address, open_existing, show
from journal.cli.meter import Meter


def arguments(sub: argparse.ArgumentParser) -> None:
    """Declare them."""
    sub.add_argument(
        "dest", metavar="DEST", help="a directory for backups of this store: made, empty, or with an older one"
    )


def run(args: argparse.Namespace) -> int:
    """Back up."""
    dest = args.dest if is_address(args.store) else os.path.abspath(args.dest)
    with open_existing(args.store) as store, Meter(is_quiet=args.json) as meter:
        made = store.backup(dest, progress=meter.show)
    if args.json:
        show(made._asdict())
    else:
        print(
            f"{made.path}: {made.files} files, {made.bytes} bytes, of which {made.copied_files} files with {made.copied_bytes} bytes were "
            "copied; verified"
        )
    return 0
