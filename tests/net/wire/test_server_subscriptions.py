"""The daemon's end of a connection: subscriptions, sessions, stopping."""

from __future__ import annotations

import pytest

from journal.errors import (
    ConnectionLost,
    Invalid,
    KeyExists,
    Stopping,
)
from journal.net.wire.events import Answered, Credited, Ended, Failed, Pushed, Superseded
from journal.net.wire.frames import Push
from journal.net.wire.limits import Limits
from journal.net.wire.server_connection import ServerConnection
from tests.net.wire.peers import Peers, frames, of, opened

# -- subscriptions -----------------------------------------------------------------------------------------------------


def test_pushes_stay_within_the_credit() -> None:
    """More than the client asked for is never sent; new credit is told."""
    peers = opened()
    number = peers.ask("SUBSCRIBE", credit=2)
    peers.up()
    subscription = peers.server.subscribe(number, 2)
    assert not peers.server.push(subscription, [1], peers.now), "the reply must come first"
    peers.server.reply(number, {"subscription": subscription}, peers.now)
    assert peers.server.more(peers.now) == [Credited(subscription, 2)]
    assert peers.server.push(subscription, ["a"], peers.now)
    assert not peers.server.push(subscription, ["b", "c"], peers.now)
    assert peers.server.push(subscription, ["b"], peers.now)
    assert not peers.server.push(subscription, ["c"], peers.now)
    assert of(Pushed, peers.down()) == [Pushed(subscription, ["a"]), Pushed(subscription, ["b"])]
    peers.client.credit(subscription, 5, peers.now)
    assert peers.up() == [Credited(subscription, 5)]
    assert peers.server.push(subscription, [1, 2, 3, 4, 5], peers.now)
    assert frames(peers.server) == [Push(subscription, 3, [1, 2, 3, 4, 5])]


def test_a_push_waits_for_the_reply_that_names_it() -> None:
    """Also when that reply waits for another."""
    peers = opened()
    slow, number = peers.ask("GET", key="a"), peers.ask("SUBSCRIBE", credit=9)
    peers.up()
    subscription = peers.server.subscribe(number, 9)
    peers.server.reply(number, {"subscription": subscription}, 0)
    assert peers.server.credit(subscription) == 0 and peers.server.more(0) == []
    peers.server.reply(slow, None, 0)
    assert peers.server.more(0) == [Credited(subscription, 9)]
    assert peers.server.push(subscription, [1], 0)
    assert [type(event) for event in peers.down()] == [Answered, Answered, Pushed]


def test_the_item_that_ends_a_subscription_needs_no_credit() -> None:
    """It is the last one, whatever the credit is; it takes none of what another has."""
    peers = opened()
    number = peers.ask("SUBSCRIBE", credit=1)
    peers.up()
    subscription = peers.server.subscribe(number, 1)
    peers.server.reply(number, {"subscription": subscription}, 0)
    peers.server.more(0)
    assert peers.server.push(subscription, ["a"], 0)
    peers.server.push_last(subscription, {"code": "not_found"}, 0)
    peers.server.push_last(subscription, {"code": "not_found"}, 0)
    assert of(Pushed, peers.down()) == [Pushed(subscription, ["a"]), Pushed(subscription, [{"code": "not_found"}])]
    assert not peers.server.unsubscribe(subscription)


def test_the_end_of_a_subscription_waits_for_the_reply_that_names_it() -> None:
    """Also when that reply waits for another; one whose request fails has no end to be told."""
    peers = opened()
    slow, first, second = peers.ask("GET", key="a"), peers.ask("SUBSCRIBE"), peers.ask("SUBSCRIBE")
    peers.up()
    kept, refused = peers.server.subscribe(first, 0), peers.server.subscribe(second, 0)
    for subscription in (kept, refused):
        peers.server.push_last(subscription, {"code": "not_found"}, 0)
    peers.server.reply(first, {"subscription": kept}, 0)
    peers.server.fail(second, KeyExists("no"), 0)
    peers.server.reply(slow, None, 0)
    assert peers.server.more(0) == []
    assert [type(event) for event in peers.down()] == [Answered, Answered, Pushed, Failed]


