"""Show counters and sizes of a store and its journals (of the last checkpoint, when another process owns it)."""

from __future__ import annotations

import argparse

from journal.cli.common import open_existing, show


def arguments(sub: argparse.ArgumentParser) -> None:
    """Nothing more."""


def run(args: argparse.Namespace) -> int:
    """Show."""
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
            print(f"  {what:20} {'-' if number is None else number}")
    if merged := statistics["merged"]:
        print("\nmerged journals, together")
        for what, number in merged.items():
            if what != "counts":
                print(f"  {what:20} {number}")
        for name, number in merged["counts"].items():
            print(f"    {name:18} {number} entries")
    return 0
