"""
Directories on a disk: the durable names, and the operations on names that are still on their way.

N1  Names (create, rename, unlink, mkdir) are durable after fsync of their directory. Before that any of them may be there or not,
    in any combination: a file's own fsync may bring its name along (ext4 does) or not (POSIX does not promise it).
N2  One operation is all or nothing, also a rename from one directory to another (durable when both are synced).
N3  After a failed fsync of their directory no later one makes them durable: they may be there or not, for good.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Node = int  # the number of a file or directory, as an inode
NEVER: Node = -1  # what is never synced


@dataclass(slots=True, eq=False)
class NameChange:
    """One operation on names: which names of which directories get which node (None: gone), all or nothing."""

    changes: tuple[tuple[Node, str, Node | None], ...]
    waits_for: set[Node]  # directories to be synced before it is durable
    what: str


@dataclass(slots=True)
class Names:
    """Directories: the durable ones, what the program sees, and the operations between the two, in order (N1)."""

    durable: dict[Node, dict[str, Node]] = field(default_factory=dict)
    seen: dict[Node, dict[str, Node]] = field(default_factory=dict)
    pending: list[NameChange] = field(default_factory=list)

    def add_directory(self, node: Node) -> None:
        self.durable[node], self.seen[node] = {}, {}

    def change(self, what: str, *changes: tuple[Node, str, Node | None]) -> None:
        self.pending.append(NameChange(changes, {directory for directory, _, _ in changes}, what))
        enact(self.seen, changes)

    def settle(self, directory: Node, covered: list[NameChange]) -> None:
        """fsync of a directory ended."""
        for change in covered:
            change.waits_for.discard(directory)
        while self.pending and not self.pending[0].waits_for:
            enact(self.durable, self.pending.pop(0).changes)

    def lose(self, directory: Node, covered: list[NameChange]) -> None:
        """fsync of a directory failed (N3)."""
        for change in covered:
            if directory in change.waits_for:
                change.waits_for.add(NEVER)

    def optional(self) -> list[NameChange]:
        """The operations that a power cut may undo."""
        return [change for change in self.pending if change.waits_for]

    def after(self, chosen: set[int]) -> dict[Node, dict[str, Node]]:
        """The directories when only these of the `optional` operations (by place in that list) made it to the disk."""
        if not self.pending:
            return self.durable
        names = {node: dict(entries) for node, entries in self.durable.items()}
        place = 0
        for change in self.pending:
            if change.waits_for:
                place += 1
            if not change.waits_for or place - 1 in chosen:
                enact(names, change.changes)
        return names


def enact(names: dict[Node, dict[str, Node]], changes: tuple[tuple[Node, str, Node | None], ...]) -> None:
    for directory, name, node in changes:
        if node is None:
            names[directory].pop(name, None)
        else:
            names[directory][name] = node
