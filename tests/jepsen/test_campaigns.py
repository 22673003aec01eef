"""
Small helpings of the campaigns, so that every test run has a taste of each; `.ci/run` serves them in full.

They run as programs, as people run them: a campaign forks, and kills what it started.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.jepsen.serving import PROJECT

LONG_S = 1000
"""A hang is a failure; a slow machine is not."""
pytestmark = [pytest.mark.campaign, pytest.mark.timeout(LONG_S + 100)]


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.jepsen", *arguments]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=LONG_S, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def test_a_disturbed_daemon_loses_nothing() -> None:
    """Killed, frozen, stopped, full or cut off: nothing acknowledged is lost, nothing comes twice without a reason."""
    assert "lost 0, unexpected 0, shared 0" in run("--rounds", "2", "--seed", "3")


def test_malformed_frames_harm_nobody() -> None:
    """A daemon goes on, does not grow, and serves a good client all the while."""
    assert "malformed frames and lines" in run("fuzz", "--count", "4000")


@pytest.mark.parametrize("mutant", ["not-durable", "sessions-forget"])
def test_a_mutant_is_caught(mutant: str) -> None:
    """The checker notices a daemon that answers too early, and one that does things twice."""
    assert f"{mutant} caught" in run("mutants", "--only", mutant)
