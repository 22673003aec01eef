"""The client's end of a connection."""

from __future__ import annotations

from typing import Any

import pytest

from journal.core.requests.request import RetryRule
from journal.errors import AccessDenied, Busy, ConnectionLost, FrameError, Invalid, RemoteError, TimedOut
from journal.net.wire.auth import DAEMON, proof
from journal.net.wire.client_connection import ClientConnection, ClientSession, ClientState, may_repeat
from journal.net.wire.events import Answered, Ended, Failed, PingDue, Pushed, Welcomed
from journal.net.wire.frames import MAGIC, Encoder, Failure, Frame, Hello, Push, Reply, Welcome
from journal.net.wire.limits import Limits
from tests.net.wire.peers import SECRET, Peers, of

encode = Encoder(1 << 20)
OPTIONS = {
    "server": "work", "epoch": 1, "nonce": bytes(32), "needs_proof": False, "frame_bytes_max": 1 << 20,
    "in_flight_max": 128, "idle_ms": 90_000,
}  # fmt: skip
HELLO = Hello(MAGIC, 1, 1, OPTIONS)
WELCOME = Welcome("", ["consume"], b"")


def fresh(**options: Any) -> ClientConnection:
    return ClientConnection(ClientSession(bytes(16)), nonce=bytes(32), now=0, **options)


def ready() -> ClientConnection:
    client = fresh()
    client.receive(encode(HELLO) + encode(WELCOME), 0)
    assert client.state is ClientState.READY
    return client


def ended(events: list[Any]) -> BaseException | None:
    (event,) = of(Ended, events)
    error: BaseException | None = event.error
    return error


def test_requests_wait_for_the_welcome() -> None:
    """A program may ask at once; the requests go out in their order."""
    peers = Peers()
    ids = [peers.ask("GET", key="a"), peers.ask("GET", key="b")]
    peers.settle(lambda request: request.parameters["key"])
    assert of(Answered, peers.told) == [Answered(ids[0], "a"), Answered(ids[1], "b")]


def test_a_request_that_is_wrong_is_not_sent() -> None:
    """It is refused here, and takes no id; None stands for a parameter that was left out."""
    client = ready()
    client.sent(len(client.outgoing), 0)
    with pytest.raises(Invalid):
        client.request("PUT", "pages", {"data": "not packed"}, 0)
    with pytest.raises(Invalid, match="more than one frame"):
        client.request("PUT", "pages", {"data": b"x" * (1 << 20)}, 0)
    assert not client.outgoing and not client.session.asked
    assert client.request("PUT", "pages", {"data": b"\xc0", "owner": None}, 0) == 1


def test_a_client_asks_for_no_more_than_is_allowed() -> None:
    """The smaller limit of both sides holds."""
    peers = Peers(limits=Limits(in_flight_max=2))
    peers.settle()
    peers.ask("GET", key="a")
    peers.ask("GET", key="b")
    with pytest.raises(Busy):
        peers.ask("GET", key="c")


def test_a_frame_that_the_daemon_would_refuse() -> None:
    """What was asked before the daemon told its limit fails by itself; the connection goes on."""
    peers = Peers(limits=Limits(frame_bytes_max=4096))
    large, small = peers.ask("PUT", data=b"x" * 5000), peers.ask("GET", key="a")
    peers.settle(lambda request: 1)
    (failed,) = of(Failed, peers.told)
    assert failed.id == large and "up to 4096 bytes" in str(failed.error)
    assert of(Answered, peers.told) == [Answered(small, 1)]


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        ([Hello("redis", 1, 1, OPTIONS)], FrameError),
        ([Hello(MAGIC, 1, 1, OPTIONS | {"epoch": "7"})], FrameError),
        ([Hello(MAGIC, 1, 1, OPTIONS | {"nonce": b"x"})], FrameError),
        ([Hello(MAGIC, 1, 1, OPTIONS | {"server": "a b"})], FrameError),
        ([Hello(MAGIC, 1, 1, OPTIONS | {"needs_proof": True})], AccessDenied),
        ([WELCOME], FrameError),
        ([HELLO, HELLO], FrameError),
        ([HELLO, Reply(1, 1)], FrameError),
        ([HELLO, WELCOME, Reply(1, 1)], FrameError),
        ([HELLO, WELCOME, Push(1, 1, [])], FrameError),
        ([HELLO, Failure(0, "quota", "no", {})], RemoteError),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value[-1]).__name__,
)
def test_a_daemon_that_breaks_the_protocol(stream: list[Frame], error: type[Exception]) -> None:
    """The connection ends with the reason."""
    client = fresh()
    assert type(ended(client.receive(b"".join(map(encode, stream)), 0))) is error
    assert client.receive(encode(HELLO), 0) == [] and not client.wants_bytes


