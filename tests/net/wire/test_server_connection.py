"""The daemon's end of a connection: handshake, requests, limits and time."""

from __future__ import annotations

import pytest

from journal.errors import (
    AccessDenied,
    ConnectionLost,
    FrameError,
    Invalid,
    KeyExists,
    Stopping,
    TimedOut,
    UnknownCommand,
    VersionUnsupported,
)
from journal.net.wire.auth import EVERYTHING
from journal.net.wire.events import Answered, Ended, Failed, Opened, PingDue, Requested, Welcomed
from journal.net.wire.frames import Encoder, Failure, Frame, Hello, Prove, Reply, RequestFrame
from journal.net.wire.limits import Limits
from journal.net.wire.server_connection import ServerConnection, ServerState
from tests.net.wire.peers import BACKEND, SECRET, Peers, frames, of, opened

encode = Encoder(1 << 20)
GET = {"key": "a"}


# -- handshake ---------------------------------------------------------------------------------------------------------


def test_an_owner_needs_no_token() -> None:
    """Whom the system vouches for is welcome at once, under no name."""
    peers = opened()
    assert peers.asked == [Opened(EVERYTHING)]
    assert peers.told == [Welcomed("work", frozenset({"produce", "consume", "admin"}), False)]


def test_an_identity_is_proved() -> None:
    """With the right secret it is what its token says; also where the system would vouch for it."""
    for grant in (None, EVERYTHING):
        peers = Peers(grant=grant)
        peers.connect("backend", SECRET)
        peers.settle()
        assert peers.server.grant == BACKEND
        assert of(Welcomed, peers.told)[0].roles == {"produce", "consume"}


@pytest.mark.parametrize(("identity", "secret"), [("backend", SECRET[:31]), ("nobody", SECRET), ("nobody", bytes(16))])
def test_a_wrong_proof_ends_the_connection(identity: str, secret: bytes) -> None:
    """A wrong secret and an unknown identity are told the same."""
    peers = Peers(grant=None)
    peers.connect(identity, secret)
    peers.settle()
    assert peers.server.state is ServerState.ENDED and not of(Opened, peers.asked)
    assert isinstance(peers.asked[-1].error, AccessDenied)
    (ended,) = of(Ended, peers.told)
    assert isinstance(ended.error, AccessDenied)
    assert str(ended.error).replace(identity, "X") == (
        "the proof of the identity 'X' is wrong, or there is no such identity"
    )


def test_a_replayed_handshake_proves_nothing() -> None:
    """The same bytes on another connection meet another nonce."""
    peers = Peers(grant=None)
    peers.connect("backend", SECRET)
    hello = bytes(peers.client.outgoing)
    peers.up()
    peers.down()
    prove = bytes(peers.client.outgoing)
    peers.settle()
    assert peers.server.state is ServerState.READY
    replayed = ServerConnection(peers.daemon, nonce=peers.nonce(), now=0)
    replayed.receive(hello, 0)
    (ended,) = replayed.receive(prove, 0)
    assert isinstance(ended, Ended) and isinstance(ended.error, AccessDenied)


def test_without_a_token_a_client_is_not_let_in() -> None:
    """The client sees it in the daemon's hello."""
    peers = Peers(grant=None)
    peers.settle()
    assert isinstance(of(Ended, peers.told)[0].error, AccessDenied)
    assert peers.server.state is ServerState.PROVING


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (Hello("journal", 2, 9, {}), VersionUnsupported),
        (Hello("redis", 1, 1, {}), FrameError),
        (Hello("journal", 1, 1, {}), FrameError),
        (Hello("journal", 1, 1, {"nonce": bytes(32), "session": b"x"}), FrameError),
        (RequestFrame(1, "GET", "pages", GET), FrameError),
        (Prove("backend", b""), FrameError),
        (Reply(1, 1), FrameError),
    ],
    ids=str,
)
def test_what_may_not_come_first(frame: Frame, error: type[Exception]) -> None:
    """A connection begins with a hello that can be understood; else it ends with the reason."""
    server = ServerConnection(Peers().daemon, nonce=bytes(32), now=0, grant=EVERYTHING)
    (ended,) = server.receive(encode(frame), 0)
    assert isinstance(ended, Ended) and type(ended.error) is error
    (told,) = frames(server)
    assert isinstance(told, Failure) and told.id == 0
    assert server.receive(encode(frame), 0) == [] and not server.wants_bytes


