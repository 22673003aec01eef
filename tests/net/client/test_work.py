"""work() over a connection: sleeps until it is told, survives restarts, and loses nothing when datagrams are lost."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.net.client.connect import connect
from journal.net.client.connection import due_notice_thread
from journal.net.client.connection.options import Backoff
from journal.net.server.server import Server
from journal.net.wire import due_notices
from journal.net.wire.tokens import parse_tokens
from journal.testing import ManualClock
from tests.net.client.working import WAIT_S, Worker, losing, never_polls


@pytest.fixture
def clock() -> None:
    """The system's: news of one journal come at most once in 20 ms, which must pass."""


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock | None) -> Iterator[journal.Store]:
    """An open store, checked at its end."""
    with journal.open(tmp_path / "work.journal", clock=clock) as opened:
        yield opened
        assert opened.check() == []


def until(far: journal.Store, is_so: Callable[[], bool]) -> None:
    """Wait for what the daemon does by itself: it is asked on until then."""
    for _ in range(100_000):
        if is_so():
            return
        far.journals()
    raise AssertionError("it did not happen")


def test_what_is_due_comes_at_once_and_what_is_put_later_when_it_is_put(
    monkeypatch: pytest.MonkeyPatch, far_pages: journal.Journal, pages: journal.Journal
) -> None:
    """In the order of work; a sleeping worker is told, it does not poll."""
    never_polls(monkeypatch)
    pages.put("b", priority=20)
    pages.put("a", priority=10)
    with Worker(far_pages, consumer="one", lease="10s") as worker:
        assert [worker.next(), worker.next()] == ["a", "b"]
        for n in range(20):
            (pages if n % 2 else far_pages).put(f"k{n}")
            assert worker.next() == f"k{n}"
    assert pages.count() == 0


