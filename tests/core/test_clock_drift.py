"""Clocks that go wrong: estimates that hold, and flags that do not flap."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.core.clock_drift import CONFIRM, PEERS_MAX, SAMPLES, WINDOW_MS, WORST, Drift, Drifts, Sample, round_trip
from journal.errors import Invalid

T = 1_700_000_000_000


def trip(offset: float, *, at: float = T, there: float = 5, back: float = 5, thinking: float = 1) -> Sample:
    """What is measured of a peer whose clock is `offset` ahead."""
    t1 = at + there + offset
    return round_trip(at, t1, t1 + thinking, at + there + thinking + back)


# -- one round trip ----------------------------------------------------------------------------------------------------


def test_the_example_of_the_textbooks() -> None:
    """Even ways: the offset is exact, and the peer's own time does not count as delay."""
    sample = round_trip(T, T + 150, T + 151, T + 101)
    assert (sample.at, sample.offset, sample.delay) == (T + 101, 100, 100)


def test_even_ways_give_the_exact_offset() -> None:
    """Fast or slow."""
    assert [trip(offset).offset for offset in (-1000, -1, 0, 1, 1000)] == [-1000, -1, 0, 1, 1000]
    assert trip(100).delay == 10


@given(
    st.integers(-(10**9), 10**9),
    st.integers(0, 10**5),
    st.integers(0, 10**5),
    st.integers(0, 10**5),
    st.integers(0, 10**13),
)
def test_the_truth_is_within_half_the_delay(offset: int, there: int, back: int, thinking: int, at: int) -> None:
    """However uneven the ways are; so is what is certain never more than the truth."""
    sample = trip(offset, at=at, there=there, back=back, thinking=thinking)
    assert sample.delay == there + back
    assert abs(sample.offset - offset) <= sample.delay / 2
    assert sample.least <= abs(offset)


@given(st.integers(-(10**6), 10**6), st.floats(0, 100), st.floats(0, 100), st.floats(0, 100), st.floats(0, 1))
def test_clocks_of_whole_milliseconds_are_good_enough(
    offset: int, there: float, back: float, thinking: float, part: float
) -> None:
    """Each reading is cut to a millisecond, and the round trip is accepted all the same."""
    at = T + part
    t1 = at + there + offset
    readings = (at, t1, t1 + thinking, at + there + thinking + back)
    sample = round_trip(*(int(reading) for reading in readings))
    assert abs(sample.offset - offset) <= (there + back) / 2 + 1 + 1e-3


def test_the_other_side_sees_the_opposite() -> None:
    """A consumer that measured us tells us how far it is off."""
    assert trip(100).turned(T + 5) == Sample(T + 5, -100, 10)


@pytest.mark.parametrize(
    "times",
    [(T, T, T, T - 1), (T, T + 5, T + 4, T + 10), (T, T, T + 100, T + 50), (T, T, T + 3, T)],
    ids=["answered before asked", "peer went back", "peer took longer than the trip", "by more than a grain"],
)
def test_round_trips_that_cannot_be(times: tuple[int, int, int, int]) -> None:
    """A clock was set in the middle: that is no sample."""
    with pytest.raises(Invalid, match="measure again"):
        round_trip(*times)


@pytest.mark.parametrize("time", [None, "now", True, float("nan"), float("inf")], ids=repr)
@pytest.mark.parametrize("place", range(4))
def test_wrong_times(time: Any, place: int) -> None:
    """Named, whichever of the four it is."""
    times: list[Any] = [T, T, T, T]
    times[place] = time
    with pytest.raises(Invalid, match=f"t{place} is"):
        round_trip(*times)


# -- one peer ----------------------------------------------------------------------------------------------------------


def test_nothing_is_known_of_a_new_peer() -> None:
    """None, not 0: nobody has measured it."""
    drift = Drift()
    assert drift.best is None
    assert drift.statistics() == {
        "offset_ms": None, "error_ms": None, "jitter_ms": 0.0, "samples": 0, "steps": 0, "is_flagged": False, "last": 0.0,
    }  # fmt: skip


