"""A recording is understood: threads that overlap, descriptors that move, and what cannot be understood is refused."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from tests.crash import events as ev
from tests.crash import losses, strace, trace
from tests.crash.disk import Disk
from tests.crash.pages import PAGE
from tests.crash.states import enumerate_states

ROOT = "/r"


def hexed(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return "".join(f"\\x{byte:02x}" for byte in data)


def events(*lines: str) -> list[ev.Event]:
    return trace.parse(lines, root=ROOT, cwd="/cwd", marks="/marks")


def opening(fd: int, path: str, flags: str = "O_RDWR|O_CREAT|O_CLOEXEC", thread: int = 7) -> str:
    return f'{thread}  openat(AT_FDCWD</cwd>, "{hexed(path)}", {flags}, 0600) = {fd}<{hexed(path)}>\n'


def written(fd: int, data: bytes, thread: int = 7) -> str:
    return f'{thread}  write({fd}<>, "{hexed(data)}", {len(data)}) = {len(data)}\n'


def test_write_at_an_offset() -> None:
    """The bytes, the place and the file of a pwrite."""
    found = events(opening(3, "/r/a"), f'7  pwrite64(3<{hexed("/r/a")}>, "{hexed(b"x, y)=")}", 6, 40) = 6\n')
    assert found == [ev.Opened(1, "/r/a", creates=True), ev.WriteBegun(1, 1, 40, b"x, y)="), ev.WriteEnded(1)]


def test_gathered_write_is_one_write() -> None:
    """writev goes to where lseek went, its buffers joined."""
    vector = f'[{{iov_base="{hexed(b"ab")}", iov_len=2}}, {{iov_base="{hexed(b"cd")}", iov_len=2}}]'
    found = events(opening(3, "/r/a"), "7  lseek(3<>, 100, SEEK_SET) = 100\n", f"7  writev(3<>, {vector}, 2) = 4\n")
    assert ev.WriteBegun(2, 1, 100, b"abcd") in found


def test_short_write_carries_what_was_written() -> None:
    """The kernel's answer counts, not the request."""
    found = events(opening(3, "/r/a"), f'7  pwrite64(3<>, "{hexed(b"abcdef")}", 6, 0) = 2\n')
    assert found[1] == ev.WriteBegun(1, 1, 0, b"ab")


def test_failed_calls_leave_no_event() -> None:
    """Neither a failed write nor a failed rename changed anything; a failed sync may have lost what it covered."""
    found = events(
        opening(3, "/r/a"),
        f'7  pwrite64(3<>, "{hexed(b"ab")}", 2, 0) = -1 ENOSPC (No space left on device)\n',
        "7  fdatasync(3<>) = -1 EIO (Input/output error) (INJECTED)\n",
        f'7  rename("{hexed("/r/a")}", "{hexed("/r/b")}") = -1 ENOENT (No such file or directory)\n',
        f'7  openat(AT_FDCWD</cwd>, "{hexed("/r/z")}", O_RDONLY) = -1 ENOENT (No such file or directory)\n',
    )
    assert found == [ev.Opened(1, "/r/a", creates=True), ev.SyncBegun(2, 1), ev.SyncFailed(2)]


def test_positions_follow_writes_and_append_goes_to_the_end() -> None:
    """write(2) continues where the last one ended; O_APPEND has no offset of its own."""
    found = events(
        opening(3, "/r/a"),
        written(3, b"ab"),
        written(3, b"cd"),
        opening(4, "/r/b", "O_WRONLY|O_APPEND"),
        written(4, b"x"),
    )
    begun = [event for event in found if isinstance(event, ev.WriteBegun)]
    assert [(event.handle, event.offset) for event in begun] == [(1, 0), (1, 2), (2, None)]


def test_overlapping_sync_and_write_keep_their_order() -> None:
    """A write that begins inside a sync lies between its begin and its end."""
    found = events(
        opening(3, "/r/a"),
        "7  clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD} => {parent_tid=[8]}, 88) = 8\n",
        f"7  fdatasync(3<{hexed('/r/a')}> <unfinished ...>\n",
        f'8  pwrite64(3<{hexed("/r/a")}>, "{hexed(b"ab")}", 2, 9 <unfinished ...>\n',
        "7  <... fdatasync resumed>)          = 0\n",
        "8  <... pwrite64 resumed>)           = 2\n",
    )
    kinds = [type(event).__name__ for event in found]
    assert kinds == ["Opened", "SyncBegun", "WriteBegun", "SyncEnded", "WriteEnded"]
    assert found[2] == ev.WriteBegun(3, 1, 9, b"ab")


