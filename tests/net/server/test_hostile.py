"""
Clients that are slow, broken or hostile, over real sockets: they harm themselves alone.

In each test a good client is served meanwhile.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import msgpack
import pytest

import journal
from journal.errors import AccessDenied, Busy, NotFound
from journal.net.server.server import Server
from journal.net.server.verbs import handlers
from journal.net.wire.auth import CLIENT, NONCE_BYTES, SESSION_BYTES, proof
from journal.net.wire.client_connection import ClientConnection, ClientSession
from journal.net.wire.due_notices import HOLDER_MAX
from journal.net.wire.frames import LENGTH, Decoder, Encoder, Failure, Prove, Reply
from journal.net.wire.handshake import client_hello
from journal.net.wire.limits import NESTING_MAX, Limits
from journal.net.wire.tokens import parse_tokens
from tests.net.server.conftest import Connect
from tests.net.server.wire import TIMEOUT_S, Wire, dial

SHORT_MS = 200
"""For what must be ended. Nothing here is expected to be quicker than this."""
DATA = msgpack.packb(b"x" * 50_000)
TOKENS = parse_tokens("backend 9f86d081884c7d659a2feaa0c55ad015 produce,consume * -\n")
SECRET = TOKENS["backend"].secret
FORGED = "x\n2026-01-31T12:00:00.000Z INFO journal.daemon stopped\r\x1b[2J"


def ended(sock: socket.socket) -> Failure | None:
    """Read until the daemon has closed the connection: the failure that it gave as the reason, if it gave one."""
    decoder, reason = Decoder(1 << 20), None
    with suppress(ConnectionError):
        while data := sock.recv(65536):
            decoder.feed(data)
            while (frame := decoder.next()) is not None:
                if isinstance(frame, Failure) and frame.id == 0:
                    reason = frame
    return reason


def serve(store: journal.Store, limits: Limits) -> Server:
    return store.serve(tcp=[("127.0.0.1", 0)], trust_loopback=True, limits=limits)


def framed(value: object) -> bytes:
    body: bytes = msgpack.packb(value)
    return LENGTH.pack(len(body)) + body


# --- slow ones --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x20half a hello", b"ALIVE without an end"])
def test_strangers_have_little_time(store: journal.Store, pages: journal.Journal, sent: bytes) -> None:
    """Whoever says nothing, or begins and does not go on, is gone after a while."""
    with serve(store, Limits(hello_ms=SHORT_MS, frame_ms=SHORT_MS)) as server, dial(server.addresses[1]) as sock:
        sock.sendall(sent)
        while sock.recv(4096):
            pass
        assert pages.put("a").outcome == "inserted"


def test_a_half_frame_is_not_waited_for(store: journal.Store, pages: journal.Journal, connect: Connect) -> None:
    """However its bytes trickle in; who sends whole frames is served meanwhile."""
    with serve(store, Limits(frame_ms=SHORT_MS)) as server:
        slow, good = connect(server.addresses[1]), connect(server.addresses[0])
        frame = Encoder(1 << 20).request(1, "PUT", "pages", {"key": "never", "data": DATA})
        for at in range(0, 20, 2):
            slow.sock.sendall(frame[at : at + 2])
            good.put(f"a-{at}")
        reason = ended(slow.sock)
        assert reason is not None and reason.code == "timed_out"
        assert good.put("b")[0] == "inserted" and good.call("GET", "pages", key="never") is None


def test_a_client_that_never_reads_stops_itself(store: journal.Store, pages: journal.Journal, connect: Connect) -> None:
    """What waits for it is bounded, no more of it is read, and in the end it is gone."""
    limits = Limits(output_bytes_max=200_000, send_ms=SHORT_MS)
    pages.put("large", b"x" * 50_000)
    with serve(store, limits) as server:
        deaf, good = connect(server.addresses[1]), connect(server.addresses[0])
        deaf.sock.setblocking(False)
        most, number, encode = 0, 0, Encoder(1 << 20)
        try:
            while good.call("STATUS")["connections"] == 2:
                number += 1
                with suppress(BlockingIOError):
                    deaf.sock.send(encode.request(number, "GET", "pages", {"key": "large"}))
                most = max(most, *(len(connection.outgoing) for connection in list(server.hub.peers)))
        except ConnectionError:
            pass  # it is gone
        assert good.put("a")[0] == "inserted"
        assert 0 < most <= limits.output_bytes_max + 60_000


def test_a_client_that_reads_slowly_gets_everything(
    store: journal.Store, pages: journal.Journal, connect: Connect
) -> None:
    """More than the sockets and the output may hold: the daemon goes on as it is read."""
    pages.put("large", b"x" * 50_000)
    with serve(store, Limits(output_bytes_max=100_000)) as server:
        slow, good = connect(server.addresses[1]), connect(server.addresses[0])
        numbers = [slow.send("GET", "pages", {"key": "large"}) for _ in range(100)]
        assert good.put("a")[0] == "inserted"
        assert {len(slow.answer(number)[1]) for number in numbers} == {len(DATA)}


def test_answers_that_are_asked_for_again_do_not_stand_in_the_way(
    store: journal.Store, pages: journal.Journal, connect: Connect
) -> None:
    """More of them than may be unsent wait behind a request that is new: it is made, and then all are sent."""
    pages.put_many([journal.Put(f"k-{n}", b"x" * 20_000) for n in range(10)])
    with serve(store, Limits(output_bytes_max=100_000)) as server:
        session = ClientSession(os.urandom(SESSION_BYTES))
        first = connect(server.addresses[1], session=session)
        claim = {"consumer": "c", "lease": 60_000}
        encode = Encoder(1 << 20)
        frames = [encode.request(number, "CLAIM", "pages", claim) for number in range(2, 12)]
        first.sock.sendall(b"".join(frames))
        replies(first.sock, 10)
        first.close()
        again = connect(server.addresses[1], session=session)
        again.sock.sendall(encode.request(1, "GET", "pages", {"key": "k-3"}) + b"".join(frames))
        assert [reply.id for reply in replies(again.sock, 11)] == list(range(1, 12))


def replies(sock: socket.socket, count: int) -> list[Reply]:
    """The next answers."""
    decoder, found = Decoder(1 << 20), []
    while len(found) < count:
        decoder.feed(heard(sock))
        while (frame := decoder.next()) is not None:
            assert isinstance(frame, Reply), frame
            found.append(frame)
    return found


def test_requests_in_flight_are_bounded(
    store: journal.Store, pages: journal.Journal, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More are not read until some are answered; then all of them are."""
    may_end = threading.Event()
    monkeypatch.setitem(handlers.HANDLERS, "COUNT", lambda *_: may_end.wait(TIMEOUT_S))
    with serve(store, Limits(in_flight_max=4)) as server:
        eager, good = connect(server.addresses[1]), connect(server.addresses[0])
        encode = Encoder(1 << 20)
        frames = [encode.request(number, "COUNT", "pages", {}) for number in range(1, 41)]
        eager.sock.sendall(b"".join(frames))
        for n in range(20):
            good.put(f"a-{n}")
            assert max(connection.in_flight for connection in list(server.hub.peers)) <= 4
        may_end.set()
        decoder, replies = Decoder(1 << 20), 0
        while replies < len(frames):
            decoder.feed(eager.sock.recv(65536))
            while decoder.next() is not None:
                replies += 1