def test_an_entry_comes_at_its_date_after_a_release_and_after_a_lost_lease(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever makes it due."""
    never_polls(monkeypatch)
    clock = ManualClock()
    with (
        journal.open(tmp_path / "manual.journal", clock=clock) as store,
        store.serve(),
        connect(store.path) as far,
    ):
        pages = store.journal("pages")
        with Worker(far.journal("pages")) as worker:
            pages.put("scheduled", delay="5s")
            clock.advance(4999)
            pages.put("now")
            assert worker.next() == "now"
            assert worker.keys.empty()
            clock.advance(1000)
            assert worker.next() == "scheduled"
        pages.put("held")
        lease = pages.claim(lease="1h")
        pages.put("lost")
        assert lease is not None and pages.claim(lease="2h") is not None
        with Worker(far.journal("pages")) as worker:
            lease.release()
            assert worker.next() == "held"
            clock.advance(2 * 3_600_000)
            assert worker.next() == "lost"


def test_many_workers_share_one_registration_which_ends_with_the_last(
    far: journal.Store, server: Server, store: journal.Store
) -> None:
    """Of several journals too; nothing stays behind in the daemon."""
    names = [f"j{n}" for n in range(5)]
    for name in names:
        store.journal(name)
    journals = [far.journal(name) for name in names]
    keys: queue.Queue[Any] = queue.Queue()
    workers = [Worker(each, keys, consumer=f"c{n}") for n in range(3) for each in journals]
    for name in names:
        for n in range(10):
            store.journal(name).put(f"{name}-{n}")
    got = {keys.get(timeout=WAIT_S) for _ in range(50)}
    assert got == {f"{name}-{n}" for name in names for n in range(10)}
    until(far, lambda: server.watching.listeners_count == 1)
    for worker in workers:
        worker.stop()
        assert worker.error is None
    until(far, lambda: server.watching.listeners_count == 0)
    until(far, lambda: not any(t.name == "journal-listen" for t in threading.enumerate()))


def test_stop_wake_and_close_end_it(store: journal.Store, server: Server, pages: journal.Journal) -> None:
    """As in the library: a stop is seen within a moment, and closing ends everything."""
    with connect(store.path) as far:
        far_pages = far.journal("pages")
        stop = threading.Event()
        stop.set()
        assert list(far_pages.work(stop=stop)) == []
        slow = Worker(far_pages)
        slow._stop.set()
        assert slow.has_ended.wait(100) and slow.error is None
        other = Worker(far_pages)
        pages.put("a")
        assert other.next() == "a"
    assert other.has_ended.wait(100) and other.error is None
    assert list(far_pages.work()) == []


def test_arguments_are_checked_at_once(far: journal.Store, far_pages: journal.Journal, store: journal.Store) -> None:
    """Before the first lease is asked for, as the library does; a journal that is gone is an error of the first claim."""
    with pytest.raises(journal.Invalid, match=r"threading\.Event"):
        far_pages.work(stop=True)  # type: ignore[arg-type]
    with pytest.raises(journal.Invalid):
        far_pages.work(consumer=7)  # type: ignore[arg-type]
    with pytest.raises(journal.Invalid):
        far_pages.work(lease=0)
    with pytest.raises(journal.Invalid, match="buckets"):
        far_pages.work(buckets="0-3")  # type: ignore[arg-type]
    with pytest.raises(journal.Invalid, match="poll"):
        connect(store.path, poll=0)
    gone = far.journal("gone")
    store.drop("gone")
    with pytest.raises(journal.NotFound):
        next(gone.work())


def test_buckets_are_worked_on_apart(far: journal.Store, store: journal.Store) -> None:
    """Each worker gets those of its range, and only those."""
    halves = store.journal("halves", buckets=2)
    from_afar = far.journal("halves")
    keys = [f"k{n}" for n in range(40)]
    with (
        Worker(from_afar, buckets=journal.Range.parse("0")) as low,
        Worker(from_afar, buckets=journal.Range.parse("1")) as high,
    ):
        halves.put_many([journal.Put(key) for key in keys])
        until(far, lambda: low.keys.qsize() + high.keys.qsize() == len(keys))
        of_low = [low.next() for _ in range(low.keys.qsize())]
        of_high = [high.next() for _ in range(high.keys.qsize())]
    assert of_low and of_high and sorted(of_low + of_high) == sorted(keys)


def test_a_worker_goes_on_when_the_daemon_was_restarted(
    monkeypatch: pytest.MonkeyPatch, store: journal.Store, pages: journal.Journal
) -> None:
    """It sees the end of its connection also while it sleeps, finds the next daemon, and is told of what is due there."""
    never_polls(monkeypatch)
    server = store.serve()
    with connect(store.path) as far, Worker(far.journal("pages")) as worker:
        for n in range(3):
            pages.put(f"before-{n}")
            assert worker.next() == f"before-{n}"
            server.stop()
            assert server.join(100)
            pages.put(f"meanwhile-{n}")
            server = store.serve()
            assert worker.next() == f"meanwhile-{n}"
    server.stop()
    assert server.join(100)


def test_a_worker_ends_when_no_daemon_comes_back(store: journal.Store, pages: journal.Journal) -> None:
    """After as long as the backoff says, with the error that says so."""
    backoff = Backoff(first="1ms", most="2ms", total="20ms")
    with store.serve() as server, connect(store.path, backoff=backoff, poll="1ms") as far:
        worker = Worker(far.journal("pages"))
        pages.put("a")
        assert worker.next() == "a"
        server.stop()
        assert server.join(100)
        assert worker.has_ended.wait(100)
        assert isinstance(worker.error, journal.ConnectionLost)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_lost_datagrams_cost_time_and_no_work(
    monkeypatch: pytest.MonkeyPatch, store: journal.Store, server: Server, pages: journal.Journal, share: float
) -> None:
    """With some or all of them lost, everything is done once, with nothing but the fallback poll."""
    done: queue.Queue[Any] = queue.Queue()
    with (
        losing(monkeypatch, share, seed=7) as relays,
        connect(store.path, poll="5ms") as far,
        Worker(far.journal("pages"), done, consumer="one"),
        Worker(far.journal("pages"), done, consumer="two"),
    ):
        for n in range(5000):  # how many datagrams there are is up to the daemon, and which are lost to chance
            pages.put(f"k{n}")
            assert done.get(timeout=WAIT_S) == f"k{n}"
            if n >= 50 and any(relay.has_dropped.is_set() for relay in relays):
                break
        assert done.empty() and pages.count() == 0
        (relay,) = relays
        assert relay.dropped
        if share == 1.0:
            assert relay.passed == 0


def test_a_loss_shows_when_the_lease_is_renewed(
    monkeypatch: pytest.MonkeyPatch, store: journal.Store, server: Server, pages: journal.Journal
) -> None:
    """Nothing comes, nobody polls: the renewal tells of datagrams that did not come, and the worker asks."""
    never_polls(monkeypatch)
    reply = due_notices.Listener.reply
    monkeypatch.setattr(due_notices.Listener, "reply", lambda self: reply(self) | {"lease_ms": 60})
    with losing(monkeypatch, 1.0, seed=1), connect(store.path) as far, Worker(far.journal("pages")) as worker:
        for n in range(5):
            pages.put(f"k{n}")
            assert worker.next() == f"k{n}"


def has_ipv6() -> bool:
    """Whether this machine has a loopback of it."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as made:
            made.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    "host", ["127.0.0.1", pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6 here"))]
)
def test_over_tcp_with_a_token(
    monkeypatch: pytest.MonkeyPatch, store: journal.Store, pages: journal.Journal, host: str
) -> None:
    """Who may consume one journal is told of that one; datagrams go to the address that its connection has."""
    never_polls(monkeypatch)
    tokens = parse_tokens("backend 9f86d081884c7d659a2feaa0c55ad015 consume pages backend-*\n")
    with (
        store.serve(unix=False, tcp=[(host, 0)], tokens=tokens) as server,
        connect(server.addresses[0], token="backend:9f86d081884c7d659a2feaa0c55ad015") as far,
        Worker(far.journal("pages"), consumer="backend-1") as worker,
    ):
        for n in range(5):
            pages.put(f"k{n}")
            assert worker.next() == f"k{n}"
        with pytest.raises(journal.AccessDenied):
            next(far.journal("pages").work(consumer="somebody-else"))


def test_forged_and_garbled_datagrams_change_nothing(
    monkeypatch: pytest.MonkeyPatch, store: journal.Store, server: Server, pages: journal.Journal
) -> None:
    """Without the registration's secret nobody is listened to, and the worker goes on."""
    never_polls(monkeypatch)
    bound, sockets = due_notice_thread.bound, []

    def noted(host: str) -> socket.socket:
        sockets.append(bound(host))
        return sockets[-1]

    monkeypatch.setattr(due_notice_thread, "bound", noted)
    with connect(store.path) as far, Worker(far.journal("pages")) as worker:
        pages.put("first")
        assert worker.next() == "first"
        until(far, lambda: bool(sockets))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for raw in (b"", b"\xff" * 1500, b"DUE", b"<journal:pages DUE cookie=00;due=1;listener=1;sequence=99"):
                stranger.sendto(raw, sockets[0].getsockname())
        pages.put("second")
        assert worker.next() == "second"
