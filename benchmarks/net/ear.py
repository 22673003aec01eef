"""
A backend that listens, as a process: `python -m benchmarks.net.ear ADDRESS` is told what to do, line by line.

    late COUNT SPACING_MS   schedule so many entries, and tell how late the datagram of each came: in ms, with those of asyncio's own timers
    renew SECONDS           do nothing but renew the lease of the listener, and tell how often it asked the daemon for something

Datagrams and timers are met by one asyncio loop, in turn, so that a slow second hits both.
"""

from __future__ import annotations

import asyncio
import random
import socket
import sys
import time
from collections import deque

import journal
from benchmarks.net.child import answer
from benchmarks.ours import JOURNAL
from journal.core.requests.control import ListenRequest
from journal.net.client.connection.address import parse_address
from journal.net.client.connection.call import call_of
from journal.net.client.connection.link import Link
from journal.net.client.connection.options import ConnectOptions

LEAD_MS = 500
"""From the first put to the first date."""
AHEAD_MS = 2
"""The daemon's steady clock may be ahead of the wall clock, by which lateness is told here. Without this the last one may never count."""


class Ear:
    """A connection, and a UDP socket of its own."""

    def __init__(self, address: str) -> None:
        self.store = journal.connect(address)
        self.link = Link(parse_address(address), ConnectOptions())
        self.journal = self.store.journal(JOURNAL)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.listener: int | None = None
        self.lease_ms = self.listen()

    def listen(self) -> int:
        """Listen, or renew that; how long the daemon will tell us."""
        asked = ListenRequest(port=self.socket.getsockname()[1], journals=[JOURNAL], listener=self.listener)
        reply = self.link.ask(call_of(asked), 30_000)
        self.listener = reply["listener"]
        self.asked_at = time.monotonic()
        lease_ms: int = reply["lease_ms"]
        return lease_ms

    def finish(self) -> None:
        """Do what is due."""
        while leases := self.journal.claim_many(100, consumer="ear"):
            self.journal.done_many(leases)

    def renew_in_time(self) -> None:
        """Ask to be told further on, when a third of the lease is over."""
        if time.monotonic() > self.asked_at + self.lease_ms / 3000:
            self.listen()

    def renew(self, seconds: float) -> int:
        """Stay a listener for so long; how often something was asked."""
        until, asked = time.monotonic() + seconds, 0
        while (rest := until - time.monotonic()) > 0:
            time.sleep(min(rest, self.lease_ms / 3000))
            self.listen()
            asked += 1
        return asked


async def lateness(ear: Ear, count: int, spacing_ms: int) -> tuple[list[float], list[float]]:
    """Of datagrams, and of timers that fire half-way between two dates: now - then, in ms."""
    loop = asyncio.get_running_loop()
    dice = random.Random(count)
    first = int(time.time() * 1000) + LEAD_MS + 2 * count // 10
    dates = [first + i * spacing_ms + dice.randrange(spacing_ms // 4) for i in range(count)]
    ear.journal.put_many(journal.Put(f"ear-{first}-{i}", None, process_date=date) for i, date in enumerate(dates))
    told: list[float] = []
    fired: list[float] = []
    expected = deque(dates)
    is_over = loop.create_future()

    def datagram() -> None:
        ear.socket.recv(2000)
        now = time.time() * 1000
        while expected and expected[0] <= now + AHEAD_MS:
            told.append(max(0.0, now - expected.popleft()))
        ear.finish()
        ear.renew_in_time()
        if not expected and not is_over.done():
            is_over.set_result(None)

    def timer(when: float) -> None:
        fired.append((loop.time() - when) * 1000)

    loop.add_reader(ear.socket, datagram)
    offset = loop.time() - time.time()
    for date in dates:
        when = (date + spacing_ms / 2) / 1000 + offset
        loop.call_at(when, timer, when)
    await asyncio.wait_for(is_over, timeout=60 + count * spacing_ms / 1000)
    loop.remove_reader(ear.socket)
    await asyncio.sleep(spacing_ms / 1000)
    return told, fired


def main() -> None:
    ear = Ear(sys.argv[1])
    answer("ready")
    for line in sys.stdin:
        match line.split():
            case ["late", count, spacing_ms]:
                answer(asyncio.run(lateness(ear, int(count), int(spacing_ms))))
            case ["renew", seconds]:
                answer(ear.renew(float(seconds)))


if __name__ == "__main__":
    main()
