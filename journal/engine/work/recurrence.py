"""
Leases that are finished together with the next put: work that recurs, or goes on under another key.

Both are one record, so a crash leaves both or none of them.

N1  A put that is refused refuses its `done` as well: nothing is changed and the lease goes on.
N2  A token that was finished before is answered and changes nothing, so a caller that got no reply retries and does not put twice.
N3  The next put of the same key takes the place of the finished entry in the same change; one of another key is the change after it.
"""

from __future__ import annotations

from typing import Any

from journal.core import lifecycle
from journal.core.counters import refused
from journal.core.entry import effects as fx
from journal.core.entry.keys import UserKey, key_bytes
from journal.core.entry.rows import encode_row
from journal.core.values import Put, PutResult
from journal.engine.arguments import SchemaChanged, Wanted, row_of
from journal.engine.caller import Caller
from journal.engine.work.claim import active_lease
from journal.engine.work.group import after, result_of
from journal.engine.work.lookup import find_each
from journal.engine.work.path import WorkPath
from journal.engine.work.put_many import versions_of, wants_of
from journal.errors import Invalid, JournalError, Refused

REPEATED = "repeated"
"""The outcome of a next put whose lease was finished before (N2)."""
Results = list[PutResult | JournalError | None]


def done_with(
    p: WorkPath, tokens: list[int], nexts: list[Put | None], durability: str | None, caller: Caller
) -> Results:
    """Finish leases, each with its next put or without one; a result, an error or None for each."""
    if len(nexts) != len(tokens):
        raise Invalid(f"nexts has {len(nexts)} items for {len(tokens)} tokens: give a put or null for each")
    level = p.level_of(durability, p.level)
    while True:
        try:
            return p.change(level, _Group(p, tokens, nexts, level, caller).make)
        except SchemaChanged:
            pass  # the puts are checked once more


class _Group:
    """One such change: decided lease by lease, each seeing what those before it have done."""

    def __init__(self, p: WorkPath, tokens: list[int], nexts: list[Put | None], level: int, caller: Caller) -> None:
        self._p = p
        self._caller = caller
        self._tokens = tokens
        self._level = level
        self._schema = p.schema
        self._results: list[Any] = [None] * len(tokens)
        puts = {i: put for i, put in enumerate(nexts) if put is not None}
        places = list(puts)
        unfit: list[Any] = [None] * len(places)
        wants = wants_of(p, list(puts.values()), unfit, self._schema, caller)
        self._wants: dict[int, Wanted] = {places[i]: want for i, want in wants}
        self._refused = {places[i]: error for i, error in enumerate(unfit) if error is not None}
        self._versions = versions_of(nexts)
        self._seen: dict[UserKey, lifecycle.Found] = {}
        self._effects: list[fx.Effect] = []

    def make(self) -> tuple[Results, int]:
        """Under the lock."""
        p = self._p
        now = p.enter()
        if p.schema is not self._schema:
            raise SchemaChanged
        self._seen, unfit = find_each(p, [want[:2] for want in self._wants.values()], now)
        self._effects = []
        state = p.state
        leases, finished = state.leases.by_token, state.finished.tokens
        ended: set[int] = set()
        began: list[int] = []
        for i, token in enumerate(self._tokens):
            want = self._wants.get(i)
            try:
                if i in self._refused:
                    raise self._refused[i]
                if want is not None and want.key in unfit:
                    raise unfit[want.key]
                held = leases.get(token)
                if token in ended or (held is None and token in finished):
                    self._results[i] = None if want is None else _repeated(p, want, self._seen[want.key], now)
                    continue
                start = now if held is None else held.start
                self._results[i] = self._done(token, want, self._versions.get(i), now)
                ended.add(token)
                began.append(start)
            except (Invalid, Refused) as e:
                self._results[i] = e
        if self._effects:
            p.write_all(self._effects, now, self._level)
        self._count(now, ended, began)
        return self._results, p.next_offset - 1

    def _count(self, now: int, ended: set[int], began: list[int]) -> None:
        """Count what came of the leases, and of the puts that were made."""
        tally = self._p.tally
        for result in self._results:
            if isinstance(result, Exception):
                refused(tally.done, result)
            elif result is not None and result.outcome != REPEATED:
                tally.put[result.outcome] += 1
        tally.done["repeated"] += sum(not isinstance(r, Exception) for r in self._results) - len(ended)
        tally.processing.add_all([now - start for start in began])

    def _done(self, token: int, want: Wanted | None, version: int | None, now: int) -> PutResult | None:
        """Finish one lease (N3); the result of its next put."""
        p, seen = self._p, self._seen
        held = active_lease(p, token, now, self._caller)
        found = seen.get(held.key) or p.state.find(held.key, key_bytes(held.key), is_change=True)
        assert found.row is not None
        holding = lifecycle.Holding(found.row, token, found.successor)
        at = p.next_offset + len(self._effects)
        heir, result, effect = lifecycle.heir(holding, at), None, None
        if want is not None:
            lifecycle.check_put(found if want.key == held.key else seen[want.key], want.key, version)
        if want is not None and want.key == held.key:
            outcome, heir = lifecycle.follow(holding, row_of(want, found, now, at), at, p.settings)
            result = result_of(outcome, heir, at)
        elif want is not None:
            target = seen[want.key]
            outcome, row, effect = lifecycle.put(target, row_of(want, target, now, at + 1), p.settings)
            result = result_of(outcome, row, row.at if effect is None else at + 1)
            seen[want.key] = target if effect is None else after(target, row)
        value = (None, None) if heir is None else (heir.primary, encode_row(heir))
        self._effects += [fx.Done([held.primary, held.key, token, *value]), *([] if effect is None else [effect])]
        seen[held.key] = lifecycle.Found(found.slot, heir)
        return result


def _repeated(p: WorkPath, want: Wanted, found: lifecycle.Found, now: int) -> PutResult:
    """What is there of the key by now; version 0 when there is nothing any more."""
    row = found.successor or found.row
    if row is not None:
        return result_of(REPEATED, row, row.at)
    asked = row_of(want, found, now, p.next_offset - 1)
    return result_of(REPEATED, asked._replace(version=0), asked.at)
