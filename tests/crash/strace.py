"""
The system calls of a recording: strace's text as one `Call` for each call, unfinished and resumed lines joined.

Every string is written in hex by strace (`-xx`), so a line has no quotes, commas or brackets but strace's own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Calls that would change or sync a watched file in a way that the model does not know.
REFUSED = "truncate,copy_file_range,sendfile,splice,sync,syncfs,sync_file_range,symlink,symlinkat"
FOLLOWED = (
    "open,openat,creat,close,dup,dup2,dup3,fcntl,lseek,write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync,ftruncate,"
    "fallocate,unlink,unlinkat,rmdir,rename,renameat,renameat2,link,linkat,mkdir,mkdirat,clone,clone3,fork,vfork,mmap,"
) + REFUSED

_LINE = re.compile(r"^(\d+)\s+(.*)$")
_START = re.compile(r"^([a-z_0-9]+)\((.*)$", re.S)
_RESUMED = re.compile(r"^<\.\.\. ([a-z_0-9]+) resumed>(.*)$", re.S)
_RESULT = re.compile(r"^(.*)\)\s*= (-?\d+|0x[0-9a-f]+|\?)(<[^>]*>)?( [A-Z][A-Z0-9]+ .*)?.*$", re.S)


class TraceError(Exception):
    """The recording holds something that this parser does not understand."""


def strace_missing() -> str | None:
    """Why nothing can be recorded here, or None when strace works."""
    if shutil.which("strace") is None:
        return "strace is not installed (Debian: apt-get install strace)"
    probe = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        return f"strace cannot trace here: {probe.stderr.strip() or probe.returncode}"
    return None


def strace_command(out: Path, *extra: str, calls: str = FOLLOWED) -> list[str]:
    """The strace command line up to the program's own."""
    options = f"-f -y -xx -s 4000000 -e signal=none -e trace={calls}".split()
    return ["strace", *options, *extra, "-o", str(out)]


def record(
    command: Sequence[str], out: Path, *, cwd: Path, env: dict[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and leave the text of its system calls in `out`."""
    argv = [*strace_command(out), *command]
    return subprocess.run(argv, cwd=cwd, env=env, timeout=timeout, capture_output=True, text=True, check=False)


@dataclass(slots=True)
class Call:
    """One system call, from the line where it began to the line where it returned (None: the program ended before)."""

    process: int
    name: str
    arguments: str
    begun: int
    ended: int | None = None
    result: int | None = None
    result_path: str = ""

    @property
    def is_failed(self) -> bool:
        return self.result is not None and self.result < 0


def calls(lines: Iterable[str]) -> list[Call]:
    """The calls of a recording in the order in which they began, unfinished and resumed lines joined."""
    found: list[Call] = []
    open_calls: dict[int, Call] = {}
    for number, line in enumerate(lines):
        if not (match := _LINE.match(line.rstrip("\n"))):
            continue
        thread, rest = int(match[1]), match[2]
        if resumed := _RESUMED.match(rest):
            if (call := open_calls.pop(thread, None)) is None or call.name != resumed[1]:
                raise TraceError(f"line {number + 1} resumes a call that never began: {rest[:80]}")
            _finish(call, call.arguments + resumed[2], number)
        elif start := _START.match(rest):
            call = Call(thread, start[1], start[2], number)
            found.append(call)
            if start[2].endswith("<unfinished ...>"):
                call.arguments = start[2].removesuffix("<unfinished ...>").rstrip()
                open_calls[thread] = call
            else:
                _finish(call, start[2], number)
    return found


def _finish(call: Call, text: str, number: int) -> None:
    match = _RESULT.match(text)
    if match is None:
        raise TraceError(f"line {number + 1}: no result in {call.name}({text[:80]}")
    call.arguments = match[1]
    if match[2] == "?":  # the process ended inside the call: it may have done all, some or nothing of it
        return
    call.ended, call.result = number, int(match[2], 0)
    call.result_path = unhex(match[3][1:-1]).decode(errors="surrogateescape") if match[3] else ""


def unhex(text: str) -> bytes:
    """The bytes of a string that strace wrote with -xx."""
    try:
        return bytes.fromhex(text.replace("\\x", ""))
    except ValueError:
        return text.encode()  # such as a pipe's or a socket's name, which strace does not always put in hex


def arguments(call: Call) -> list[str]:
    """The arguments of a call, split at the commas outside of brackets."""
    parts: list[str] = []
    depth, begin = 0, 0
    text = call.arguments
    for match in re.finditer(r"[\[{(<]|[\]})>]|, ", text):
        if match[0] == ", ":
            if depth == 0:
                parts.append(text[begin : match.start()])
                begin = match.end()
        else:
            depth += 1 if match[0] in "[{(<" else -1
    parts.append(text[begin:])
    return parts


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a recording."""
    with path.open(encoding="ascii", errors="surrogateescape") as file:
        yield from file
