"""journal.Producer and journal.Consumer over a connection: the same roles, the same promises."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.core.entry.uuid7 import created
from journal.net.client.connect import connect
from journal.net.client.connection.due_notices import FarTime
from journal.net.client.connection.options import Backoff
from journal.net.server.server import Server
from journal.roles.renewal_thread import renewal_thread
from tests.net.client.working import WAIT_S


@pytest.fixture
def store(tmp_path: Path) -> Iterator[journal.Store]:
    """An open store with the system's clock, checked at its end."""
    with journal.open(tmp_path / "work.journal") as opened:
        yield opened
        assert opened.check() == []


@pytest.fixture
def far(server: Server, store: journal.Store) -> Iterator[journal.Store]:
    with connect(store.path, poll="50ms") as remote:
        yield remote


def test_a_producer_publishes_moves_and_cancels(
    far: journal.Store, store: journal.Store, pages: journal.Journal
) -> None:
    """Once, in the name of its group; what is another group's it does not touch."""
    billing = journal.Producer(far.journal("pages"), group="billing")
    key = billing.new_key()
    assert abs((created(key) or 0) - pages.now()) < 60_000
    first = billing.publish({"n": 1}, key=key, delay="1h")
    again = billing.publish({"n": 1}, key=key, delay="1h")
    assert (first.outcome, again.outcome) == ("inserted", "exists") and again.process_date == first.process_date
    made = billing.publish({"n": 2})
    assert pages.get(made.key).owner == "billing"  # type: ignore[union-attr]
    results = billing.publish_many([journal.Put("a", 1), journal.Put(None, 2), journal.Put(key, {"n": 9})])
    assert [getattr(result, "outcome", type(result)) for result in results] == [
        "inserted",
        "inserted",
        journal.KeyExists,
    ]
    assert billing.move(key, delay="2h").process_date > first.process_date
    assert billing.count() == 4 == len(list(billing.list()))
    assert billing.delete(key) is True and billing.get(key) is None
    pages.put("theirs", owner="shop")
    with pytest.raises(journal.NotOwner):
        billing.get("theirs")
    with pytest.raises(journal.NotOwner):
        billing.delete("theirs")
    assert billing.report_clock(pages.now()) is False


def test_a_producer_forms_keys_as_the_schema_says(far: journal.Store, store: journal.Store) -> None:
    """The key is known to who publishes, too."""
    schema = journal.Schema([journal.Field("uri", "text")], key=["uri"])
    store.journal("forms", schema=schema)
    published = journal.Producer(far.journal("forms"), group="g").publish({"uri": "/home"})
    assert store.journal("forms").get(published.key).data == {"uri": "/home"}  # type: ignore[union-attr]


def test_a_consumer_takes_answers_and_holds_no_more_than_it_wants(far: journal.Store, pages: journal.Journal) -> None:
    """In the order of work, with as many ahead as `prefetch` says."""
    with journal.Consumer(far.journal("pages"), name="mail-1", prefetch=2, lease="1m") as mails:
        mails.subscribe()
        assert mails.take_nowait() is None
        pages.put_many([journal.Put(f"k{n}", n, priority=n) for n in range(5)])
        leases = [mails.take(), mails.take()]
        assert [lease.key for lease in leases if lease] == ["k0", "k1"] and mails.take_nowait() is None
        assert all(lease is not None and mails.holds(lease) for lease in leases)
        assert mails.done_many([lease for lease in leases if lease]) == [None, None]
        following = mails.take()
        assert following is not None and following.key == "k2"
        following.extend("2m")
        following.release(delay="1h")
        assert mails.statistics()["done"] == 2 and mails.statistics()["released"] == 1
        assert abs(mails.statistics()["clock"]["offset_ms"]) < 60_000
    assert pages.count() == 3 and not pages.leases()


def test_a_handler_works_in_a_thread_and_what_fails_is_tried_again(far: journal.Store, pages: journal.Journal) -> None:
    """Failures count with the entry, and end with a burial."""
    done: queue.Queue[Any] = queue.Queue()

    def handle(lease: journal.Lease) -> None:
        done.put((lease.key, lease.timeouts))
        if lease.key == "bad":
            raise ValueError("no good")

    retry = journal.Retry(first="1ms", cap="1ms", failures_max=2)
    with journal.Consumer(far.journal("pages"), name="mail-1", retry=retry) as mails:
        mails.subscribe(handle)
        pages.put("good")
        assert done.get(timeout=WAIT_S) == ("good", 0)
        far.journal("pages").put("bad")
        assert [done.get(timeout=WAIT_S) for _ in range(2)] == [("bad", 0), ("bad", 1)]
        while not pages.buried():
            far.journals()
    assert pages.buried()[0].reason.startswith("failed 2 times, at last with ValueError: no good")
    assert mails.statistics()["failed"] == 2 and pages.count() == 0


def pass_time(monkeypatch: pytest.MonkeyPatch, consumer: journal.Consumer, ms: int) -> None:
    """Have the program believe that so much time has passed; the daemon's own has not."""
    running = FarTime.running
    monkeypatch.setattr(FarTime, "running", lambda self: running(self) + ms)
    renewal_thread(consumer.time).soon(consumer._leases)


def test_leases_are_extended_while_a_handler_is_busy(
    monkeypatch: pytest.MonkeyPatch, far: journal.Store, pages: journal.Journal
) -> None:
    """By a thread that the handler does not block."""
    pages.put("a")
    with journal.Consumer(far.journal("pages"), name="mail-1", lease="30s") as mails:
        lease = next(iter(mails))
        deadline = lease.deadline
        while pages.now() <= lease.start:
            pass  # an extension within the same millisecond would give the same deadline
        pass_time(monkeypatch, mails, 16_000)
        while mails.statistics()["extended"] < 1:
            far.journals()
        assert pages.lease(lease.token).deadline > deadline and mails.holds(lease)
        lease.done()
    assert mails.statistics()["lost"] == 0


