"""
What a recording means: the events of the files below one root.

T1  A write counts from the line where it starts; a sync from the line where it returns.
T2  Descriptors are followed through dup, close, threads (shared) and forks (copied), so a file keeps its identity under rename and unlink.
T3  What cannot be followed (a shared writable map, copy_file_range, sync…) of a watched file is an error, not a gap in the recording.
T4  A call that the end of the program cuts short may have happened or not. When the program alone has ended, and not the system
    (`is_left`), its files tell which: what happened is over, also for a later sync, and what did not has never begun.

read(2) is not recorded: a program that moves one descriptor by reading and then writes there without lseek is not understood.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.crash import events as ev
from tests.crash.pages import PAGE
from tests.crash.strace import REFUSED, Call, TraceError, arguments, calls, unhex

_FD = re.compile(r"^(-?\d+|AT_FDCWD)(?:<([^>]*)>)?(?:\(deleted\))?$")
_HEX = re.compile(r'[<"]((?:\\x[0-9a-f]{2})+)[>"]')
_BUFFER = re.compile(r'iov_base="([^"]*)"')


def parse(
    lines: Iterable[str], *, root: str, cwd: str, marks: str | None = None, is_left: bool = False
) -> list[ev.Event]:
    """
    The events of a recording that concern files below `root`, and the lines written to `marks`. `is_left`: the files are as the program
    has left them (T4).
    """
    return _Reader(root=root, cwd=cwd, marks=marks, is_left=is_left).read(calls(lines))


@dataclass(slots=True)
class _Handle:
    number: int
    path: str
    is_append: bool = False
    position: int = 0


@dataclass(slots=True)
class _Reader:
    root: str
    cwd: str
    marks: str | None
    is_left: bool = False
    tables: dict[int, dict[int, _Handle]] = field(default_factory=dict)
    process_of: dict[int, int] = field(default_factory=dict)
    placed: list[tuple[int, int, ev.Event]] = field(default_factory=list)
    handles: int = 0
    end: int = 0
    """The line behind the last one."""

    def read(self, recorded: list[Call]) -> list[ev.Event]:
        self.end = 1 + max((call.ended or call.begun for call in recorded), default=0)
        # Descriptors change when a call returns, data starts to move when it begins: two passes over one line order.
        steps: list[tuple[int, int, Callable[[], None]]] = []
        self._adopt(recorded, steps)
        for number, call in enumerate(recorded):
            if call.name in _AT_BEGIN and (not call.is_failed or call.name in _SYNCS):
                steps.append((call.begun, 0, lambda call=call, number=number: _AT_BEGIN[call.name](self, call, number)))
            elif call.name in _AT_END and not call.is_failed and self._has_happened(call):
                assert call.ended is not None
                steps.append((call.ended, 1, lambda call=call: _AT_END[call.name](self, call)))
            elif call.name in REFUSED.split(",") and not call.is_failed:
                steps.append((call.begun, 0, lambda call=call: self._refuse(call)))
        for _line, _order, step in sorted(steps, key=lambda item: item[:2]):
            step()
        self.placed.sort(key=lambda item: item[:2])
        return [event for _, _, event in self.placed]

    def _adopt(self, recorded: list[Call], steps: list[tuple[int, int, Callable[[], None]]]) -> None:
        """Threads share their maker's descriptors, forked processes begin with a copy."""
        for call in recorded:
            if call.name not in ("clone", "clone3", "fork", "vfork") or not call.result or call.result < 0:
                continue
            if "CLONE_FILES" in call.arguments:
                self.process_of[call.result] = call.process
            else:
                steps.append((call.begun, 0, lambda call=call: self._fork(call)))

    def _fork(self, call: Call) -> None:
        assert call.result is not None
        self.tables[call.result] = dict(self._table(call))

    def _table(self, call: Call) -> dict[int, _Handle]:
        process = call.process
        while process in self.process_of:
            process = self.process_of[process]
        return self.tables.setdefault(process, {})

    # -- places and names ------------------------------------------------------------------------------------------

    def _emit(self, line: int | None, event: ev.Event, order: int = 0) -> None:
        assert line is not None
        self.placed.append((line, order, event))

    def _path(self, text: str, directory: str | None = None) -> str:
        """The absolute path of a string argument, beside the directory descriptor that came before it."""
        base = self.cwd
        if directory is not None and (match := _FD.match(directory)) and match[2]:
            base = unhex(match[2]).decode(errors="surrogateescape")
        return os.path.normpath(os.path.join(base, unhex(text.strip('"')).decode(errors="surrogateescape")))

    def _is_watched(self, path: str) -> bool:
        return path == self.root or path.startswith(self.root + "/")

    def _handle(self, call: Call) -> _Handle | None:
        match = _FD.match(arguments(call)[0])
        return self._table(call).get(int(match[1])) if match and match[1] != "AT_FDCWD" else None

    def _refuse(self, call: Call) -> None:
        named = [unhex(text).decode(errors="replace") for text in _HEX.findall(call.arguments)]
        if call.name == "sync" or any(self._is_watched(path) for path in named):
            raise TraceError(f"{call.name} on {named or 'everything'} cannot be simulated")

    # -- calls that the end of the program cuts short (T4) -----------------------------------------------------------

    def _has_happened(self, call: Call) -> bool:
        """Whether a call has changed names or a size; one that was cut short, and has, ended with the program."""
        if call.result is None and self.is_left and call.name in _LOOKS and _LOOKS[call.name](self, call):
            call.ended, call.result = self.end, 0
        return call.result is not None

    def _is_renamed(self, call: Call) -> bool:
        source, target = self._two_paths(call)
        return os.path.lexists(target) and not os.path.lexists(source)

    def _is_made(self, call: Call) -> bool:
        return os.path.lexists(self._one_path(call))

    def _is_unlinked(self, call: Call) -> bool:
        return not os.path.lexists(self._one_path(call))

    def _is_created(self, call: Call) -> bool:
        return "O_CREAT" in call.arguments and self._is_made(call)

    def _is_resized(self, call: Call) -> bool:
        path = _path_of_descriptor(call)
        return os.path.exists(path) and os.path.getsize(path) == int(arguments(call)[1])

    # -- calls whose effect begins with them -------------------------------------------------------------------------

    def _write(self, call: Call, number: int) -> None:
        if (handle := self._handle(call)) is None:
            return
        data, offset = _written(call)
        if call.result is not None:
            data = data[: call.result]
        is_placed = offset is not None
        if not is_placed:
            offset = None if handle.is_append else handle.position
        if call.result is None and self.is_left and offset is not None:
            data, call.ended = data[: _arrived(_path_of_descriptor(call), offset, data)], self.end
            if not data:
                return
        if not is_placed:
            handle.position += len(data)
        if handle.path == self.marks:
            for line in data.decode().splitlines():
                self._emit(call.begun, ev.Marked(line))
            return
        self._emit(call.begun, ev.WriteBegun(number, handle.number, offset, data))
        if call.ended is not None:
            self._emit(call.ended, ev.WriteEnded(number), 1)

    def _sync(self, call: Call, number: int) -> None:
        if (handle := self._handle(call)) is not None and handle.path != self.marks:
            self._emit(call.begun, ev.SyncBegun(number, handle.number))
            if call.ended is not None:
                self._emit(call.ended, ev.SyncFailed(number) if call.is_failed else ev.SyncEnded(number), 1)

    # -- calls whose effect is there when they return ----------------------------------------------------------------

    def _open(self, call: Call) -> None:
        given = arguments(call)
        directory, name, flags = (None, given[0], "O_CREAT|O_TRUNC") if call.name == "creat" else (None, *given[:2])
        if call.name == "openat":
            directory, name, flags = given[0], given[1], given[2]
        path, words = self._path(name, directory), set(flags.split("|"))
        if (not self._is_watched(path) and path != self.marks) or "O_TMPFILE" in words:  # a file that nobody ever finds
            self._table(call).pop(call.result, None)  # type: ignore[arg-type]
            return
        self.handles += 1
        handle = _Handle(self.handles, path, is_append="O_APPEND" in words)
        self._table(call)[call.result] = handle  # type: ignore[index]
        if path != self.marks:
            is_dsync = bool(words & {"O_DSYNC", "O_SYNC"})
            self._emit(call.ended, ev.Opened(handle.number, path, "O_CREAT" in words, "O_TRUNC" in words, is_dsync))

    def _close(self, call: Call, _number: int) -> None:
        # At its begin: another thread may get the number back from an open before close returns.
        match = _FD.match(arguments(call)[0])
        if match:
            self._table(call).pop(int(match[1]), None)

    def _dup(self, call: Call) -> None:
        if call.name == "fcntl" and "F_DUPFD" not in call.arguments:
            return
        handle, table = self._handle(call), self._table(call)
        if handle is not None:
            table[call.result] = handle  # type: ignore[index]
        else:
            table.pop(call.result, None)  # type: ignore[arg-type]

    def _seek(self, call: Call) -> None:
        if (handle := self._handle(call)) is not None and call.result is not None:
            handle.position = call.result

    def _resize(self, call: Call) -> None:
        if (handle := self._handle(call)) is not None and handle.path != self.marks:
            self._emit(call.ended, ev.Resized(handle.number, int(arguments(call)[1])))

    def _allocate(self, call: Call) -> None:
        if (handle := self._handle(call)) is None:
            return
        mode, offset, length = arguments(call)[1], int(arguments(call)[2]), int(arguments(call)[3])
        if "PUNCH_HOLE" in mode or "ZERO_RANGE" in mode:
            self._emit(call.ended, ev.Zeroed(handle.number, offset, length))
        elif mode == "0":
            self._emit(call.ended, ev.Allocated(handle.number, offset, length))
        elif mode != "FALLOC_FL_KEEP_SIZE":
            raise TraceError(f"fallocate with {mode} cannot be simulated")

    def _rename(self, call: Call) -> None:
        source, target = self._two_paths(call)
        if "EXCHANGE" in call.arguments:
            raise TraceError("renameat2 with RENAME_EXCHANGE cannot be simulated")
        if self._is_watched(source) or self._is_watched(target):
            self._emit(call.ended, ev.Renamed(source, target))

    def _link(self, call: Call) -> None:
        source, target = self._two_paths(call)
        if self._is_watched(target):
            self._emit(call.ended, ev.Linked(source, target))

    def _two_paths(self, call: Call) -> tuple[str, str]:
        given = arguments(call)
        if call.name in ("rename", "link"):
            return self._path(given[0]), self._path(given[1])
        return self._path(given[1], given[0]), self._path(given[3], given[2])

    def _one_path(self, call: Call) -> str:
        given = arguments(call)
        return self._path(given[1], given[0]) if call.name.endswith("at") else self._path(given[0])

    def _unlink(self, call: Call) -> None:
        if self._is_watched(path := self._one_path(call)):
            self._emit(call.ended, ev.Unlinked(path))

    def _mkdir(self, call: Call) -> None:
        if self._is_watched(path := self._one_path(call)):
            self._emit(call.ended, ev.MadeDirectory(path))

    def _map(self, call: Call) -> None:
        given = arguments(call)
        match = _FD.match(given[4])
        handle = self._table(call).get(int(match[1])) if match and match[1] != "AT_FDCWD" else None
        # LMDB's lock file is the one map that may be written: nothing of it outlives the process.
        if handle and "PROT_WRITE" in given[2] and "MAP_SHARED" in given[3] and not handle.path.endswith("-lock"):
            raise TraceError(f"{handle.path} is written through a map, which leaves no trace")


