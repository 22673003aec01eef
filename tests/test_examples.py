"""The recipes run, and print what they promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"

PRINTED = {
    "scheduled_mails": """\
published again: exists
bob came back: cancelled True
cid wants it now: moved
to ann: welcome
to cid: your invoice
to ann: how do you like it?
left: 0
""",
    "job_workers": """\
worker-1 begins video-1, lost before: 0
worker-1 video-1 25%
worker-1 video-1 50%
worker-1 was killed
video-1 is still with worker-1
worker-2 begins video-1, lost before: 1
worker-2 video-1 25%
worker-2 video-1 50%
worker-2 video-1 75%
worker-2 video-1 100%
worker-2 finished video-1
left: 0
""",
    "exponential_retries": """\
flaky was done after attempt 3
broken was given up on after attempt 5
reason: failed 5 times, at last with ConnectionError: 503 Service Unavailable
each wait was as long as asked for: True
waiting again: ['broken']
""",
    "partial_degradation": """\
done while payments are down: ['order-0', 'order-2', 'order-4']
pushed back: ['order-1', 'order-3', 'order-5']
payments are back
done in the end: ['order-0', 'order-1', 'order-2', 'order-3', 'order-4', 'order-5']
counted as failures: 0 left: 0
""",
    "time_buffer": """\
m1 buffered: inserted
m2 buffered: inserted
m1 buffered: exists
in the second queue at first: 0
later: [('m1', 'one'), ('m2', 'two')] not too early: True
left in the buffer: 0
""",
    "exactly_once": """\
killed before the effect: payments 0, cents 0
killed in the middle of the transaction: payments 0, cents 0
killed after the effect, before done: payments 1, cents 100
killed after done, before the caller was told: payments 1, cents 100
finished: payments 3, cents 300
left: 0
""",
}


def test_every_example_is_known() -> None:
    """A new one comes with what it prints."""
    assert {path.stem for path in EXAMPLES.glob("*.py")} == PRINTED.keys()


WAITING = ("job_workers", "scheduled_mails")
"""Recipes that wait for seconds: for a lease to expire, for a date to come."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in WAITING else []) for name in PRINTED]
)
def test_an_example_prints_what_it_promises(name: str, tmp_path: Path) -> None:
    """As a program of its own, in an empty directory, with all warnings being errors."""
    run = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, PRINTED[name]), run.stderr