def test_call_cut_off_by_the_end_has_no_end() -> None:
    """A killed process may have written all of it; its sync proves nothing."""
    found = events(
        opening(3, "/r/a"),
        "7  clone3({flags=CLONE_VM|CLONE_FILES} => {parent_tid=[8]}, 88) = 8\n",
        f'7  pwrite64(3<>, "{hexed(b"ab")}", 2, 0 <unfinished ...>\n',
        "8  fdatasync(3<> <unfinished ...>\n",
        "8  <... fdatasync resumed>) = ?\n",
        "7  +++ killed by SIGKILL +++\n",
    )
    assert [type(event).__name__ for event in found] == ["Opened", "WriteBegun", "SyncBegun"]


def left(root: Path, *lines: str) -> list[ev.Event]:
    return trace.parse(lines, root=str(root), cwd="/cwd", is_left=True)


@pytest.mark.parametrize("arrived", [0, PAGE - 10, 2 * PAGE - 10, 2 * PAGE])
def test_write_cut_off_by_the_end_is_what_the_file_has(tmp_path: Path, arrived: int) -> None:
    """When the system goes on, what arrived of the write is over, and the rest was never written."""
    data = b"n" * 2 * PAGE
    path = tmp_path / "a"
    path.write_bytes(b"o" * 10 + data[:arrived] + b"o" * (2 * PAGE - arrived))
    found = left(
        tmp_path,
        opening(3, str(path)),
        f'7  pwrite64(3<{hexed(str(path))}>, "{hexed(data)}", {len(data)}, 10 <unfinished ...>\n',
        "7  <... pwrite64 resumed>)           = ?\n",
    )
    whole: list[ev.Event] = [ev.WriteBegun(1, 1, 10, data[:arrived]), ev.WriteEnded(1)]
    assert found[1:] == (whole if arrived else [])


def test_names_cut_off_by_the_end_are_what_is_there(tmp_path: Path) -> None:
    """When the system goes on, a call that changed names has changed them or not."""
    for name in ("made", "kept", "new"):
        (tmp_path / name).mkdir()
    calls = [
        f'mkdir("{hexed(f"{tmp_path}/made")}", 0700', f'mkdir("{hexed(f"{tmp_path}/not-made")}", 0700',
        f'unlink("{hexed(f"{tmp_path}/gone")}"', f'rmdir("{hexed(f"{tmp_path}/kept")}"',
        f'rename("{hexed(f"{tmp_path}/old")}", "{hexed(f"{tmp_path}/new")}"',
        f'rename("{hexed(f"{tmp_path}/kept")}", "{hexed(f"{tmp_path}/other")}"',
    ]  # fmt: skip
    found = left(tmp_path, *(f"{thread}  {call} <unfinished ...>\n" for thread, call in enumerate(calls, start=7)))
    assert found == [
        ev.MadeDirectory(f"{tmp_path}/made"),
        ev.Unlinked(f"{tmp_path}/gone"),
        ev.Renamed(f"{tmp_path}/old", f"{tmp_path}/new"),
    ]


@pytest.mark.parametrize("is_arrived", [True, False])
def test_next_process_syncs_the_page_of_a_write_that_was_cut_off(tmp_path: Path, is_arrived: bool) -> None:
    """A sync covers all that the system has of a page, also what a process wrote whose end came within the write."""
    path, first = tmp_path / "a", b"first" if is_arrived else bytes(5)
    path.write_bytes(first + bytes(PAGE - 5))
    name = hexed(str(path))
    found = left(
        tmp_path,
        opening(3, str(path), "O_RDWR"),
        f'7  pwrite64(3<{name}>, "{hexed(b"first")}", 5, 0 <unfinished ...>\n',
    )
    path.write_bytes(first + b"second" + bytes(PAGE - 11))
    others = left(
        tmp_path,
        opening(3, str(path), "O_RDWR", thread=9),
        f'9  pwrite64(3<{name}>, "{hexed(b"second")}", 6, 5) = 6\n',
        f"9  fdatasync(3<{name}>) = 0\n",
    )
    others = [losses.of_another_process(event) for event in others]
    disk = Disk(str(tmp_path))
    disk.load(str(path), bytes(PAGE))
    for event in (*found, *others):
        disk.apply(event)
    assert disk.unlike() is None
    (state,) = enumerate_states(disk, random.Random(1), 10)
    assert state.files["a"].pages[0] == path.read_bytes()


def test_descriptors_are_followed() -> None:
    """dup keeps the file, close frees the number, another file that gets the number is another file."""
    found = events(
        opening(3, "/r/a"),
        "7  dup(3<>) = 4<>\n",
        "7  close(3<>) = 0\n",
        opening(3, "/elsewhere"),
        written(3, b"not ours"),
        written(4, b"ours"),
        "7  close(4<>) = 0\n",
        opening(4, "/r/b", "O_RDONLY|O_DIRECTORY"),
        "7  fsync(4<>) = 0\n",
    )
    assert [event.data for event in found if isinstance(event, ev.WriteBegun)] == [b"ours"]
    assert found[-3:-1] == [ev.Opened(2, "/r/b"), ev.SyncBegun(8, 2)]


