"""Snapshots and changes through the real daemon: what an embedded journal shows, in parts that connect by themselves."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import journal
from journal.core.entry.keys import PRIMARY_BYTES
from journal.core.entry.rows import decode_entry, decode_lease
from journal.core.requests.request import Role
from journal.core.requests.snapshot import SnapshotCloseRequest, SnapshotReadRequest
from journal.errors import FrameError
from journal.net.client.connect import connect
from journal.net.client.snapshot import RemoteSnapshotPart
from journal.net.server import snapshots
from journal.net.server.server import Server
from journal.net.server.verbs import changes
from journal.net.wire.auth import Grant
from journal.net.wire.tokens import Token
from journal.net.wire.values import block_from, block_to
from tests.net.server.serving import serving

WAIT_S = 100.0


def rows_of(parts: Iterable[Any]) -> list[tuple[bytes, bytes]]:
    return [row for part in parts for block in part.read() for row in zip(block.primaries, block.values, strict=True)]


def on_loop(server: Server, function: Callable[[], None]) -> None:
    """Have the daemon's thread do something, and wait until it has."""
    done = threading.Event()
    server.loop.call(function)
    server.loop.call(done.set)
    assert done.wait(WAIT_S)


def rooms(store: journal.Store) -> list[Path]:
    top = store.path / "_snapshots"
    return list(top.iterdir()) if top.exists() else []


def fill(pages: journal.Journal) -> None:
    pages.put_many([journal.Put(f"old{n}", bytes(2000), priority=n % 7) for n in range(500)])
    pages.rotate()
    pages.put_many([journal.Put(f"k{n}", bytes(2000), priority=n % 7) for n in range(1000)])
    pages.claim_many(20, consumer="c")


# -- snapshots ----------------------------------------------------------------------------------------------------------


