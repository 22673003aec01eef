"""The commands about a whole store: stat, flags, check, drop, backup, restore."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict
from typing import Any

import journal
from journal.cli.command import JOURNAL, STORE, Options, argument, command, store_argument
from journal.cli.common import date, open_existing, open_journal, report, show
from journal.cli.meter import Meter
from journal.connect_or_open import is_address
from journal.core.requests.operate import CheckRequest
from journal.core.values import PAUSED
from journal.errors import Invalid, Refused, StoreDamaged


@command("stat", STORE)
def stat(args: argparse.Namespace) -> int:
    """Show counters and sizes of a store and its journals (of the last checkpoint, when another process owns it)."""
    with open_existing(args.store, readonly_too=True) as store:
        statistics = store.statistics()
        flags = store.flags()
    if args.json:
        show(statistics | {"flags": len(flags)})
        return 0
    print(f"{statistics['path']}  opened {statistics['opening']} times, {len(flags)} flags")
    for name, numbers in statistics["journals"].items():
        print(f"\n{name}")
        for what, number in numbers.items():
            print(f"  {what:20} {_text(number)}")
    if merged := statistics["merged"]:
        print("\nmerged journals, together")
        for what, number in merged.items():
            if what != "counts":
                print(f"  {what:20} {_text(number)}")
        for name, number in merged["counts"].items():
            print(f"    {name:18} {number} entries")
    return 0


def _text(value: Any) -> str:
    """A number, a histogram as its count and its mean, or counts by name without those that are 0."""
    if value is None:
        return "-"
    if not isinstance(value, dict):
        return str(value)
    if "buckets" in value:
        count = value["count"]
        return f"{count}, {value['sum_ms'] / count:.3f} ms on average" if count else "0"
    parts = ((name, _text(each)) for name, each in value.items())
    return ", ".join(
        f"{name} {text}" if " " not in text else f"{name} ({text})" for name, text in parts if text not in ("0", "")
    )


@command("flags", STORE, argument("--lower", action="store_true", help="take down the flags that are shown"))
def flags(args: argparse.Namespace) -> int:
    """Show the flags: what an operator must look at. --lower takes them down, except that of a paused journal: see `journal resume`."""
    with open_existing(args.store, readonly_too=not args.lower) as store:
        for flag in store.flags():
            text = f"{date(flag.modified)}  {flag.journal}  {flag.name} ({flag.count}x): {flag.message}"
            report(args, asdict(flag), text)
            if args.lower and flag.name != PAUSED:
                store.lower(flag)
    return 0


@command(
    "check", STORE, Options(CheckRequest, deep="replay the log from its beginning, however long it is")
)  # fmt: skip
def check(args: argparse.Namespace) -> int:
    """
    Recompute every index, counter and invariant from the entries and the log, and list what differs.

    A store without an owner is checked whole, page by page; one that a daemon serves, by the daemon, except for its pages; of one
    that another process owns, what its last checkpoint committed.
    Exits with 1 when something is wrong.
    """
    try:
        with open_existing(args.store, readonly_too=True, verify="full") as store:
            found = store.check(deep=args.deep)
    except StoreDamaged as e:
        found = [str(e)]
    summary = f"{args.store}: {len(found)} differences" if found else f"{args.store}: clean"
    report(args, {"store": args.store, "differences": found}, "\n".join([*found, summary]))
    return 1 if found else 0


@command("drop", STORE, JOURNAL, argument("--yes", action="store_true", help="do not ask"))
def drop(args: argparse.Namespace) -> int:
    """
    Delete a journal with all that is in it, also what is under a lease. It cannot be brought back.

    Asks first, when it is typed at a terminal; elsewhere it needs --yes.
    """
    with open_existing(args.store) as store:
        entries = open_journal(store, args.journal).count()
        if not args.yes:
            if not sys.stdin.isatty():
                raise Invalid(f"{args.journal} has {entries} entries, which cannot be brought back: say --yes")
            print(f"{args.journal} has {entries} entries, which cannot be brought back. Its name again, to drop it:")
            if input().strip() != args.journal:
                raise Refused("that is another name: nothing was changed")
        store.drop(args.journal)
    report(args, {"dropped": args.journal, "entries": entries}, f"dropped, with {entries} entries")
    return 0


@command(
    "backup", STORE,
    argument("dest", metavar="DEST", help="a directory for backups of this store: made, empty, or with an older one"),
)  # fmt: skip
def backup(args: argparse.Namespace) -> int:
    """
    Copy a store to a directory while it is in use, or only what has changed since the backup that is there.

    Each journal is copied as of one change; what was acknowledged before is in it. A store that a daemon serves is copied by the daemon, to
    a directory of its machine. The backup is verified, and takes the place of an older one when it is whole: until then, also when this is
    cut short, the older one is there. `journal restore` makes a store of it. A plain copy (cp -r) is good only of a store that is closed.
    """
    dest = args.dest if is_address(args.store) else os.path.abspath(args.dest)
    with open_existing(args.store) as store, Meter(is_quiet=args.json) as meter:
        made = store.backup(dest, progress=meter.show)
    text = (
        f"{made.path}: {made.files} files, {made.bytes} bytes, of which {made.copied_files} files with {made.copied_bytes} bytes were "
        "copied; verified"
    )
    report(args, made._asdict(), text)
    return 0


@command(
    "restore", store_argument("the directory of backups, of which the newest counts; or one of them"),
    argument("dest", metavar="DEST", help="the path of the store to make"),
)  # fmt: skip
def restore(args: argparse.Namespace) -> int:
    """
    Make a store of a backup, at a path that is not there yet.

    All files are compared with the backup's digests, before and after; then the store is opened and checked. It is a store of its own: its
    tokens, generations and cursors begin far behind those of the store that was backed up, which may still be in use. Feed consumers
    stand where they stood then.
    """
    with Meter(is_quiet=args.json) as meter:
        made = journal.restore(args.store, args.dest, progress=meter.show)
    report(args, made._asdict(), f"{made.path}: {made.files} files, {made.bytes} bytes; verified, opened and checked")
    return 0
