"""One connection for many threads, and what becomes of calls when it breaks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.net.client.connect import connect
from journal.net.client.connection.options import Backoff
from journal.net.wire.events import Requested
from journal.net.wire.limits import Limits
from tests.net.client.daemon import LATER, TinyDaemon, now
from tests.net.client.small import Small

QUICK = Backoff(first="1ms", most="10ms", total="60s")


def in_threads(number: int, function: Callable[[int], None]) -> None:
    """Run something in threads, and raise what they raise."""
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            function(i)
        except BaseException as e:  # noqa: BLE001 - raised below
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


class Held:
    """Answers that a test gives by hand."""

    def __init__(self, small: Small, *names: str) -> None:
        self.small = small
        self.names = set(names)
        self.came = threading.Semaphore(0)
        self.requests: list[Requested] = []

    def __call__(self, asked: Requested) -> Any:
        if asked.command.name in self.names:
            self.requests.append(asked)
            self.came.release()
            return LATER
        return self.small(asked)


def answer(tiny: TinyDaemon, held: Held) -> None:
    """Answer everything that was held."""

    def run() -> None:
        held.names.clear()
        for peer in tiny.peers.values():
            for asked in held.requests:
                if asked.id in peer.state._asked:
                    peer.state.reply(asked.id, held.small(asked), now())
        held.requests.clear()

    tiny.do(run)


def test_many_threads_share_a_connection(remote: journal.Store, tiny: TinyDaemon) -> None:
    """Each gets its own answer, over one socket."""
    pages = remote.journal("pages")

    def work(i: int) -> None:
        for n in range(50):
            assert pages.put(f"{i}-{n}", n).outcome == "inserted"
            entry = pages.get(f"{i}-{n}")
            assert entry is not None and entry.data == n

    in_threads(8, work)
    assert len(tiny.peers) == 1 and pages.get("7-49") is not None


def test_more_threads_than_may_be_in_flight_wait_for_room(tmp_path: Path, small: Small) -> None:
    """The daemon's limit makes callers wait, and nobody fails."""
    with TinyDaemon(tmp_path / "s", small, limits=Limits(in_flight_max=2)) as tiny, connect(tiny.address) as store:
        pages = store.journal("pages")
        in_threads(10, lambda i: [pages.put(f"{i}-{n}", n) for n in range(20)] and None)
        assert len(small.entries) == 200


def test_who_reads_hands_over_when_it_has_its_answer(tmp_path: Path, small: Small) -> None:
    """One whose answer comes late does not keep others waiting, and is answered too."""
    held = Held(small, "GET")
    with TinyDaemon(tmp_path / "s", held) as tiny, connect(tiny.address) as store:
        pages = store.journal("pages")
        results: list[Any] = []
        threads = [threading.Thread(target=lambda: results.append(pages.get("a"))) for _ in range(3)]
        for thread in threads:
            thread.start()
            assert held.came.acquire(timeout=300)
        answer(tiny, held)
        for thread in threads:
            thread.join(100)
        assert results == [None] * 3


def test_a_cut_connection_is_made_anew_and_the_call_made_again(tmp_path: Path, small: Small) -> None:
    """What the daemon has not answered when the connection breaks is asked again, and done once."""
    held = Held(small, "CREATE")
    with TinyDaemon(tmp_path / "s", held) as tiny, connect(tiny.address, backoff=QUICK) as store:
        pages = store.journal("pages")
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(pages.create("a", 1)))
        thread.start()
        assert held.came.acquire(timeout=300)
        first = held.requests[0]
        tiny.cut()
        # It is being done: the second connection waits for the same answer.
        held.names.clear()
        tiny.do(lambda: finish(tiny, first, small))
        thread.join(100)
        assert [result.outcome for result in results] == ["inserted"]
        assert [asked.command.name for asked in tiny.asked].count("CREATE") == 1


def finish(tiny: TinyDaemon, asked: Requested, small: Small) -> None:
    """Answer a request whose connection may be gone."""
    state = tiny.gone[-1]
    state.reply(asked.id, small(asked), now())