def test_it_shows_what_an_embedded_one_shows(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """The same rows, leases, numbers and limits, over several frames."""
    fill(pages)
    with far_pages.snapshot(directory="is the daemon's business") as far, pages.snapshot() as near:
        assert (far.name, far.cursor, far.taken, far.size, far.schema) == (
            near.name, near.cursor, near.taken, near.size, near.schema,
        )  # fmt: skip
        assert "1500 entries" in repr(far)
        for limits in ({}, {"priorities": [2, 3]}, {"until": near.taken}, {"since": near.taken, "priorities": {5}}):
            for count in (1, 5):
                there, here = far.parts(count, **limits), near.parts(count, **limits)
                assert [part.ranges for part in there] == [part.ranges for part in here]
                assert rows_of(there) == rows_of(here)
        leases = [
            decode_lease(block.primaries[at], value).consumer
            for part in far.parts(2)
            for block in part.read()
            for at, value in block.leases.items()
        ]
        assert leases == ["c"] * 20
        assert len([block for part in far.parts(1) for block in part.read()]) > 2  # a frame holds no more


def test_closing_removes_the_copy(far_pages: journal.Journal, store: journal.Store) -> None:
    """Its parts are gone then, and say so; closing twice is fine, and so is closing after the connection's end."""
    far_pages.put("a")
    shot = far_pages.snapshot()
    (part,) = shot.parts(1)
    assert len(rooms(store)) == 1
    shot.close()
    shot.close()
    assert rooms(store) == []
    with pytest.raises(journal.NotFound, match="closed"):
        list(part.read())
    with pytest.raises(journal.NotFound, match="closed"):
        shot.parts(1)
    with connect(store.path) as other:
        late = other.journal("pages").snapshot()
    late.close()
    assert len(rooms(store)) == 1


READ = """
import pickle, sys
found = [row for part in pickle.load(sys.stdin.buffer) for block in part.read() for row in zip(block.primaries, block.values)]
sys.stdout.buffer.write(pickle.dumps(found))
"""


def test_another_process_reads_a_part(store: journal.Store, pages: journal.Journal) -> None:
    """It connects by itself, as who took the snapshot; the secret is not shown."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(100)])
    tokens = {"reader": Token(bytes(range(32)), Grant("reader", frozenset({Role.CONSUME}), ("pages",)))}
    with (
        store.serve(unix=False, tcp=[("127.0.0.1", 0)], tokens=tokens) as server,
        connect(server.addresses[0], identity="reader", secret=bytes(range(32))) as far,
        far.journal("pages").snapshot() as shot,
    ):
        parts = shot.parts(3)
        assert len(parts) == 3 and all(len(pickle.dumps(part)) < 1000 for part in parts)
        assert "reader" in repr(parts[0]) and "secret" not in repr(parts[0])
        assert pickle.loads(pickle.dumps(parts)) == parts
        done = subprocess.run([sys.executable, "-c", READ], input=pickle.dumps(parts), capture_output=True, check=True)
        with pages.snapshot() as near:
            assert pickle.loads(done.stdout) == rows_of(near.parts(1)) == rows_of(parts)


def test_reading_goes_on_after_a_broken_connection(
    server: Server, far_pages: journal.Journal, pages: journal.Journal
) -> None:
    """Where it was: nothing is missing, nothing comes twice."""
    fill(pages)
    with far_pages.snapshot() as shot, pages.snapshot() as near:
        (part,) = shot.parts(1)
        found = []
        for block in part.read():
            found += list(zip(block.primaries, block.values, strict=True))
            on_loop(server, lambda: [peer.close() for peer in list(server.hub.peers.values())] and None)
        assert found == rows_of(near.parts(1))


def test_a_forked_child_reads_over_a_connection_of_its_own(far_pages: journal.Journal) -> None:
    """As a worker of a pool does."""
    far_pages.put_many([journal.Put(f"k{n}", n) for n in range(50)])
    with far_pages.snapshot() as shot:
        (part,) = shot.parts(1)
        assert len(rows_of([part])) == 50
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                code = 0 if len(rows_of([part])) == 50 else 2
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert len(rows_of([part])) == 50


def test_what_nobody_reads_goes(server: Server, far_pages: journal.Journal, store: journal.Store) -> None:
    """After a time; each read begins it anew (snapshots S1)."""
    far_pages.put("a")
    left, used = far_pages.snapshot(), far_pages.snapshot()
    (part,), (other,) = left.parts(1), used.parts(1)
    kept = server.snapshotting._kept
    at = kept[left._number].used_at + snapshots.LEASE_S
    kept[used._number].used_at += 1
    on_loop(server, partial(server.snapshotting.expire, at))
    with pytest.raises(journal.NotFound, match="it was not read for 5 minutes"):
        list(part.read())
    assert len(rows_of([other])) == 1 and server.snapshotting.count == 1
    left.close()
    used.close()
    assert kept == {}


def test_they_are_limited(
    server: Server, far_pages: journal.Journal, store: journal.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Busy, until one is closed (snapshots S2)."""
    monkeypatch.setattr(snapshots, "SNAPSHOTS_MAX", 2)
    with far_pages.snapshot(), far_pages.snapshot():
        with pytest.raises(journal.Busy):
            far_pages.snapshot()
        assert len(rooms(store)) == 2
    with far_pages.snapshot():
        assert len(rooms(store)) == 1


def test_a_snapshot_is_its_journals(far: journal.Store, far_pages: journal.Journal) -> None:
    """Under another journal's name it is not there, and an identity that may only produce takes none (snapshots S3)."""
    far_pages.put("a")
    far.journal("other")
    with far_pages.snapshot() as shot:
        (part,) = shot.parts(1)
        stolen = RemoteSnapshotPart(part.address, "other", part.snapshot, part.ranges)
        with pytest.raises(journal.NotFound):
            list(stolen.read())
        far.journal("other")._backend.call(SnapshotCloseRequest(snapshot=part.snapshot))
        assert len(rows_of([part])) == 1


def test_ranges_that_are_none_are_refused(far: journal.Store, far_pages: journal.Journal) -> None:
    """Whatever a client asks for."""
    far_pages.put("a")
    with far_pages.snapshot() as shot:
        for ranges in ([(b"b", b"a")], [(b"", b"\xff" * 99)], [(b"a", b"c"), (b"b", b"d")]):
            with pytest.raises(journal.Invalid):
                far_pages._backend.call(SnapshotReadRequest(snapshot=shot._number, ranges=ranges))
        with pytest.raises(journal.NotFound):
            far_pages._backend.call(SnapshotReadRequest(snapshot="0" * 32, ranges=[(b"a", b"b")]))
        assert far_pages._backend.call(SnapshotReadRequest(snapshot=shot._number, ranges=[])).values == []


def test_a_producer_takes_none(store: journal.Store, pages: journal.Journal) -> None:
    """It reads only what it may (daemon.reading R1), and a copy has all."""
    tokens = {"p": Token(bytes(32), Grant("p", frozenset({Role.PRODUCE})))}
    with (
        store.serve(unix=False, tcp=[("127.0.0.1", 0)], tokens=tokens) as server,
        connect(server.addresses[0], identity="p", secret=bytes(32)) as far,
        pytest.raises(journal.AccessDenied),
    ):
        far.journal("pages").snapshot()


def test_an_entry_that_fits_into_no_frame_is_named(far_pages: journal.Journal, pages: journal.Journal) -> None:
    """As in a scan."""
    pages.put("small", 1, priority=1)
    pages.put("huge", bytes((1 << 20) - 100))
    with far_pages.snapshot() as shot:
        (part,) = shot.parts(1)
        blocks = part.read()
        assert len(next(blocks).values) == 1
        with pytest.raises(journal.Invalid, match="huge"):
            next(blocks)


def test_the_daemons_end_removes_copies(tmp_path: Path) -> None:
    """Stopped in a program that goes on with the store."""
    with journal.open(tmp_path / "s") as store:
        store.journal("pages").put("a")
        with store.serve(), connect(store.path) as far:
            far.journal("pages").snapshot()
            assert len(rooms(store)) == 1
        assert rooms(store) == []
        store.journal("pages").put("b")


def test_a_killed_daemon_leaves_nothing(tmp_path: Path) -> None:
    """The next opening of the store removes its copies."""
    with serving(tmp_path / "s") as daemon, connect(tmp_path / "s") as far:
        far.journal("pages").put("a")
        shot = far.journal("pages").snapshot()
        assert shot.size == 1 and list((tmp_path / "s" / "_snapshots").iterdir())
        daemon.kill()
    with journal.open(tmp_path / "s") as store:
        assert rooms(store) == [] and store.check() == []


def test_a_dropped_journals_snapshot_is_gone(
    far: journal.Store, far_pages: journal.Journal, store: journal.Store
) -> None:
    """With all that was in it."""
    far_pages.put("a")
    shot = far_pages.snapshot()
    (part,) = shot.parts(1)
    if store.journal("pages").settings.merged:
        pytest.skip("merged journals share what is copied")
    far.drop("pages")
    with pytest.raises(journal.NotFound):
        list(part.read())
    shot.close()


@pytest.mark.parametrize(
    "wire",
    [None, [], [b"", []], [b"x", [b"v"], []], [bytes(PRIMARY_BYTES), ["v"], []], [bytes(PRIMARY_BYTES), [b"v"], [[1, b"l"]]],
     [bytes(PRIMARY_BYTES), [b"v"], [[0]]], [bytes(PRIMARY_BYTES), [b"v"], None], [bytes(2 * PRIMARY_BYTES), [b"v"], []]],
)  # fmt: skip
def test_a_block_that_is_none_is_an_error(wire: Any) -> None:
    """Whatever comes over the wire."""
    with pytest.raises(FrameError):
        block_from(wire)


def test_a_block_goes_there_and_back() -> None:
    """Unchanged."""
    block = journal.Block([bytes(PRIMARY_BYTES), b"x" * PRIMARY_BYTES], [b"one", b"two"], {1: b"lease"})
    assert block_from(block_to(block)) == block


# -- changes ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of seven changes."""
    monkeypatch.setattr(changes, "LIST_MAX", 7)


def test_changes_are_those_of_the_library(
    far_pages: journal.Journal, pages: journal.Journal, small_parts: None
) -> None:
    """In as many parts as it takes, over generations, twice the same."""
    far_pages.feed(consumer="keeps", live=False).close()
    pages.put_many([journal.Put(f"k{n}", {"n": n}) for n in range(30)])
    pages.rotate()
    for lease in pages.claim_many(5):
        lease.done()
    start, end = far_pages.oldest_cursor, far_pages.durable_cursor
    assert start == pages.oldest_cursor == journal.Cursor(1, -1)
    for _ in range(2):
        assert list(far_pages.changes(start, end)) == list(pages.changes(start, end))
    middle = far_pages.shift(start, 11)
    found = [*far_pages.changes(start, middle), *far_pages.changes(middle, end)]
    assert [event.data for event in found] == [event.data for event in pages.changes(start, end)]
    assert list(far_pages.changes(end, end)) == []


def test_changes_with_a_schema_are_filled(far: journal.Store) -> None:
    """As those of a feed."""
    pages = far.journal("typed", schema=journal.Schema([journal.Field("a", "int"), journal.Field("b", "int")]))
    pages.put("x", {"a": 1})
    (event,) = pages.changes(pages.oldest_cursor, pages.durable_cursor)
    assert event.data == {"a": 1, "b": None}


def test_cursors_that_are_no_place(far_pages: journal.Journal) -> None:
    """The library's errors, when it is called."""
    far_pages.put("a")
    with pytest.raises(journal.CursorUnavailable):
        far_pages.changes(journal.Cursor(1, -1), journal.Cursor(1, 7))
    with pytest.raises(journal.Invalid, match="earlier cursor first"):
        far_pages.changes(journal.Cursor(1, 0), journal.Cursor(1, -1))
    with pytest.raises(journal.Invalid):
        far_pages.changes("BEGIN", journal.Cursor(1, 0))  # type: ignore[arg-type]


def test_many_half_read_ones(far_pages: journal.Journal, pages: journal.Journal, small_parts: None) -> None:
    """Those that the daemon has forgotten go on all the same (changes W2)."""
    pages.put_many([journal.Put(f"k{n}", n) for n in range(60)])
    ends = [journal.Cursor(1, 20 + n) for n in range(2 * changes.GIVEN_MAX)]
    reads = [far_pages.changes(journal.Cursor(1, -1), end) for end in ends]
    for each in reads:
        next(each)
    assert len(pages._backend.given) == changes.GIVEN_MAX
    for each, end in zip(reads, ends, strict=True):
        assert [event.cursor.offset for event in each] == list(range(1, end.offset + 1))


def test_changes_of_all_merged_journals(far: journal.Store, small_parts: None) -> None:
    """And of one of them."""
    one, two = far.journal("one", merged=True), far.journal("two", merged=True)
    for n in range(20):
        one.put(f"a{n}")
        two.put(f"b{n}")
    merged = far.merged()
    start, end = merged.oldest_cursor, one.durable_cursor
    assert len(list(merged.changes(start, end))) == 40
    assert [event.key for event in two.changes(start, end)] == [f"b{n}" for n in range(20)]
    with one.snapshot() as shot:
        assert {decode_entry(*row).key for row in rows_of(shot.parts(2))} == {f"a{n}" for n in range(20)}
