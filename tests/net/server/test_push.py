"""Subscriptions: leases over the stream, within the credit, to consumers that are there and answer."""

from __future__ import annotations

from typing import Any

import pytest

import journal
from journal.errors import NotFound
from journal.net.server import due_notices, push
from journal.net.server.push import SILENT_MAX
from journal.net.server.verbs.oversize import Large
from journal.net.server.verbs.served_journal import served_of
from journal.net.wire.limits import Limits
from journal.testing import ManualClock
from tests.net.server.asking import engine_of, pipeline_of
from tests.net.server.conftest import Connect
from tests.net.server.wire import Wire

KEY, TOKEN, CONSUMER = 0, 5, 8


def subscribe(client: Wire, credit: int, consumer: str = "w", **options: Any) -> int:
    number: int = client.call("SUBSCRIBE", "pages", consumer=consumer, credit=credit, **options)["subscription"]
    return number


def keys(items: list[Any]) -> list[str]:
    return [item[KEY] for item in items]


def test_leases_come_as_entries_fall_due(connect: Connect, pages: journal.Journal, clock: ManualClock) -> None:
    """In the order of work, each at its date."""
    client = connect()
    subscribe(client, 10)
    pages.put("later", delay="5s")
    client.put("b", priority=2)
    assert keys(client.pushed()) == ["b"]
    clock.advance(5000)
    (lease,) = client.pushed()
    assert (lease[KEY], lease[CONSUMER]) == ("later", "w")
    client.call("DONE", "pages", token=lease[TOKEN])
    assert pages.get("later") is None


def test_nothing_is_claimed_without_credit(connect: Connect, pages: journal.Journal) -> None:
    """What nobody has room for waits; more credit brings it."""
    client = connect()
    number = subscribe(client, 2)
    pages.put_many([journal.Put(f"k{n}") for n in range(5)])
    first = keys(client.pushed(2))
    assert pages.statistics()["processing"] == 2
    client.credit(number, 2)
    assert len({*first, *keys(client.pushed(2))}) == 4
    client.call("PING")
    assert pages.statistics()["processing"] == 4


def test_entries_are_dealt_in_turn(connect: Connect, pages: journal.Journal) -> None:
    """Nobody who has more credit takes everything."""
    clients = [connect() for _ in range(4)]
    pages.put_many([journal.Put(f"k{n:03}", delay="1s") for n in range(128)])
    for n, client in enumerate(clients):
        subscribe(client, 100, f"w{n}")
    moved = pages.move_many([journal.Move(f"k{n:03}", process_date=pages.now()) for n in range(128)])
    assert not [result for result in moved if isinstance(result, journal.JournalError)]
    assert [len(client.pushed(32)) for client in clients] == [32] * 4


def test_a_consumer_that_comes_again_gets_its_leases_first(connect: Connect, pages: journal.Journal) -> None:
    """Before anything new, also if that would come first in the order of work."""
    client = connect()
    subscribe(client, 1)
    pages.put("mine")
    (lease,) = client.pushed()
    client.close()
    pages.put("first", priority=0)
    again = connect()
    subscribe(again, 2)
    first, second = again.pushed(2)
    assert (first[KEY], first[TOKEN]) == ("mine", lease[TOKEN])
    assert second[KEY] == "first"


def test_a_second_subscription_under_the_same_name_gets_other_work(connect: Connect, pages: journal.Journal) -> None:
    """What the first one has it keeps."""
    first, second = connect(), connect()
    subscribe(first, 1)
    pages.put("a")
    assert keys(first.pushed()) == ["a"]
    subscribe(second, 5)
    pages.put("b")
    assert keys(second.pushed()) == ["b"]


def test_buckets_are_kept_to(connect: Connect, pages: journal.Journal) -> None:
    """A subscription to a range gets what is in it."""
    low, high = connect(), connect()
    subscribe(low, 100, "low", buckets="0-511")
    subscribe(high, 100, "high", buckets="512-1023")
    pages.put_many([journal.Put(f"k{n}") for n in range(40)])
    got: dict[str, str] = {}
    while len(got) < 40:
        for client in (low, high):
            client.call("PING")
            for event in [event for event in client.seen if type(event).__name__ == "Pushed"]:
                client.seen.remove(event)
                got |= {item[KEY]: item[CONSUMER] for item in event.items}  # type: ignore[union-attr]
    assert set(got.values()) == {"low", "high"}
    for name, part in (("low", journal.Range(0, 511)), ("high", journal.Range(512, 1023))):
        page = pages.select(buckets=part, limit=100)
        assert {entry.key for entry in page.entries} == {key for key, consumer in got.items() if consumer == name}


