"""
A worker that kills itself with -9 at a chosen step: `python -m tests.roles.failing STORE EFFECTS STEP`.

It is broker and consumer in one process, as every program that embeds a journal is. Its effect is a line in a file, synced.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import journal
from journal.core.entry import effects as fx
from journal.engine.log.writer import LogWriter

STEPS = {
    "before the lease is stored": (fx.Claim, "before"),
    "after the lease is stored": (fx.Claim, "after"),
    "before the delete is stored": (fx.Done, "before"),
    "after the delete is stored": (fx.Done, "after"),
    "when it extends": (fx.Extend, "before"),
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(effect: type, when: str) -> None:
    """Have the log kill us before or after the record of such an effect."""
    append = LogWriter.append

    def fatal(self: LogWriter, found: Any, *args: Any) -> int:
        if isinstance(found, effect) and when == "before":
            die()
        offset = append(self, found, *args)
        if isinstance(found, effect):
            die()
        return offset

    LogWriter.append = fatal  # type: ignore[method-assign]


def process(lease: journal.Lease, effects: Path, step: str = "") -> None:
    """The work: a line that lasts."""
    if step == "before processing":
        die()
    fd = os.open(effects, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{lease.key} {lease.token}\n".encode())
    os.fsync(fd)
    os.close(fd)
    if step == "after processing":
        die()
    if step == "when it extends":
        lease.extend()


def main() -> None:
    path, effects, step = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    if step in STEPS:
        die_at(*STEPS[step])
    store = journal.open(path)
    consumer = journal.Consumer(store.journal("pages"), name="worker", lease="10m", extend=False)
    consumer.run(lambda lease: process(lease, effects, step))


if __name__ == "__main__":
    main()
