"""What nobody has waited for to its end is undone: a claim whose time was over is given back."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.net.client.connect import connect
from journal.net.client.connection.call import Call
from journal.net.client.connection.link import Link
from journal.net.client.connection.options import Backoff
from journal.net.wire.events import Requested
from tests.net.client.daemon import LATER, TinyDaemon, now
from tests.net.client.small import Small

WAIT_S = 100.0
QUICK = Backoff(first="1ms", most="10ms", total="60s")


class Slow:
    """Claims, or whatever is named, are answered when the test says so; it hears of what was released."""

    def __init__(self, small: Small, *names: str) -> None:
        self.small = small
        self.names = set(names or ("CLAIM", "CLAIM_MANY", "CLAIM_KEY"))
        self.held: list[Requested] = []
        self.came = threading.Semaphore(0)
        self.released = threading.Semaphore(0)

    def __call__(self, asked: Requested) -> Any:
        name = asked.command.name
        if name in self.names:
            self.held.append(asked)
            self.came.release()
            return LATER
        try:
            return self.small(asked)
        finally:
            if name == "RELEASE":
                self.released.release()

    def answer(self, tiny: TinyDaemon, *names: str) -> None:
        """Answer what was held, on whatever connection it came; its session passes it on. `names` are held from now on."""

        def run() -> None:
            self.names = set(names)
            held, self.held = self.held, []
            for asked in held:
                for state in [*tiny.gone, *(peer.state for peer in tiny.peers.values())]:
                    if asked.id in state._asked:
                        state.reply(asked.id, self.small(asked), now())
                        break

        tiny.do(run)


def names(tiny: TinyDaemon) -> list[str]:
    return [asked.command.name for asked in tiny.asked]


@pytest.mark.parametrize("verb", ["claim", "claim_many"])
def test_a_claim_that_timed_out_is_given_back(tmp_path: Path, small: Small, verb: str) -> None:
    """Although the program asks nothing more, and the connection it was asked on is gone; it was made once."""
    slow = Slow(small)
    small.entries |= {"a": {"data": b"\xc0"}, "b": {"data": b"\xc0"}}
    with TinyDaemon(tmp_path / "s", slow) as tiny, connect(tiny.address, backoff=QUICK) as store:
        pages = store.journal("pages").within("30ms")
        with pytest.raises(journal.TimedOut, match="whether it is done is unknown"):
            _ = pages.claim(lease="1h") if verb == "claim" else pages.claim_many(2, lease="1h")
        slow.answer(tiny)
        for _ in range(1 if verb == "claim" else 2):
            assert slow.released.acquire(timeout=WAIT_S)
        assert small.leases == {} and len(small.entries) == 2
        assert names(tiny).count(verb.upper()) == 1


def test_other_calls_go_on(tmp_path: Path, small: Small) -> None:
    """Those that waited behind it are answered, and what was claimed for nobody is there for the next one."""
    slow = Slow(small)
    small.entries["a"] = {"data": b"\xc0"}
    with TinyDaemon(tmp_path / "s", slow) as tiny, connect(tiny.address, backoff=QUICK) as store:
        pages = store.journal("pages")
        with pytest.raises(journal.TimedOut):
            pages.within("30ms").claim()
        slow.answer(tiny)
        assert pages.put("b", 1).outcome == "inserted"
        assert slow.released.acquire(timeout=WAIT_S)
        lease = pages.claim()
        assert lease is not None and lease.key == "a"


def test_a_claim_that_came_to_nothing_needs_no_undoing(tmp_path: Path, small: Small) -> None:
    """Nothing is released, and the thread that saw to it ends."""
    slow = Slow(small)
    with TinyDaemon(tmp_path / "s", slow) as tiny, connect(tiny.address, backoff=QUICK) as store:
        pages = store.journal("pages")
        with pytest.raises(journal.TimedOut):
            pages.within("30ms").claim()
        settling = store._backend.link._settling
        assert settling is not None
        slow.answer(tiny)
        settling[1].join(WAIT_S)
        assert not settling[1].is_alive() and store._backend.link._settling is None
        assert pages.get("a") is None and "RELEASE" not in names(tiny)


def test_a_claim_that_was_never_sent_is_not_made(tmp_path: Path, small: Small) -> None:
    """Its time was over before there was a daemon."""
    first = TinyDaemon(tmp_path / "s", small, epoch=1)
    small.entries["a"] = {"data": b"\xc0"}
    with connect(first.address, backoff=QUICK) as store:
        pages = store.journal("pages")
        first.stop()
        with pytest.raises(journal.TimedOut):
            pages.within("30ms").get("a")  # that is how the client learns of it
        with pytest.raises(journal.TimedOut, match="never sent"):
            pages.within("30ms").claim()
        with TinyDaemon(tmp_path / "s", small, epoch=1) as second:
            assert pages.get("a") is not None
            assert names(second) == ["GET"] and store._backend.link._settling is None


def test_a_restarted_daemon_is_not_asked_for_a_claim_that_it_does_not_know(tmp_path: Path, small: Small) -> None:
    """A second claim would take another entry; what the first one took comes back when its lease ends."""
    slow = Slow(small)
    small.entries["a"] = {"data": b"\xc0"}
    first = TinyDaemon(tmp_path / "s", slow, epoch=1)
    with connect(first.address, backoff=QUICK) as store:
        pages = store.journal("pages")
        with pytest.raises(journal.TimedOut):
            pages.within("30ms").claim()
        first.stop()
        with TinyDaemon(tmp_path / "s", small, epoch=2) as second:
            assert pages.get("a") is not None
            assert "CLAIM" not in names(second)
            assert small.leases == {}


def test_a_daemon_that_stays_away_for_long_is_asked_when_it_is_back(tmp_path: Path, small: Small) -> None:
    """Also after the client has given up on it: the next connection begins with what is to be undone."""
    slow = Slow(small)
    small.entries["a"] = {"data": b"\xc0"}
    brief = Backoff(first="1ms", most="5ms", total="20ms")
    with TinyDaemon(tmp_path / "s", slow) as tiny, connect(tiny.address, backoff=brief) as store:
        pages = store.journal("pages")
        away = tmp_path / "away"
        asked = threading.Thread(target=lambda: slow.came.acquire(timeout=WAIT_S) and (tmp_path / "s").rename(away))
        asked.start()
        with pytest.raises(journal.TimedOut):
            pages.within("200ms").claim()
        asked.join(WAIT_S)
        with pytest.raises(journal.ConnectionLost):
            pages.get("a")
        assert store._backend.link._settling is None
        slow.answer(tiny)
        away.rename(tmp_path / "s")
        assert pages.get("a") is not None
        assert slow.released.acquire(timeout=WAIT_S) and small.leases == {}


def test_what_a_stopping_daemon_did_not_give_back_its_successor_does(tmp_path: Path, small: Small) -> None:
    """A lease outlives its daemon, so giving it back does too: it is refused by the one, and asked of the other."""
    slow = Slow(small)
    small.entries["a"] = {"data": b"\xc0"}
    refused = threading.Event()

    def answers(asked: Requested) -> Any:
        if asked.command.name == "RELEASE":
            refused.set()
            raise journal.Stopping("the daemon takes nothing new: connect again")
        return slow(asked)

    first = TinyDaemon(tmp_path / "s", answers, epoch=1)
    with connect(first.address, backoff=QUICK) as store:
        pages = store.journal("pages")
        with pytest.raises(journal.TimedOut):
            pages.within("30ms").claim()
        slow.answer(first)
        assert refused.wait(WAIT_S) and len(small.leases) == 1
        first.stop()
        with TinyDaemon(tmp_path / "s", slow, epoch=2) as second:
            assert slow.released.acquire(timeout=WAIT_S)
            assert small.leases == {} and names(second) == ["RELEASE"]


def test_giving_back_is_repeated_when_nobody_knows_whether_it_was_done(tmp_path: Path, small: Small) -> None:
    """The daemon was killed under it: with the token that is harmless."""
    slow = Slow(small, "CLAIM", "RELEASE")
    small.entries["a"] = {"data": b"\xc0"}
    first = TinyDaemon(tmp_path / "s", slow, epoch=1)
    with connect(first.address, backoff=QUICK) as store:
        pages = store.journal("pages")
        with pytest.raises(journal.TimedOut):
            pages.within("30ms").claim()
        assert slow.came.acquire(timeout=WAIT_S)
        slow.answer(first, "RELEASE")
        assert slow.came.acquire(timeout=WAIT_S) and len(small.leases) == 1
        first.stop()
        slow.names.clear()
        with TinyDaemon(tmp_path / "s", slow, epoch=2):
            assert slow.released.acquire(timeout=WAIT_S)
            assert small.leases == {}


def test_closing_lets_what_is_being_undone_come_to_its_end(tmp_path: Path, small: Small) -> None:
    """The usual end of a program whose claim timed out: its block ends at once."""
    slow = Slow(small)
    small.entries["a"] = {"data": b"\xc0"}
    with TinyDaemon(tmp_path / "s", slow) as tiny:
        with connect(tiny.address, backoff=QUICK) as store:
            with pytest.raises(journal.TimedOut):
                store.journal("pages").within("30ms").claim(lease="1h")
            slow.answer(tiny)
        assert small.leases == {} and "RELEASE" in names(tiny)


def test_closing_does_not_wait_for_a_daemon_that_hangs(
    tmp_path: Path, small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the claim may have taken comes back when its lease ends."""
    monkeypatch.setattr("journal.net.client.connection.link.SETTLE_S", 0.05)
    slow = Slow(small)
    with TinyDaemon(tmp_path / "s", slow) as tiny:
        store = connect(tiny.address, backoff=QUICK)
        with pytest.raises(journal.TimedOut):
            store.journal("pages").within("30ms").claim()
        settling = store._backend.link._settling
        assert settling is not None
        store.close()
        settling[1].join(WAIT_S)
        assert not settling[1].is_alive()


