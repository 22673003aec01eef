"""
What happens to each column when a key is put again: one table of per-field rules, with named presets.

M1  Expiration 0 is infinity: `longest` of 0 and anything is 0.
M2  `postpone_max` (from the insertion date) bounds how far a put may push the process date, so that a hot key cannot
    starve; it never pulls an entry to an earlier date than it has.
M3  The owner, the key and the slot never change.
M4  An entry that keeps its priority and its process date keeps its place among those that have the same. One that gets those of
    the put gets the place of the put; any other one comes behind all that are there.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from journal.core.entry.keys import turn_of
from journal.core.entry.rows import Row, at_place, place


class Rule(Enum):
    """How one column of an entry and of the put that meets it become one."""

    KEEP = "keep"
    REPLACE = "replace"
    SMALLEST = "smallest"
    LARGEST = "largest"
    LONGEST = "longest"
    ZERO = "zero"


class Rules(NamedTuple):
    """One rule for each column that a put may touch."""

    insertion: Rule
    expiration: Rule
    priority: Rule
    process_date: Rule
    timeouts: Rule
    data: Rule


_K, _R = Rule.KEEP, Rule.REPLACE

PRESETS: dict[str, Rules] = {
    #                 insertion  expiration     priority        process date   timeouts    data
    "merge":    Rules(_K,        Rule.LONGEST,  Rule.SMALLEST,  Rule.LARGEST,  Rule.ZERO,  _R),
    "keep":     Rules(_K,        _K,            _K,             _K,            _K,         _K),
    "replace":  Rules(_R,        _R,            _R,             _R,            Rule.ZERO,  _R),
    "debounce": Rules(_K,        Rule.LONGEST,  Rule.SMALLEST,  _R,            Rule.ZERO,  _R),
}  # fmt: skip


def _pick(rule: Rule, old: int, new: int) -> int:
    match rule:
        case Rule.KEEP:
            return old
        case Rule.REPLACE:
            return new
        case Rule.SMALLEST:
            return min(old, new)
        case Rule.LARGEST:
            return max(old, new)
        case Rule.LONGEST:
            return 0 if old == 0 or new == 0 else max(old, new)  # M1
        case Rule.ZERO:
            return 0


def merge(old: Row, new: Row, rules: Rules, postpone_max: int | None) -> Row:
    """
    The entry that `old` becomes when `new` (of the same key) is put onto it.

    `old.version` and `old.timeouts` must be the ones that count. The caller sets `at`.
    """
    insertion = _pick(rules.insertion, old.insertion, new.insertion)
    old_priority, old_date = place(old.primary)
    new_priority, new_date = place(new.primary)
    date = _pick(rules.process_date, old_date, new_date)
    if postpone_max is not None and date > old_date:
        date = max(old_date, min(date, insertion + postpone_max))  # M2
    place_now = _pick(rules.priority, old_priority, new_priority), date
    if place_now == (old_priority, old_date):  # M4
        primary = old.primary
    else:
        turn = turn_of(new.primary) if place_now == (new_priority, new_date) else new.at
        primary = at_place(old.primary, *place_now, turn)
    return Row(
        primary=primary,
        insertion=insertion,
        expiration=_pick(rules.expiration, old.expiration, new.expiration),
        accepted=max(old.accepted, new.accepted),
        at=new.at,
        version=old.version + 1,
        timeouts=_pick(rules.timeouts, old.timeouts, new.timeouts),
        owner=old.owner,
        key=old.key,
        data=old.data if rules.data is Rule.KEEP else new.data,
    )
