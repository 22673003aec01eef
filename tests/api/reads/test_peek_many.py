"""What is due, looked at without a claim."""

from __future__ import annotations

import pytest

import journal
from journal import Put, Range
from journal.testing import ManualClock


def test_it_shows_what_a_claim_would_take(pages: journal.Journal, clock: ManualClock) -> None:
    """In the order of work, due and waiting only; nothing is claimed, and no version moves."""
    pages.put_many([Put("b", 1), Put("a", {"x": 2}, priority=0), Put("later", delay="1h")])
    pages.put("gone", expiration=clock.now() + 1)
    pages.put("held", priority=0)
    pages.claim_key("held")
    clock.advance(2)
    seen = pages.peek_many(10)
    assert [(entry.key, entry.data, entry.status, entry.version) for entry in seen] == [
        ("a", {"x": 2}, "W", 1), ("b", 1, "W", 1),
    ]  # fmt: skip
    assert pages.peek_many(1) == seen[:1]
    assert [lease.key for lease in pages.claim_many(10)] == ["a", "b"]
    assert pages.peek_many(10) == []


def test_of_some_buckets(pages: journal.Journal) -> None:
    """The ranges together show each entry once."""
    pages.put_many([Put(f"k{n}") for n in range(50)])
    low, high = pages.peek_many(100, buckets=Range(0, 512)), pages.peek_many(100, buckets=Range(512, 1024))
    assert low and high
    assert sorted(entry.key for entry in [*low, *high]) == sorted(f"k{n}" for n in range(50))


@pytest.mark.parametrize("n", [0, -1, 16_385, "3", None, True])
def test_a_number_that_is_none(pages: journal.Journal, n: object) -> None:
    """The same text, embedded and over a connection."""
    with pytest.raises(journal.Invalid, match="peek_many shows 1 to 16384 entries"):
        pages.peek_many(n)  # type: ignore[arg-type]


def test_as_many_as_a_frame_holds(pages: journal.Journal, backend: str) -> None:
    """Over a connection large entries come in part; embedded all of them do."""
    pages.put_many([Put(f"k{n}", b"x" * 300_000) for n in range(5)])
    seen = pages.peek_many(5)
    assert [entry.key for entry in seen] == [f"k{n}" for n in range(5)][: 5 if backend == "embedded" else 3]
