"""
Many clients at once, each a process: `python -m benchmarks.net.clients ADDRESS` puts as often as it is told.

ADDRESS is one of our daemon's, or beanstalkd:PORT.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable

import journal
from benchmarks.measure import DATA
from benchmarks.net.child import Child, answer
from benchmarks.ours import JOURNAL
from benchmarks.peers.beanstalkd import Connection


class Crowd:
    """Clients that wait to be told: starting them is not part of what is measured."""

    def __init__(self, address: str, size: int) -> None:
        self._clients = [Child("benchmarks.net.clients", address) for _ in range(size)]
        for client in self._clients:
            client.answer()

    def put(self, times: int) -> None:
        """Each puts so often; returns when the last one has its last answer."""
        for client in self._clients:
            client.tell(times)
        for client in self._clients:
            client.answer()

    def close(self) -> None:
        for client in self._clients:
            client.close()


def putter(address: str) -> Callable[[], object]:
    """A function that puts once."""
    kind, _, place = address.partition(":")
    if kind == "beanstalkd":
        connection = Connection(int(place))
        return lambda: connection.put(DATA)
    put = journal.connect(address).journal(JOURNAL).put
    numbers, pid = itertools.count(), os.getpid()
    return lambda: put(f"page-{pid}-{next(numbers)}", DATA)


def main() -> None:
    put = putter(sys.argv[1])
    answer("ready")
    for line in sys.stdin:
        for _ in range(int(line)):
            put()
        answer("done")


if __name__ == "__main__":
    main()