def test_a_lease_that_is_lost_is_told_and_a_silent_consumer_gets_no_more(
    far: journal.Store, pages: journal.Journal
) -> None:
    """When the daemon says that it is over, not when somebody tries to finish it."""
    lost: queue.Queue[Any] = queue.Queue()
    options: dict[str, Any] = {"extend": False, "silent_max": 1, "on_lost": lambda lease: lost.put(lease.key)}
    pages.put("a")
    with journal.Consumer(far.journal("pages"), name="mail-1", lease="20ms", **options) as mails:
        lease = next(iter(mails))
        assert lost.get(timeout=WAIT_S) == "a" and not mails.holds(lease)
        while not mails.statistics()["is_silent"]:
            far.journals()
        assert mails.take_nowait() is None and pages.get("a") is not None
        with pytest.raises(journal.LeaseLost):
            lease.done()
        again = mails.take()  # it has answered, so it is heard again
        assert again is not None and again.key == "a"


def test_a_lease_that_was_finished_by_its_token_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, far: journal.Store, pages: journal.Journal
) -> None:
    """Somebody else finished it in the consumer's name."""
    lost: queue.Queue[Any] = queue.Queue()
    pages.put("a")
    with journal.Consumer(
        far.journal("pages"), name="mail-1", lease="30s", extend=False, on_lost=lambda lease: lost.put(lease.key)
    ) as mails:
        lease = next(iter(mails))
        pages.done(lease.token)
        pass_time(monkeypatch, mails, 31_000)
        while mails.holds(lease):
            far.journals()
        assert mails.statistics()["lost"] == 0 and mails.statistics()["done"] == 1
    assert lost.empty()


def test_after_a_restart_a_consumer_gets_its_leases_back_first(server: Server, store: journal.Store) -> None:
    """Under its name, with the same tokens, over another connection."""
    pages = store.journal("pages")
    pages.put("a")
    with connect(store.path) as first:
        lease = first.journal("pages").claim(consumer="mail-1", lease="1h")
    pages.put("b", priority=0)
    with connect(store.path) as second, journal.Consumer(second.journal("pages"), name="mail-1", prefetch=2) as mails:
        mails.subscribe()
        back = mails.take()
        assert back is not None and lease is not None and back.token == lease.token
        other = mails.take()
        assert other is not None and other.key == "b"
        mails.close(finish=False)


def test_one_consumer_under_a_name_and_buckets_are_dealt(far: journal.Store, pages: journal.Journal) -> None:
    """Over one connection, whichever object of the journal they were given."""
    with journal.Consumer(far.journal("pages"), name="a", buckets="dealt") as a:
        with pytest.raises(journal.Refused, match="take another name"):
            journal.Consumer(far.journal("pages"), name="a")
        with journal.Consumer(far.journal("pages"), name="b", buckets="dealt") as b:
            done: queue.Queue[Any] = queue.Queue()
            for each in (a, b):
                each.subscribe(lambda lease: done.put(lease.key))
            assert a.buckets is not None and b.buckets is not None and len(a.buckets) == len(b.buckets) == 512
            pages.put_many([journal.Put(f"k{n}") for n in range(40)])
            assert {done.get(timeout=WAIT_S) for _ in range(40)} == {f"k{n}" for n in range(40)}


def test_a_consumer_goes_on_when_the_daemon_was_away(store: journal.Store, pages: journal.Journal) -> None:
    """In a thread of its own it looks for a daemon until there is one, however long that takes."""
    server = store.serve()
    backoff = Backoff(first="1ms", most="2ms", total="10ms")
    done: queue.Queue[Any] = queue.Queue()
    came = threading.Event()
    with connect(store.path, poll="5ms", backoff=backoff) as far:
        mails = journal.Consumer(far.journal("pages"), name="mail-1")
        mails.subscribe(lambda lease: (done.put(lease.key), came.set()))
        pages.put("before")
        assert done.get(timeout=WAIT_S) == "before"
        server.stop()
        assert server.join(WAIT_S)
        pages.put("meanwhile")
        server = store.serve()
        assert done.get(timeout=WAIT_S) == "meanwhile"
        mails.close()
    server.stop()
    assert server.join(WAIT_S)


def test_closing_the_connection_ends_who_waits(server: Server, store: journal.Store, pages: journal.Journal) -> None:
    """At once, and leases stay for the next time."""
    ended = threading.Event()
    with connect(store.path) as far:
        mails = journal.Consumer(far.journal("pages"), name="mail-1", prefetch=2)
        got: queue.Queue[Any] = queue.Queue()

        def run() -> None:
            for lease in mails:
                got.put(lease)
            ended.set()

        threading.Thread(target=run, daemon=True).start()
        pages.put("a")
        assert got.get(timeout=WAIT_S).key == "a"
    assert ended.wait(WAIT_S)
    mails.close()
    assert [lease.consumer for lease in pages.leases()] == ["mail-1"]


def test_what_is_no_journal_is_refused() -> None:
    """With what is allowed."""
    for make in (lambda: journal.Consumer("pages", name="a"), lambda: journal.Producer("pages", group="a")):  # type: ignore[arg-type]
        with pytest.raises(journal.Invalid, match=r"as Store\.journal returns it"):
            make()
