"""
A process of its own that works on a store until it is killed, or measures its own memory.

`python -m benchmarks.child VERB PATH SIZE` prints one JSON line when it has done what it was asked for and then waits
for the end: its parent kills it, which is the point, or closes its input.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import journal
from benchmarks.measure import DATA
from benchmarks.ours import JOURNAL, LONG_LEASE, load, rss_anon_bytes


def load_verb(path: Path, size: int) -> dict[str, Any]:
    """Load entries and report what the process grew by."""
    store = journal.open(path, durability="none")
    entries = store.journal(JOURNAL)
    before = rss_anon_bytes()
    load(entries, size, "waiting")
    store.checkpoint()
    return {"before": before, "after": rss_anon_bytes(), "keep": store}


def tail_verb(path: Path, size: int) -> dict[str, Any]:
    """Put some more, synced with nothing but the OS, and leave them to the log."""
    store = journal.open(path, durability="interval")
    entries = store.journal(JOURNAL)
    run = time.time_ns()
    for number in range(size):
        entries.put(f"tail-{run}-{number}", DATA)
    return {"keep": store}


def rest_verb(path: Path, size: int) -> dict[str, Any]:
    """Open a store, work a little, and report the memory of the whole process."""
    store = journal.open(path, durability="interval")
    entries = store.journal(JOURNAL)
    for number in range(size):
        entries.put(f"rest-{number}", DATA)
        lease = entries.claim(consumer="bench", lease=LONG_LEASE)
        assert lease is not None
        lease.done()
    store.checkpoint()
    return {"after": rss_anon_bytes(), "keep": store}


VERBS = {"load": load_verb, "tail": tail_verb, "rest": rest_verb}


def run_and_kill(verb: str, path: Path, size: int) -> dict[str, Any]:
    """Start a child, wait for its answer, kill it with SIGKILL."""
    command = [sys.executable, "-m", "benchmarks.child", verb, str(path), str(size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        child.wait()
    if not line:
        raise RuntimeError(f"the child that should {verb} ended with {child.returncode} before it answered")
    answer: dict[str, Any] = json.loads(line)
    return answer


def main() -> None:
    verb, path, size = sys.argv[1:]
    answer = VERBS[verb](Path(path), int(size))
    print(json.dumps({name: value for name, value in answer.items() if name != "keep"}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