def test_a_restarted_daemon_is_not_asked_twice(tmp_path: Path, small: Small) -> None:
    """A create whose outcome nobody knows fails with ConnectionLost; a put is made again."""
    held = Held(small, "CREATE", "PUT")
    first = TinyDaemon(tmp_path / "s", held, epoch=1)
    with connect(first.address, backoff=QUICK) as store:
        pages = store.journal("pages")
        results: list[Any] = []

        def run(function: Callable[[], Any]) -> None:
            try:
                results.append(function().outcome)
            except journal.JournalError as e:
                results.append(type(e))

        threads = []
        for function in (lambda: pages.create("a", 1), lambda: pages.put("b", 1)):
            threads.append(threading.Thread(target=run, args=(function,)))
            threads[-1].start()
            assert held.came.acquire(timeout=300)
        first.stop()
        with TinyDaemon(tmp_path / "s", small, epoch=2) as second:
            for thread in threads:
                thread.join(100)
            assert sorted(map(str, results)) == sorted(["inserted", str(journal.ConnectionLost)])
            assert [asked.command.name for asked in second.asked] == ["PUT"]


def test_an_idle_connection_that_was_cut_is_replaced_silently(
    tmp_path: Path, remote: journal.Store, tiny: TinyDaemon
) -> None:
    """The next call does not notice."""
    pages = remote.journal("pages")
    tiny.cut()
    assert pages.put("a", 1).outcome == "inserted"
    tiny.cut()
    assert pages.claim() is not None


def test_without_a_daemon_the_error_says_what_to_do(tmp_path: Path) -> None:
    """At once, since nobody asked to wait."""
    with pytest.raises(journal.ConnectionLost, match="journal serve"):
        connect(tmp_path / "work.journal")


def test_a_client_can_wait_for_a_daemon_that_starts_later(tmp_path: Path, small: Small) -> None:
    """`wait` is how long it may take."""
    started = threading.Event()
    stores: list[journal.Store] = []

    def run() -> None:
        started.set()
        stores.append(connect(f"unix:{tmp_path}/s", wait="20s", backoff=QUICK))

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(100)
    with TinyDaemon(tmp_path / "s", small):
        thread.join(100)
        assert stores[0].journal("pages").put("a", 1).outcome == "inserted"
        stores[0].close()


def test_a_daemon_that_stays_away_is_given_up(tmp_path: Path, small: Small) -> None:
    """After the total time of the backoff; a later call begins anew."""
    path = tmp_path / "s"
    tiny = TinyDaemon(path, small)
    with connect(tiny.address, backoff=Backoff(first="1ms", most="5ms", total="50ms")) as store:
        pages = store.journal("pages")
        tiny.stop()
        with pytest.raises(journal.ConnectionLost, match=r"never sent|unknown"):
            pages.put("a", 1)
        with TinyDaemon(path, small, epoch=2):
            assert pages.put("a", 1).outcome == "inserted"


def test_a_call_that_takes_too_long_times_out(tmp_path: Path, small: Small) -> None:
    """The others of the connection are asked again and answered."""
    held = Held(small, "GET")
    with TinyDaemon(tmp_path / "s", held) as tiny, connect(tiny.address, backoff=QUICK) as store:
        pages = store.journal("pages")
        with pytest.raises(journal.TimedOut, match="GET was not answered in time"):
            pages.within("30ms").get("a")
        held.names.clear()
        assert pages.get("a") is None


def test_closing_tells_who_waits(tmp_path: Path, small: Small) -> None:
    """A call in another thread ends, and later ones are refused."""
    held = Held(small, "GET")
    with TinyDaemon(tmp_path / "s", held) as tiny:
        store = connect(tiny.address)
        pages = store.journal("pages")
        errors: list[BaseException] = []

        def run() -> None:
            try:
                pages.get("a")
            except journal.JournalError as e:
                errors.append(e)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
            assert held.came.acquire(timeout=300)
        store.close()
        store.close()
        for thread in threads:
            thread.join(100)
        assert [type(error) for error in errors] == [journal.ConnectionLost] * 2
        with pytest.raises(journal.StoreClosed):
            pages.get("a")


