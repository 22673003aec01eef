"""
Generation numbers used by dropped journals; a new journal of that name never reuses them.

A cursor is a generation and an offset; it does not name its journal. A journal that counted anew under an old name would accept cursors
of the former one, and a reader that goes on after them would miss earlier changes without an error. So the count goes on. A life is the
time from the declaration of a journal to its drop.

    "dropped:<name>"   [order, alone, number]   the last generation of any life, and of one that had its files for itself
    "forgotten"        [order, alone, number]   the highest of those that are not remembered, and the last number that was given

N1  The first generation of a journal with files of its own is above `order` of its name.
N2  That of a merged journal is above `alone`: it shares its generations, and its own former life in them ended with deletions, which
    a reader that goes on after a cursor of that life receives.
N3  The last NAMES_MAX names are remembered, by the number of their last drop. Any other name has the bounds of "forgotten".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PREFIX = b"dropped:"
FORGOTTEN = b"forgotten"
NAMES_MAX = 1024


class Life(NamedTuple):
    """Which generations are used up."""

    order: int = 0
    alone: int = 0
    number: int = 0


def row_of(name: str) -> bytes:
    """Where the catalog keeps it."""
    return PREFIX + name.encode()


def bound(life: Life, *, is_merged: bool) -> int:
    """Above which order the next life begins (N1, N2)."""
    return life.alone if is_merged else life.order


def ended(before: Life, order: int, *, is_merged: bool) -> Life:
    """The bounds of a name after a life that ended in this generation."""
    return Life(max(before.order, order), before.alone if is_merged else max(before.alone, order))


def remembered(known: Mapping[str, Life], name: str, life: Life, forgotten: Life) -> tuple[dict[str, Life], Life]:
    """The names that are remembered after a drop, and the bounds of all other names (N3)."""
    number = forgotten.number + 1
    kept = {**known, name: life._replace(number=number)}
    order, alone = forgotten.order, forgotten.alone
    for gone in sorted(kept, key=lambda each: kept[each].number)[: max(0, len(kept) - NAMES_MAX)]:
        last = kept.pop(gone)
        order, alone = max(order, last.order), max(alone, last.alone)
    return kept, Life(order, alone, number)