def test_the_sample_with_the_least_delay_counts() -> None:
    """Slow and uneven ones beside it do no harm."""
    drift = Drift()
    drift.add(trip(100, there=300, back=10))
    drift.add(trip(100, there=1, back=2))
    drift.add(trip(100, there=0, back=200))
    assert drift.best == trip(100, there=1, back=2)
    assert abs(drift.statistics()["offset_ms"] - 100) <= drift.statistics()["error_ms"] == 1.5


def test_old_samples_go() -> None:
    """By number, and by age."""
    drift = Drift()
    drift.add(trip(0, there=0, back=0))
    for n in range(SAMPLES):
        drift.add(trip(0, at=T + n, there=50, back=50))
    assert drift.best is not None and drift.best.delay == 100
    drift.add(trip(0, at=T + WINDOW_MS * 2, there=500, back=500))
    assert drift.best.delay == 1000


def test_jitter_is_how_much_they_scatter() -> None:
    """Nothing for equal ones; the root of the mean square otherwise."""
    drift = Drift()
    drift.add(trip(10))
    assert drift.jitter == 0
    drift.add(trip(10))
    assert drift.jitter == 0
    drift.add(Sample(T, 13.0, 20.0))
    drift.add(Sample(T, 6.0, 20.0))
    assert drift.jitter == pytest.approx(((3**2 + 4**2) / 3) ** 0.5)


def test_a_clock_that_is_off_is_flagged() -> None:
    """When two estimates agree; whoever adds is told once."""
    drift = Drift()
    assert [drift.add(trip(300, at=T + n)) for n in range(4)] == [False, True, False, False]
    assert drift.is_flagged


def test_a_slow_network_raises_no_flag() -> None:
    """All of the delay on one way looks like half a second, and may be nothing."""
    drift = Drift()
    for n in range(20):
        drift.add(trip(0, at=T + n, there=1000, back=0))
    assert drift.best is not None and drift.best.offset == 500
    assert not drift.is_flagged


def test_a_clock_at_the_limit_does_not_flap() -> None:
    """Up and down between three quarters of the limit and a little above: the flag goes up once."""
    drift = Drift(1000)
    changes = 0
    for n in range(200):
        offset = (1003, 1003, 1003, 900, 900, 900)[n % 6]
        changes += drift.add(trip(offset, at=T + n * WINDOW_MS * 2, there=0, back=0))
    assert (changes, drift.is_flagged) == (1, True)


def test_a_clock_that_was_put_right_is_cleared() -> None:
    """At once, not when the window has passed: the step makes what was known worthless."""
    drift = Drift()
    for n in range(SAMPLES):
        drift.add(trip(5000, at=T + n, there=0, back=0))
    assert [drift.add(trip(0, at=T + 100 + n, there=10, back=10)) for n in range(CONFIRM)] == [False, True]
    assert (drift.is_flagged, drift.steps) == (False, 1)


def test_one_bad_sample_changes_no_flag() -> None:
    """A clock that was set in the middle of a round trip, so that nobody can tell."""
    drift = Drift()
    for n in range(4):
        drift.add(trip(0, at=T + n))
    assert not drift.add(Sample(T + 5, 9000.0, 0.0))
    assert not drift.add(trip(0, at=T + 6))
    assert not drift.is_flagged


def test_skew_is_no_step() -> None:
    """A clock that runs 200 ppm fast is followed; it was not set."""
    drift = Drift()
    for minute in range(60):
        drift.add(trip(minute * 60_000 * 0.0002, at=T + minute * 60_000, there=1, back=1))
    assert drift.steps == 0
    assert drift.is_flagged  # 12 ms a minute: beyond the limit after 21 minutes


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), min_size=1, max_size=30), st.integers(-249, 249))
def test_a_clock_within_the_limit_is_never_flagged(ways: list[tuple[int, int]], offset: int) -> None:
    """Whatever the network does; and its clock is never said to have been set."""
    drift = Drift()
    for n, (there, back) in enumerate(ways):
        assert not drift.add(trip(offset, at=T + n * 1000, there=there, back=back))
    assert drift.best is not None and abs(drift.best.offset - offset) <= drift.best.delay / 2
    assert drift.steps == 0


