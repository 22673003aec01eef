"""
Malformed frames and lines against the daemon's end of a connection: `python -m tests.net.wire.fuzz --count 100000`.

Each round is one connection that gets what a mutated conversation would send. It must end with an error of the protocol, or go on; nothing
else may be raised, nothing may be handed out that is not well-formed, and nothing may pile up.
"""

from __future__ import annotations

import argparse
import random
import sys

import msgpack

from journal.net.wire.auth import EVERYTHING
from journal.net.wire.client_connection import ClientConnection, ClientSession
from journal.net.wire.events import Requested
from journal.net.wire.frames import LENGTH, Credit, Encoder, RequestFrame
from journal.net.wire.handshake import Daemon
from journal.net.wire.limits import Limits
from journal.net.wire.server_connection import ServerConnection
from journal.net.wire.sessions import Sessions

LIMITS = Limits(frame_bytes_max=8192, in_flight_max=8, output_bytes_max=20_000)
REQUESTS = [
    RequestFrame(1, "PUT", "pages", {"key": "a", "data": b"\xc0", "priority": 3}),
    RequestFrame(2, "PUT_MANY", "pages", {"puts": [{"key": b"a", "data": b"\x01"}] * 3}),
    RequestFrame(3, "CLAIM_MANY", "pages", {"n": 7, "consumer": "c", "lease": 5}),
    RequestFrame(4, "FEED_OPEN", "pages", {"start": [1, -1], "live": True}),
    RequestFrame(5, "DECLARE", "pages", {"settings": {"rotate": "1d"}}),
    RequestFrame(6, "SHIFT", "pages", {"cursor": [1, 5], "n": -2}),
]
LINES = b'<host:me work:journal/REGISTER service=a;version=1\nALIVE serial="x;y\\n"\nCOMMANDS list=A,B\nLISTEN port=1;journals=a,*\n'


def conversation(session: bytes, nonce: bytes) -> bytes:
    """What a good client would send."""
    client = ClientConnection(ClientSession(session), nonce=nonce, now=0)
    encode = Encoder(1 << 20)
    return bytes(client.outgoing) + b"".join(map(encode, [*REQUESTS, Credit(1, 5)]))


def value(dice: random.Random, depth: int = 0) -> object:
    """Anything that msgpack can say."""
    kind = dice.randrange(9 if depth < 5 else 6)
    if kind > 5:
        items = [value(dice, depth + 1) for _ in range(dice.randrange(4))]
        return items if kind < 8 else {dice.choice(["key", "data", "n", "x"]): item for item in items}
    choices: list[object] = [
        None, dice.random() < 0.5, dice.randrange(-(1 << 63), 1 << 64), dice.random(), dice.randbytes(dice.randrange(9)), "pages",
    ]  # fmt: skip
    return choices[kind]


def spoiled(dice: random.Random, good: bytes) -> bytes:
    """A conversation with something wrong in it."""
    raw = bytearray(good)
    match dice.randrange(5):
        case 0:  # flipped bytes, after the handshake mostly
            for _ in range(dice.randrange(1, 5)):
                raw[dice.randrange(len(raw))] ^= dice.randrange(1, 256)
        case 1:  # a part that is missing, or comes twice
            at, size = dice.randrange(len(raw)), dice.randrange(1, 30)
            raw[at : at + size] = raw[at : at + size] * dice.choice((0, 2))
        case 2:  # a frame of anything, with a right length
            body = msgpack.packb([dice.randrange(10), *(value(dice) for _ in range(dice.randrange(6)))])
            raw += LENGTH.pack(len(body)) + body
        case 3:  # a good request with a wrong parameter
            row = dice.choice(REQUESTS)
            wrong = {**row.parameters, dice.choice([*row.parameters, "other"]): value(dice)}
            body = msgpack.packb((3, 99, row.command, row.journal, wrong))
            raw += LENGTH.pack(len(body)) + body
        case _:  # noise
            raw = bytearray(dice.randbytes(dice.randrange(1, 60)))
    return bytes(raw)


def run(count: int, seed: int) -> dict[str, int]:
    """So many rounds; how they ended."""
    dice = random.Random(seed)
    daemon = Daemon(server="work", epoch=1, sessions=Sessions(sessions_max=64), tokens={})
    ends = {"went on": 0, "ended": 0, "handed out": 0}
    for round_ in range(count):
        good = LINES if dice.random() < 0.3 else conversation(dice.randbytes(16), dice.randbytes(32))
        raw = spoiled(dice, good)
        server = ServerConnection(daemon, nonce=bytes(32), now=round_, grant=EVERYTHING, limits=LIMITS)
        at = 0
        while at < len(raw) and not server.is_ended:
            size = dice.choice((1, 7, 64, 4096))
            for event in server.receive(raw[at : at + size], round_):
                if isinstance(event, Requested):
                    event.command.check(event.journal, event.parameters)
                    ends["handed out"] += 1
                    server.reply(event.id, None, round_)
            server.more(round_)
            at += size
        assert len(server.outgoing) < 60_000 and len(daemon.sessions) <= 64
        ends["ended" if server.is_ended else "went on"] += 1
        server.receive(b"", round_)
    return ends


def main() -> int:
    """From the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sys.stdout.write(f"{given.count} rounds, seed {given.seed}: {run(given.count, given.seed)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