def test_a_forked_child_is_refused(remote: journal.Store) -> None:
    """It would speak on its parent's connection; the parent goes on."""
    pages = remote.journal("pages")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            pages.put("a", 1)
            os.write(writing, b"put")
        except journal.ForkedStore as e:
            os.write(writing, str(e).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert b"must connect itself" in os.read(reading, 4096)
    assert pages.put("a", 1).outcome == "inserted"
    os.close(reading)
    os.close(writing)


def test_a_forked_child_can_close_and_work_is_refused_there(remote: journal.Store) -> None:
    """Whatever its parent's threads did in that moment; the parent's worker goes on."""
    pages = remote.journal("pages")
    stop = threading.Event()
    done: list[Any] = []
    came = threading.Event()

    def work() -> None:
        for lease in pages.work(consumer="one", stop=stop):
            lease.done()
            done.append(lease.key)
            came.set()

    thread = threading.Thread(target=work)
    thread.start()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            next(pages.work(consumer="two"))
            os.write(writing, b"work")
        except journal.ForkedStore as e:
            remote.close()
            os.write(writing, str(e).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert b"must connect itself" in os.read(reading, 4096)
    pages.put("a", 1)
    pages.wake()
    assert came.wait(100) and done == ["a"]
    stop.set()
    pages.wake()
    thread.join(100)
    os.close(reading)
    os.close(writing)


def test_an_interrupted_claim_is_given_back(tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease came when nobody waited for it any more."""
    with TinyDaemon(tmp_path / "s", small) as tiny, connect(tiny.address) as store:
        pages = store.journal("pages")
        pages.put("a", 1)
        link = store._backend.link
        receive = type(link._wire).receive

        def interrupt(self: Any) -> Any:
            monkeypatch.setattr(type(link._wire), "receive", receive)
            raise KeyboardInterrupt

        monkeypatch.setattr(type(link._wire), "receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pages.claim()
        assert pages.get("a") is not None
        assert pages.get("a").status == "W"  # type: ignore[union-attr]
        assert "RELEASE" in [asked.command.name for asked in tiny.asked]


def test_what_a_stopping_daemon_refused_is_asked_of_its_successor(tmp_path: Path, small: Small) -> None:
    """It was not done, so it is done there, once; what was in flight is answered before."""
    held = Held(small, "GET")
    first = TinyDaemon(tmp_path / "s", held, epoch=1)
    with connect(first.address, backoff=QUICK) as store:
        pages = store.journal("pages")
        results: list[Any] = []
        getting = threading.Thread(target=lambda: results.append(pages.get("a")))
        getting.start()
        assert held.came.acquire(timeout=300)
        first.do(lambda: [peer.state.stop(now()) for peer in first.peers.values()] and None)
        creating = threading.Thread(target=lambda: results.append(pages.create("a", 1).outcome))
        creating.start()
        (peer,) = first.peers.values()
        while peer.state._last_id <= held.requests[0].id:
            first.do(lambda: None)  # until the second request was refused, or is about to be
        answer(first, held)
        getting.join(100)
        first.stop()
        with TinyDaemon(tmp_path / "s", small, epoch=2) as second:
            creating.join(100)
            assert results == [None, "inserted"]
            assert [asked.command.name for asked in second.asked].count("CREATE") == 1
    assert [asked.command.name for asked in first.asked].count("CREATE") == 0


def test_a_stopping_daemon_that_does_not_go_is_told_of(tmp_path: Path, small: Small) -> None:
    """After as long as the backoff says, or at once when the connection is closed."""

    def refuse(asked: Requested) -> Any:
        if asked.command.name == "CREATE":
            raise journal.Stopping("the daemon takes nothing new: connect again")
        return small(asked)

    brief = Backoff(first="1ms", most="1ms", total="1ms")
    with TinyDaemon(tmp_path / "s", refuse) as tiny:
        with connect(tiny.address, backoff=brief) as store, pytest.raises(journal.Stopping):
            store.journal("pages").create("a", 1)
        with connect(tiny.address) as store:
            pages = store.journal("pages")
            errors: list[BaseException] = []

            def create() -> None:
                try:
                    pages.create("a", 1)
                except journal.JournalError as e:
                    errors.append(e)

            thread = threading.Thread(target=create)
            thread.start()
            while [asked.command.name for asked in tiny.asked].count("CREATE") < 4:
                store.journal("pages")
            store.close()
            thread.join(100)
            assert [type(error) for error in errors] in ([journal.StoreClosed], [journal.ConnectionLost])
    assert not small.entries


def test_a_claim_that_is_made_again_has_its_name(tmp_path: Path, small: Small) -> None:
    """Also when the new connection has not said its own yet."""
    held = Held(small, "CLAIM")
    small.entries["a"] = {"data": b"\xc0"}
    with TinyDaemon(tmp_path / "s", held) as tiny, connect(tiny.address, name="backend-1", backoff=QUICK) as store:
        pages = store.journal("pages")
        got: list[Any] = []
        thread = threading.Thread(target=lambda: got.append(pages.claim()))
        thread.start()
        assert held.came.acquire(timeout=300)
        assert held.requests[0].parameters["consumer"] == "backend-1"
        answer(tiny, held)
        thread.join(100)
        assert got[0].consumer == "backend-1"
