"""
Malformed frames and lines against a daemon that serves others: `python -m tests.jepsen fuzz --count 100000`.

Two programs connect again and again, and send what no client would: frames that are flipped, cut, doubled, too long, nested, of unknown
kinds, requests with wrong parameters, lines of noise, on both sockets, before and after the handshake. Meanwhile a good client puts, claims
and finishes; it must be served all the while.

X1  The daemon does not end, and logs nothing that it was not made for.
X2  It does not grow: memory, descriptors, threads and connections at the end are what they were when its tables were full for the first
    time.
X3  The good client gets the right answer to each of its calls, and the store is sound at the end.

Every malformed frame or line counts as one; the good ones that lead to it do not.
"""

from __future__ import annotations

import argparse
import errno
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from time import monotonic

import msgpack

import journal
from journal.core.limits import LIST_MAX
from journal.net.wire.client_connection import ClientConnection, ClientSession
from journal.net.wire.frames import LENGTH, Encoder
from journal.net.wire.limits import NESTING_MAX
from tests.crash.campaign import Progress
from tests.jepsen.serving import PROJECT, Failed, Serving
from tests.net.wire.fuzz import LINES, REQUESTS, spoiled, value

JOURNAL = "pages"
THROWERS = 2
TOGETHER = 16
"""Malformed requests that go out with one connection, at most: each is answered, and the connection goes on."""
PORTION = 1000
GROWTH_BYTES_MAX = 8 << 20
"""
The tables of a daemon (sessions, names that were seen) are full after a while; then it stays as it is: 41 MB at 90,000 and at 300,000,
44 MB at a million, with the good client's 80,000 calls among them. A leak of 12 bytes a frame is found by the million, one of 120 by
100,000.
"""
FULL_AT = 0.3
"""Of the campaign: the tables are full then, of 100,000 as of more."""
DESCRIPTORS_MAX = 20
TIMEOUT_S = 60.0
GONE = (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN)
"""The daemon has closed the connection while we spoke."""
_encode = Encoder(1 << 24)


# -- what is thrown ----------------------------------------------------------------------------------------------------


def hello(dice: random.Random) -> bytes:
    """A handshake as it should be; on the store's own socket no proof is asked for."""
    client = ClientConnection(ClientSession(dice.randbytes(16)), nonce=dice.randbytes(32), now=0)
    return bytes(client.outgoing)


def nested(dice: random.Random) -> object:
    """Something that is too deep, or too long."""
    if dice.random() < 0.5:
        return [None] * (LIST_MAX + 1)
    found: object = 1
    for _ in range(dice.randrange(NESTING_MAX, 600)):
        found = [found] if dice.random() < 0.7 else {"x": found}
    return found


def wrong_request(dice: random.Random, number: int) -> bytes:
    """A whole frame: a request with something wrong in it, which is answered with an error."""
    row = dice.choice(REQUESTS)
    parameters = dict(row.parameters)
    match dice.randrange(4):
        case 0:
            parameters[dice.choice([*parameters, "other"])] = value(dice)
        case 1:
            parameters.pop(dice.choice(list(parameters)), None)
            parameters["" if dice.random() < 0.3 else "none of these"] = 1
        case 2:
            return framed([3, number, dice.choice(["NO_SUCH", "PUTS", "X" * 60]), JOURNAL, parameters])
        case _:
            return framed([3, number, row.command, dice.choice(["", "no-such", "x" * 64, "*"]), parameters])
    return framed([3, number, row.command, JOURNAL, parameters])


def framed(fields: object) -> bytes:
    body: bytes = msgpack.packb(fields)
    return LENGTH.pack(len(body)) + body


def throw(dice: random.Random) -> tuple[list[bytes], int]:
    """What one connection sends, in pieces, and how many malformed frames or lines that is."""
    match dice.randrange(6):
        case 0:  # lines
            count = dice.randrange(1, 9)
            lines = [spoiled(dice, LINES).replace(b"\n", b" ")[:300] + b"\n" for _ in range(count)]
            return [b"x" + b"".join(lines)], count
        case 1:  # no handshake at all
            return [spoiled(dice, hello(dice))], 1
        case 2:  # a length that is too long, or a frame that never ends
            return [hello(dice), dice.choice([b"\xff\xff\xff\xff", b"\0\x10\0\1", b"\0\0\0\0", b"\0\0\x10\0abc"])], 1
        case 3:
            return [hello(dice), framed([3, 1, "PUT", JOURNAL, {"key": "a", "data": nested(dice)}])], 1
        case _:  # many wrong requests, and something at the end that ends the connection
            count = dice.randrange(1, TOGETHER)
            requests = [wrong_request(dice, number) for number in range(1, count + 1)]
            last = framed([dice.randrange(12), *(value(dice) for _ in range(dice.randrange(6)))])
            return [hello(dice), b"".join(requests), last], count + 1


def deliver(address: str, pieces: list[bytes]) -> None:
    """Send it, and take what comes until the daemon has closed, or we have."""
    with connected(address) as sock:
        try:
            for piece in pieces:
                sock.sendall(piece)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1 << 16):
                pass
        except OSError as e:
            if e.errno not in GONE:  # one that hangs is a failure
                raise


def connected(address: str) -> socket.socket:
    kind, _, rest = address.partition(":")
    if kind == "unix":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(TIMEOUT_S)
        sock.connect(rest)
        return sock
    host, _, port = rest.removeprefix("//").rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def thrower(addresses: list[str], seed: str) -> None:
    """A program that throws as many as it is told on its input, and tells how many it has thrown on its output."""
    dice = random.Random(seed)
    for line in sys.stdin:
        rest = int(line)
        while rest > 0:
            pieces, count = throw(dice)
            deliver(addresses[0] if dice.random() < 0.8 else dice.choice(addresses), pieces)
            rest -= count
        print(int(line) - rest, flush=True)


