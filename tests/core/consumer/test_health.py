"""Whether a consumer can be trusted with work."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal.core.consumer.health import Health
from journal.core.limits import NEVER

NOW = 1_700_000_000_000


def test_silent_after_so_many_on_end() -> None:
    """And told once."""
    health = Health(3, 1000)
    assert [health.lost(NOW) for _ in range(5)] == [False, False, True, False, False]
    assert health.is_silent


def test_an_accepted_answer_forgets_everything() -> None:
    """Whatever was missed before."""
    health = Health(2, 1000)
    health.lost(NOW)
    assert not health.heard(is_accepted=True)
    assert not health.lost(NOW)
    assert health.lost(NOW)
    assert health.heard(is_accepted=True)
    assert (health.is_silent, health.missed) == (False, 0)


def test_a_late_answer_gives_one_more_chance() -> None:
    """The next loss makes it silent again."""
    health = Health(3, 1000)
    for _ in range(3):
        health.lost(NOW)
    assert health.heard(is_accepted=False)
    assert not health.is_silent
    assert health.lost(NOW)


def test_a_late_answer_of_a_healthy_one_forgives_nothing() -> None:
    """Else one who is always too late would never be noticed."""
    health = Health(3, 1000)
    results = []
    for _ in range(3):
        results.append(health.lost(NOW))
        health.heard(is_accepted=False)
    assert results == [False, False, True]


def test_who_is_away_misses_more_with_time() -> None:
    """He holds nothing that could be lost, and yet he is silent in the end."""
    health = Health(3, 1000)
    health.lost(NOW)
    assert health.look_at == NOW + 1000
    assert not health.look(NOW + 999, is_away=True)
    assert not health.look(NOW + 1000, is_away=True)
    assert health.look(NOW + 2000, is_away=True)
    assert health.look_at == NEVER


def test_who_waits_for_work_is_not_away() -> None:
    """He will be handed something, and can show then."""
    health = Health(2, 1000)
    health.lost(NOW)
    assert not health.look(NOW + 1000, is_away=False)
    assert (health.missed, health.look_at) == (1, NEVER)


def test_who_asks_for_more_is_not_away() -> None:
    """But has answered nothing either."""
    health = Health(2, 1000)
    health.lost(NOW)
    health.asked()
    assert not health.look(NOW + 5000, is_away=True)
    assert health.lost(NOW + 5000)


def test_a_subscription_begins_anew() -> None:
    """With nothing held against it."""
    health = Health(1, 1000)
    assert health.lost(NOW)
    health.begin()
    assert (health.is_silent, health.missed, health.look_at) == (False, 0, NEVER)


@given(st.lists(st.sampled_from(["lost", "done", "late"]), max_size=40), st.integers(1, 5))
def test_silent_exactly_after_a_run_of_losses(events: list[str], silent_max: int) -> None:
    """Accepted answers cut a run short, late ones do not; but a late one opens the door for one more."""
    health = Health(silent_max, 1000)
    run, is_silent = 0, False
    for event in events:
        if event == "lost":
            health.lost(NOW)
            run += 1
            is_silent = is_silent or run >= silent_max
        else:
            health.heard(is_accepted=event == "done")
            if event == "done":
                run = 0
            elif is_silent:
                run = silent_max - 1
            is_silent = False
        assert health.is_silent == is_silent
