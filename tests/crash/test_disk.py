"""The simulated disk keeps what was synced, may lose what was not, and tells good programs from bad ones."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.crash import appendlog, strace, trace
from tests.crash import events as ev
from tests.crash.cuts import cuts
from tests.crash.disk import Disk
from tests.crash.pages import PAGE, SECTOR
from tests.crash.states import Content, State, enumerate_states

ROOT = "/r"


def disk_after(*events: ev.Event) -> Disk:
    disk = Disk(ROOT)
    for event in events:
        disk.apply(event)
    return disk


def states(*events: ev.Event, limit: int = 1000) -> list[State]:
    return list(enumerate_states(disk_after(*events), random.Random(1), limit))


def opened(handle: int, path: str, dsync: bool = False) -> ev.Opened:
    return ev.Opened(handle, path, creates=True, dsync=dsync)


def written(call: int, handle: int, offset: int, data: bytes) -> list[ev.Event]:
    return [ev.WriteBegun(call, handle, offset, data), ev.WriteEnded(call)]


def synced(call: int, handle: int) -> list[ev.Event]:
    return [ev.SyncBegun(call, handle), ev.SyncEnded(call)]


# A file whose name and first two pages are durable.
READY: list[ev.Event] = [
    ev.Opened(100, ROOT),
    opened(1, "/r/a"),
    *written(1, 1, 0, b"o" * 2 * PAGE),
    *synced(2, 1),
    *synced(3, 100),
]


def content(state: State, path: str) -> bytes | None:
    if path not in state.files:
        return None
    return joined(state.files[path])


def joined(content: Content) -> bytes:
    image = bytearray(content.size)
    for number, data in content.pages.items():
        image[number * PAGE : (number + 1) * PAGE] = data
    return bytes(image[: content.size])


def contents(found: Iterable[State], path: str = "a") -> set[bytes | None]:
    return {content(state, path) for state in found}


def test_synced_file_has_one_state() -> None:
    """Nothing pending, nothing to lose."""
    assert contents(states(*READY)) == {b"o" * 2 * PAGE}


def test_unsynced_pages_come_in_any_combination() -> None:
    """Two pages, old or new each, whole or torn: never a byte from elsewhere."""
    found = contents(states(*READY, *written(4, 1, 0, b"n" * 2 * PAGE)))
    old, new = b"o" * PAGE, b"n" * PAGE
    assert {old + old, old + new, new + old, new + new} <= found
    assert b"n" * SECTOR + b"o" * (PAGE - SECTOR) + new in found
    sectors = {image[begin : begin + SECTOR] for image in found if image for begin in range(0, 2 * PAGE, SECTOR)}
    assert sectors == {b"o" * SECTOR, b"n" * SECTOR}


def test_pending_versions_of_a_page_are_kept_in_order() -> None:
    """The second write may be lost without the first; the first never without the second, unless torn."""
    found = contents(states(*READY, *written(4, 1, 0, b"1"), *written(5, 1, SECTOR, b"2")))
    starts = {(image[0], image[SECTOR]) for image in found if image}
    assert starts >= {(ord("o"), ord("o")), (ord("1"), ord("o")), (ord("1"), ord("2"))}
    whole = contents(states(*READY, *written(4, 1, 0, b"1"), *written(5, 1, 1, b"2")))
    assert {image[:2] for image in whole if image} == {b"oo", b"1o", b"12"}


def test_sync_covers_only_what_ended_before_it_began() -> None:
    """A write that overlaps the sync is not covered by it."""
    late = [ev.SyncBegun(5, 1), *written(6, 1, PAGE, b"late"), ev.SyncEnded(5)]
    found = contents(states(*READY, *written(4, 1, 0, b"sure"), *late))
    assert all(image and image.startswith(b"sure") for image in found)
    assert {image[PAGE : PAGE + 4] for image in found if image} == {b"oooo", b"late"}
    begun = [ev.WriteBegun(4, 1, 0, b"open"), *synced(5, 1), ev.WriteEnded(4)]
    assert len(contents(states(*READY, *begun))) == 2


def test_pages_of_a_failed_sync_are_lost_until_they_are_written_again() -> None:
    """The program sees them, and no later sync makes them durable; a write to them does, of the same bytes too."""
    failed = [*written(4, 1, 0, b"new"), ev.SyncBegun(5, 1), ev.SyncFailed(5)]
    assert contents(states(*READY, *failed, *synced(6, 1))) == {b"o" * 2 * PAGE}
    again = contents(states(*READY, *failed, *written(6, 1, 1, b"ew"), *synced(7, 1)))
    assert again == {b"new" + b"o" * (2 * PAGE - 3)}
    late = [
        *written(4, 1, 0, b"new"),
        ev.SyncBegun(5, 1),
        *written(6, 1, PAGE, b"late"),
        ev.SyncFailed(5),
        *synced(7, 1),
    ]
    assert contents(states(*READY, *late)) == {b"o" * PAGE + b"late" + b"o" * (PAGE - 4)}


def test_a_failed_sync_may_have_written_before_its_error() -> None:
    """Then its pages are durable."""
    disk = Disk(ROOT, lambda: False)
    for event in [*READY, *written(4, 1, 0, b"new"), ev.SyncBegun(5, 1), ev.SyncFailed(5)]:
        disk.apply(event)
    found = enumerate_states(disk, random.Random(1), 10)
    assert contents(found) == {b"new" + b"o" * (2 * PAGE - 3)}


def test_names_of_a_failed_sync_may_be_gone_for_good() -> None:
    """No later sync of the directory makes them durable."""
    failed = [ev.SyncBegun(4, 100), ev.SyncFailed(4), *synced(5, 100)]
    assert {state.files.keys() >= {"b"} for state in states(*READY, opened(2, "/r/b"), *failed)} == {True, False}
    assert {state.files.keys() >= {"b"} for state in states(*READY, opened(2, "/r/b"), *synced(5, 100))} == {True}


def test_sync_that_has_not_returned_covers_nothing() -> None:
    """Between begin and end of a sync everything is still open."""
    assert len(contents(states(*READY, *written(4, 1, 0, b"n"), ev.SyncBegun(5, 1)))) == 2


def test_write_through_dsync_is_durable_alone() -> None:
    """The page of an O_DSYNC write stays; another pending page does not become durable by it."""
    events = [ev.Opened(2, "/r/a", dsync=True), *written(4, 1, PAGE, b"weak"), *written(5, 2, 0, b"firm")]
    found = contents(states(*READY, *events))
    assert {image[:4] for image in found if image} == {b"firm"}
    assert {image[PAGE : PAGE + 4] for image in found if image} == {b"oooo", b"weak"}


def test_growth_may_be_lost_or_come_without_data() -> None:
    """A file that grew has its old size, or the new one with or without the bytes."""
    found = contents(states(*READY, *written(4, 1, 2 * PAGE, b"tail")))
    old = b"o" * 2 * PAGE
    assert found == {old, old + b"tail", old + bytes(4)}


def test_allocated_space_is_zeros() -> None:
    """fallocate grows the size and nothing else."""
    assert contents(states(*READY, ev.Allocated(1, 0, 3 * PAGE))) == {b"o" * 2 * PAGE, b"o" * 2 * PAGE + bytes(PAGE)}


def test_cut_that_did_not_happen_hides_what_followed() -> None:
    """A shrink and the writes after it are not taken apart: without the shrink the old bytes are there."""
    found = contents(states(*READY, ev.Resized(1, PAGE), *written(4, 1, PAGE, b"n" * PAGE)))
    old, new = b"o" * PAGE, b"n" * PAGE
    assert {old + old, old, old + bytes(PAGE), old + new} <= found
    torn = {image[PAGE:] for image in found if image} - {b""}
    assert all(not (b"o" in image and b"n" in image) for image in torn)


def test_shrunk_file_reads_zeros_when_it_grows_again() -> None:
    """Bytes that were cut off do not come back."""
    found = contents(states(*READY, ev.Resized(1, 10), *synced(4, 1), ev.Resized(1, 20), *synced(5, 1)))
    assert found == {b"o" * 10 + bytes(10)}


def test_new_name_needs_its_directory() -> None:
    """A synced file may still be nowhere until its directory is synced."""
    new = [opened(2, "/r/b"), *written(4, 2, 0, b"x"), *synced(5, 2)]
    assert contents(states(*READY, *new), "b") == {None, b"x"}
    assert contents(states(*READY, *new, *synced(6, 100)), "b") == {b"x"}


def test_rename_is_whole_or_not_at_all() -> None:
    """Exactly one of the two names, with the same bytes."""
    found = states(*READY, ev.Renamed("/r/a", "/r/b"))
    assert {tuple(sorted(state.files)) for state in found} == {("a",), ("b",)}
    assert contents(states(*READY, ev.Renamed("/r/a", "/r/b"), *synced(4, 100)), "a") == {None}


def test_recycled_file_may_have_new_bytes_under_its_old_name() -> None:
    """The rename may be lost and the writes after it not."""
    found = contents(states(*READY, ev.Renamed("/r/a", "/r/b"), *written(4, 1, 0, b"n" * 2 * PAGE), *synced(5, 1)))
    assert found == {b"n" * 2 * PAGE, None}


def test_names_come_in_any_combination() -> None:
    """Of two new files either, both or none are there; unlink may be undone."""
    found = states(*READY, opened(2, "/r/b"), opened(3, "/r/c"), ev.Unlinked("/r/a"))
    assert len({tuple(sorted(state.files)) for state in found}) == 8


def test_file_in_an_unsynced_directory_is_lost_with_it() -> None:
    """fsync of a new directory does not make the directory's own name durable."""
    made = [ev.MadeDirectory("/r/d"), opened(2, "/r/d/f"), ev.Opened(3, "/r/d"), *synced(4, 3)]
    assert {state.directories for state in states(*READY, *made)} == {(), ("d",)}
    assert contents(states(*READY, *made, *synced(5, 100)), "d/f") == {b""}


