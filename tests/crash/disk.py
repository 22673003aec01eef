"""
What a disk may hold while a program runs: for each file and directory what is durable, and what is still on its way.

`Disk.apply` follows one event after the other (the rules are in `pages` and `names`). It never chooses: `states` picks
among what it offers. A write through an O_DSYNC handle makes its own pages durable when it returns, and no others.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.crash import events as ev
from tests.crash.names import Names, Node
from tests.crash.pages import File, Size, Version


class Disk:
    """The files and directories below one root, as a program's events change them."""

    ROOT: Node = 0

    def __init__(self, root: str, is_lost: Callable[[], bool] = lambda: True) -> None:
        self.root = root
        self._is_lost = is_lost
        """Asked for each page of a sync that failed: was it dropped, or written before the error came?"""
        self.names = Names()
        self.names.add_directory(self.ROOT)
        self.files: dict[Node, File] = {}
        self.time = 0
        self._nodes = 0
        self._opened: dict[int, tuple[Node, bool]] = {}  # handle -> node, is_dsync
        self._writes: dict[int, tuple[File, bool, list[Version | Size]]] = {}
        self._syncs: dict[int, tuple[Node, object]] = {}

    def load(self, path: str, data: bytes | None) -> None:
        """Put a durable file (or directory: None) there before the first event."""
        parent, name = self._parent(path)
        node = self._new_directory() if data is None else self._new_file()
        if data is not None:
            self.files[node].load(data)
        for names in (self.names.durable, self.names.seen):
            names[parent][name] = node

    def apply(self, event: ev.Event) -> bool:
        """Follow an event; True when the set of states that a power cut may leave has changed."""
        self.time += 1
        match event:
            case ev.Opened():
                return self._open(event)
            case ev.WriteBegun(call, handle, offset, data):
                return self._write(call, handle, offset, data)
            case ev.WriteEnded(call):
                return self._end_write(call)
            case ev.SyncBegun(call, handle):
                self._begin_sync(call, handle)
            case ev.SyncEnded(call):
                return self._end_sync(call)
            case ev.SyncFailed(call):
                return self._fail_sync(call)
            case ev.Resized(handle, size):
                self._file(handle).resize(size, self.time)
                return True
            case ev.Allocated(handle, offset, length):
                file = self._file(handle)
                file.resize(max(file.size, offset + length), self.time)
                return True
            case ev.Zeroed(handle, offset, length):
                self._file(handle).zero(offset, length, self.time)
                return True
            case ev.Marked():
                return False
            case _:
                self._rename(event)
                return True
        return False

    def unlike(self) -> str | None:
        """Where the files below the root are not as the program sees them here; LMDB's lock files are not followed."""
        return self._unlike(self.ROOT, self.root)

    def _unlike(self, directory: Node, path: str) -> str | None:
        names = {name: node for name, node in self.names.seen[directory].items() if not name.endswith("-lock")}
        if names.keys() != (there := {name for name in os.listdir(path) if not name.endswith("-lock")}):
            return f"{path}: {sorted(names)} followed, {sorted(there)} there"
        for name, node in names.items():
            below = f"{path}/{name}"
            if node not in self.files:
                found = self._unlike(node, below)
            else:
                with open(below, "rb") as file:
                    at = self.files[node].differs(file.read())
                found = None if at is None else f"{below}: not as followed, from byte {at} on"
            if found is not None:
                return found
        return None

    # -- names -----------------------------------------------------------------------------------------------------

    def _find(self, path: str) -> Node | None:
        """The node that the program sees at a path."""
        node: Node | None = self.ROOT
        for part in os.path.relpath(path, self.root).split("/"):
            if part != ".":
                node = self.names.seen.get(node, {}).get(part) if node is not None else None
        return node

    def _parent(self, path: str) -> tuple[Node, str]:
        parent = self._find(os.path.dirname(path))
        assert parent is not None, f"{path}: its directory is not known"
        return parent, os.path.basename(path)

    def _new_file(self) -> Node:
        self._nodes += 1
        self.files[self._nodes] = File()
        return self._nodes

    def _new_directory(self) -> Node:
        self._nodes += 1
        self.names.add_directory(self._nodes)
        return self._nodes

    def _rename(self, event: ev.Event) -> None:
        match event:
            case ev.MadeDirectory(path):
                self.names.change(f"mkdir {path}", (*self._parent(path), self._new_directory()))
            case ev.Unlinked(path):
                self.names.change(f"unlink {path}", (*self._parent(path), None))
            case ev.Linked(source, target):
                self.names.change(f"link {source} {target}", (*self._parent(target), self._find(source)))
            case ev.Renamed(source, target):
                moved = (*self._parent(target), self._find(source))
                self.names.change(f"rename {source} {target}", (*self._parent(source), None), moved)

    # -- content ---------------------------------------------------------------------------------------------------

    def _open(self, event: ev.Opened) -> bool:
        node, is_changed = self._find(event.path), False
        if node is None and event.creates:
            node, is_changed = self._new_file(), True
            self.names.change(f"create {event.path}", (*self._parent(event.path), node))
        assert node is not None, f"{event.path} was opened and is not known: was it there before the recording began?"
        self._opened[event.handle] = (node, event.dsync)
        if event.truncates and node in self.files and self.files[node].size:
            self.files[node].resize(0, self.time)
            is_changed = True
        return is_changed

    def _file(self, handle: int) -> File:
        return self.files[self._opened[handle][0]]

    def _write(self, call: int, handle: int, offset: int | None, data: bytes) -> bool:
        file, is_dsync = self._file(handle), self._opened[handle][1]
        made = file.write(file.size if offset is None else offset, data, self.time, is_written=False)
        self._writes[call] = (file, is_dsync, made)
        return bool(made)

    def _end_write(self, call: int) -> bool:
        file, is_dsync, made = self._writes.pop(call)
        for version in made:
            version.is_written = True
        if not is_dsync:
            return False
        pages = {number: v for number in file.pending for v in file.pages[number] if v in made}
        sizes = [version for version in made if isinstance(version, Size)]
        file.settle(pages, sizes[0] if sizes else file.sizes[0])
        return True

    def _begin_sync(self, call: int, handle: int) -> None:
        node = self._opened[handle][0]
        covered = self.files[node].covered() if node in self.files else list(self.names.pending)
        self._syncs[call] = (node, covered)

    def _fail_sync(self, call: int) -> bool:
        node, covered = self._syncs.pop(call)
        if node in self.files:
            self.files[node].lose(covered[0], self._is_lost)  # type: ignore[index]
        else:
            self.names.lose(node, covered)  # type: ignore[arg-type]
        return True

    def _end_sync(self, call: int) -> bool:
        node, covered = self._syncs.pop(call)
        if node in self.files:
            self.files[node].settle(*covered)  # type: ignore[misc]
        else:
            self.names.settle(node, covered)  # type: ignore[arg-type]
        return True
