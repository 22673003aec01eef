"""Moves and deletes, of one entry or of many: see journal.engine.work.group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from journal.core import lifecycle
from journal.core.arguments import check_priority, owner_bytes, version_number
from journal.core.entry import effects as fx
from journal.core.entry.keys import UserKey, key_bytes
from journal.core.entry.rows import place
from journal.core.requests.produce import DeleteRequest, MoveRequest, check_move
from journal.core.times import date_ms, duration_ms
from journal.core.values import Delete, Move, PutResult
from journal.engine.work.group import Change, Decided, decide_each, decide_one, result_of
from journal.engine.work.path import WorkPath
from journal.errors import Invalid, JournalError, Refused


def move(p: WorkPath, asked: MoveRequest) -> PutResult:
    """Give an entry another date or priority."""
    moved: PutResult = _change_one(p, _move(asked), asked.durability, p.tally.move, _moved)
    return moved


def move_many(p: WorkPath, moves: list[Move], durability: str | None) -> list[PutResult | JournalError]:
    """Give entries other dates or priorities; a result or an error for each."""
    return _change_many(p, moves, _move, durability, p.tally.move, _moved)


def delete(p: WorkPath, asked: DeleteRequest) -> bool:
    """Remove an entry; whether there was one. Essential: it makes room."""
    deleted: bool = _change_one(p, _delete(asked), asked.durability, p.tally.delete, _deleted, is_essential=True)
    return deleted


def delete_many(p: WorkPath, deletes: list[Delete | UserKey], durability: str | None) -> list[bool | JournalError]:
    """Remove entries; for each whether there was one, or an error."""
    return _change_many(p, deletes, _delete, durability, p.tally.delete, _deleted, is_essential=True)


def _moved(result: PutResult) -> str:
    return result.outcome


def _deleted(result: bool) -> str:
    return "deleted" if result else "absent"


def _move(move: Any) -> Change:
    """Check the arguments of a move."""
    if not isinstance(move, (Move, MoveRequest)):
        raise Invalid(f"move_many takes journal.Move objects, not {move!r}")
    check_move(move)
    given_date = None if move.process_date is None else date_ms(move.process_date, "process_date")
    delay = None if move.delay is None else duration_ms(move.delay, "delay")
    given_priority = None if move.priority is None else check_priority(move.priority)
    owner, version = owner_bytes(move.owner), version_number(move.version)

    def decide(found: lifecycle.Found, now: int, offset: int) -> Decided:
        row = lifecycle.change_by_owner(found, move.key, owner, version)
        priority, date = place(row.primary)
        if given_date is not None:
            date = given_date
        elif delay is not None:
            date = max(now + delay, row.insertion)
        moved, effect = lifecycle.move(row, priority if given_priority is None else given_priority, date, offset)
        return result_of("moved", moved, offset), effect, moved, offset

    return move.key, key_bytes(move.key), decide


def _delete(delete: Any) -> Change:
    """Check the arguments of a delete."""
    if not isinstance(delete, (Delete, DeleteRequest)):
        delete = Delete(delete)
    owner, version = owner_bytes(delete.owner), version_number(delete.version)

    def decide(found: lifecycle.Found, now: int, offset: int) -> Decided:
        if found.row is None:
            return False, None, None, -1
        row = lifecycle.change_by_owner(found, delete.key, owner, version)
        return True, fx.DeleteEffect(row.primary, delete.key), None, offset

    return delete.key, key_bytes(delete.key), decide


def _change_one(
    p: WorkPath,
    change: Change,
    durability: str | None,
    counts: dict[str, int],
    outcome_of: Callable[[Any], str],
    *,
    is_essential: bool = False,
) -> Any:
    level = p.level_of(durability, p.level)

    def make() -> tuple[Any, int]:
        try:
            result, at = decide_one(p, change, p.enter(), level, is_essential=is_essential)
        except Refused:
            counts["refused"] += 1
            raise
        counts[outcome_of(result)] += 1
        return result, at

    return p.change(level, make)


def _change_many(
    p: WorkPath,
    items: Sequence[Any],
    check: Callable[[Any], Change],
    durability: str | None,
    counts: dict[str, int],
    outcome_of: Callable[[Any], str],
    *,
    is_essential: bool = False,
) -> list[Any]:
    level = p.level_of(durability, p.level)
    results: list[Any] = [None] * len(items)
    changes: list[tuple[int, Change]] = []
    for i, item in enumerate(items):
        try:
            changes.append((i, check(item)))
        except Invalid as e:
            results[i] = e

    def make() -> tuple[list[Any], int]:
        at = decide_each(p, changes, p.enter(), level, results, is_essential=is_essential)
        for i, _ in changes:
            result = results[i]
            counts["refused" if isinstance(result, Exception) else outcome_of(result)] += 1
        return results, at

    return p.change(level, make)