def test_lock_files_of_lmdb_are_left_out() -> None:
    """Their content is shared memory and no part of a store."""
    assert {tuple(state.files) for state in states(*READY, opened(2, "/r/rows.mdb-lock"))} == {("a",)}


def test_states_are_distinct_and_repeat_with_the_seed() -> None:
    """The same seed gives the same states, and no state twice."""
    events = [*READY, *written(4, 1, 0, os.urandom(2 * PAGE)), opened(2, "/r/b")]
    first, second = states(*events, limit=200), states(*events, limit=200)
    assert [state.digest for state in first] == [state.digest for state in second]
    assert (
        len({tuple((path, joined(file)) for path, file in state.files.items()) for state in first}) == len(first) > 100
    )


def test_state_is_written_as_it_is(tmp_path: Path) -> None:
    """Bytes, sizes, holes and directories on a real disk are those of the state."""
    events = [
        *READY,
        ev.MadeDirectory("/r/d"),
        opened(2, "/r/d/f"),
        *written(4, 2, 5 * PAGE, b"end"),
        ev.Allocated(1, 0, 9 * PAGE),
    ]
    for number, state in enumerate(states(*events)):
        target = tmp_path / str(number)
        state.write(target)
        assert {name: (target / name).read_bytes() for name in state.files} == {
            n: joined(c) for n, c in state.files.items()
        }
        assert all((target / name).is_dir() for name in state.directories)


