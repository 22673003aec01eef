"""All that can happen to entries, over generations that nobody looks at."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from tests.model.entries import Entries
from tests.model.world import SHRINK_S, effort


class AnyEntries(Entries):
    """Rules of entries, rotations and a consumer that follows; some logs are compacted."""

    is_compacting = False

    @initialize(durability=st.sampled_from(["full", "interval"]), is_compacting=st.booleans())
    def begin(self, durability: str, is_compacting: bool) -> None:
        self.is_compacting = is_compacting
        self.start(durability, compact=is_compacting)

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
