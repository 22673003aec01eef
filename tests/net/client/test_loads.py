"""Loads through the daemon: the same rows, the same results, and nothing twice when an answer was lost."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import msgpack
import pytest

import journal
from journal.core.loads import session
from journal.engine.feed import feed as engine_feed
from journal.engine.files.layout import LOADS
from journal.loads import PartWriter, encode_block
from journal.net.client.connect import connect
from journal.net.server.server import Server
from journal.net.server.verbs import handlers
from tests.engine.loads.blocks import block, counts, many, shown
from tests.net.client.test_feed import cut
from tests.net.server.wire import Wire


def left(store: journal.Store) -> list[Path]:
    """What lies in the store of loads."""
    return sorted((store.path / LOADS).rglob("*"))


@pytest.mark.parametrize("on_conflict", ["merge", "replace", "skip"])
def test_a_load_is_that_of_the_library(
    store: journal.Store, far_pages: journal.Journal, pages: journal.Journal, on_conflict: str, tmp_path: Path
) -> None:
    """Blocks and part files, with every outcome, rejected rows and a number."""
    near = store.journal("near")
    with PartWriter(tmp_path / "part") as part:
        part.write(many(1500, 10))
        part.write(block(("x", 1), ("", 1)))
    parts: list[Any] = [many(5), tmp_path / "part", str(tmp_path / "part")]
    for journal_ in (near, pages):
        journal_.put("k3", "there")
        journal_.put("held", priority=0)
        assert journal_.claim() is not None
    options: dict[str, Any] = {"on_conflict": on_conflict, "on_reject": "list", "once": ("n", 1)}
    wanted = near.load(parts, **options)
    loaded = far_pages.load(parts, **options)
    assert loaded == wanted
    assert [each[:2] for each in loaded.rejected] == [(1, 1501), (2, 1501)]
    assert shown(pages) == shown(near)
    assert left(store) == []
    assert far_pages.load(parts, **options) == near.load(parts, **options)
    assert far_pages.load([many(1)], once=("n", 1)).is_repeated


def test_parts_come_over_many_connections(
    server: Server,
    store: journal.Store,
    far_pages: journal.Journal,
    pages: journal.Journal,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The id is all that others need; what was not named, and what was given up, is forgotten."""
    monkeypatch.setattr("journal.net.client.backend.PIECE_BYTES", 200)
    load = far_pages.load_begin()
    number = pickle.loads(pickle.dumps(load.id))
    for task, address in enumerate(server.addresses):
        with connect(address) as other, other.journal("pages").load_part(number, f"task-{task}") as part:
            part.write(many(100, 100 * task))
            part.write(many(100, 1000 + 100 * task))
        assert part.close()[0] == 200
    load.part("failed").write(many(500, 5000))
    loaded = load.commit([f"task-{task}" for task in range(len(server.addresses))], on_conflict="error")
    assert counts(loaded) == {"inserted": 200 * len(server.addresses)} and pages.count() == loaded.inserted
    assert left(store) == []
    assert far_pages.load_commit(load.id, ["task-0"]) == loaded
    with far_pages.load_begin() as given_up:
        given_up.part("x").close()
    assert (far_pages.load_abort(given_up.id), left(store)) == (False, [])
    with pytest.raises(journal.NotFound):
        far_pages.load_part(given_up.id, "y")
    with pytest.raises(journal.Invalid):
        far_pages.load_part("x", "y")


def test_an_entry_that_fits_no_piece(server: Server, store: journal.Store, far: journal.Store) -> None:
    """A block may be larger than a frame; data that could not be handed out in one is a wrong row."""
    pages = far.journal("large", entry_bytes_max=1 << 22)
    data = [msgpack.packb(bytes(500_000)) for _ in range(5)]
    block_ = encode_block([(f"k{i}", each) for i, each in enumerate(data)])
    assert len(block_) > 2 << 20
    assert pages.load([block_]).inserted == 5
    too_large = encode_block([("x", msgpack.packb(bytes(2 << 20)))])
    with pytest.raises(journal.Invalid, match="handed out in a frame"):
        pages.load([too_large])
    assert store.journal("large").load([too_large]).inserted == 1


