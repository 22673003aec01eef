"""LISTEN over a real UDP socket: who is told, of what, when, and that nobody wakes up for nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import msgpack
import pytest

import journal
from journal.errors import NotFound
from journal.net.server import due_notices
from journal.net.server.due_notices import DUE_MAX
from journal.net.server.server import Server
from journal.net.wire.due_notices import LEASE_MS
from journal.net.wire.line import parse_line
from journal.net.wire.tokens import parse_tokens
from journal.testing import ManualClock
from tests.net.server.asking import pipeline_of
from tests.net.server.conftest import Connect
from tests.net.server.wire import TIMEOUT_S, Wire

DATA = msgpack.packb(1)


class Ear:
    """A backend's UDP socket."""

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.settimeout(TIMEOUT_S)

    @property
    def port(self) -> int:
        port: int = self.sock.getsockname()[1]
        return port

    def hear(self) -> tuple[str, dict[str, str]]:
        """The journal and the parameters of the next datagram."""
        message = parse_line(self.sock.recv(2000))
        assert message.command == "DUE" and message.sent_from is not None
        return message.sent_from.service, dict(message.parameters)

    def has_heard(self, client: Wire) -> bool:
        """Whether a datagram has come, after the daemon has answered once more: what it had to send before is sent."""
        client.call("PING")
        self.sock.setblocking(False)
        try:
            return bool(self.sock.recv(2000))
        except BlockingIOError:
            return False
        finally:
            self.sock.settimeout(TIMEOUT_S)


@pytest.fixture
def ear() -> Iterator[Ear]:
    """A socket that is closed at the end."""
    made = Ear()
    yield made
    made.sock.close()


def listen(client: Wire, ear: Ear, *journals: str) -> dict[str, object]:
    reply: dict[str, object] = client.call("LISTEN", port=ear.port, journals=list(journals or ["pages"]))
    return reply


def test_an_entry_that_falls_due_is_told_of(
    connect: Connect, ear: Ear, pages: journal.Journal, clock: ManualClock
) -> None:
    """One small datagram: the journal, how many, the next date, a sequence; at its date, not before."""
    client = connect()
    reply = listen(client, ear)
    now = pages.now()
    pages.put("a", process_date=now + 500)
    pages.put("b", process_date=now + 500)
    pages.put("later", process_date=now + 90_000)
    assert not ear.has_heard(client)
    clock.advance(499)
    assert not ear.has_heard(client)
    clock.advance(1)
    assert ear.hear() == (
        "pages",
        {"cookie": reply["cookie"], "listener": "1", "due": "2", "next": str(now + 90_000), "sequence": "1"},
    )


def test_what_is_due_already_is_told_at_once(connect: Connect, ear: Ear, pages: journal.Journal) -> None:
    """Who comes late has not missed anything."""
    pages.put("a")
    listen(connect(), ear)
    assert ear.hear()[1]["due"] == "1"


def test_a_put_a_release_and_a_lost_lease_are_told_of(
    connect: Connect, ear: Ear, pages: journal.Journal, clock: ManualClock
) -> None:
    """Whoever made them: another client, the program itself, or time."""
    client = connect()
    listen(client, ear)
    client.put("a")
    assert ear.hear()[1]["due"] == "1"
    lease = pages.claim(lease="10s")
    assert lease is not None
    clock.advance(1000)
    while ear.has_heard(client):
        pass  # about what was due before the claim
    lease.release()
    assert ear.hear()[1]["due"] == "1"
    clock.advance(1000)
    assert pages.claim(lease="10s") is not None
    clock.advance(1000)
    while ear.has_heard(client):
        pass
    clock.advance(10_000)
    assert ear.hear()[1]["due"] == "1"