def test_forked_child_has_its_own_numbers() -> None:
    """What a child closes stays open in its parent."""
    found = events(
        opening(3, "/r/a"),
        "7  clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD) = 9\n",
        "9  close(3<>) = 0\n",
        written(3, b"still here"),
        written(3, b"gone", thread=9),
    )
    assert [event.data for event in found if isinstance(event, ev.WriteBegun)] == [b"still here"]


def test_names_are_resolved() -> None:
    """Relative names lie beside their directory descriptor or in the working directory."""
    found = events(
        f'7  mkdirat(AT_FDCWD<{hexed("/r")}>, "{hexed("d")}", 0700) = 0\n',
        f'7  renameat2(5<{hexed("/r/d")}>, "{hexed("x")}", 5<{hexed("/r/d")}>, "{hexed("../y")}", 0) = 0\n',
        f'7  unlinkat(AT_FDCWD<{hexed("/r")}>, "{hexed("y")}", 0) = 0\n',
        f'7  unlink("{hexed("relative")}") = 0\n',
        f'7  link("{hexed("/r/1")}", "{hexed("/r/2")}") = 0\n',
    )
    assert found == [
        ev.MadeDirectory("/r/d"),
        ev.Renamed("/r/d/x", "/r/y"),
        ev.Unlinked("/r/y"),
        ev.Linked("/r/1", "/r/2"),
    ]


def test_marks_are_lines_in_order() -> None:
    """What the program wrote to its marks is told as text, at the place where the write began."""
    found = events(opening(3, "/marks"), opening(4, "/r/a"), written(4, b"x"), written(3, b"one\ntwo\n"))
    assert found[-2:] == [ev.Marked("one"), ev.Marked("two")]


def test_space_and_size() -> None:
    """ftruncate and the kinds of fallocate."""
    found = events(
        opening(3, "/r/a", "O_WRONLY|O_TRUNC|O_DSYNC"),
        "7  ftruncate(3<>, 8192) = 0\n",
        "7  fallocate(3<>, 0, 0, 16384) = 0\n",
        "7  fallocate(3<>, FALLOC_FL_KEEP_SIZE, 0, 99999) = 0\n",
        "7  fallocate(3<>, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 4096, 10) = 0\n",
    )
    opened = ev.Opened(1, "/r/a", truncates=True, dsync=True)
    assert found == [opened, ev.Resized(1, 8192), ev.Allocated(1, 0, 16384), ev.Zeroed(1, 4096, 10)]


@pytest.mark.parametrize(
    "line",
    [
        f"7  mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3<{hexed('/r/a')}>, 0) = 0x7f00\n",
        f"7  copy_file_range(3<{hexed('/r/a')}>, NULL, 4<{hexed('/r/b')}>, NULL, 10, 0) = 10\n",
        f'7  pwrite64(3<>, "{hexed(b"ab")}"..., 6, 0) = 6\n',
        "7  sync() = 0\n",
    ],
)
def test_what_cannot_be_followed_is_refused(line: str) -> None:
    """A gap in the recording would be a hole in the proof."""
    with pytest.raises(strace.TraceError):
        events(opening(3, "/r/a"), line)


def test_private_and_lock_maps_are_fine() -> None:
    """LMDB maps its rows for reading and its lock file for writing."""
    events(opening(3, "/r/a"), f"7  mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3<{hexed('/r/a')}>, 0) = 0x7f00\n")
    lock = f"3<{hexed('/r/a-lock')}>"
    events(opening(3, "/r/a-lock"), f"7  mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, {lock}, 0) = 0x7f00\n")


def test_real_program_is_recorded(tmp_path: Path) -> None:
    """strace and this parser agree on a real run with threads."""
    if (why := strace.strace_missing()) is not None:
        pytest.skip(why)
    root = tmp_path.resolve() / "root"
    root.mkdir()
    script = (
        "import os, sys, threading\n"
        "fd = os.open(sys.argv[1] + '/f', os.O_RDWR | os.O_CREAT)\n"
        "def work(n):\n"
        "    for i in range(20): os.pwrite(fd, bytes([n]) * 100, (n * 20 + i) * 100); os.fdatasync(fd)\n"
        "threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "os.rename(sys.argv[1] + '/f', sys.argv[1] + '/g')\n"
    )
    command = [sys.executable, "-c", script, str(root)]
    result = strace.record(command, tmp_path / "trace", cwd=tmp_path, env=dict(os.environ))
    assert result.returncode == 0, result.stderr
    found = trace.parse(strace.read_lines(tmp_path / "trace"), root=str(root), cwd=str(tmp_path))
    writes = [event for event in found if isinstance(event, ev.WriteBegun)]
    assert len(writes) == 80 and sum(isinstance(event, ev.SyncEnded) for event in found) == 80
    image = bytearray(8000)
    for event in writes:
        assert event.offset is not None
        image[event.offset : event.offset + len(event.data)] = event.data
    assert bytes(image) == (root / "g").read_bytes() and found[-1] == ev.Renamed(f"{root}/f", f"{root}/g")
