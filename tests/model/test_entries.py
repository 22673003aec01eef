"""All that can happen to entries, over generations that nobody looks at."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

import journal
from tests.model.entries import DELAYS, KEYS, PRIORITIES, Entries
from tests.model.world import SHRINK_S, effort


class AnyEntries(Entries):
    """Rules of entries, rotations and a consumer that follows; some logs are compacted."""

    is_compacting = False

    @initialize(
        durability=st.sampled_from(["full", "interval"]),
        is_compacting=st.booleans(),
        preset=st.sampled_from(["merge", "merge", "keep", "replace", "debounce"]),
    )
    def begin(self, durability: str, is_compacting: bool, preset: str) -> None:
        self.is_compacting = is_compacting
        self.model.preset = preset
        self.start(durability, compact=is_compacting, merge=preset)

    @rule(key=KEYS, lease=st.sampled_from([1, 4000]))
    def claim_key(self, key: Any, lease: int) -> None:
        row = self.model.rows.get(key)
        if row is None or row.token or row.date > self.now or self.model.pauses:
            with pytest.raises(journal.Refused):
                self.pages.claim_key(key, lease=lease)
            return
        x = self.pages.claim_key(key, lease=lease)
        assert (x.data, x.timeouts, x.insertion_date) == (row.data, row.timeouts, row.insertion)
        row.token, row.deadline = x.token, x.deadline

    @rule(items=st.lists(st.tuples(KEYS, DELAYS, PRIORITIES), max_size=5), gone=st.lists(KEYS, max_size=4))
    def groups(self, items: list[Any], gone: list[Any]) -> None:
        """move_many, delete_many: as one by one."""
        results = self.pages.move_many([journal.Move(key, delay=d, priority=p) for key, d, p in items])
        for (key, delay, priority), result in zip(items, results, strict=True):
            row = self.model.rows.get(key)
            assert isinstance(result, journal.Refused) == (row is None or bool(row.token))
            if row is not None and not row.token:
                if row.place != (priority, self.now + delay):
                    row.date, row.priority, row.turn = self.now + delay, priority, next(self.model.turns)
                row.insertion, row.owed = row.insertion + row.owed, 0
        for key, result in zip(gone, self.pages.delete_many(gone), strict=True):
            row = self.model.rows.get(key)
            if row is not None and row.token:
                assert isinstance(result, journal.Leased)
            else:
                assert result is (self.model.rows.pop(key, None) is not None)

    @invariant()
    def selected(self) -> None:
        """Other ways to see the same."""
        self.undisturbed(self._selected)

    def _selected(self) -> None:
        self.model.tick(self.now)
        assert self.pages.count(consumer="") == len(self.held())
        assert sorted(repr(e.key) for e in self.pages.select()) == sorted(map(repr, self.model.rows))
        assert self.pages.forecast(step="1h").total == len(self.model.rows)

    @precondition(lambda self: self.store is not None and self.is_compacting)
    @rule()
    def compact(self) -> None:
        """The consumer misses nothing; one who comes now ends with the data that every entry, or its successor, has."""
        self.pages.compact()
        mirror: dict[Any, Any] = {}
        for event in self.pages.feed(live=False):
            if event.op == "delete":
                mirror.pop(event.key, None)
            elif event.has_data:
                mirror[event.key] = event.data
        assert mirror == {row.key: (row.successor or row).data for row in self.model.rows.values()}


TestEntries = AnyEntries.TestCase
TestEntries.settings = effort(30)
TestEntries = pytest.mark.timeout(SHRINK_S)(TestEntries)
