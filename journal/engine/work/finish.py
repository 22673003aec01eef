"""Finished work: `done` of one lease, or of many with one record. With what comes next: journal.engine.work.recurrence."""

from __future__ import annotations

from typing import Any

from journal.core import lifecycle
from journal.core.entry import effects as fx
from journal.core.histogram import FRESH_MAX
from journal.core.values import Put, PutResult
from journal.engine.caller import LOCAL, Caller
from journal.engine.files.lmdb import LmdbError
from journal.engine.log.durability import FULL
from journal.engine.log.group_commit import ChangeKind
from journal.engine.pipeline import Pipeline
from journal.engine.state.leases import Held
from journal.engine.work.recurrence import done_with
from journal.errors import JournalError, Refused
from journal.shield import SHIELD, shield_down, shield_up

_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function


class Finishes:
    """The dones of one journal."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._p = pipeline

    def one(self, token: int, durability: str | None, caller: Caller = LOCAL) -> None:
        """The work under a lease is finished. Repeating it succeeds and changes nothing."""
        p = self._p
        level = p.level if durability is None and p.is_writable else p.level_of(durability, p.level)
        is_up = shield_up()
        try:
            if level == FULL and p.commit.io.locked():
                return p.change(level, self._one, token, level, caller, kind=ChangeKind.SHORT)
            with p.lock:  # the same, without a call for each step
                _, at = self._one(token, level, caller)
            if level == FULL and p.log.synced < at:
                p.settle(at)
            return None
        finally:
            if is_up:
                shield_down()

    def _one(self, token: int, level: int, caller: Caller) -> tuple[None, int]:
        """Under the lock."""
        p = self._p
        now = p.enter_unflushed()
        held = p.state.leases.by_token.get(token)
        if held is None and token in p.state.finished.tokens:
            p.tally.done["repeated"] += 1
            return None, p.log.next_offset - 1
        start, items = self._items(token, held, now, p.log.next_offset, caller)
        offset = p.append(_new(fx.Done, (items,)), 1, now, level, is_essential=True)
        try:
            p.state.done(items, offset)
        except LmdbError as e:
            raise p.misapplied(e) from e
        p.applied(offset, 1, now, level)
        took = p.tally.processing.fresh
        took.append(now - start)
        if len(took) > FRESH_MAX:
            p.tally.processing.sort_in()
        return None, offset

    def many(
        self, tokens: list[int], nexts: list[Put | None] | None, durability: str | None, caller: Caller = LOCAL
    ) -> list[PutResult | JournalError | None]:
        """Finish many with one record; None, the result of the next put, or the error of each, in order."""
        p = self._p
        with SHIELD:
            if nexts is not None:
                return done_with(p, tokens, nexts, durability, caller)
            level = p.level_of(durability, p.level)
            return p.change(level, self._many, tokens, level, caller)

    def _many(self, tokens: list[int], level: int, caller: Caller) -> tuple[list[PutResult | JournalError | None], int]:
        """Under the lock."""
        p = self._p
        now = p.enter()
        results: list[PutResult | JournalError | None] = []
        items: list[Any] = []
        took: list[int] = []
        seen: set[int] = set()
        by_token, finished = p.state.leases.by_token, p.state.finished.tokens
        first = p.log.next_offset
        for token in tokens:
            error: JournalError | None = None
            if token not in seen and token not in finished:
                try:
                    start, item = self._items(token, by_token.get(token), now, first + len(took), caller)
                    items += item
                    took.append(now - start)
                    seen.add(token)
                except Refused as e:
                    error = e
            else:
                p.tally.done["repeated"] += 1
            results.append(error)
        if items:
            p.write(fx.Done(items), len(took), now, level, lambda at: p.state.done(items, at), is_essential=True)
            p.tally.processing.add_all(took)
        return results, p.log.next_offset - 1

    def _items(self, token: int, held: Held | None, now: int, offset: int, caller: Caller) -> tuple[int, list[Any]]:
        """When the lease began, and what the record has of it."""
        if held is not None and caller.check is not None:
            caller.check(held)
        if held is None or held.deadline <= now:
            self._p.tally.done["lease_lost"] += 1
            lifecycle.check_lease(
                token, None if held is None else held.token, 0 if held is None else held.deadline, now
            )
            raise AssertionError  # check_lease refused
        if held.has_successor:
            self._p.flush()
            promoted = lifecycle.promote(self._p.state.holding(held), offset)
            return held.start, [held.primary, held.key, token, *promoted]
        return held.start, [held.primary, held.key, token, None, None]
