"""LISTEN: who is told when, and what a client makes of it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.errors import Busy, Invalid, NotFound
from journal.net.wire.auth import EVERYTHING, Grant
from journal.net.wire.due_notices import GAP_MS, HOLDER_MAX, LEASE_MS, Listener, Listeners, Notice, Poll, Watch
from journal.net.wire.limits import DATAGRAM_BYTES_MAX
from journal.net.wire.line import LineAddress, parse_line
from tests.net.wire.peers import BACKEND

COOKIE = bytes(range(16))
HOST = ("127.0.0.1", 4041)


def listening(*journals: str, now: int = 0, grant: Grant = EVERYTHING, **options: int) -> tuple[Listeners, Listener]:
    listeners = Listeners("work", **options)
    return listeners, listeners.add("connection", HOST, journals or ("*",), grant, COOKIE, now)


def test_a_datagram_tells_all_that_is_needed() -> None:
    """Journal, number due, next due date and sequence, in one small line."""
    listeners, listener = listening("pages")
    listeners.due("pages", 3, 5000, 1000)
    (datagram,) = listeners.take(1000)
    assert datagram.address == HOST and len(datagram.data) <= DATAGRAM_BYTES_MAX
    message = parse_line(datagram.data)
    assert message.command == "DUE" and message.sent_from == LineAddress("work", "pages")
    assert message.parameters == {"cookie": COOKIE.hex(), "due": "3", "listener": "1", "next": "5000", "sequence": "1"}
    assert Watch(listener.reply() | {"sequence": 0}, 0).receive(datagram.data, 0) == Notice("pages", 3, 5000, 0)


def test_a_hundred_changes_are_two_datagrams() -> None:
    """The first at once, the others together when the gap is over; then it is quiet, and nobody wakes up."""
    listeners, _ = listening("pages")
    for n in range(100):
        listeners.due("pages", n + 1, None, 1000 + n // 10)
    first = listeners.take(1009)
    assert len(first) == 1 and listeners.deadline == 1000 + GAP_MS
    assert listeners.take(1000 + GAP_MS - 1) == []
    (last,) = listeners.take(1000 + GAP_MS)
    assert parse_line(last.data).parameters["due"] == "100"
    assert listeners.deadline is None and listeners.take(10**6) == []


def test_the_timer_sleeps_until_something_falls_due() -> None:
    """And names the journals to ask about, once."""
    listeners, _ = listening("pages", "mails")
    listeners.schedule("pages", 5000)
    listeners.schedule("mails", 4000)
    listeners.schedule("others", 1)
    assert listeners.deadline == 4000 and listeners.overdue(3999) == []
    assert listeners.overdue(4000) == ["mails"] and listeners.overdue(4000) == []
    listeners.schedule("pages", 6000)
    assert listeners.deadline == 6000
    listeners.schedule("pages", None)
    assert listeners.deadline is None
    listeners.due("mails", 0, 7000, 4000)
    assert listeners.take(4000) == [] and listeners.deadline == 7000


def test_each_is_told_what_it_may_see() -> None:
    """A star stands for all journals of the identity's patterns."""
    listeners = Listeners("work")
    listeners.add("a", ("10.0.0.1", 1), ["*"], BACKEND, COOKIE, 0)
    listeners.add("b", ("10.0.0.2", 2), ["*"], EVERYTHING, COOKIE, 0)
    listeners.add("c", ("10.0.0.3", 3), ["pages"], EVERYTHING, COOKIE, 0)
    for journal in ("pages", "mail-1", "secret"):
        listeners.due(journal, 1, None, 0)
    told = {(d.address[1], parse_line(d.data).sent_from.service) for d in listeners.take(0)}  # type: ignore[union-attr]
    assert told == {(1, "pages"), (1, "mail-1"), (2, "pages"), (2, "mail-1"), (2, "secret"), (3, "pages")}


def test_a_listener_lives_as_long_as_its_lease() -> None:
    """And no longer than its connection; nobody else renews or ends it."""
    listeners, listener = listening("pages")
    listeners.schedule("pages", 10**9)
    assert listeners.renew(listener.number, "connection", LEASE_MS - 1) is listener
    for number, holder, now in ((listener.number, "other", 0), (99, "connection", 0), (1, "connection", 10**6)):
        with pytest.raises(NotFound):
            listeners.renew(number, holder, now)
    assert not listeners.remove(listener.number, "other")
    listeners.due("pages", 1, None, 2 * LEASE_MS - 1)
    assert len(listeners) == 0 and listeners.take(2 * LEASE_MS - 1) == []
    listeners, listener = listening("pages")
    listeners.schedule("pages", 10**9)
    listeners.remove_all("connection")
    assert len(listeners) == 0 and listeners.deadline is None and not listeners.is_wanted("pages")
    assert not listeners.remove(listener.number, "connection")


