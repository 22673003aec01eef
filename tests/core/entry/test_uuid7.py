"""Keys that sort by their time: UUIDs of version 7."""

from __future__ import annotations

import uuid
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.entry.uuid7 import RANDOM_BYTES, created, following, number_of, text_of
from journal.errors import Invalid

TIMES = st.integers(0, (1 << 48) - 1)
CHANCES = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)
ZEROS, ONES = bytes(RANDOM_BYTES), b"\xff" * RANDOM_BYTES


def test_the_example_of_the_standard() -> None:
    """RFC 9562, appendix A.6: its fields, its text, its time (2022-02-22 14:22:22.00 GMT-05:00)."""
    number = 0x017F22E279B0 << 74 | 0xCC3 << 62 | 0x18C4DC0C0C07398F
    assert text_of(number) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
    assert number_of("017F22E2-79B0-7CC3-98C4-DC0C0C07398F") == number
    assert created("017F22E2-79B0-7CC3-98C4-DC0C0C07398F") == 1_645_557_742_000


@given(TIMES, CHANCES)
def test_others_read_it_as_version_7(now: int, chance: bytes) -> None:
    """The standard library agrees on version and variant, the time and the text."""
    text = text_of(following(-1, now, chance))
    read = uuid.UUID(text)
    assert (read.version, read.variant, str(read)) == (7, uuid.RFC_4122, text)
    assert read.int >> 80 == created(text) == now


@given(st.integers(0, (1 << 122) - 1))
def test_what_is_written_is_read_again(number: int) -> None:
    """Every number has one text."""
    text = text_of(number)
    assert number_of(text) == number == number_of(text.upper())


@given(st.lists(st.integers(0, (1 << 122) - 1), min_size=2, max_size=20))
def test_texts_sort_as_their_numbers(numbers: list[int]) -> None:
    """A key's bytes are enough for whoever sorts."""
    assert sorted(map(text_of, numbers)) == [text_of(number) for number in sorted(numbers)]


@given(st.lists(st.tuples(st.integers(1_000, 1_005), CHANCES), min_size=1, max_size=50))
def test_each_is_greater_whatever_the_clock_does(calls: list[tuple[int, bytes]]) -> None:
    """Within a millisecond, forward, and set back; the time is the latest that was said."""
    last, latest = -1, 0
    for now, chance in calls:
        number = following(last, now, chance)
        assert number > last
        latest = max(latest, now)
        assert created(text_of(number)) == latest
        last = number


def test_a_millisecond_that_is_used_up_takes_from_the_next() -> None:
    """Rather than repeating or waiting."""
    last = 5 << 74 | (1 << 74) - 1
    number = following(last, 5, ZEROS)
    assert (number, created(text_of(number))) == (last + 1, 6)
    assert following(number, 6, ZEROS) == number + 1


def test_a_new_millisecond_leaves_room() -> None:
    """With the highest chance of all there are still 2^41 steps of the largest size before the next one."""
    first = following(-1, 5, ONES)
    assert first + (1 << 41) * (1 << 32) < 6 << 74
    assert following(first, 5, ONES) == first + (1 << 32)


def test_the_steps_are_not_to_be_guessed() -> None:
    """Who has one key cannot count to the next: the step is of chance."""
    first = following(-1, 5, ZEROS)
    steps = {following(first, 5, bytes((0,) * 6 + tuple(n.to_bytes(4, "big")))) - first for n in range(100)}
    assert steps == set(range(1, 101))


def test_the_end_of_time() -> None:
    """The last key there can be is given once."""
    with pytest.raises(Invalid, match="no later UUID"):
        following((1 << 122) - 1, 5, ZEROS)


@pytest.mark.parametrize("now", [-1, 1 << 48, 1.5, None, True], ids=repr)
def test_wrong_times(now: Any) -> None:
    """48 bits of milliseconds."""
    with pytest.raises(Invalid, match="now_ms"):
        following(-1, now, ZEROS)


def test_chance_has_a_size() -> None:
    """Less would repeat sooner than promised."""
    with pytest.raises(Invalid, match="random bytes"):
        following(-1, 5, b"")


@pytest.mark.parametrize(
    "key",
    [
        "", "/home", b"017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "017f22e279b07cc398c4dc0c0c07398f",
        "{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}", " 017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f\n", "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
        "017f22e2-79b0-7cc3-c8c4-dc0c0c07398f", "017f22e2-79b0-7cc3-18c4-dc0c0c07398f",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398", "017f22e2-79b0-7cc3-98c4-dc0c0c07398ff",
        "\u0660\u0661\u0667f22e2-79b0-7cc3-98c4-dc0c0c07398f", "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff", str(uuid.NAMESPACE_DNS), None, 7,
    ],
    ids=repr,
)  # fmt: skip
def test_other_keys_tell_no_time(key: Any) -> None:
    """Natural keys, other versions and variants, bytes, other ways of writing."""
    assert created(key) is None


@given(TIMES, CHANCES, st.integers(0, 35), st.characters())
def test_a_changed_text_is_read_or_refused(now: int, chance: bytes, at: int, char: str) -> None:
    """One character of another kind never raises."""
    text = text_of(following(-1, now, chance))
    broken = text[:at] + char + text[at + 1 :]
    number = number_of(broken)
    assert number is None or text_of(number) == broken.lower()


def test_the_way_of_counting_is_pinned() -> None:
    """A fixed source gives fixed keys."""
    last, texts = -1, []
    for now in (1_700_000_000_000, 1_700_000_000_000, 1_700_000_000_001, 1_600_000_000_000):
        last = following(last, now, bytes(range(10)))
        texts.append(text_of(last))
    assert texts == [
        "018bcfe5-6800-7004-8203-040506070809",
        "018bcfe5-6800-7004-8203-04050c0e1013",
        "018bcfe5-6801-7004-8203-040506070809",
        "018bcfe5-6801-7004-8203-04050c0e1013",
    ]
    assert all(a < b for a, b in pairwise(texts))