# -- who is served meanwhile -------------------------------------------------------------------------------------------


class Good(threading.Thread):
    """A client that works all the while (X3)."""

    def __init__(self, address: str) -> None:
        super().__init__(name="good-client", daemon=True)
        self.calls = 0
        self.longest_s = 0.0
        self.error: BaseException | None = None
        self._address = address
        self._is_over = threading.Event()

    def run(self) -> None:
        """Until it is told to end."""
        try:
            with journal.connect(self._address) as store:
                mine = store.journal("good")
                while not self._is_over.is_set():
                    began = monotonic()
                    self._cycle(mine)
                    self.longest_s = max(self.longest_s, monotonic() - began)
        except BaseException as e:  # noqa: BLE001 - it is told by `end`
            self.error = e

    def _cycle(self, mine: journal.Journal) -> None:
        key = f"good-{self.calls}"
        if mine.put(key, self.calls).outcome != "inserted":
            raise Failed(f"the put of {key} was not taken as a new one")
        lease = mine.claim(consumer="good")
        if lease is None or lease.key != key or lease.data != self.calls:
            raise Failed(f"{lease} was handed out, not {key}")
        lease.done()
        self.calls += 3

    def end(self) -> None:
        """Tell it to end; raises what it met."""
        self._is_over.set()
        self.join(TIMEOUT_S)
        if self.error is not None:
            raise Failed(f"the good client was not served: {type(self.error).__name__}: {self.error}") from self.error


# -- the campaign ------------------------------------------------------------------------------------------------------


class Size:
    """How large a process is."""

    def __init__(self, pid: int) -> None:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        self.bytes = int(status["RssAnon"].split()[0]) * 1024
        self.threads = int(status["Threads"])
        self.descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))

    def __str__(self) -> str:
        return f"{self.bytes / 1e6:.1f} MB, {self.threads} threads, {self.descriptors} descriptors"


def campaign(count: int, seed: int) -> list[str]:
    """So many malformed frames and lines; what was broken."""
    where = Path(tempfile.mkdtemp(prefix="journal-fuzz-"))
    serving = Serving(where / "s", options=("--log-level", "error", "--frame-timeout", "2s"), seed=seed)
    throwers: list[subprocess.Popen[str]] = []
    try:
        serving.start()
        with journal.connect(serving.unix) as store:
            for name in (JOURNAL, "good"):
                store.journal(name)
        throwers += (_start(serving, f"{seed}:{number}") for number in range(THROWERS))
        broken = _throw_all(serving, throwers, count)
        serving.stop()
        broken += [f"the daemon logged: {line}" for line in serving.troubles()]
        with journal.open(serving.store) as store:
            broken += [f"the store is not sound: {problem}" for problem in store.check()]
    except (Failed, OSError) as e:
        broken = [f"{e}; its log: {serving.last_words()}"]
    finally:
        for one in throwers:
            one.kill()
            one.communicate()
        serving.close()
    if not broken:
        shutil.rmtree(where)
    return broken and [*broken, f"to see it again: python -m tests.jepsen fuzz --count {count} --seed {seed}; {where}"]


def _start(serving: Serving, seed: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.jepsen.fuzz", seed, serving.unix, serving.tcp]
    return subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _throw_all(serving: Serving, throwers: list[subprocess.Popen[str]], count: int) -> list[str]:
    progress, began, thrown = Progress("fuzz"), monotonic(), 0
    good = Good(serving.unix)
    good.start()
    full: Size | None = None
    while thrown < count and good.is_alive():
        for one in throwers:
            assert one.stdin is not None
            print(PORTION, file=one.stdin, flush=True)
        for one in throwers:
            assert one.stdout is not None
            told = one.stdout.readline()
            if not told:
                return [f"a connection got neither an answer nor an end within {TIMEOUT_S} s, or was refused"]
            thrown += int(told)
        if not serving.is_running:
            return [f"the daemon ended after {thrown} frames: {serving.last_words()}"]  # X1
        if full is None and thrown >= count * FULL_AT:
            full = Size(serving.pid)
        progress.tell(f"{thrown} of {count}, {Size(serving.pid)}")
    good.end()
    assert full is not None
    size, rate = Size(serving.pid), thrown / (monotonic() - began)
    progress.tell(
        f"{thrown} malformed frames and lines, {rate:,.0f}/s; the daemon: {full}, then {size}; meanwhile {good.calls} calls of a good "
        "client, "
        f"the longest three {good.longest_s * 1000:.0f} ms",
        is_last=True,
    )
    return _grown(full, size)


def _grown(before: Size, after: Size) -> list[str]:
    """What X2 forbids."""
    broken = []
    if after.bytes - before.bytes > GROWTH_BYTES_MAX:
        broken.append(f"the daemon grew by {(after.bytes - before.bytes) / 1e6:.1f} MB")
    if after.threads > before.threads + 2:
        broken.append(f"the daemon had {before.threads} threads, and has {after.threads}")
    if after.descriptors > before.descriptors + DESCRIPTORS_MAX:
        broken.append(f"the daemon had {before.descriptors} descriptors open, and has {after.descriptors}")
    return broken


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the campaign."""
    parser.add_argument("--count", type=int, default=100_000, help="malformed frames and lines (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="where the random choices begin (default %(default)s)")


def main(given: argparse.Namespace) -> int:
    """From the command line."""
    broken = campaign(given.count, given.seed)
    for line in broken:
        print(f"VIOLATION: {line}")
    return 1 if broken else 0


if __name__ == "__main__":
    thrower(sys.argv[2:], sys.argv[1])
