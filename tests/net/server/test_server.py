"""The server: requests in order, answers that are as durable as was asked, what takes long, how it stops."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Any

import msgpack
import pytest

import journal
from journal.core.requests.request import Role
from journal.errors import Invalid, KeyExists, NotFound, ReadOnly, Refused, Stopping, StoreFailed
from journal.net.server.runtime.unix_socket import is_answered
from journal.net.server.server import Server
from journal.net.server.verbs import handlers
from journal.net.wire.client_connection import ClientSession
from journal.net.wire.events import Ended
from journal.net.wire.frames import Decoder, Failure
from journal.net.wire.tokens import parse_tokens
from journal.testing import ManualClock
from tests.engine.helpers import Failing
from tests.net.server.asking import pipeline_of
from tests.net.server.conftest import Connect
from tests.net.server.wire import Wire, dial

DATA = msgpack.packb({"uri": "/home"})
TOKENS = parse_tokens(
    "backend 9f86d081884c7d659a2feaa0c55ad015 produce,consume pages backend-*\n"
    "keeper 60303ae22b998861bce3b28f33eec1be admin * -\n"
)
SECRET = TOKENS["backend"].secret


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [0, 1], ids=["unix", "tcp"])
def test_what_is_put_through_a_daemon_is_in_the_store(
    server: Server, connect: Connect, pages: journal.Journal, which: int
) -> None:
    """And what its owner puts can be claimed through the daemon."""
    client = connect(server.addresses[which])
    outcome, cursor, version, *_ = client.call("PUT", "pages", key="/home", data=DATA)
    assert (outcome, cursor, version) == ("inserted", [1, 0], 1)
    entry = pages.get("/home")
    assert entry is not None and entry.data == {"uri": "/home"}
    pages.put("first", 1, priority=1)
    lease = client.call("CLAIM", "pages", consumer="backend-1")["lease"]
    assert (lease[0], lease[1], lease[8]) == ("first", msgpack.packb(1), "backend-1")
    client.call("DONE", "pages", token=lease[5])
    assert pages.get("first") is None


def test_answers_come_in_the_order_of_the_requests(connect: Connect) -> None:
    """Also when a later one could be answered before: it sees what came before it."""
    client = connect()
    first = client.send("PUT", "pages", {"key": "a", "data": DATA})
    second = client.send("GET", "pages", {"key": "a"})
    third = client.send("COUNT", "pages")
    fourth = client.send("CREATE", "pages", {"key": "a", "data": DATA})
    fifth = client.send("DELETE", "pages", {"key": "a"})
    assert client.answer(first)[0] == "inserted"
    assert client.answer(second)[0] == "a"
    assert client.answer(third) == 1
    with pytest.raises(KeyExists):
        client.answer(fourth)
    assert client.answer(fifth) is True


def test_a_request_that_takes_long_holds_up_its_own_connection_alone(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection's next one waits for it; others are served."""
    began, may_end = threading.Event(), threading.Event()

    def count(*_: object) -> int:
        began.set()
        assert may_end.wait(100)
        return 7

    monkeypatch.setitem(handlers.HANDLERS, "COUNT", count)
    slow, other = connect(), connect()
    counting = slow.send("COUNT", "pages")
    assert began.wait(100)
    behind = slow.send("PUT", "pages", {"key": "behind", "data": DATA})
    assert other.put("a")[0] == "inserted"
    assert other.call("GET", "pages", key="behind") is None
    may_end.set()
    assert slow.answer(counting) == 7
    assert slow.answer(behind)[0] == "inserted"


