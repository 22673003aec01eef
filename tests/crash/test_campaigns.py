"""
Small helpings of the campaigns, so that every test run has a taste of each; `.ci/run` serves them in full.

They run as programs, as people run them: a campaign forks, and kills what it started.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.crash.campaign import PROJECT
from tests.crash.collide import twin
from tests.crash.strace import strace_missing

LONG_S = 1000
"""A hang is a failure; a slow machine is not."""
pytestmark = [pytest.mark.campaign, pytest.mark.timeout(LONG_S + 100)]


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.crash", *arguments]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def skip_without_strace() -> None:
    if (why := strace_missing()) is not None:
        pytest.skip(why)


def test_killed_store_keeps_what_was_acknowledged() -> None:
    """kill -9 at random and at named points loses nothing that was answered."""
    assert "nothing acknowledged was lost" in run("kill", "--cycles", "6", "--seed", "11")


def test_power_cut_loses_nothing_at_full() -> None:
    """Every simulated power cut leaves what was answered at `full`, whole calls only."""
    skip_without_strace()
    assert "none broke a promise" in run("power", "--states", "150", "--durability", "full", "--seed", "21")


def test_power_cut_leaves_a_prefix_at_interval() -> None:
    """At `interval` the state after some whole call is found, not before what was called durable."""
    skip_without_strace()
    assert "none broke a promise" in run("power", "--states", "150", "--durability", "interval", "--seed", "31")


@pytest.mark.parametrize("fault", ["fdatasync:EIO", "pwrite64:ENOSPC+"])
def test_failing_system_call_is_survived(fault: str) -> None:
    """A failed call is told as it is, and everything answered is there afterwards."""
    skip_without_strace()
    run("faults", "--only", fault, "--last", "9", "--step", "3")


def test_lost_sync_loses_nothing_that_was_answered() -> None:
    """A sync fails, its pages are gone, the power goes: what was acknowledged is there."""
    skip_without_strace()
    assert "after a sync that was lost" in run("faults", "--only", "losses", "--first", "32", "--last", "32")


def test_short_write_is_completed() -> None:
    """A pwrite that takes half of its bytes is no error."""
    run("faults", "--only", "pwrite64:SHORT", "--last", "9", "--step", "3")


def test_damage_is_named() -> None:
    """Damaged files give an error with their name, or show what they showed."""
    run("damage", "--seeds", "1", "--each", "1")


def test_mutant_is_caught() -> None:
    """A campaign notices an engine that acknowledges before it syncs."""
    skip_without_strace()
    assert "ack-before-sync caught" in run("mutants", "--only", "ack-before-sync")


def test_twins_collide() -> None:
    """The keys made to collide do, and differ."""
    mmh3 = pytest.importorskip("mmh3")
    key = b"two blocks of sixteen bytes each"
    assert twin(key) != key and mmh3.mmh3_x64_128_digest(twin(key)) == mmh3.mmh3_x64_128_digest(key)


def test_an_interrupted_program_goes_on() -> None:
    """Ctrl-C at any moment of any verb: the call has happened or not, everybody else goes on."""
    assert "every store was whole" in run("interrupt", "--interrupts", "20", "--seed", "41")


def test_interrupts_without_the_shield_are_noticed() -> None:
    """The harness sees an engine that gives a lock up for another thread."""
    assert "caught" in run("mutants", "--only", "no-shield")