@pytest.mark.parametrize("limit", [0, -1, "x", None], ids=repr)
def test_wrong_limits(limit: Any) -> None:
    """A duration of at least a millisecond."""
    for call in (lambda: Drift(limit), lambda: Drifts(limit=limit)):
        with pytest.raises(Invalid, match="limit"):
            call()
    assert Drift("2s").limit_ms == 2000


# -- all peers ---------------------------------------------------------------------------------------------------------


def off(drifts: Drifts, peer: str, offset: float) -> None:
    for n in range(CONFIRM):
        drifts.add(peer, trip(offset, at=T + n))


def test_each_peer_has_a_drift_of_its_own() -> None:
    """Who is off is named; the others are not blamed."""
    drifts = Drifts()
    off(drifts, "good", 3)
    off(drifts, "slow", -400)
    off(drifts, "fast", 4000)
    assert drifts.flagged == ["fast", "slow"]
    slow = drifts.get("slow")
    assert slow is not None and slow.best is not None and slow.best.offset == -400
    assert drifts.get("nobody") is None
    statistics = drifts.statistics()
    assert list(statistics["worst"]) == ["fast", "slow", "good"]
    assert (statistics["peers"], statistics["flagged"], statistics["is_ours"]) == (3, 2, False)
    assert (statistics["offset_ms_median"], statistics["offset_ms_worst"]) == (3, 4000)


def test_when_most_are_off_alike_it_is_our_clock() -> None:
    """Three of four say that we are slow. Of two, nobody can tell."""
    drifts = Drifts()
    off(drifts, "a", 5000)
    off(drifts, "b", 5010)
    assert not drifts.is_ours
    off(drifts, "c", 4990)
    off(drifts, "d", 0)
    assert drifts.is_ours
    assert drifts.statistics()["is_ours"] is True


def test_nonsense_is_counted_and_refused() -> None:
    """And nothing of it is kept."""
    drifts = Drifts()
    with pytest.raises(Invalid):
        drifts.measure("a", T, T, T, T - 1)
    assert (len(drifts), drifts.rejected) == (0, 1)
    drifts.measure("a", T, T + 300, T + 300, T)
    assert drifts.measure("a", T, T + 300, T + 300, T)
    assert (len(drifts), drifts.flagged) == (1, ["a"])


def test_the_longest_silent_goes_first() -> None:
    """As many as allowed, not one more; who speaks again is young again."""
    drifts = Drifts(peers_max=2)
    for peer in ("a", "b", "a", "c"):
        drifts.add(peer, trip(0))
    assert [peer for peer in "abc" if drifts.get(peer)] == ["a", "c"]
    assert (len(drifts), drifts.forgotten) == (2, 1)
    drifts.remove("a")
    drifts.remove("a")
    assert (len(drifts), drifts.forgotten) == (1, 1)


def test_statistics_stay_short() -> None:
    """A thousand peers are counted, the ten worst are named."""
    drifts = Drifts()
    for n in range(PEERS_MAX + 10):
        drifts.add(f"p{n}", trip(n))
    statistics = drifts.statistics()
    assert (statistics["peers"], statistics["forgotten"]) == (PEERS_MAX, 10)
    assert len(statistics["worst"]) == WORST
    assert next(iter(statistics["worst"])) == f"p{PEERS_MAX + 9}"


def test_nobody_is_no_trouble() -> None:
    """No peers, no offsets."""
    statistics = Drifts().statistics()
    assert (statistics["peers"], statistics["offset_ms_median"], statistics["worst"]) == (0, None, {})


@pytest.mark.parametrize("peers_max", [0, -1, 1.5, None], ids=repr)
def test_wrong_bounds(peers_max: Any) -> None:
    """At least one peer."""
    with pytest.raises(Invalid, match="peers_max"):
        Drifts(peers_max=peers_max)
