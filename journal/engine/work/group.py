"""
Groups of changes that rules decide: one record, one sync, and a result or an error for each.

They are decided one after the other, each over what is stored and what the group has decided before it. What is refused changes
nothing; all the rest stands or falls together. A single change is decided by the same rules, without what a group needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from journal.core.entry.effects import Effect
from journal.core.entry.keys import UserKey
from journal.core.entry.rows import Row, place
from journal.core.lifecycle import Found
from journal.core.limits import GROUP_BYTES_MAX
from journal.core.log.cursor import cursor_of
from journal.core.values import PutResult
from journal.engine.work.lookup import find, find_each
from journal.engine.work.path import WorkPath
from journal.errors import Invalid, JournalError, Refused

_OVERHEAD = 100
"""What an effect takes besides the row that it writes."""
T = TypeVar("T")


Decided = tuple[Any, Effect | None, Row | None, int]
"""What becomes of one change: its result, its effect, the row of the key then, and the offset that the result rests on."""
Decide = Callable[[Found, int, int], Decided]
"""From what is stored of the key, now, and the offset of the change to what becomes of it, or why it is refused."""
Change = tuple[UserKey, bytes, Decide]
"""A change whose arguments are good. Plain tuples: a single put or move takes a tenth less time with them."""


def decide_one(p: WorkPath, change: Change, now: int, level: int, *, is_essential: bool = False) -> tuple[Any, int]:
    """Decide one change and write it; its result, and the offset that it rests on. Raises why it is refused. Under the lock."""
    key, raw, decide = change
    found = find(p, key, raw, now)
    result, effect, _, at = decide(found, now, p.next_offset)
    return result, at if effect is None else p.write(effect, 1, now, level, is_essential=is_essential)


def decide_each(
    p: WorkPath,
    changes: Sequence[tuple[int, Change]],
    now: int,
    level: int,
    results: list[Any],
    *,
    is_essential: bool = False,
) -> int:
    """Decide changes, given with the places of their results, and write them; the offset that these rest on. Under the lock."""
    seen, refused = find_each(p, [change[:2] for _, change in changes], now)
    first = p.next_offset
    effects: list[Effect] = []
    size = 0
    for i, (key, raw, decide) in changes:
        try:
            if key in refused:
                raise refused[key]
            found = seen[key]
            result, effect, row, _ = decide(found, now, first + len(effects))
        except (Invalid, Refused) as e:
            results[i] = e
            continue
        results[i] = result
        if effect is not None:
            effects.append(effect)
            seen[key] = after(found, row)
            size += _OVERHEAD + len(getattr(effect, "value", raw))
            if size > GROUP_BYTES_MAX:
                raise Invalid(f"the group has more than {GROUP_BYTES_MAX} bytes: nothing was changed; split it")
    if effects:
        return p.write_all(effects, now, level, is_essential=is_essential)
    # Refusals tell of what others have written, or removed, too, and that could still vanish: they rest on all of it.
    return first - 1 if changes else -1


def only(results: Sequence[T | JournalError]) -> T:
    """The result of a group of one; its error is raised."""
    (result,) = results
    if isinstance(result, JournalError):
        raise result
    return result


def result_of(outcome: str, row: Row, at: int) -> PutResult:
    """The result of a change that left this row, at this offset."""
    priority, date = place(row.primary)
    return tuple.__new__(PutResult, (outcome, cursor_of(at), row.version, date, priority))


def after(found: Found, row: Row | None) -> Found:
    """What is stored of a key when a change of it was decided so."""
    return found._replace(successor=row) if found.is_processing else found._replace(row=row)