def test_many_clients_share_a_sync(connect: Connect, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes while a sync is under way is applied, and made durable by the next one."""
    clients = [connect() for _ in range(8)]
    under_way, may_end = threading.Event(), threading.Event()
    real = os.fdatasync

    def slowly(fd: int) -> None:
        under_way.set()
        assert may_end.wait(100)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", slowly)
    first = clients[0].send("PUT", "pages", {"key": "0", "data": DATA, "durability": "full"})
    assert under_way.wait(100)
    before = pipeline_of(pages).commit.syncs
    numbers = [
        client.send("PUT", "pages", {"key": str(n), "data": DATA, "durability": "full"})
        for n, client in enumerate(clients[1:], 1)
    ]
    probe = connect()
    assert (
        probe.call("PUT", "pages", key="probe", data=DATA, durability="none")[0] == "inserted"
    )  # all before it are applied
    may_end.set()
    assert clients[0].answer(first)[0] == "inserted"
    assert [client.answer(number)[0] for client, number in zip(clients[1:], numbers, strict=True)] == ["inserted"] * 7
    assert pipeline_of(pages).commit.syncs - before <= 2


def test_nothing_is_acknowledged_after_a_sync_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gets the error that an embedded call would raise."""
    store = journal.open(tmp_path / "s")
    store.journal("pages")
    with store.serve() as server, Wire(server.addresses[0]) as client:
        client.welcome()
        failing = Failing(monkeypatch, "fdatasync", errno.EIO)
        with pytest.raises(StoreFailed):
            client.put("a", durability="full")
        assert failing.calls
        with pytest.raises(StoreFailed):
            client.put("b", durability="full")
        monkeypatch.undo()
    store.close()


def test_an_unforeseen_error_is_logged_and_answered(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without its text, which may be nobody's business; the connection goes on."""

    def broken(*_: object) -> None:
        raise RuntimeError("the secret is 42")

    monkeypatch.setitem(handlers.HANDLERS, "GET", broken)
    client = connect()
    with pytest.raises(journal.RemoteError, match="RuntimeError") as caught:
        client.call("GET", "pages", key="a")
    assert "42" not in str(caught.value)
    assert "the secret is 42" in caplog.text
    assert client.put("a")[0] == "inserted"


def test_an_unknown_journal_is_named_with_those_that_there_are(connect: Connect, store: journal.Store) -> None:
    """And none is made by mistake."""
    with pytest.raises(NotFound, match="pages"):
        connect().put("a", journal="pagse")
    assert store.journals() == ["pages"]


def test_a_client_that_comes_again_asks_again_and_nothing_happens_twice(server: Server, connect: Connect) -> None:
    """The answer that its old connection did not take is given to the new one."""
    session = ClientSession(os.urandom(16))
    old = connect(session=session)
    old.put("a", 1)
    number = old.connection.request("CREATE", "pages", {"key": "b", "data": DATA}, 0)
    old.flush()
    while connect().call("GET", "pages", key="b") is None:  # made, and its answer is on the way to nobody
        pass
    new = connect(session=session)
    assert new.answer(number)[0] == "inserted"
    assert new.call("COUNT", "pages") == 2


# --- lines ------------------------------------------------------------------------------------------------------------


def test_people_with_netcat_are_answered(server: Server) -> None:
    """Control commands as lines, on the same socket."""
    with dial(server.addresses[1]) as sock:
        sock.sendall(b"REGISTER service=me\nALIVE serial=7\nSTATUS\nNO_SUCH\n")
        got = b""
        while got.count(b"\n") < 5:
            got += sock.recv(65536)
    lines = got.decode().splitlines()
    assert [line.split()[1] for line in lines] == ["HELP", "READY", "ABSOLUTELY", "STATUS", "UNKNOWN"]
    assert "status=ready" in lines[3]


# --- who may ----------------------------------------------------------------------------------------------------------


def test_the_stores_socket_is_its_owners_alone(server: Server, store: journal.Store) -> None:
    """0600, and gone when the daemon is."""
    path = Path(server.addresses[0].removeprefix("unix:"))
    assert path.parent == store.path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    server.stop()
    assert server.join(100)
    assert not path.exists()


def test_tokens_decide_over_tcp(store: journal.Store, pages: journal.Journal) -> None:
    """Who proves none gets nothing; who proves one gets what it says."""
    with store.serve(tcp=[("127.0.0.1", 0)], tokens=TOKENS) as server:
        tcp = server.addresses[1]
        with Wire(tcp) as stranger, pytest.raises(journal.AccessDenied):
            stranger.welcome()
        with Wire(tcp, identity="backend", secret=b"x" * 16) as liar, pytest.raises(journal.AccessDenied):
            liar.welcome()
        with Wire(tcp, identity="backend", secret=SECRET) as backend:
            backend.welcome()
            assert backend.put("a")[0] == "inserted"
            with pytest.raises(journal.AccessDenied, match="admin"):
                backend.call("ROTATE", "pages")
            with pytest.raises(journal.AccessDenied, match="journal"):
                backend.put("a", journal="users")
            with pytest.raises(journal.AccessDenied, match="name"):
                backend.call("CLAIM", "pages", consumer="front-1")
        with Wire(server.addresses[0]) as owner:
            assert set(owner.welcome().connection.session.asked) == set()
            assert owner.call("STATUS")["status"] == "ready"


def test_a_reload_ends_connections_of_identities_that_are_gone(
    store: journal.Store, pages: journal.Journal, connect: Connect
) -> None:
    """Others go on, and new ones may come."""
    with store.serve(tcp=[("127.0.0.1", 0)], tokens={"backend": TOKENS["backend"]}) as server:
        backend = connect(server.addresses[1], identity="backend", secret=SECRET)
        owner = connect(server.addresses[0])
        server.reload({"keeper": TOKENS["keeper"]})
        assert isinstance(backend.until(Ended).error, Stopping)
        assert owner.put("a")[0] == "inserted"
        keeper = connect(server.addresses[1], identity="keeper", secret=TOKENS["keeper"].secret)
        assert Role.ADMIN in TOKENS["keeper"].grant.roles
        assert keeper.call("CHECK") == []


def test_a_bind_for_other_machines_needs_a_token_and_tls(store: journal.Store) -> None:
    """Else nothing is started."""
    with pytest.raises(Invalid, match="TLS"):
        store.serve(tcp=[("0.0.0.0", 0)])
    with pytest.raises(Invalid, match="TLS"):
        store.serve(tcp=[("0.0.0.0", 0)], tokens=TOKENS)
    assert not (store.path / "SOCKET").exists()


def test_tcp_without_tokens_is_asked_for_by_name(store: journal.Store, connect: Connect) -> None:
    """Every user of the machine could do everything: nothing is started until the program has said that it wants that."""
    for options in ({}, {"unix": False}, {"unix": store.path / "other"}):
        with pytest.raises(Invalid, match=r"clients cannot be told apart.*trust_loopback=True"):
            store.serve(tcp=[("127.0.0.1", 0)], **options)  # type: ignore[arg-type]
    assert not (store.path / "SOCKET").exists()
    with pytest.raises(Invalid, match="leave it out"):
        store.serve(trust_loopback=True)
    with pytest.raises(Invalid, match="leave it out"):
        store.serve(tcp=[("127.0.0.1", 0)], tokens=TOKENS, trust_loopback=True)
    with pytest.raises(Invalid, match="True or False"):
        store.serve(tcp=[("127.0.0.1", 0)], trust_loopback=1)  # type: ignore[arg-type]
    with store.serve(tcp=[("127.0.0.1", 0)], trust_loopback=True) as server:
        assert connect(server.addresses[1]).call("CHECK") == []


def test_tokens_for_a_server_that_asks_for_none(store: journal.Store, pages: journal.Journal, connect: Connect) -> None:
    """They would keep nobody out, so they are not taken; it goes on as it was."""
    with store.serve(tcp=[("127.0.0.1", 0)], trust_loopback=True) as server:
        with pytest.raises(Invalid, match="start it with tokens"):
            server.reload(TOKENS)
        assert connect(server.addresses[1]).put("a")[0] == "inserted"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tcp": "127.0.0.1:0"}, "list of hosts and ports"),
        ({"tcp": 7070}, "list of hosts and ports"),
        ({"tcp": ["127.0.0.1:0"]}, r"'127\.0\.0\.1:0' in tcp"),
        ({"tcp": [("127.0.0.1",)]}, "a host and a port"),
        ({"limits": 5}, r"journal\.net\.wire\.limits"),
        ({"tokens": "backend:00"}, "read_tokens"),
        ({"tls": "cert.pem"}, "ssl.SSLContext"),
        ({"unix": 7}, "a path"),
        ({"connections_max": 0}, "at least 1"),
    ],
    ids=str,
)
def test_options_that_mean_nothing(store: journal.Store, options: Any, said: str) -> None:
    """Refused with what would do; nothing is started."""
    with pytest.raises(Invalid, match=said):
        store.serve(**{"trust_loopback": "tcp" in options, **options})
    assert not (store.path / "SOCKET").exists()


