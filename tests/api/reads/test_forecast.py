"""The load ahead of a journal: what a count of all entries says, from their keys alone."""

from __future__ import annotations

import random

import pytest

import journal
from journal import Put
from journal.core.entry import rows
from journal.core.forecast.forecast import forecast
from journal.engine.read import queries
from journal.testing import ManualClock


def fill(pages: journal.Journal, clock: ManualClock, seed: int, count: int = 120) -> None:
    chance = random.Random(seed)
    for part in range(2):
        pages.put_many(
            [
                Put(
                    f"{part}-{n}",
                    n,
                    priority=chance.choice([0, 1, 100, 255]),
                    process_date=clock.now() + chance.choice([-1, 0, 1, 999, 1000, 1001, 60_000, 10**7]),
                )
                for n in range(count // 2)
            ]
        )
        if part == 0:
            pages.rotate()
    clock.advance(1)
    for _ in range(chance.randrange(30)):
        pages.claim(lease=10**6)


@pytest.mark.parametrize("keys", [1, 7, 4096])
@pytest.mark.parametrize("step", ["1ms", "1s", "1h"])
@pytest.mark.parametrize("seed", range(3))
def test_it_counts_every_entry_once(
    pages: journal.Journal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, keys: int, step: str, seed: int
) -> None:
    """In the step in which it falls due, by priority and status, however few keys are read at a time."""
    monkeypatch.setattr(queries, "KEYS", keys)
    fill(pages, clock, seed)
    horizon = {"1ms": "1s", "1s": "2s", "1h": "2h"}[step]
    expected = forecast(
        [(entry.process_date, entry.priority, entry.status) for entry in pages.scan()],
        now=clock.now(),
        step=step,
        horizon=horizon,
    )
    assert pages.forecast(step=step, horizon=horizon) == expected
    assert expected.total == 120


@pytest.mark.embedded(reason="it looks at what the engine reads")
def test_payloads_are_not_read(pages: journal.Journal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is decoded, whatever is processing."""
    fill(pages, clock, 1)
    expected = pages.forecast()

    def refuse(*_: object) -> object:
        raise AssertionError("a payload was read")

    monkeypatch.setattr(pages._backend.p.state, "row", refuse)
    monkeypatch.setattr(rows, "unpack_data", refuse)
    assert pages.forecast() == expected


def test_from_a_date_on(pages: journal.Journal, clock: ManualClock) -> None:
    """What comes before it is overdue then."""
    pages.put("today", delay="1h")
    pages.put("tomorrow", delay="25h")
    ahead = pages.forecast(step="1h", horizon="2h", since=clock.now() + 24 * 3_600_000)
    assert (ahead.overdue.total, [step.total for step in ahead.steps], ahead.later.total) == (1, [1, 0], 0)
    assert ahead.now == clock.now() + 24 * 3_600_000


def test_of_an_empty_journal(pages: journal.Journal) -> None:
    """Nothing, in sixty steps."""
    ahead = pages.forecast()
    assert (ahead.total, len(ahead.steps), ahead.spikes()) == (0, 60, [])


def test_spikes_and_hints(pages: journal.Journal) -> None:
    """From a journal's own entries."""
    pages.put_many([Put(f"s{n}", delay="10m") for n in range(500)])
    pages.put_many([Put(f"k{n}", delay=f"{n}m") for n in range(1, 60)])
    ahead = pages.forecast(step="1m", horizon="1h")
    (spike,) = ahead.spikes()
    assert (spike.total, (spike.end - ahead.now) // 60_000) == (501, 10)
    assert ahead.scaling(rate=1, consumers=1).most == 9


def test_wrong_arguments(pages: journal.Journal) -> None:
    """Invalid."""
    for wrong in ({"step": 0}, {"horizon": "0ms"}, {"step": "1ms", "horizon": "1h"}, {"since": "1h"}, {"step": "x"}):
        with pytest.raises(journal.Invalid):
            pages.forecast(**wrong)  # type: ignore[arg-type]