def test_the_real_daemon_gives_back_what_nobody_waited_for(store: journal.Store, pages: journal.Journal) -> None:
    """From end to end; it is held up, as by a disk that does not answer."""
    pages.put("a", 1)
    with store.serve() as server, connect(store.path, backoff=QUICK) as far:
        holding, go_on = threading.Event(), threading.Event()
        far_pages = far.journal("pages").within("30ms")

        def hold() -> None:
            holding.set()
            go_on.wait(WAIT_S)

        server.loop.call(hold)
        assert holding.wait(WAIT_S)
        with pytest.raises(journal.TimedOut):
            far_pages.claim(consumer="c", lease="1h")
        settling = far._backend.link._settling
        assert settling is not None
        go_on.set()
        settling[1].join(WAIT_S)
        assert pages.leases() == [] and pages.count(status="waiting") == 1


def test_a_part_of_many_claims_that_fails_leaves_the_others(
    remote: journal.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first parts have claimed is handed out: lost, it would be held for as long as its leases last."""
    pages = remote.journal("pages")
    rows = [["k", b"\xc0", 100, 0, 1, token, 0, 2, "c", 0, None, 0, 0] for token in range(16_384)]
    answers: list[Any] = [{"leases": rows, "next_due": None}]
    wanted: list[int] = []

    def ask(link: Link, call: Call, timeout_ms: int | None) -> Any:
        wanted.append(call.parameters["n"])
        if not answers:
            raise journal.TimedOut("CLAIM_MANY was not answered in time")
        return answers.pop()

    monkeypatch.setattr(Link, "ask", ask)
    assert len(pages.claim_many(20_000)) == 16_384 and wanted == [16_384, 20_000 - 16_384]
    with pytest.raises(journal.TimedOut):
        pages.claim_many(20_000)