def test_a_daemon_must_know_the_secret() -> None:
    """One that only pretends is not told anything."""
    parts = "backend", bytes(16), bytes(32), bytes(32)
    for own in (b"", proof(SECRET[:16], DAEMON, *parts), proof(SECRET, b"client", *parts)):
        client = fresh(identity="backend", secret=SECRET)
        client.request("PUT", "pages", {"data": b"\xc4\x06secret"}, 0)
        assert isinstance(ended(client.receive(encode(HELLO) + encode(Welcome("backend", [], own)), 0)), AccessDenied)
        assert b"secret" not in client.outgoing
    client = fresh(identity="backend", secret=SECRET)
    welcome = Welcome("backend", ["consume"], proof(SECRET, DAEMON, *parts))
    assert of(Welcomed, client.receive(encode(HELLO) + encode(welcome), 0))


def test_answers_out_of_order_are_not_trusted() -> None:
    """Nor answers to what was not asked."""
    client = ready()
    client.request("GET", "pages", {"key": "a"}, 0)
    second = client.request("GET", "pages", {"key": "b"}, 0)
    assert isinstance(ended(client.receive(encode(Reply(second, 1)), 0)), FrameError)
    assert len(client.session.asked) == 2


@pytest.mark.parametrize(
    "pushes",
    [[Push(4, 2, ["a"])], [Push(4, 1, ["a"]), Push(4, 1, ["a"])], [Push(4, 1, ["a"] * 3)], [Push(5, 1, ["a"])]],
    ids=["gap", "twice", "too many", "another"],
)
def test_pushes_that_break_their_promise(pushes: list[Push]) -> None:
    """Their sequence has no gap, and they stay within the credit."""
    client = ready()
    number = client.request("SUBSCRIBE", "pages", {"credit": 2}, 0)
    client.receive(encode(Reply(number, {"subscription": 4})), 0)
    assert isinstance(ended(client.receive(b"".join(map(encode, pushes)), 0)), FrameError)


def test_pushes_end_with_their_subscription() -> None:
    """After UNSUBSCRIBE was answered none may come; credit for it is not sent."""
    client = ready()
    number = client.request("SUBSCRIBE", "pages", {"credit": 2}, 0)
    client.receive(encode(Reply(number, {"subscription": 4})), 0)
    number = client.request("UNSUBSCRIBE", "pages", {"subscription": 4}, 0)
    events = client.receive(encode(Push(4, 1, ["a"])) + encode(Reply(number, None)), 0)
    assert events == [Pushed(4, ["a"]), Answered(number, None)]
    client.sent(len(client.outgoing), 0)
    client.credit(4, 5, 0)
    assert not client.outgoing
    assert isinstance(ended(client.receive(encode(Push(4, 2, ["a"])), 0)), FrameError)


@pytest.mark.parametrize("result", [None, {}, {"subscription": "1"}])
def test_a_subscription_has_a_number(result: Any) -> None:
    """Else the client cannot know what is pushed."""
    client = ready()
    number = client.request("SUBSCRIBE", "pages", {}, 0)
    assert isinstance(ended(client.receive(encode(Reply(number, result)), 0)), FrameError)