def test_what_nobody_foresaw_ends_one_connection(
    server: Server, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the others go on: also who is answered in the same round."""
    bad, good = connect(server.addresses[1]), connect()
    broken = next(c for c, peer in server.hub.peers.items() if peer.host == "127.0.0.1" and peer.name.startswith("127"))

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    broken.receive = fail  # type: ignore[method-assign]
    bad.sock.sendall(b"\0\0\0\x02\x91\x01")
    ended(bad.sock)
    assert good.put("a")[0] == "inserted" and good.call("STATUS")["connections"] == 1
    assert "connection_failed" in caplog.text and "a defect" in caplog.text


# --- broken ones ------------------------------------------------------------------------------------------------------


def deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "sent",
    [
        (1 << 20 | 1).to_bytes(4, "big"),
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        framed([3, 1, "PUT", "pages", {"key": "a", "data": deep(NESTING_MAX + 1)}]),
        framed([3, 1, "PUT", "pages", {"key": deep(1000)}]),
        framed([3, 1, "PUT", "../etc", {}]),
        framed([0, "journal", 1, 1, {}]),
        framed({}),
        b"\0\0\0\x05\xdd\xff\xff\xff\xff",
    ],
    ids=["long", "longest", "empty", "nested", "nested deeply", "place", "hello again", "map", "a long list"],
)
def test_what_is_no_frame_ends_its_connection_alone(connect: Connect, server: Server, sent: bytes) -> None:
    """At once, also when the body that a length announces never comes."""
    bad, good = connect(server.addresses[1]), connect()
    bad.sock.sendall(sent)
    reason = ended(bad.sock)
    assert reason is not None and reason.code == "frame"
    assert good.put("a")[0] == "inserted"
    assert good.call("STATUS")["connections"] == 1


def test_strangers_send_small_frames_only(connect: Connect, server: Server) -> None:
    """Before it is known who they are: the length alone is refused."""
    with dial(server.addresses[1]) as sock:
        sock.sendall((4097).to_bytes(4, "big"))
        reason = ended(sock)
    assert reason is not None and reason.code == "frame"
    assert connect().put("a")[0] == "inserted"


def test_endless_lines_end(connect: Connect, server: Server) -> None:
    """A line without an end, and many that mean nothing."""
    for sent in (b"A" * 100_000, b"NO SUCH\n" * 1000):
        with dial(server.addresses[1]) as sock, suppress(ConnectionError):
            sock.sendall(sent)
            while sock.recv(65536):
                pass
    assert connect().put("a")[0] == "inserted"


# --- liars ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(store: journal.Store, pages: journal.Journal) -> Iterator[Server]:
    """A daemon that wants tokens over TCP."""
    with store.serve(tcp=[("127.0.0.1", 0)], tokens=TOKENS) as server:
        yield server


def heard(sock: socket.socket) -> bytes:
    """What the daemon says next."""
    data = sock.recv(65536)
    assert data, "the connection is closed"
    return data


def test_a_replayed_handshake_proves_nothing(guarded: Server, connect: Connect) -> None:
    """Every byte that a good client sent, sent once more: the daemon's nonce is another one."""
    session = ClientSession(os.urandom(SESSION_BYTES))
    client = ClientConnection(session, nonce=os.urandom(NONCE_BYTES), now=0, identity="backend", secret=SECRET)
    said = []
    with dial(guarded.addresses[1]) as sock:
        while not said or len(said) < 2:
            said.append(bytes(client.outgoing))
            sock.sendall(client.outgoing)
            client.sent(len(client.outgoing), 0)
            client.receive(heard(sock), 0)
        assert client.state.value == "ready"
    with dial(guarded.addresses[1]) as sock:
        sock.sendall(said[0])
        heard(sock)
        sock.sendall(said[1])
        reason = ended(sock)
    assert reason is not None and reason.code == "access_denied"
    with dial(guarded.addresses[1]) as sock:
        sock.sendall(b"".join(said))
        reason = ended(sock)
    assert reason is not None and reason.code == "access_denied"
    assert connect(guarded.addresses[1], identity="backend", secret=SECRET).put("a")[0] == "inserted"


@pytest.mark.parametrize("identity", ["backend", "nobody", "", "x" * 60])
def test_wrong_tokens_are_refused_one_like_the_other(guarded: Server, identity: str) -> None:
    """Also with an identity that does not exist: nobody learns which ones there are."""
    texts = set()
    for secret in (b"", b"x" * 16, SECRET[:-1]):
        with (
            Wire(guarded.addresses[1], identity=identity, secret=secret) as liar,
            pytest.raises(AccessDenied) as denied,
        ):
            liar.welcome()
        texts.add(str(denied.value))
    assert len(texts) == 1


def test_what_needs_an_identity_is_not_done_before_it_is_proved(guarded: Server, pages: journal.Journal) -> None:
    """Requests that are sent along with the hello: none is made."""
    request = Encoder(4096).request(1, "PUT", "pages", {"key": "early", "data": msgpack.packb(1)})
    hello = Encoder(4096)(client_hello(os.urandom(SESSION_BYTES), os.urandom(NONCE_BYTES), proves=True))
    with dial(guarded.addresses[1]) as sock:
        sock.sendall(hello + request)
        reason = ended(sock)
    assert reason is not None and reason.code == "frame"
    assert pages.get("early") is None


def test_a_session_is_its_identitys(store: journal.Store, pages: journal.Journal, connect: Connect) -> None:
    """Who knows the name of another's session gets nothing of it, and does not end its connection."""
    tokens = parse_tokens(
        "backend 9f86d081884c7d659a2feaa0c55ad015 produce,consume * -\nother 60303ae22b998861bce3b28f33eec1be produce * -\n"
    )
    with store.serve(tcp=[("127.0.0.1", 0)], tokens=tokens) as server:
        session = ClientSession(os.urandom(SESSION_BYTES))
        good = connect(server.addresses[1], session=session, identity="backend", secret=SECRET)
        good.put("a")
        thief = ClientSession(session.name)
        other = connect(server.addresses[1], session=thief, identity="other", secret=tokens["other"].secret)
        assert other.put("b")[0] == "inserted"
        assert good.put("c")[0] == "inserted"


def test_nobody_forges_a_line_of_the_log(guarded: Server, caplog: pytest.LogCaptureFixture) -> None:
    """What clients send is quoted and escaped, wherever it stands."""
    caplog.set_level(logging.DEBUG, "journal.daemon")
    with dial(guarded.addresses[1]) as sock:
        sock.sendall(Encoder(4096)(client_hello(os.urandom(SESSION_BYTES), os.urandom(NONCE_BYTES), proves=True)))
        heard(sock)
        sock.sendall(Encoder(4096)(Prove(FORGED, proof(b"x", CLIENT, FORGED, b"", b"", b""))))
        assert ended(sock) is not None
    with dial(guarded.addresses[1]) as sock:
        sock.sendall(b"<" + FORGED.encode() + b"\n")
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass
    guarded.stop()
    assert guarded.join(TIMEOUT_S)
    messages = [record.getMessage() for record in caplog.records]
    assert any("peer_ended" in message and "2026-01-31" in message for message in messages)
    assert not any(character in message for message in messages for character in "\n\r\x1b")


# --- datagrams --------------------------------------------------------------------------------------------------------


def ear(host: str, port: int = 0) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((host, port))
    made.settimeout(TIMEOUT_S)
    return made


def test_datagrams_go_to_the_peers_own_host_only(store: journal.Store, pages: journal.Journal, server: Server) -> None:
    """Nobody has another machine flooded: there is no way to name one, and the address of the connection counts."""
    with ear("127.0.0.2") as own, ear("127.0.0.1", own.getsockname()[1]) as others:
        port = own.getsockname()[1]
        with Wire(server.addresses[1], source="127.0.0.2") as client:
            client.welcome()
            client.call("LISTEN", port=port, journals=["pages"])
            pages.put("a")
            assert b" DUE " in own.recv(2000)
            client.call("PING")
            others.setblocking(False)
            with pytest.raises(BlockingIOError):
                others.recv(2000)


@pytest.mark.parametrize("name", ["host", "address", "to"])
def test_a_listener_cannot_name_a_host(connect: Connect, server: Server, name: str) -> None:
    """There is no such parameter."""
    client = connect()
    given = {"port": 7, "journals": ["pages"], name: "10.0.0.1"}
    client.sock.sendall(Encoder(4096).request(1, "LISTEN", "", given))
    decoder = Decoder(4096)
    decoder.feed(heard(client.sock))
    refusal = decoder.next()
    assert (
        isinstance(refusal, Failure) and (refusal.id, refusal.code) == (1, "invalid") and repr(name) in refusal.message
    )
    assert server.watching.listeners_count == 0


def test_datagrams_to_the_daemon_do_nothing(connect: Connect, server: Server, pages: journal.Journal) -> None:
    """It sends from a port of its own, and nobody reads there: no command, no wake-up, no memory."""
    client = connect()
    with ear("127.0.0.1") as own:
        client.call("LISTEN", port=own.getsockname()[1], journals=["pages"])
        pages.put("a")
        _, where = own.recvfrom(2000)
        before = client.call("STATUS")["wake_ups"]
        for sent in (b"STOP", b"<work:pages DUE due=1", b"\0" * 1000, os.urandom(1200)) * 50:
            own.sendto(sent, where)
        assert client.call("STATUS")["wake_ups"] - before < 50
        client.call("DONE", "pages", token=client.call("CLAIM", "pages", consumer="c")["lease"][5])
        assert client.put("b")[0] == "inserted"


def test_listeners_are_their_connections_and_bounded(connect: Connect, pages: journal.Journal) -> None:
    """Nobody ends or renews another's, and one that has enough is refused more; its connection goes on."""
    one, other = connect(), connect()
    with ear("127.0.0.1") as own:
        port = own.getsockname()[1]
        first = one.call("LISTEN", port=port, journals=["pages"])["listener"]
        with pytest.raises(NotFound):
            other.call("LISTEN", port=port, journals=["pages"], listener=first)
        assert other.call("UNLISTEN", listener=first) is False
        for _ in range(HOLDER_MAX - 1):
            one.call("LISTEN", port=port, journals=["pages"])
        with pytest.raises(Busy):
            one.call("LISTEN", port=port, journals=["pages"])
        assert other.call("LISTEN", port=port, journals=["pages"])["lease_ms"]
        assert one.call("UNLISTEN", listener=first) is True
        assert one.put("a")[0] == "inserted"


def test_subscriptions_are_bounded(store: journal.Store, pages: journal.Journal, connect: Connect) -> None:
    """One too many is refused; its connection goes on."""
    with serve(store, Limits(subscriptions_max=3)) as server:
        client = connect(server.addresses[0])
        for _ in range(3):
            client.call("SUBSCRIBE", "pages", consumer="c", credit=1)
        with pytest.raises(Busy):
            client.call("SUBSCRIBE", "pages", consumer="c", credit=1)
        with pytest.raises(Busy):
            client.call("FEED_OPEN", "pages", live=True, credit=1)
        assert client.put("a")[0] == "inserted"