def _written(call: Call) -> tuple[bytes, int | None]:
    """The bytes that a write carries and its offset, None for the descriptor's position."""
    given = arguments(call)
    if call.name in ("writev", "pwritev", "pwritev2"):
        data = b"".join(unhex(part) for part in _BUFFER.findall(given[1]))
    elif given[1].endswith("..."):
        raise TraceError(f"{call.name}: strace cut the data short; record with a larger -s")
    else:
        data = unhex(given[1].strip('"'))
    return data, int(given[3]) if call.name in ("pwrite64", "pwritev", "pwritev2") else None


def _path_of_descriptor(call: Call) -> str:
    """The name that the file of a call has, as strace found it: renames are in it."""
    match = _FD.match(arguments(call)[0])
    return "" if match is None else unhex(match[2] or "").decode(errors="surrogateescape")


def _arrived(path: str, offset: int, data: bytes) -> int:
    """How many bytes of a write that was cut short a file has: the kernel stops between pages, if at all."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return len(data)  # it was removed: nothing reads it any more
    try:
        found = os.pread(fd, len(data), offset)
    finally:
        os.close(fd)
    count = 0
    while count < len(data):
        following = min(count + PAGE - (offset + count) % PAGE, len(data))
        if data[count:following] != found[count:following]:
            break
        count = following
    return count


_SYNCS = ("fsync", "fdatasync")
_AT_BEGIN: dict[str, Callable[[_Reader, Call, int], None]] = {
    **dict.fromkeys(["write", "pwrite64", "writev", "pwritev", "pwritev2"], _Reader._write),
    **dict.fromkeys(_SYNCS, _Reader._sync),
    "close": _Reader._close,
}
_AT_END: dict[str, Callable[[_Reader, Call], None]] = {
    **dict.fromkeys(["open", "openat", "creat"], _Reader._open),
    **dict.fromkeys(["dup", "dup2", "dup3", "fcntl"], _Reader._dup),
    **dict.fromkeys(["rename", "renameat", "renameat2"], _Reader._rename),
    **dict.fromkeys(["link", "linkat"], _Reader._link),
    **dict.fromkeys(["unlink", "unlinkat", "rmdir"], _Reader._unlink),
    **dict.fromkeys(["mkdir", "mkdirat"], _Reader._mkdir),
    "lseek": _Reader._seek,
    "ftruncate": _Reader._resize,
    "fallocate": _Reader._allocate,
    "mmap": _Reader._map,
}
_LOOKS: dict[str, Callable[[_Reader, Call], bool]] = {
    **dict.fromkeys(["rename", "renameat", "renameat2"], _Reader._is_renamed),
    **dict.fromkeys(["unlink", "unlinkat", "rmdir"], _Reader._is_unlinked),
    **dict.fromkeys(["mkdir", "mkdirat"], _Reader._is_made),
    **dict.fromkeys(["open", "openat"], _Reader._is_created),
    "ftruncate": _Reader._is_resized,
}
