"""What sinks into files share: names of namespaces as names of files, and files that outlast a power cut."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote, unquote

from journal.errors import Invalid


def name_of(namespace: str) -> str:
    """A namespace as the name of a file or directory that Spark does not take for a hidden one."""
    quoted = quote(namespace, safe=" ,;@+")
    return f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted[:1] in ("_", ".") else quoted or "%"


def namespace_of(name: str) -> str:
    """The namespace that has this name."""
    return unquote("" if name == "%" else name)


def sync(path: Path) -> None:
    """Have a file, or the names in a directory, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(top: Path) -> None:
    """The same of a directory with all that is in it."""
    for path in top.rglob("*"):
        sync(path)
    sync(top)


def make_directory(path: Path) -> None:
    """Make a directory with those above it, each durable in the one that holds it."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in missing:
        sync(each.parent)


def check_writable(path: Path) -> None:
    """Whether a directory can be made or written here, found out without writing."""
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir():
        raise Invalid(f"{there} is a file: {path} must be a directory; name another path")
    if not os.access(there, os.W_OK | os.X_OK):
        raise Invalid(f"{there} cannot be written by this user: give the right to it, or name another path")