def test_a_consumer_that_stops_answering_gets_nothing_more(
    connect: Connect, pages: journal.Journal, clock: ManualClock
) -> None:
    """Others get it; an answer, also one that comes too late, makes it healthy again."""
    silent, other = connect(), connect()
    subscribe(silent, 100, "silent", lease=1000)
    pages.put("a")
    lost = []
    for _ in range(SILENT_MAX):
        lost += silent.pushed()  # the entry comes back to it as long as it is thought to be there
        clock.advance(1000)
    silent.call("PING")
    assert not silent.seen
    assert pages.statistics()["processing"] == 0
    subscribe(other, 1, "other")
    assert keys(other.pushed()) == ["a"]
    with pytest.raises(journal.LeaseLost):
        silent.call("DONE", "pages", token=lost[-1][TOKEN])
    pages.put("b")
    assert keys(silent.pushed()) == ["b"]


def test_what_others_finish_for_a_consumer_is_no_silence(
    connect: Connect, pages: journal.Journal, clock: ManualClock
) -> None:
    """Its workers on another connection, or the program that has the store: done, released or buried, all is an answer."""
    client, worker = connect(), connect()
    pages.put_many([journal.Put(f"k{n:02}", priority=n) for n in range(12)])
    number = subscribe(client, 1, lease=1000)
    ends = [
        lambda token: worker.call("DONE", "pages", token=token),
        lambda token: worker.call("BURY", "pages", token=token),
        lambda token: worker.call("RELEASE", "pages", token=token, delay=3_600_000),
        pages.done,
        pages.bury,
        lambda token: pages.release(token, delay="1h"),
    ]
    for n in range(12):
        (lease,) = client.pushed()
        assert lease[KEY] == f"k{n:02}"
        ends[n // 2](lease[TOKEN])
        clock.advance(1000)
        client.call("PING")
        client.credit(number, 1)
    assert pages.leases() == []


def test_a_late_answer_on_another_connection_is_heard(
    connect: Connect, pages: journal.Journal, clock: ManualClock
) -> None:
    """Also the consumer is there whose workers are slow; an answer about another journal's lease says nothing."""
    silent, worker, other = connect(), connect(), connect()
    other.call("DECLARE", "mail", settings={})
    subscribe(silent, 100, lease=1000)
    pages.put("a")
    lost = []
    for _ in range(SILENT_MAX):
        lost += silent.pushed()
        clock.advance(1000)
    silent.call("PING")
    assert not silent.seen
    with pytest.raises(journal.LeaseLost):
        other.call("DONE", "mail", token=lost[-1][TOKEN])
    assert silent.call("PING") and not silent.seen
    with pytest.raises(journal.LeaseLost):
        worker.call("DONE", "pages", token=lost[-1][TOKEN])
    assert keys(silent.pushed()) == ["a"]


def test_after_unsubscribe_nothing_comes(connect: Connect, pages: journal.Journal) -> None:
    """What was pushed is still leased."""
    client = connect()
    number = subscribe(client, 10)
    pages.put("a")
    (lease,) = client.pushed()
    client.call("UNSUBSCRIBE", "pages", subscription=number)
    pages.put("b")
    client.call("PING")
    assert not client.seen
    client.call("DONE", "pages", token=lease[TOKEN])
    with pytest.raises(NotFound, match="subscription"):
        client.call("UNSUBSCRIBE", "pages", subscription=number)


def test_leases_wait_for_the_disk_as_claims_do(tmp_path: Any) -> None:
    """With claims="full" a lease is pushed when its record is durable."""
    with journal.open(tmp_path / "s", claims="full") as store:
        pages = store.journal("pages")
        with store.serve() as server, Wire(server.addresses[0]) as client:
            client.welcome()
            subscribe(client, 3)
            pages.put_many([journal.Put(f"k{n}") for n in range(3)])
            items = client.pushed(3)
            assert pipeline_of(pages).log.synced == pipeline_of(pages).log.next_offset - 1
            for item in items:
                client.call("DONE", "pages", token=item[TOKEN])


def test_a_subscription_ends_with_its_journal(connect: Connect, store: journal.Store, pages: journal.Journal) -> None:
    """The last item is the error."""
    client = connect()
    store.journal("mail")
    client.call("SUBSCRIBE", "mail", consumer="w", credit=5)
    connect().call("DROP", "mail")
    (last,) = client.pushed()
    assert last["code"] == "not_found" and "'mail' was dropped" in last["message"]
    assert client.put("a")[0] == "inserted"


def test_the_end_comes_without_credit(connect: Connect, store: journal.Store) -> None:
    """Whatever it has not worked off yet: nobody waits for ever for a journal that is no more."""
    client = connect()
    mail = store.journal("mail")
    mail.put("a")
    client.call("SUBSCRIBE", "mail", consumer="w", credit=1)
    assert keys(client.pushed()) == ["a"]
    client.call("SUBSCRIBE", "mail", consumer="none", credit=0)
    store.drop("mail")
    assert [item["code"] for item in client.pushed(2)] == ["not_found"] * 2
    assert client.call("PING") and not client.seen


def test_a_subscription_ends_when_its_journal_is_declared_anew(connect: Connect, store: journal.Store) -> None:
    """Also when that is quicker than anybody looks: the new one is another journal."""
    client = connect()
    for _ in range(5):
        mail = store.journal("mail")
        client.call("SUBSCRIBE", "mail", consumer="w", credit=1)
        mail.put("old")
        assert keys(client.pushed()) == ["old"]
        store.drop("mail")
        store.journal("mail").put("new")
        assert client.call("SUBSCRIBE", "mail", consumer="w", credit=1)
        got = client.pushed(2)
        assert [item["code"] for item in got if type(item) is dict] == ["not_found"]
        assert keys([item for item in got if type(item) is list]) == ["new"]
        store.drop("mail")
        assert client.pushed()[0]["code"] == "not_found"


def test_who_subscribes_in_the_moment_of_a_drop_is_refused(
    connect: Connect, store: journal.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It found the journal that is no more; who is subscribed to the next one of that name does not notice."""
    client, late = connect(), connect()
    old = served_of(engine_of(store), store.journal("mail").name)
    store.drop("mail")
    mail = store.journal("mail")
    client.call("SUBSCRIBE", "mail", consumer="w", credit=5)
    monkeypatch.setattr(push, "served_of", lambda *_: old)
    monkeypatch.setattr(push, "own_leases", lambda *_: [])
    with pytest.raises(NotFound, match="was dropped"):
        late.call("SUBSCRIBE", "mail", consumer="w", credit=5)
    mail.put("a")
    assert keys(client.pushed()) == ["a"]


def test_as_many_come_as_there_is_credit_for_whatever_their_size(connect: Connect, pages: journal.Journal) -> None:
    """In as many frames as it takes; nothing is leased that does not come."""
    pages.put_many([journal.Put(f"k{n:02}", b"x" * 100_000) for n in range(40)])
    client = connect()
    subscribe(client, 32)
    got = keys(client.pushed(32))
    assert len({*got}) == 32
    client.call("PING")
    assert not client.seen and pages.statistics()["processing"] == 32


def test_fewer_than_there_is_credit_for_may_be_more_than_a_frame_holds(
    connect: Connect, pages: journal.Journal
) -> None:
    """They come all the same."""
    pages.put_many([journal.Put(f"k{n:02}", b"x" * 80_000) for n in range(15)])
    client = connect()
    subscribe(client, 16)
    assert len({*keys(client.pushed(15))}) == 15


def test_an_entry_that_fits_into_no_frame_stands_in_nobodys_way(
    connect: Connect, store: journal.Store, pages: journal.Journal
) -> None:
    """Who is subscribed gets what is behind it, people are told, and the program that has the store can claim it."""
    client = connect()
    pages.put("big", b"x" * 1_048_480, priority=1)
    pages.put_many([journal.Put(f"k{n}", priority=2 + n) for n in range(3)])
    subscribe(client, 10)
    assert keys(client.pushed(3)) == ["k0", "k1", "k2"]
    pages.put("k3")
    assert keys(client.pushed()) == ["k3"]
    (flag,) = store.flags()
    assert (flag.name, flag.count) == ("too_large", 1) and "'big'" in flag.message
    end = pipeline_of(pages).log.next_offset
    client.call("PING")
    assert pipeline_of(pages).log.next_offset == end  # nothing is claimed and given back meanwhile
    big = pages.claim(consumer="host")
    assert big is not None and big.key == "big"
    big.done()


def test_what_cannot_be_sent_is_given_back(
    connect: Connect, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However that came about: who claims is told, and no lease is left."""
    monkeypatch.setattr(Large, "size", lambda *_: 1)
    pages.put_many([journal.Put(f"k{n}", b"x" * 500_000) for n in range(3)])
    client = connect()
    with pytest.raises(journal.Invalid, match="more than one frame"):
        client.call("CLAIM_MANY", "pages", n=10, consumer="w")
    assert pages.leases() == []
    subscribe(client, 10)
    (last,) = client.pushed()
    assert last["code"] == "invalid"
    assert pages.leases() == []


def test_a_full_disk_is_waited_out(
    connect: Connect, pages: journal.Journal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be claimed for lack of room comes when there is some."""
    monkeypatch.setattr(due_notices, "RETRY_S", 0.01)
    client = connect()
    subscribe(client, 5)
    real = pipeline_of(pages).log.append

    def full(*_: Any) -> int:
        raise journal.StoreFull("no space left")

    pages.put("a", delay="1s")
    monkeypatch.setattr(pipeline_of(pages).log, "append", full)
    clock.advance(1000)
    client.call("PING")
    assert not client.seen
    monkeypatch.setattr(pipeline_of(pages).log, "append", real)
    assert keys(client.pushed()) == ["a"]


def test_a_client_that_does_not_read_gets_the_rest_when_it_does(tmp_path: Any) -> None:
    """Nothing is claimed for it meanwhile, and nothing is forgotten."""
    limits = Limits(output_bytes_max=1 << 16)
    with journal.open(tmp_path / "s", durability="interval") as store:
        pages = store.journal("pages")
        with store.serve(limits=limits) as server, Wire(server.addresses[0]) as client:
            client.welcome()
            subscribe(client, 10_000)
            pages.put_many([journal.Put(f"k{n:04}", b"x" * 10_000) for n in range(500)])
            with Wire(server.addresses[0]) as other:
                other.welcome()
                while other.call("PING") and not pages.statistics()["processing"] > 20:
                    pass
                for _ in range(20):
                    other.call("PING")
                assert pages.statistics()["processing"] < 500
            got = client.pushed(500)
            assert len({item[KEY] for item in got}) == 500


def test_what_falls_due_while_others_are_pushed(
    connect: Connect, pages: journal.Journal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is pushed as well, and does not wait until something else happens."""
    passing = [3_600_000]
    look = due_notices.outlook

    def late(*args: Any) -> Any:
        if passing and pages.statistics()["processing"]:  # the first was pushed
            clock.advance(passing.pop())
        return look(*args)

    client = connect()
    subscribe(client, 100, "w", lease=36_000_000)
    pages.put("later", delay="1h")
    monkeypatch.setattr(due_notices, "outlook", late)
    pages.put("a")
    assert sorted(keys(client.pushed(2))) == ["a", "later"]  # "a" may have to wait for its sync


@pytest.mark.parametrize("step", [3_600_000, -3_600_000])
def test_a_step_of_the_clock(connect: Connect, pages: journal.Journal, clock: ManualClock, step: int) -> None:
    """What is due by the new date is pushed at once; leases that were pushed count against their consumer when they end, not before."""
    client = connect()
    subscribe(client, 100, "w", lease=10_000)
    pages.put("a")
    held = client.pushed()
    pages.put("later", process_date=clock.now() + 3_600_000)
    clock.step(step)
    assert keys(client.pushed() if step > 0 else []) == (["later"] if step > 0 else [])
    pages.put("b")
    assert keys(client.pushed()) == ["b"]
    clock.advance(9999)
    client.call("EXTEND", "pages", token=held[0][TOKEN], lease=10_000)
    assert pages.statistics()["leases_lost"] == 0
    clock.advance(1)
    client.call("PING")
    assert pages.lease(held[0][TOKEN]).deadline == clock.now() + 9999


def test_a_silent_consumer_is_found_after_a_step_back(
    connect: Connect, pages: journal.Journal, clock: ManualClock
) -> None:
    """It has as many leases to lose as without one."""
    silent = connect()
    subscribe(silent, 100, "silent", lease=1000)
    pages.put("a")
    for _ in range(SILENT_MAX):
        silent.pushed()
        clock.step(-500)
        pages.move_many([])
        clock.advance(1000)
        pages.put("a")
    silent.call("PING")
    assert not silent.seen
    assert pages.statistics()["processing"] == 0