def test_a_store_that_this_process_serves_already(store: journal.Store) -> None:
    """The error says that it is this one; another socket is possible, and after it has ended the same one."""
    with store.serve() as server:
        with pytest.raises(Refused, match=r"this process serves the store on .*SOCKET already"):
            store.serve()
        with store.serve(unix=store.path / "other") as other:
            assert other.addresses != server.addresses
    with store.serve() as again:
        assert again.addresses == server.addresses


def test_connections_are_limited(store: journal.Store, pages: journal.Journal, connect: Connect) -> None:
    """One too many is closed; when another goes, there is room."""
    with store.serve(connections_max=2) as server:
        first, second = (connect(server.addresses[0]) for _ in range(2))
        with dial(server.addresses[0]) as third:
            decoder = Decoder(4096)
            decoder.feed(third.recv(4096))
            refusal = decoder.next()
            assert isinstance(refusal, Failure) and (refusal.id, refusal.code) == (0, "busy")
            assert third.recv(1) == b""
        first.close()
        second.put("a")
        with Wire(server.addresses[0]) as fourth:
            assert fourth.welcome().put("b")[0] == "inserted"


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_stop_finishes_what_is_in_flight(
    store: journal.Store, pages: journal.Journal, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And takes nothing new."""
    began, may_end = threading.Event(), threading.Event()

    def count(*_: object) -> int:
        began.set()
        assert may_end.wait(100)
        return 7

    monkeypatch.setitem(handlers.HANDLERS, "COUNT", count)
    server = store.serve()
    client = connect(server.addresses[0])
    counting = client.send("COUNT", "pages")
    assert began.wait(100)
    server.stop()
    while is_answered(Path(server.addresses[0].removeprefix("unix:"))):
        pass  # until it has heard of it
    late = client.send("PUT", "pages", {"key": "late", "data": DATA})
    may_end.set()
    assert client.answer(counting) == 7
    with pytest.raises(Stopping):
        client.answer(late)
    assert server.join(100)
    assert pages.get("late") is None


def test_a_stop_ends_in_time_whatever_is_in_flight(
    store: journal.Store, pages: journal.Journal, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who was not answered finds its connection closed."""
    may_end = threading.Event()
    monkeypatch.setitem(handlers.HANDLERS, "COUNT", lambda *_: may_end.wait(20))
    server = store.serve()
    client = connect(server.addresses[0])
    client.send("COUNT", "pages")
    client.send("PING")
    server.stop(0.05)
    with pytest.raises(journal.JournalError):
        client.until(type(None))
    may_end.set()
    assert server.join(100)


def test_closing_the_store_stops_its_daemon(tmp_path: Path, clock: ManualClock, connect: Connect) -> None:
    """In good order: clients are told."""
    store = journal.open(tmp_path / "s", clock=clock)
    store.journal("pages")
    server = store.serve()
    client = connect(server.addresses[0])
    assert client.put("a")[0] == "inserted"
    store.close()
    assert server.join(100)
    assert isinstance(client.until(Ended).error, Stopping)
    with journal.open(tmp_path / "s", clock=clock) as again:
        assert again.journal("pages").get("a") is not None


def test_a_store_that_is_only_looked_at_is_not_served(tmp_path: Path) -> None:
    """Its owner serves it."""
    journal.open(tmp_path / "s").close()
    with journal.open(tmp_path / "s", readonly=True) as look, pytest.raises(ReadOnly):
        look.serve()


def test_a_forked_child_lets_go_of_the_daemon(server: Server, store: journal.Store, connect: Connect) -> None:
    """It can close its copy of the store, and the parent goes on serving."""
    client = connect()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            store.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert client.put("a")[0] == "inserted"
    assert connect().put("b")[0] == "inserted"


def test_the_log_tells_why_a_connection_ended_to_the_end(
    server: Server, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """Once quoted, by who writes the line; what to do stands at the end of a reason."""
    caplog.set_level("WARNING", "journal.daemon")
    with dial(server.addresses[0]) as peer:
        peer.sendall(b"\0\xff\xff\xff")
        failure = Decoder(4096)
        failure.feed(peer.recv(4096))
        said = failure.next()
        assert isinstance(said, Failure) and len(said.message) > 60
        assert peer.recv(1) == b""
    connect().put("a")  # it is logged by now
    (record,) = [record for record in caplog.records if record.msg.startswith("peer_ended")]
    assert record.args is not None and tuple(record.args)[1] == said.message