def test_who_listens_is_told_whatever_becomes_of_what_is_pushed(
    connect: Connect, ear: Ear, pages: journal.Journal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here no lease can be written down: listeners hear of the entry all the same."""
    monkeypatch.setattr(due_notices, "RETRY_S", 0.01)
    client = connect()
    client.call("SUBSCRIBE", "pages", consumer="w", credit=5)
    listen(client, ear)
    pages.put("a", delay="1s")

    def full(*_: object) -> int:
        raise journal.StoreFull("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline_of(pages).log, "append", full)
        clock.advance(1000)
        assert ear.hear()[1]["due"] == "1"
    assert client.pushed()[0][0] == "a"


def test_many_entries_that_fall_due_are_one_datagram(
    connect: Connect, ear: Ear, pages: journal.Journal, clock: ManualClock
) -> None:
    """It says so many or more, and reads no further."""
    client = connect()
    listen(client, ear)
    date = pages.now() + 1000
    pages.put_many([journal.Put(f"k{n}", process_date=date) for n in range(DUE_MAX + 50)])
    assert not ear.has_heard(client)
    clock.advance(1000)
    assert ear.hear()[1]["due"] == str(DUE_MAX)
    assert not ear.has_heard(client)


def test_who_listens_to_all_hears_of_journals_that_are_made_later(
    connect: Connect, ear: Ear, store: journal.Store, pages: journal.Journal, clock: ManualClock
) -> None:
    """Through the daemon, or by the program itself."""
    client = connect()
    listen(client, ear, "*")
    client.call("DECLARE", "mail", settings={})
    client.put("a", journal="mail")
    assert ear.hear()[0] == "mail"
    store.journal("sms").put("b")
    assert ear.hear()[0] == "sms"


def test_who_named_a_journal_hears_of_it_when_it_is_declared_anew(
    connect: Connect, ear: Ear, store: journal.Store, pages: journal.Journal
) -> None:
    """It was dropped in between: the registration is by name, and goes on."""
    client = connect()
    store.journal("mail")
    listen(client, ear, "mail")
    store.drop("mail")
    assert not ear.has_heard(client)
    store.journal("mail").put("a")
    assert ear.hear()[0] == "mail"


def test_nobody_hears_of_journals_that_it_may_not_see(store: journal.Store, pages: journal.Journal, ear: Ear) -> None:
    """Not by name, and not with all."""
    tokens = parse_tokens("backend 9f86d081884c7d659a2feaa0c55ad015 consume pages *\n")
    users = store.journal("users")
    with (
        store.serve(tcp=[("127.0.0.1", 0)], tokens=tokens) as server,
        Wire(server.addresses[1], identity="backend", secret=tokens["backend"].secret) as client,
    ):
        client.welcome()
        with pytest.raises(journal.AccessDenied):
            listen(client, ear, "users")
        listen(client, ear, "*")
        users.put("a")
        assert not ear.has_heard(client)
        pages.put("a")
        assert ear.hear()[0] == "pages"


def test_a_listener_that_is_not_renewed_hears_no_more(
    connect: Connect, ear: Ear, pages: journal.Journal, clock: ManualClock
) -> None:
    """A renewal tells how many datagrams there were, so that losses show."""
    client = connect()
    number = listen(client, ear)["listener"]
    pages.put("a")
    ear.hear()
    clock.advance(LEASE_MS - 1)
    again = client.call("LISTEN", port=ear.port, journals=["pages"], listener=number)
    assert again["sequence"] >= 1
    clock.advance(LEASE_MS)
    while ear.has_heard(client):
        pass  # about what was due before
    pages.put("b")
    assert not ear.has_heard(client)
    with pytest.raises(NotFound, match="LISTEN again"):
        client.call("LISTEN", port=ear.port, journals=["pages"], listener=number)


def test_a_renewal_changes_nothing_else(
    connect: Connect, ear: Ear, store: journal.Store, pages: journal.Journal, clock: ManualClock
) -> None:
    """Another port or other journals are refused, and then the lease is not renewed either."""
    client = connect()
    store.journal("mail")
    number = listen(client, ear, "pages", "mail")["listener"]
    clock.advance(LEASE_MS - 1)
    for port, names in ((ear.port % 65535 + 1, ["pages", "mail"]), (ear.port, ["mail"]), (ear.port, ["pages", "none"])):
        with pytest.raises(journal.Invalid, match="renewal"):
            client.call("LISTEN", port=port, journals=names, listener=number)
    client.call("LISTEN", port=ear.port, journals=["mail", "pages"], listener=number)
    clock.advance(LEASE_MS - 1)
    with pytest.raises(journal.Invalid, match="renewal"):
        client.call("LISTEN", port=ear.port, journals=["*"], listener=number)
    clock.advance(1)
    with pytest.raises(NotFound, match="LISTEN again"):
        client.call("LISTEN", port=ear.port, journals=["mail", "pages"], listener=number)


def test_who_wants_no_more_or_is_gone_costs_nothing(
    server: Server, connect: Connect, ear: Ear, pages: journal.Journal
) -> None:
    """No bell stays behind in the engine."""
    client, other = connect(), connect()
    number = listen(client, ear)["listener"]
    listen(other, ear)
    assert client.call("UNLISTEN", listener=number) is True
    assert client.call("UNLISTEN", listener=number) is False
    assert len(pipeline_of(pages).due.bells) == 1
    other.close()
    while pipeline_of(pages).due.bells:
        client.call("PING")
    pages.put("a")
    assert not ear.has_heard(client)
    assert server.watching.listeners_count == 0


def test_an_idle_daemon_does_not_wake_up(server: Server, connect: Connect, ear: Ear, pages: journal.Journal) -> None:
    """With clients that listen and are subscribed, and entries far in the future."""
    client, other = connect(), connect()
    pages.put("far", delay="1d")
    listen(client, ear)
    other.call("SUBSCRIBE", "pages", consumer="w", credit=5)
    client.call("PING")
    before = client.call("STATUS")["wake_ups"]
    ear.sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        ear.sock.recv(100)
    assert client.call("STATUS")["wake_ups"] - before <= 2


@pytest.mark.parametrize("step", [3_600_000, -3_600_000])
def test_a_step_of_the_clock_is_heard_of(
    connect: Connect, ear: Ear, pages: journal.Journal, clock: ManualClock, step: int
) -> None:
    """What is due by the new date is told at once, also right after something else was; a listener lives as long as it did."""
    client = connect()
    reply = listen(client, ear)
    pages.put("now", process_date=clock.now() - 7_200_000)
    assert ear.hear()[1]["due"] == "1"
    pages.put("later", process_date=clock.now() + 3_600_000)
    clock.step(step)
    clock.advance(1000)
    assert ear.hear()[1]["due"] == ("2" if step > 0 else "1")
    clock.advance(LEASE_MS - 1001)
    assert client.call("LISTEN", listener=reply["listener"], port=ear.port, journals=["pages"])