# -- again -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "parameters", "again", "after_restart"),
    [
        ("GET", {"key": "a"}, True, True),
        ("PUT", {"key": "a", "data": b"\xc0"}, True, True),
        ("DONE", {"token": 1}, True, True),
        ("CLAIM", {}, True, False),
        ("CREATE", {"key": "a", "data": b"\xc0"}, True, False),
        ("RELEASE", {"token": 1}, True, False),
        ("SUBSCRIBE", {"credit": 1}, False, False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("is_restarted", [False, True], ids=["same", "restarted"])
def test_what_is_asked_again(
    command: str, parameters: dict[str, Any], again: bool, after_restart: bool, is_restarted: bool
) -> None:
    """As its command allows; else the program is told that the outcome is unknown."""
    peers = Peers()
    peers.settle()
    number = peers.ask(command, **parameters)
    peers.up()
    assert isinstance(ended(peers.client.receive(b"", peers.now)), ConnectionLost)
    if is_restarted:
        peers.restart()
    peers.connect()
    unsent = peers.ask("CLAIM")
    seen = len(peers.requests())
    old = peers.requests()[0]
    peers.settle(lambda request: {"subscription": 1})
    assert of(Welcomed, peers.told)[-1].is_same_daemon is not is_restarted
    handed_out = [r.id for r in peers.requests()[seen:]]
    if after_restart if is_restarted else again:
        assert not of(Failed, peers.told)
        assert number in handed_out or (peers.server.in_flight and old.id == number)
    else:
        (failed,) = of(Failed, peers.told)
        assert failed.id == number and isinstance(failed.error, ConnectionLost) and "unknown" in str(failed.error)
        assert number not in handed_out
    assert unsent in handed_out


def test_who_gives_up_fails_everything() -> None:
    """What was sent has an unknown outcome; what was not has none."""
    peers = Peers()
    peers.settle()
    sent = peers.ask("CLAIM")
    peers.client.receive(b"", 0)
    peers.connect()
    unsent = peers.ask("CLAIM")
    first, second = peers.session.give_up()
    assert isinstance(first, Failed) and first.id == sent and "unknown" in str(first.error)
    assert isinstance(second, Failed) and second.id == unsent and "never sent" in str(second.error)
    assert not peers.session.asked


def test_the_rules_of_repeating() -> None:
    """By request id only to the daemon that remembers it; what belongs to a connection never."""
    assert [r for r in RetryRule if may_repeat(r, is_same_daemon=True)] == ["always", "key", "token", "request"]
    assert [r for r in RetryRule if may_repeat(r, is_same_daemon=False)] == ["always", "key", "token"]


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_request_has_its_time() -> None:
    """One that is late ends the connection, since answers come in order; those behind it are asked again."""
    peers = Peers()
    peers.settle()
    late = peers.client.request("GET", "pages", {"key": "a"}, 1000, timeout_ms=500)
    other = peers.ask("GET", key="b")
    peers.up()
    assert peers.client.deadline == 1500 and peers.client.tick(1499) == []
    failed, end = peers.client.tick(1500)
    assert isinstance(failed, Failed) and failed.id == late and isinstance(failed.error, TimedOut)
    assert isinstance(end, Ended)
    peers.connect()
    peers.settle(lambda request: request.parameters["key"])
    assert of(Answered, peers.told) == [Answered(other, "b")]


def test_a_request_that_must_be_undone_is_known_of_after_its_time() -> None:
    """It fails in time, is asked again on the next connection, before anything new, and then it is told what it came to."""
    peers = Peers()
    peers.settle()
    late = peers.client.request("CLAIM", "pages", {}, 1000, timeout_ms=500)
    peers.session.asked[late].outlives = True
    peers.up()
    failed, _ = peers.client.tick(1500)
    assert isinstance(failed, Failed) and failed.id == late and isinstance(failed.error, TimedOut)
    assert peers.session.give_up() == [] and list(peers.session.asked) == [late]
    peers.server.reply(late, "what it came to", 1600)
    peers.connect()
    assert peers.client.tick(1700) == []
    peers.settle()
    assert of(Answered, peers.told) == [Answered(late, "what it came to")] and not peers.session.asked
    assert len(peers.requests()) == 1


@pytest.mark.parametrize(("command", "parameters"), [("CLAIM", {}), ("SUBSCRIBE", {"credit": 1})])
def test_what_a_daemon_does_not_know_any_more_is_not_known(command: str, parameters: dict[str, Any]) -> None:
    """A restarted one is not asked for a second claim; a subscription has ended with its connection, and is not asked for at all."""
    peers = Peers()
    peers.settle()
    late = peers.client.request(command, "pages", parameters, 1000, timeout_ms=500)
    peers.session.asked[late].outlives = True
    peers.up()
    peers.client.tick(1500)
    peers.restart()
    peers.connect()
    peers.settle()
    assert [type(event.error) for event in of(Failed, peers.told)] == [ConnectionLost] * (command == "CLAIM")
    assert not peers.session.asked and len(peers.requests()) == 1


def test_a_request_that_was_never_sent_ends_nothing() -> None:
    """The handshake may still succeed."""
    client = fresh()
    number = client.request("GET", "pages", {"key": "a"}, 0, timeout_ms=10)
    (failed,) = client.tick(10)
    assert isinstance(failed, Failed) and failed.id == number and not client.is_ended
    assert of(Welcomed, client.receive(encode(HELLO) + encode(WELCOME), 20))
    assert not client.session.asked


def test_a_client_speaks_before_the_daemon_grows_impatient() -> None:
    """A ping is due after a third of the silence that is allowed; what is sent puts it off."""
    client = ready()
    client.sent(len(client.outgoing), 0)
    assert client.deadline == 30_000
    client.request("GET", "pages", {"key": "a"}, 10_000)
    client.sent(len(client.outgoing), 10_000)
    assert client.tick(39_999) == []
    assert client.tick(40_000) == [PingDue()]
    assert client.tick(40_001) == []


def test_a_daemon_that_falls_silent() -> None:
    """The connection ends; so does a handshake that does not."""
    client = ready()
    client.sent(len(client.outgoing), 0)
    client.tick(30_000)
    client.tick(60_000)
    assert isinstance(ended(client.tick(90_000)), TimedOut)
    assert isinstance(ended(fresh().tick(10_000)), TimedOut)
