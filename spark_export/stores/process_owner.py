"""
The owner of a directory, written into its name: what a killed process has left is removed at once, and what is in use stays.

    <machine>-<pid>-<start>

H1  It names the process that the load lives and dies with. For a command that is its own; for Spark's driver it is the one that Spark
    starts its Python workers from: a load is planned in one worker and committed in another, and Spark ends idle ones in between, so that
    a lock which a worker held would be gone while the load goes on.
H2  A holder is gone when this machine has no such process, or another one of its number. Where that cannot be said (it was on another
    machine, in another container, before a reboot), it is not gone.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path

HOLDER = r"[0-9a-f]{12}-[0-9]+-[0-9]+"
_FORM = re.compile(r"([0-9a-f]{12})-([0-9]+)-([0-9]+)")
_START, _STATE = 19, 0
"""Fields of /proc/<pid>/stat, counted from behind the name of the program."""


def own() -> str:
    """This process."""
    return _named(os.getpid())


def driver() -> str:
    """The process that this one, a Python worker of Spark's driver, was started from (H1)."""
    return _named(os.getppid())


def is_gone(holder: str) -> bool:
    """Whether a holder is known to have ended (H2)."""
    found = _FORM.fullmatch(holder)
    if found is None or found[1] != _machine():
        return False
    pid, start = int(found[2]), int(found[3])
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass  # another user's process
    fields = _fields(pid)
    return fields is not None and (fields[_STATE] in "ZX" or (bool(start) and int(fields[_START]) != start))


def _named(pid: int) -> str:
    fields = _fields(pid)
    return f"{_machine()}-{pid}-{0 if fields is None else fields[_START]}"


def _fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; None where it cannot be read."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


@cache
def _machine() -> str:
    """Identifies this boot of this machine, and this container: a process number is valid within one only."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text() + os.readlink("/proc/self/ns/pid")
    except OSError:
        boot = os.uname().nodename
    return hashlib.sha256(boot.encode()).hexdigest()[:12]
