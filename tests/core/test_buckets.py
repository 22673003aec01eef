"""Buckets: where a key belongs for ever, and who is dealt what."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.buckets import BUCKETS_MAX, Range, bucket_of, check_buckets, deal, moved
from journal.core.entry.keys import SLOT_AT, murmur, primary_key
from journal.errors import Invalid

numbers = st.one_of(st.integers(1, 40), st.sampled_from([500, 1000, 1024, 65535, BUCKETS_MAX]))
slots = st.binary(min_size=17, max_size=17)


# -- the bucket of a key -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "buckets", "bucket"),
    [
        (b"/home", 1, 0), (b"/home", 10, 8), (b"/home", 500, 405), (b"/home", 1024, 830), (b"/home", 65536, 53139),
        (b"a", 1024, 549), (b"b", 1024, 955), (b"user-4711", 1024, 504), (b"\xff\x00", 1024, 447),
        (b"0190163d-8694-739b-aea5-966c26f8ad91", 1024, 371),
    ],
    ids=repr,
)  # fmt: skip
def test_a_bucket_is_for_ever(key: bytes, buckets: int, bucket: int) -> None:
    """These were handed out once: a program that gave others would split what belongs together."""
    assert bucket_of(murmur(key), buckets) == bucket


def test_the_ends_of_the_line() -> None:
    """The lowest murmur is in the first bucket, the highest in the last."""
    for buckets in (1, 2, 3, 10, 1000, 1024, BUCKETS_MAX):
        assert bucket_of(bytes(16), buckets) == 0
        assert bucket_of(b"\xff" * 16, buckets) == buckets - 1


@given(slots, numbers, st.integers(0, 255), st.integers(0, 1 << 62))
def test_slot_and_primary_key_have_the_bucket_of_the_murmur(
    slot: bytes, buckets: int, priority: int, date: int
) -> None:
    """Whatever one has at hand will do; neither the ordinal, the priority nor the date counts."""
    bucket = bucket_of(slot[:16], buckets)
    assert 0 <= bucket < buckets
    assert bucket_of(slot, buckets) == bucket
    assert bucket_of(primary_key(priority, date, 1, slot), buckets, SLOT_AT) == bucket


@pytest.mark.parametrize("buckets", [2, 10, 64])
def test_keys_are_spread_evenly(buckets: int) -> None:
    """Numbered keys, as people make them, fill every bucket about alike."""
    n = 1000 * buckets
    sizes = Counter(bucket_of(murmur(b"user-%d" % i), buckets) for i in range(n))
    assert len(sizes) == buckets
    # Five standard deviations of a fair throw.
    assert all(abs(size - 1000) < 5 * 1000**0.5 for size in sizes.values())


def test_a_larger_number_of_buckets_divides_the_smaller_one() -> None:
    """Twice as many: each bucket becomes two neighbours."""
    for i in range(1000):
        slot = murmur(b"%d" % i)
        assert bucket_of(slot, 1024) // 2 == bucket_of(slot, 512)


@pytest.mark.parametrize("buckets", [0, -1, BUCKETS_MAX + 1, 1.0, True, "10", None], ids=repr)
def test_wrong_numbers_of_buckets(buckets: Any) -> None:
    """From 1 to 65,536."""
    with pytest.raises(Invalid, match="buckets"):
        check_buckets(buckets)
    with pytest.raises(Invalid, match="buckets"):
        deal(buckets, ["a"])


# -- ranges ------------------------------------------------------------------------------------------------------------


def test_a_range_is_half_open() -> None:
    """Its high end is not in it; as a text both ends are."""
    part = Range(4, 7)
    assert [bucket for bucket in range(10) if bucket in part] == [4, 5, 6]
    assert (len(part), str(part), "4" in part) == (3, "4-6", False)
    assert Range(0, 4) < part < Range(4, 8)


@given(st.integers(0, BUCKETS_MAX - 1), st.data())
def test_what_is_written_is_read_again(low: int, data: st.DataObject) -> None:
    """Every range has a text."""
    part = Range(low, data.draw(st.integers(low + 1, BUCKETS_MAX)))
    assert Range.parse(str(part)) == part


def test_one_bucket_may_be_written_alone() -> None:
    """And white space around is forgiven."""
    assert Range.parse("5") == Range.parse(" 5-5 ") == Range(5, 6)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "-1",
        "3-",
        "3-1",
        "1-2-3",
        "a-b",
        "1,3",
        "0x1",
        "1 - 2",
        "65536",
        "0-65536",
        "999999",
        "\u0661",
        None,
        5,
    ],
    ids=repr,
)
def test_wrong_texts(text: Any) -> None:
    """Refused, saying how it is written."""
    with pytest.raises(Invalid, match="bucket"):
        Range.parse(text)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 0), (3, 2), (-1, 2), (0, BUCKETS_MAX + 1), (0.0, 1), (0, True)], ids=repr
)
def test_wrong_ranges(low: Any, high: Any) -> None:
    """An empty range is none: who has no buckets has None."""
    with pytest.raises(Invalid, match="bucket"):
        Range(low, high)


def test_a_range_must_fit() -> None:
    """Buckets that are not there are refused, naming those that are."""
    assert Range(0, 10).within(10) == Range(0, 10)
    for call in (Range(0, 11).within, Range(10, 11).murmurs):
        with pytest.raises(Invalid, match="from 0 to 9"):
            call(10)


@given(numbers, slots, st.data())
def test_a_range_of_buckets_is_a_range_of_murmurs(buckets: int, slot: bytes, data: st.DataObject) -> None:
    """Two comparisons of bytes say the same as the arithmetic."""
    low = data.draw(st.integers(0, buckets - 1))
    part = Range(low, data.draw(st.integers(low + 1, buckets)))
    first, end = part.murmurs(buckets)
    assert (first <= slot < end) == (bucket_of(slot, buckets) in part)
    assert (first <= slot[:16] < end) == (bucket_of(slot, buckets) in part)


@given(numbers, st.data())
def test_ranges_of_murmurs_meet(buckets: int, data: st.DataObject) -> None:
    """At the very edge, the last murmur of one range is followed by the first of the next; the last range has no end."""
    edge = data.draw(st.integers(1, buckets)) if buckets > 1 else 1
    end = Range(0, edge).murmurs(buckets)[1]
    if edge == buckets:
        assert end > b"\xff" * 17
        return
    assert Range(edge, buckets).murmurs(buckets)[0] == end
    below = (int.from_bytes(end, "big") - 1).to_bytes(4, "big") + b"\xff" * 13
    assert bucket_of(below, buckets) == edge - 1
    assert bucket_of(end + bytes(13), buckets) == edge


# -- dealing -----------------------------------------------------------------------------------------------------------


def texts(dealt: dict[str, Range | None]) -> dict[str, str | None]:
    return {name: None if part is None else str(part) for name, part in dealt.items()}


def is_fair(buckets: int, dealt: dict[str, Range | None]) -> bool:
    """Disjoint, contiguous, complete; sizes at most one apart; as many as possible have some."""
    parts = sorted(part for part in dealt.values() if part is not None)
    ends = [0, *(part.high for part in parts)]
    sizes = {len(part) for part in parts}
    return (
        [part.low for part in parts] == ends[:-1]
        and ends[-1] == buckets
        and max(sizes) - min(sizes) <= 1
        and len(parts) == min(buckets, len(dealt))
    )


def test_ten_buckets_for_three() -> None:
    """In the order of arrival, the larger range first."""
    assert texts(deal(10, ["a", "b", "c"])) == {"a": "0-3", "b": "4-6", "c": "7-9"}


def test_more_consumers_than_buckets() -> None:
    """The rest get none; nobody is forgotten in the answer."""
    assert texts(deal(2, ["a", "b", "c"])) == {"a": "0-0", "b": "1-1", "c": None}


def test_nobody_gets_nothing() -> None:
    """And nothing is covered then."""
    assert deal(10, []) == {}
    assert deal(10, [], {"a": Range(0, 10)}) == {}


def test_one_name_twice_is_refused() -> None:
    """Two consumers with one name would share a range without knowing."""
    with pytest.raises(Invalid, match="'a' is there twice"):
        deal(10, ["a", "b", "a"])


def test_overlapping_ranges_were_never_dealt() -> None:
    """What was dealt before must be something that `deal` could have dealt."""
    with pytest.raises(Invalid, match="do not overlap"):
        deal(10, ["a", "b"], {"a": Range(0, 6), "b": Range(5, 10)})


def test_who_comes_is_let_in_between() -> None:
    """Two have a half each; the third gets the middle, and the others lose one end."""
    first = deal(9, ["a", "b"])
    second = deal(9, ["a", "b", "c"], first)
    assert texts(second) == {"a": "0-2", "b": "6-8", "c": "3-5"}
    assert moved(first, second) == 3


def test_who_goes_is_replaced_by_its_neighbours() -> None:
    """One of the middle leaves: those beside it grow towards each other."""
    first = deal(9, ["a", "c", "b"])
    second = deal(9, ["a", "b"], first)
    assert texts(second) == {"a": "0-4", "b": "5-8"}
    assert moved(first, second) == 3


def test_who_has_some_keeps_it_when_there_are_not_enough() -> None:
    """A late-comer waits until somebody goes."""
    first = deal(2, ["a", "b"])
    assert deal(2, ["c", "a", "b"], first) == {"c": None, **first}
    assert texts(deal(2, ["c", "b"], first)) == {"c": "0-0", "b": "1-1"}


def test_nothing_moves_when_nothing_changed() -> None:
    """Dealing again is harmless."""
    names = [f"c{n}" for n in range(7)]
    dealt = deal(1024, names)
    assert deal(1024, list(reversed(names)), dealt) == dealt


@pytest.mark.parametrize("n", [10, 100])
def test_one_of_many_moves_about_a_quarter(n: int) -> None:
    """Wherever it stood, and whoever comes: a quarter, and little more than its own part."""
    names = [f"c{i}" for i in range(n)]
    dealt = deal(BUCKETS_MAX, names)
    most = BUCKETS_MAX * (0.25 + 1.5 / n) + n
    assert moved(dealt, deal(BUCKETS_MAX, [*names, "new"], dealt)) <= most
    for gone in range(0, n, max(1, n // 10)):
        rest = names[:gone] + names[gone + 1 :]
        assert moved(dealt, deal(BUCKETS_MAX, rest, dealt)) <= most


@given(numbers, st.lists(st.integers(0, 30), max_size=40))
def test_every_deal_is_fair(buckets: int, comings: list[int]) -> None:
    """Through any coming and going: a number that is there goes, one that is not comes."""
    names: list[str] = []
    dealt: dict[str, Range | None] = {}
    for number in comings:
        name = f"c{number}"
        names = [n for n in names if n != name] if name in names else [*names, name]
        dealt = deal(buckets, names, dealt)
        assert list(dealt) == names
        assert not names or is_fair(buckets, dealt)
        assert dealt == deal(buckets, names, dealt)


@given(st.integers(1, 30), st.integers(0, 6), st.integers(0, 6), st.randoms(use_true_random=False))
def test_no_other_way_moves_less(buckets: int, n_before: int, n_after: int, random: Any) -> None:
    """Every way to give the same ranges to the consumers is tried."""
    before = deal(buckets, random.sample("abcdefgh", n_before))
    names = random.sample("abcdefgh", n_after)
    dealt = deal(buckets, names, before)
    shares: list[Range | None] = list(dealt.values())
    least = min(moved(before, dict(zip(names, order, strict=True))) for order in permutations(shares))
    assert moved(before, dealt) == least


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 5), st.integers(1, 5))
def test_another_number_of_buckets_is_dealt_too(old: int, new: int, n_before: int, n_after: int) -> None:
    """What was dealt of other buckets is no hindrance."""
    before = deal(old, "abcde"[:n_before])
    assert is_fair(new, deal(new, "abcde"[:n_after], before))