def test_strangers_send_small_frames_only() -> None:
    """Before the welcome a frame has 4 KiB at most."""
    server = ServerConnection(Peers().daemon, nonce=bytes(32), now=0)
    (ended,) = server.receive(b"\x00\x00\x10\x01", 0)
    assert isinstance(ended, Ended) and isinstance(ended.error, FrameError)


# -- requests ----------------------------------------------------------------------------------------------------------


def test_answers_come_in_the_order_of_the_requests() -> None:
    """Whatever is finished first."""
    peers = opened()
    ids = [peers.ask("GET", key=str(n)) for n in range(4)]
    peers.up()
    assert [r.id for r in peers.requests()] == ids
    for n in (2, 0, 3):
        peers.server.reply(ids[n], n, peers.now)
    assert peers.down() == [Answered(ids[0], 0)]
    peers.server.fail(ids[1], KeyExists("there is one"), peers.now)
    first, *rest = peers.down()
    assert isinstance(first, Failed) and first.id == ids[1] and isinstance(first.error, KeyExists)
    assert rest == [Answered(ids[2], 2), Answered(ids[3], 3)]
    assert peers.server.in_flight == 0


def test_a_request_is_answered_once() -> None:
    """A second answer is the program's mistake, and sends nothing."""
    peers = opened()
    number = peers.ask("GET", key="a")
    peers.up()
    peers.server.reply(number, 1, peers.now)
    before = bytes(peers.server.outgoing)
    for answer in (lambda: peers.server.reply(number, 2, 0), lambda: peers.server.fail(99, KeyExists(""), 0)):
        with pytest.raises(Invalid, match="is not open"):
            answer()
    assert bytes(peers.server.outgoing) == before


@pytest.mark.parametrize(
    ("request_frame", "error"),
    [
        (RequestFrame(1, "FLY", "", {}), UnknownCommand),
        (RequestFrame(1, "GET", "pages", {}), Invalid),
        (RequestFrame(1, "GET", "pages", {"key": 7}), Invalid),
        (RequestFrame(1, "GET", "mails", GET), AccessDenied),
        (RequestFrame(1, "CLAIM", "pages", {"consumer": "front"}), AccessDenied),
        (RequestFrame(1, "DROP", "pages", {}), AccessDenied),
    ],
    ids=lambda value: value.command if isinstance(value, RequestFrame) else value.__name__,
)
def test_a_refused_request_goes_no_further(request_frame: RequestFrame, error: type[Exception]) -> None:
    """It is answered here; the connection and what was asked around it go on."""
    peers = Peers(grant=None)
    peers.connect("backend", SECRET)
    peers.settle()
    server = peers.server
    events = server.receive(encode(request_frame) + encode(RequestFrame(2, "GET", "pages", GET)), 0)
    assert [event.id for event in events] == [2]  # type: ignore[union-attr]
    server.reply(2, "yes", 0)
    failure, reply = frames(server)
    assert isinstance(failure, Failure) and failure.id == 1 and reply == Reply(2, "yes")
    peers.client.session.asked.clear()
    assert server.state is ServerState.READY
    assert failure.code == {"UnknownCommand": "unknown_command", "AccessDenied": "access_denied"}.get(
        error.__name__, "invalid"
    )


def test_ids_grow() -> None:
    """A request that comes twice on one connection is no retry but a mistake."""
    server = opened().server
    server.receive(encode(RequestFrame(5, "GET", "pages", GET)), 0)
    (ended,) = server.receive(encode(RequestFrame(5, "GET", "pages", GET)), 0)
    assert isinstance(ended, Ended) and "they must grow" in str(ended.error)