def test_files_that_were_not_followed_are_noticed(tmp_path: Path) -> None:
    """The model says where it does not show what the program has: bytes, sizes, names; lock files are not followed."""
    root = str(tmp_path)
    disk = Disk(root)
    for event in [opened(1, f"{root}/a"), *written(1, 1, 0, b"x" * PAGE + b"y"), ev.MadeDirectory(f"{root}/d")]:
        disk.apply(event)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "data.mdb-lock").write_bytes(b"z")
    for content, found in ((b"y", None), (b"z", PAGE), (b"y" * 2, PAGE), (b"", PAGE)):
        (tmp_path / "a").write_bytes(b"x" * PAGE + content)
        assert disk.unlike() == (None if found is None else f"{root}/a: not as followed, from byte {found} on")
    (tmp_path / "d" / "b").touch()
    (tmp_path / "a").write_bytes(b"x" * PAGE + b"y")
    assert disk.unlike() == f"{root}/d: [] followed, ['b'] there"


# -- whole programs ----------------------------------------------------------------------------------------------------


def losses(tmp_path: Path, mistake: str) -> list[str]:
    """The cuts of a recorded run of the toy program that broke a promise."""
    if (why := strace.strace_missing()) is not None:
        pytest.skip(why)
    base = tmp_path.resolve()
    (base / "root").mkdir()
    command = [sys.executable, appendlog.__file__, str(base / "root" / "toy"), str(base / "marks"), "10", mistake]
    result = strace.record(command, base / "trace", cwd=base)
    assert result.returncode == 0, result.stderr
    root = str(base / "root")
    events = trace.parse(strace.read_lines(base / "trace"), root=root, cwd=str(base), marks=str(base / "marks"))
    assert sum(isinstance(event, ev.Marked) for event in events) == 10
    broken: list[str] = []
    for number, cut in enumerate(cuts(events, root=root, seed=1, per_moment=60)):
        cut.state.write(base / str(number))
        found = appendlog.recover(base / str(number) / "toy")
        if found != list(range(1, len(found) + 1)) or len(found) < cut.marks:
            broken.append(f"{cut.name} {cut.state.label}: {len(found)} of {cut.marks}")
    return broken


def test_correct_program_loses_nothing(tmp_path: Path) -> None:
    """No state of a program that syncs before it promises breaks a promise."""
    assert losses(tmp_path, "none") == []


@pytest.mark.parametrize("mistake", ["ack-before-sync", "no-directory-sync", "rename-without-directory-sync"])
def test_wrong_program_is_caught(tmp_path: Path, mistake: str) -> None:
    """Each classic mistake shows in at least one state."""
    assert losses(tmp_path, mistake) != []
