"""All that can happen to entries, over generations that nobody looks at."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize

from tests.model.entries import Entries
from tests.model.world import SHRINK_S, effort


class AnyEntries(Entries):
    """Rules of entries, rotations and a consumer that follows."""

    @initialize(durability=st.sampled_from(["full", "interval"]))
    def begin(self, durability: str) -> None:
        self.start(durability)


TestEntries = AnyEntries.TestCase
TestEntries.settings = effort(30)
TestEntries = pytest.mark.timeout(SHRINK_S)(TestEntries)