def test_control_commands_are_answered_by_the_connection() -> None:
    """Registering gives the name under which is claimed."""
    peers = Peers(grant=None)
    peers.connect("backend", SECRET)
    peers.ask("CLAIM")
    peers.ask("REGISTER", "", service="backend-7")
    peers.ask("CLAIM")
    peers.ask("CLAIM", consumer="backend-8")
    peers.ask("UNREGISTER", "")
    peers.ask("LEASES")
    peers.ask("FEED_OPEN")
    peers.ask("ALIVE", "", serial="x")
    peers.settle(lambda request: {"subscription": 1} if request.command.name == "FEED_OPEN" else None)
    named = [r.parameters.get("consumer") for r in peers.requests()]
    assert named == ["backend", "backend-7", "backend-8", "backend", None]
    answers = of(Answered, peers.told)
    assert answers[1].result["service"] == "backend-7" and "PUT" in answers[1].result["commands"]
    assert answers[-1].result == {"serial": "x"}


def test_a_reply_that_is_too_long_becomes_an_error() -> None:
    """The client is told, and the connection goes on."""
    peers = opened(limits=Limits(frame_bytes_max=4096))
    number = peers.ask("GET", key="a")
    peers.up()
    peers.server.reply(number, b"x" * 5000, peers.now)
    (failed,) = peers.down()
    assert isinstance(failed, Failed) and "more than one frame may have" in str(failed.error)
    assert peers.server.state is ServerState.READY


# -- limits and time ---------------------------------------------------------------------------------------------------


def test_no_more_is_taken_than_may_be_in_flight() -> None:
    """The rest waits, and comes when something was answered."""
    peers = opened(limits=Limits(in_flight_max=3))
    many = b"".join(encode(RequestFrame(n, "GET", "pages", GET)) for n in range(1, 11))
    taken = [event.id for event in of(Requested, peers.server.receive(many, 0))]
    assert taken == [1, 2, 3] and not peers.server.wants_bytes
    assert peers.server.more(0) == []
    for n in range(1, 11):
        assert n in taken
        peers.server.reply(n, None, 0)
        taken += [event.id for event in of(Requested, peers.server.more(0))]
    assert taken == list(range(1, 11)) and peers.server.wants_bytes


def test_a_client_that_never_reads_stops_itself() -> None:
    """Nothing is taken from it while too much waits for it; in the end the connection goes."""
    limits = Limits(output_bytes_max=10_000, send_ms=5000)
    peers = opened(limits=limits)
    server, n = peers.server, 0
    while server.wants_bytes:
        n += 1
        (event,) = server.receive(encode(RequestFrame(n, "GET", "pages", GET)), 2000)
        server.reply(event.id, b"x" * 1000, 2000)  # type: ignore[union-attr]
    assert 10_000 < len(server.outgoing) < 12_000
    assert server.receive(encode(RequestFrame(n + 1, "GET", "pages", GET)), 2000) == []
    assert server.deadline == 7000 and server.tick(6999) == []
    server.sent(1, 6999)
    (ended,) = server.tick(11_999)
    assert isinstance(ended, Ended) and isinstance(ended.error, TimedOut)
    assert not server.is_finished
    server.tick(server.deadline or 0)
    assert server.is_finished


def test_a_frame_that_trickles_in_is_not_waited_for() -> None:
    """A byte now and then does not buy time; a whole frame does."""
    peers = opened(limits=Limits(frame_ms=1000, idle_ms=100_000))
    server, data = peers.server, encode(RequestFrame(1, "ALIVE", "", {"serial": "x" * 20}))
    assert server.deadline == 101_000
    for n, byte in enumerate(data[:9]):
        assert server.receive(bytes([byte]), 2000 + 100 * n) == []
    assert server.deadline == 3000
    server.receive(data[9:] + b"\0", 2950)
    server.sent(len(server.outgoing), 2950)
    assert server.deadline == 3950
    (ended,) = server.tick(3950)
    assert isinstance(ended, Ended) and "finish a frame" in str(ended.error)


@pytest.mark.parametrize("sent", [b"", b"\x00\x00", b"\x00\x00\x00\x10x"])
def test_a_handshake_has_its_time(sent: bytes) -> None:
    """Who connects and says nothing is not kept."""
    server = ServerConnection(Peers().daemon, nonce=bytes(32), now=0, limits=Limits(hello_ms=500))
    if sent:
        server.receive(sent, 100)
    assert server.deadline == 500 and server.tick(499) == []
    (ended,) = server.tick(500)
    assert isinstance(ended, Ended) and isinstance(ended.error, TimedOut)


