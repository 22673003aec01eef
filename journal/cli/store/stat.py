"""Show counters and sizes of a store and its journals (of the last checkpoint, when another process owns it)."""

from __future__ import annotations

import argparse
from typing import Any

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
