"""
Moves and deletes: one, or a group with one record, one sync, and a result or an error for each.

The rules decide one after the other, each over what is stored and what the group has decided before it. What is refused
changes nothing; all the rest stands or falls together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from journal.core import lifecycle
from journal.core.entry import effects as fx
from journal.core.entry.keys import UserKey, key_bytes
from journal.core.entry.rows import Row, place
from journal.core.limits import GROUP_BYTES_MAX
from journal.core.log.cursor import cursor_of
from journal.core.requests.produce import DeleteRequest, MoveRequest, check_move
from journal.core.times import date_ms, duration_ms
from journal.core.values import Delete, Move, PutResult
from journal.engine.arguments import check_priority, owner_bytes, version_number
from journal.engine.pipeline import Pipeline
from journal.engine.work.lookup import find
from journal.errors import Invalid, Refused

_OVERHEAD = 100
"""What an effect takes besides the row that it writes."""


class Moving(NamedTuple):
    """A move whose arguments are good."""

    key: UserKey
    raw: bytes
    date: int | None
    later: int | None
    priority: int | None
    owner: bytes
    version: int | None

    def decide(self, found: lifecycle.Found, now: int, offset: int) -> Decided:
        """The move, or the reason why not."""
        row = lifecycle.change_by_owner(found, self.key, self.owner, self.version)
        priority, old = place(row.primary)
        date = (
            self.date if self.date is not None else old if self.later is None else max(now + self.later, row.insertion)
        )
        moved, effect = lifecycle.move(row, priority if self.priority is None else self.priority, date, offset)
        result = PutResult("moved", cursor_of(offset), moved.version, date, place(moved.primary)[0])
        return Decided(result, effect, moved)


class Deleting(NamedTuple):
    """A delete whose arguments are good."""

    key: UserKey
    raw: bytes
    owner: bytes
    version: int | None

    def decide(self, found: lifecycle.Found, now: int, offset: int) -> Decided:
        """The delete, or the reason why not; False when there is nothing."""
        if found.row is None:
            return Decided(False, None, None)
        row = lifecycle.change_by_owner(found, self.key, self.owner, self.version)
        return Decided(True, fx.Delete(row.primary, self.key), None)


class Decided(NamedTuple):
    """What becomes of one change: its result, its effect and the row as it is then."""

    result: Any
    effect: fx.Replace | fx.Delete | None
    row: Row | None


Change = Moving | Deleting


def moving(move: Move | MoveRequest) -> Moving:
    """Check the arguments of a move."""
    if not isinstance(move, (Move, MoveRequest)):
        raise Invalid(f"move_many takes journal.Move objects, not {move!r}")
    check_move(move)
    return Moving(
        move.key,
        key_bytes(move.key),
        None if move.process_date is None else date_ms(move.process_date, "process_date"),
        None if move.delay is None else duration_ms(move.delay, "delay"),
        None if move.priority is None else check_priority(move.priority),
        owner_bytes(move.owner),
        version_number(move.version),
    )


def deleting(delete: Delete | DeleteRequest | UserKey) -> Deleting:
    """Check the arguments of a delete."""
    if not isinstance(delete, (Delete, DeleteRequest)):
        delete = Delete(delete)
    return Deleting(delete.key, key_bytes(delete.key), owner_bytes(delete.owner), version_number(delete.version))


def change_one(p: Pipeline, change: Change, durability: str | None, *, is_essential: bool) -> Any:
    """Make one change; its result."""
    level = p.level_of(durability, p.level)

    def make() -> tuple[Any, int]:
        now = p.enter()
        try:
            result, effect, _ = change.decide(find(p, change.key, change.raw, now), now, p.log.next_offset)
        except Refused as e:
            _count(p, change, e)
            raise
        at = -1
        if effect is not None:
            at = p.write(effect, 1, now, level, partial(p.state.apply, effect), is_essential=is_essential)
        _count(p, change, result)
        return result, at

    return p.change(level, make)


def change_many(
    p: Pipeline,
    items: list[Any],
    check: Callable[[Any], Change],
    durability: str | None,
    *,
    is_essential: bool,
) -> list[Any]:
    """Make a group of changes; a result or an error for each."""
    level = p.level_of(durability, p.level)
    results: list[Any] = [None] * len(items)
    changes: list[tuple[int, Change]] = []
    for i, item in enumerate(items):
        try:
            changes.append((i, check(item)))
        except Invalid as e:
            results[i] = e

    def make() -> tuple[list[Any], int]:
        now = p.enter()
        seen: dict[UserKey, lifecycle.Found] = {}
        for i, change in changes:
            try:  # may let an entry go that expired unseen, so all of these come before the first offset
                seen[change.key] = find(p, change.key, change.raw, now)
            except Invalid as e:
                results[i] = e
        effects = _decide(changes, seen, now, p.log.next_offset, results)
        at = -1
        if effects:
            effect = effects[0] if len(effects) == 1 else fx.Group([fx.to_list(each) for each in effects])
            offset = p.write(
                effect, len(effects), now, level, partial(p.state.apply, effect), is_essential=is_essential
            )
            at = offset + len(effects) - 1
        for i, change in changes:
            _count(p, change, results[i])
        return results, at

    return p.change(level, make)


def _count(p: Pipeline, change: Change, result: Any) -> None:
    """Count what came of a change."""
    if isinstance(change, Moving):
        p.tally.move["refused" if isinstance(result, Exception) else "moved"] += 1
    else:
        p.tally.delete["refused" if isinstance(result, Exception) else "deleted" if result else "absent"] += 1


def _decide(
    changes: Sequence[tuple[int, Change]],
    seen: dict[UserKey, lifecycle.Found],
    now: int,
    offset: int,
    results: list[Any],
) -> list[fx.Effect]:
    effects: list[fx.Effect] = []
    size = 0
    for i, change in changes:
        found = seen.get(change.key)
        if found is None:
            continue
        try:
            decided = change.decide(found, now, offset + len(effects))
        except (Invalid, Refused) as e:
            results[i] = e
            continue
        results[i] = decided.result
        if decided.effect is None:
            continue
        effects.append(decided.effect)
        seen[change.key] = found._replace(row=decided.row)
        size += (
            _OVERHEAD + len(change.raw) + (len(decided.effect.value) if isinstance(decided.effect, fx.Replace) else 0)
        )
        if size > GROUP_BYTES_MAX:
            raise Invalid(f"the group's entries have more than {GROUP_BYTES_MAX} bytes: nothing was changed; split it")
    return effects