def test_subscriptions_are_bounded_and_end() -> None:
    """One that was refused, or has ended, gets nothing."""
    peers = opened(limits=Limits(subscriptions_max=1))
    first, second = peers.ask("SUBSCRIBE", credit=1), peers.ask("SUBSCRIBE", credit=1)
    peers.up()
    subscription = peers.server.subscribe(first, 1)
    with pytest.raises(Exception, match="at most 1 subscriptions"):
        peers.server.subscribe(second, 1)
    peers.server.fail(first, KeyExists("no"), 0)
    assert peers.server.credit(subscription) == 0 and not peers.server.unsubscribe(subscription)
    again = peers.server.subscribe(second, 1)
    peers.server.reply(second, {"subscription": again}, 0)
    peers.server.more(0)
    assert again != subscription and peers.server.unsubscribe(again)
    assert not peers.server.push(again, [1], 0)


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_claim_that_is_asked_again_gets_the_first_answer() -> None:
    """The answer was lost with the connection; nothing is claimed a second time."""
    peers = opened()
    number = peers.ask("CLAIM")
    peers.up()
    peers.server.reply(number, {"lease": [1]}, 0)
    old = peers.server
    peers.connect()
    peers.settle()
    assert of(Answered, peers.told) == [Answered(number, {"lease": [1]})]
    assert len(peers.requests()) == 1
    assert of(Superseded, peers.asked) == [Superseded(old)]
    assert old.is_ended and isinstance(old.more(0)[0].error, ConnectionLost)  # type: ignore[union-attr]


def test_what_is_under_way_is_waited_for() -> None:
    """A request that comes again while the engine works on it is not handed out again."""
    peers = opened()
    number = peers.ask("CLAIM")
    peers.up()
    old = peers.server
    peers.connect()
    later = peers.ask("GET", key="a")
    peers.settle(lambda request: "entry")
    assert of(Answered, peers.told) == []
    assert old.reply(number, "lease", 0) is peers.server
    peers.down()
    assert of(Answered, peers.told) == [Answered(number, "lease"), Answered(later, "entry")]
    assert len(peers.requests()) == 2


def test_a_read_that_is_asked_again_is_done_again() -> None:
    """Two answers to it do not get into each other's way."""
    peers = opened()
    number = peers.ask("GET", key="a")
    peers.up()
    old = peers.server
    peers.connect()
    peers.settle()
    assert old.reply(number, "old", 0) is old
    peers.server.reply(number, "new", 0)
    peers.down()
    assert of(Answered, peers.told) == [Answered(number, "new")]


# -- stopping ----------------------------------------------------------------------------------------------------------


def test_a_daemon_that_stops_finishes_what_is_in_flight() -> None:
    """What was asked before is answered, what comes after is refused, then it says bye."""
    peers = opened(limits=Limits(stop_ms=20_000))
    first = peers.ask("GET", key="a")
    peers.up()
    assert peers.server.stop(2000) == []
    assert peers.server.deadline == 22_000
    second = peers.ask("GET", key="b")
    assert peers.up() == []
    peers.server.reply(first, 1, 3000)
    assert peers.server.more(3000) == [Ended(None)]
    answered, failed, ended = peers.down()
    assert answered == Answered(first, 1)
    assert isinstance(failed, Failed) and failed.id == second and isinstance(failed.error, Stopping)
    assert isinstance(ended, Ended) and isinstance(ended.error, Stopping)
    assert peers.server.is_finished


def test_a_stop_does_not_wait_for_ever() -> None:
    """What is not finished in time has an unknown outcome; who is idle or a stranger goes at once."""
    peers = opened()
    peers.ask("GET", key="a")
    peers.up()
    peers.server.stop(2000)
    (ended,) = peers.server.tick(32_000)
    assert isinstance(ended, Ended) and isinstance(ended.error, Stopping)
    assert opened().server.stop(0) == [Ended(None)]
    stranger = ServerConnection(peers.daemon, nonce=bytes(32), now=0)
    (ended,) = stranger.stop(0)
    assert isinstance(ended, Ended) and isinstance(ended.error, Stopping) and stranger.is_finished


def test_a_client_that_leaves_gets_its_answers() -> None:
    """Bye ends a connection when everything is answered."""
    peers = opened()
    number = peers.ask("GET", key="a")
    peers.client.leave(0)
    peers.up()
    assert not peers.server.is_ended
    peers.server.reply(number, 1, 0)
    assert peers.server.more(0) == [Ended(None)]
    assert peers.down() == [Answered(number, 1), Ended(None)]
    with pytest.raises(Stopping):
        peers.ask("GET", key="b")


def test_both_sides_may_leave_at_once() -> None:
    """A bye that crosses a stop is no error."""
    peers = opened()
    number = peers.ask("GET", key="a")
    peers.up()
    peers.server.stop(0)
    peers.client.leave(0)
    assert peers.up() == [] and not peers.server.is_ended
    peers.server.reply(number, 1, 0)
    assert peers.down() == [Answered(number, 1), Ended(None)]


def test_answers_that_may_be_lost_together_are_remembered() -> None:
    """A daemon that keeps fewer than may be in flight is refused."""
    with pytest.raises(Invalid, match="must be remembered"):
        Peers(limits=Limits(in_flight_max=257))