def test_listeners_are_bounded() -> None:
    """For all together, and for each connection; those whose lease is over make room."""
    listeners, _ = listening(listeners_max=2)
    listeners.add("b", HOST, ["*"], EVERYTHING, COOKIE, 10)
    with pytest.raises(Busy):
        listeners.add("c", HOST, ["*"], EVERYTHING, COOKIE, 20)
    listeners.add("c", HOST, ["*"], EVERYTHING, COOKIE, LEASE_MS)
    listeners = Listeners("work")
    for _ in range(HOLDER_MAX):
        listeners.add("a", HOST, ["*"], EVERYTHING, COOKIE, 0)
    with pytest.raises(Busy):
        listeners.add("a", HOST, ["*"], EVERYTHING, COOKIE, 0)
    with pytest.raises(Invalid):
        listeners.add("b", HOST, ["*"], EVERYTHING, b"short", 0)


def told(n: int) -> tuple[Watch, list[bytes]]:
    """A watch, and what a daemon sends it: n datagrams."""
    listeners, listener = listening("pages", "mails")
    watch = Watch(listener.reply(), 0)
    sent: list[bytes] = []
    for turn in range(n):
        listeners.due(("pages", "mails")[turn % 2], turn + 1, None, turn * GAP_MS)
        sent += [datagram.data for datagram in listeners.take(turn * GAP_MS)]
    return watch, sent


@given(st.lists(st.booleans(), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_every_loss_is_noticed(kept: list[bool], dice: random.Random) -> None:
    """By the next datagram, or by the next renewal; repeated ones count once."""
    watch, sent = told(len(kept))
    assert len(sent) == len(kept)
    noticed = 0
    for data, is_kept in zip(sent, kept, strict=True):
        for _ in range(dice.randint(1, 2) if is_kept else 0):
            notice = watch.receive(data, 0)
            noticed += 0 if notice is None else notice.lost
    noticed += watch.renewed(len(sent), 1000)
    assert noticed == watch.lost == kept.count(False)
    assert watch.renewed(len(sent), 1000) == 0 and watch.renew_at == 1000 + LEASE_MS // 3


@given(st.binary(max_size=60), st.data())
def test_forged_datagrams_do_not_count(garbage: bytes, data: st.DataObject) -> None:
    """Without the cookie nobody wakes a client, moves its sequence or makes it fail."""
    watch, (first, second) = told(2)
    flipped = bytearray(first)
    at = data.draw(st.integers(first.index(b"cookie=") + 7, first.index(b";due") - 1))
    flipped[at] ^= data.draw(st.integers(1, 255))
    forged = [garbage, bytes(flipped), first + b"x" * 2000, first.replace(b"DUE", b"DUES")]
    forged += [first.replace(b"listener=1", b"listener=2"), first.replace(b"sequence=1", b"sequence=0")]
    forged += [first.replace(b"sequence=1", b"sequence=" + b"9" * 30), first.replace(b"due=1", b"due=-1")]
    for raw in forged:
        assert watch.receive(raw, 0) is None
    assert watch.sequence == 0 and watch.ignored == len(forged)
    assert watch.receive(second, 0) == Notice("mails", 2, None, 1)
    assert watch.receive(first, 0) is None, "it came too late: the loss was told"


@pytest.mark.parametrize("reply", [{}, {"listener": 1}, None])
def test_a_reply_that_says_nothing(reply: Any) -> None:
    """A client cannot listen without knowing what for."""
    with pytest.raises(Invalid):
        Watch(reply, 0)


def test_polls_are_rare_and_spread() -> None:
    """Twice as long each time, up to the limit; never later than that, nor than what is known to fall due."""
    poll = Poll(first_ms=1000, most_ms=30_000, jitter=0.25)
    waits = [poll.next_at(0, 0.0) for _ in range(7)]
    assert waits == [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]
    many = sorted(poll.next_at(0, n / 100) for n in range(101))
    assert (many[0], many[-1]) == (22_500, 30_000) and len(set(many)) > 90
    assert poll.next_at(50, 0.5, next_due=70) == 70 and poll.next_at(50, 0.5, next_due=10) == 50
    poll.lost()
    assert poll.next_at(0, 0.0) == 1000
    for wrong in ({"first_ms": 0}, {"first_ms": 5, "most_ms": 4}, {"jitter": 1.0}):
        with pytest.raises(Invalid):
            Poll(**wrong)  # type: ignore[arg-type]