def test_a_lost_answer_of_a_commit(
    server: Server, store: journal.Store, far: journal.Store, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks while the commit is made: the client asks again, and the load is made once."""
    far_pages = far.journal("pages")
    load = far_pages.load_begin()
    with load.part("x") as part:
        part.write(many(20))
    real = handlers.HANDLERS["LOAD_COMMIT"]
    broken: list[int] = []

    def breaking(*asked: Any) -> Any:
        made = real(*asked)
        if not broken:
            broken.append(1)
            cut(server)
        return made

    monkeypatch.setitem(handlers.HANDLERS, "LOAD_COMMIT", breaking)
    loaded = load.commit(["x"], on_conflict="error", once=("n", 1))
    assert broken and counts(loaded) == {"inserted": 20}
    assert pages.count() == 20
    assert far_pages.load_commit(load.id, ["x"], once=("n", 1)) == loaded


def test_a_restarted_daemon_knows_the_number(tmp_path: Path) -> None:
    """What was staged is gone with the daemon; a load with a number is known all the same."""
    with journal.open(tmp_path / "s") as store:
        store.journal("pages")
        with store.serve(), connect(store.path) as far:
            pages = far.journal("pages")
            done, staged_ = pages.load_begin(), pages.load_begin()
            for load in (done, staged_):
                with load.part("x") as part:
                    part.write(many(7))
            first = done.commit(["x"], once=("n", 1))
    with journal.open(tmp_path / "s") as store, store.serve(), connect(store.path) as far:
        pages = far.journal("pages")
        again = pages.load_commit(done.id, ["x"], once=("n", 1))
        assert (again.is_repeated, again.cursor) == (True, first.cursor)
        with pytest.raises(journal.NotFound, match="begin another one"):
            pages.load_commit(done.id, ["x"])
        with pytest.raises(journal.NotFound):
            pages.load_part(staged_.id, "y")
        assert pages.count() == 7


def test_a_piece_that_is_sent_twice_is_one(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """As a client does whose connection broke."""
    load = far_pages.load_begin()
    part = far_pages.load_part(load.id, "x")
    part.write(many(9))
    real = part._send

    def twice(at: int, piece: bytes) -> None:
        real(at, piece)
        real(at, piece)

    part._send = twice
    assert part.close()[0] == 9
    assert load.commit(["x"]).inserted == 9


def test_a_part_is_written_in_pieces(far_pages: journal.Journal) -> None:
    """No piece is larger than what a frame holds."""
    load = far_pages.load_begin()
    part = load.part("x")
    sizes: list[int] = []
    real = part._send

    def seen(at: int, piece: bytes) -> None:
        sizes.append(len(piece))
        real(at, piece)

    part._send = seen
    for start in range(0, 60_000, 5000):
        part.write(many(5000, start))
    part.close()
    assert max(sizes) == session.PIECE_BYTES and len(sizes) > 1
    assert load.commit(["x"]).inserted == 60_000


def test_feeds_bring_what_was_loaded(
    server: Server, far_pages: journal.Journal, pages: journal.Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pushed or asked for, while a worker's thread reads the record of the load."""
    monkeypatch.setattr(engine_feed, "LARGE_BYTES", 300_000)
    with far_pages.feed(live=True) as live:
        far_pages.put("a")
        assert next(live).key == "a"
        far_pages.load([many(4000)], once=("n", 1))
        far_pages.put("z")
        keys = [next(live).key for _ in range(4001)]
    assert {*keys[:-1]} == {f"k{i}" for i in range(4000)} and keys[-1] == "z"
    with far_pages.feed(live=False) as feed:
        assert [event.key for event in feed] == ["a", *keys]
    with Wire(server.addresses[0]) as wire:
        wire.welcome()
        number = wire.call("FEED_OPEN", "pages", live=False)["subscription"]
        found: list[Any] = []
        is_end = False
        while not is_end:
            reply = wire.call("FEED_NEXT", "pages", subscription=number, n=1000)
            found += reply["events"]
            is_end = reply["is_end"]
    assert len(found) == 4002
