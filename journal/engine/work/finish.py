"""Finished work: `done` of one lease, or of many with one record. With what comes next: journal.engine.work.recurrence."""

from __future__ import annotations

from typing import Any

from journal.core import lifecycle
from journal.core.entry import effects as fx
from journal.core.histogram import FRESH_MAX
from journal.core.values import Put
from journal.engine.caller import LOCAL, Caller
from journal.engine.files.lmdb import LmdbError
from journal.engine.log.durability import FULL
from journal.engine.log.group_commit import ChangeKind
from journal.engine.state.leases import Held
from journal.engine.work.path import WorkPath
from journal.engine.work.recurrence import Results, done_with
from journal.errors import JournalError, Refused
from journal.shield import SHIELD, shield_down, shield_up

_new = tuple.__new__  # a NamedTuple without the call of its __new__, a Python function


class Finishes:
    """The dones of one journal."""

    def __init__(self, pipeline: WorkPath) -> None:
        self._p = pipeline
        tally = pipeline.tally
        self._counts, self._times = tally.done, tally.processing

    def one(self, token: int, durability: str | None, caller: Caller = LOCAL) -> None:
        """The work under a lease is finished. Repeating it succeeds and changes nothing."""
        p = self._p
        level = p.level if durability is None and p.is_writable else p.level_of(durability, p.level)
        is_up = shield_up()
        try:
            if level == FULL and p.is_syncing():
                return p.change(level, self._one, token, level, caller, kind=ChangeKind.SHORT)
            with p.lock:  # the same, without a call for each step
                _, at = self._one(token, level, caller)
            if level == FULL:
                p.settle(at)
            return None
        finally:
            if is_up:
                shield_down()

    def _one(self, token: int, level: int, caller: Caller) -> tuple[None, int]:
        """Under the lock."""
        p = self._p
        now = p.enter_unflushed()
        state = p.state
        held = state.leases.by_token.get(token)
        if held is None and token in state.finished.tokens:
            self._counts["repeated"] += 1
            return None, p.next_offset - 1
        if held is None or held.deadline <= now or held.has_successor or caller.check is not None:
            start, items = self._items(token, held, now, 0, caller)
        else:  # the same, without a call
            start, items = held.start, [held.primary, held.key, token, None, None]
        offset = p.append(_new(fx.Done, (items,)), 1, now, level, is_essential=True)
        try:
            state.done(items, offset)
        except LmdbError as e:
            raise p.misapplied(e) from e
        p.applied(offset, 1, now, level)
        times = self._times.fresh
        times.append(now - start)
        if len(times) > FRESH_MAX:
            self._times.sort_in()
        return None, offset

    def many(
        self, tokens: list[int], nexts: list[Put | None] | None, durability: str | None, caller: Caller = LOCAL
    ) -> Results:
        """Finish many with one record; None, the result of the next put, or the error of each, in order."""
        p = self._p
        with SHIELD:
            if nexts is not None:
                return done_with(p, tokens, nexts, durability, caller)
            level = p.level_of(durability, p.level)
            return p.change(level, self._many, tokens, level, caller)

    def _many(self, tokens: list[int], level: int, caller: Caller) -> tuple[Results, int]:
        """Under the lock."""
        p = self._p
        now = p.enter()
        state = p.state
        results: Results = []
        items: list[Any] = []
        times: list[int] = []
        seen: set[int] = set()
        by_token, finished = state.leases.by_token, state.finished.tokens
        for token in tokens:
            error: JournalError | None = None
            if token not in seen and token not in finished:
                try:
                    start, item = self._items(token, by_token.get(token), now, len(times), caller)
                    items += item
                    times.append(now - start)
                    seen.add(token)
                except Refused as e:
                    error = e
            else:
                self._counts["repeated"] += 1
            results.append(error)
        if items:
            p.write(fx.Done(items), len(times), now, level, lambda at: state.done(items, at), is_essential=True)
            self._times.add_all(times)
        return results, p.next_offset - 1

    def _items(self, token: int, held: Held | None, now: int, place: int, caller: Caller) -> tuple[int, list[Any]]:
        """When the lease began, and what the record has of it, in this place."""
        if held is not None and caller.check is not None:
            caller.check(held)
        if held is None or held.deadline <= now:
            self._counts["lease_lost"] += 1
            lifecycle.check_lease(
                token, None if held is None else held.token, 0 if held is None else held.deadline, now
            )
            raise AssertionError  # check_lease refused
        if held.has_successor:
            p = self._p
            p.flush()
            promoted = lifecycle.promote(p.state.holding(held), p.next_offset + place)
            return held.start, [held.primary, held.key, token, *promoted]
        return held.start, [held.primary, held.key, token, None, None]