def test_a_long_answer_is_waited_for() -> None:
    """While one request takes minutes the client hears that the daemon is there; afterwards nobody wakes up for it."""
    peers = opened()
    number = peers.ask("COMPACT")
    peers.up()
    for minute in range(1, 20):
        while peers.server.deadline is not None and peers.server.deadline <= minute * 60_000:
            peers.now = peers.server.deadline
            assert peers.server.tick(peers.now) == []
            peers.down()
        for event in peers.client.tick(peers.now):
            assert isinstance(event, PingDue)
            peers.ask("PING", "")
            peers.up()
    assert peers.told[1:] == [] and not peers.client.is_ended
    peers.server.reply(number, 1, peers.now)
    for request in peers.requests()[1:]:
        peers.server.reply(request.id, {}, peers.now)
    assert peers.down()[0] == Answered(number, 1)
    assert peers.server.deadline is not None and peers.server.deadline > peers.now + 31_000


def test_silence_ends_a_connection() -> None:
    """Each byte that comes puts it off."""
    peers = opened(limits=Limits(idle_ms=900))
    server = peers.server
    server.receive(encode(RequestFrame(1, "ALIVE", "", {})), 1800)
    server.sent(len(server.outgoing), 1800)
    assert server.deadline == 2700 and server.tick(2699) == []
    assert isinstance(server.tick(2700)[0], Ended)


def test_a_peer_that_goes_ends_the_connection_in_good_order() -> None:
    """Its open requests are still the program's to answer; nobody gets the answers."""
    peers = opened()
    number = peers.ask("GET", key="a")
    peers.up()
    assert peers.server.receive(b"", 0) == [Ended(None)]
    assert peers.server.reply(number, 1, 0) is peers.server and not peers.server.outgoing


def test_a_daemon_that_stops_does_not_refuse_what_it_has_done() -> None:
    """What was asked on an earlier connection is answered, or unknown; only what is new is refused."""
    peers = opened()
    first, second, third = (peers.ask("CREATE", key=key, data=b"\x01") for key in "abc")
    peers.up()
    before = peers.server
    before.reply(third, 3, peers.now)
    peers.connect()
    peers.up()
    peers.down()
    size = len(encode(RequestFrame(first, "CREATE", "pages", {"key": "a", "data": b"\x01"})))
    peers.up(size)
    assert peers.server.stop(peers.now) == [] and peers.server.state is ServerState.LEAVING
    fourth = peers.ask("CREATE", key="d", data=b"\x01")
    peers.settle()
    before.reply(first, 1, peers.now)
    before.reply(second, 2, peers.now)
    peers.settle()
    answers = of(Answered, peers.told)
    assert answers == [Answered(first, 1), Answered(second, 2), Answered(third, 3)]
    (failed,) = of(Failed, peers.told)
    assert failed.id == fourth and isinstance(failed.error, Stopping)
    assert len(peers.requests()) == 3


def test_a_daemon_that_stops_does_nothing_again() -> None:
    """A put whose answer is forgotten may have been made: that it was refused would be a lie."""
    peers = opened()
    first, second = peers.ask("GET", key="a"), peers.ask("PUT", key="a", data=b"\x01")
    peers.up()
    peers.server.reply(second, 1, peers.now)
    session = peers.server._session
    assert session is not None
    session._answers.clear()
    peers.connect()
    peers.up()
    peers.down()
    peers.up(len(encode(RequestFrame(first, "GET", "pages", GET))))
    assert peers.server.stop(peers.now) == [] and peers.server.state is ServerState.LEAVING
    peers.settle(lambda _: None)
    assert of(Answered, peers.told) == []
    peers.server.reply(first, None, peers.now)
    peers.settle()
    assert of(Answered, peers.told) == [Answered(first, None)]
    (failed,) = of(Failed, peers.told)
    assert failed.id == second and isinstance(failed.error, ConnectionLost)
    assert len(peers.requests()) == 3
