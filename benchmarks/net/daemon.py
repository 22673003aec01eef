"""
Our daemon as a process: `python -m benchmarks.net.daemon STORE DURABILITY` serves a store until its input ends.

Its first line is where it listens: its Unix socket, and TCP on loopback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import journal
from benchmarks.net.child import Child, answer
from benchmarks.ours import JOURNAL


class Daemon:
    """A store with one journal, behind a daemon."""

    def __init__(self, path: Path, durability: str, before: Sequence[str] = ()) -> None:
        self._child = Child("benchmarks.net.daemon", str(path), durability, before=before)
        self.pid = self._child.pid
        self.unix, self.tcp = self._child.answer()

    def close(self) -> None:
        self._child.close()


def main() -> None:
    path, durability = sys.argv[1:]
    with journal.open(path, durability=durability) as store:
        store.journal(JOURNAL)
        with store.serve(tcp=[("127.0.0.1", 0)], trust_loopback=True) as server:
            answer(server.addresses)
            sys.stdin.read()


if __name__ == "__main__":
    main()
