"""
What a power cut may leave on a disk, as states that can be told apart and written into a directory.

`enumerate_states` lists, for the present moment of a `Disk`: nothing pending made it; everything did; everything but one
page or name; only one; each older version of a page; pages torn at sectors; names by prefix; and random mixtures of it
all. The same seed gives the same list.

S1  Two states with the same digest have the same files with the same bytes.
S2  A state is a value: it stays what it is when the disk moves on.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.disk import Disk
from tests.crash.names import Node
from tests.crash.pages import PAGE, SECTOR, ZEROS, File, Size, Version

SECTORS = PAGE // SECTOR
RANDOM_TRIES = 6  # random picks per state still wanted: small sets of pending things repeat themselves


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of one file: its pages that are not zeros."""

    size: int
    pages: dict[int, bytes]


@dataclass(frozen=True, slots=True)
class State:
    """One possible content of the disk. `label` says how it was picked."""

    label: str
    digest: bytes
    directories: tuple[str, ...]
    files: dict[str, Content]

    def write(self, target: Path) -> None:
        """Make this state below an empty or absent directory. Zeros are left as holes."""
        target.mkdir(parents=True, exist_ok=True)
        for directory in self.directories:
            os.mkdir(target / directory, 0o700)
        for name, content in self.files.items():
            descriptor = os.open(target / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                _fill(descriptor, content)
            finally:
                os.close(descriptor)


def _fill(descriptor: int, content: Content) -> None:
    os.ftruncate(descriptor, content.size)
    run: list[bytes] = []
    begin = 0
    for number in sorted(content.pages):
        if run and begin + len(run) != number:
            os.pwrite(descriptor, b"".join(run), begin * PAGE)
            run = []
        if not run:
            begin = number
        run.append(content.pages[number])
    if run:
        os.pwrite(descriptor, b"".join(run)[: content.size - begin * PAGE], begin * PAGE)


Tear = tuple[int, int, int]  # old version, new version, bits of the sectors that are new


@dataclass(slots=True)
class Pick:
    """Which of the pending things made it: all (`is_new`) or none, but for the exceptions."""

    label: str
    is_new: bool
    names: set[int]
    pages: dict[tuple[Node, int], int] = field(default_factory=dict)  # the version to take, counted from the oldest
    torn: dict[tuple[Node, int], Tear] = field(default_factory=dict)
    sizes: dict[Node, int] = field(default_factory=dict)


class Snapshot:
    """The pending things of a disk at one moment, and the states that they allow."""

    def __init__(self, disk: Disk, is_ignored: str = "-lock") -> None:
        self.disk = disk
        self.ignored = is_ignored  # LMDB's lock file: shared memory that no reopen reads
        self.files = {node: file for node, file in disk.files.items() if not file.is_settled}
        self.pages = [(node, number) for node, file in self.files.items() for number in sorted(file.pending)]
        self.grown = [node for node, file in self.files.items() if len(file.sizes) > 1]
        self.names = disk.names.optional()

    @property
    def every_name(self) -> set[int]:
        return set(range(len(self.names)))

    def picks(self, chance: random.Random) -> Iterator[Pick]:
        """The systematic picks, the telling ones first, the rest in random order."""
        every = self.every_name
        yield Pick("nothing", False, set())
        yield Pick("everything", True, every)
        if self.names:
            yield Pick("data only", True, set())
            yield Pick("names only", False, every)
        rest = [*self._page_picks(every), *self._name_picks(every), *self._size_picks(every)]
        chance.shuffle(rest)
        yield from rest

    def _page_picks(self, every: set[int]) -> Iterator[Pick]:
        grown = {node: len(self.files[node].sizes) - 1 for node in self.grown}
        for place in self.pages:
            versions = self._count(place)
            where = f"page {place[0]}:{place[1]}"
            for version in range(versions - 1):
                yield Pick(f"{where} version {version} of {versions}", True, every, {place: version})
            for version in range(1, versions):
                yield Pick(f"{where} alone, version {version}", False, every, {place: version}, sizes=grown)
            for cut in (1, SECTORS // 2, SECTORS - 1):
                front = (1 << cut) - 1
                for mask in (front, ~front & 0xFF):
                    torn = {place: (0, versions - 1, mask)}
                    yield Pick(f"{where} torn {mask:08b}", True, every, torn=torn)
                    yield Pick(f"{where} torn alone {mask:08b}", False, every, torn=torn, sizes=grown)

    def _name_picks(self, every: set[int]) -> Iterator[Pick]:
        for is_new in (True, False):
            for place in every:
                yield Pick(f"names to {place}, data {is_new}", is_new, set(range(place)))
                yield Pick(f"names but {place}, data {is_new}", is_new, every - {place})
                yield Pick(f"name {place} alone, data {is_new}", is_new, {place})

    def _size_picks(self, every: set[int]) -> Iterator[Pick]:
        for node in self.grown:
            for place in range(len(self.files[node].sizes)):
                yield Pick(f"size {node}:{place}", True, every, sizes={node: place})
                yield Pick(f"size {node}:{place} alone", False, every, sizes={node: place})

    def random_pick(self, chance: random.Random, number: int) -> Pick:
        """Any combination; half of them torn somewhere."""
        share = chance.choice((0.1, 0.5, 0.9))
        names = {place for place in self.every_name if chance.random() < chance.choice((share, 0.5))}
        if chance.random() < 0.3:
            names = set(range(chance.randint(0, len(self.names))))
        pick = Pick(f"random {number}", True, names)
        for place in self.pages:
            last = self._count(place) - 1
            if chance.random() < 0.15:
                pick.torn[place] = (chance.randint(0, last), chance.randint(0, last), chance.getrandbits(SECTORS))
            else:
                pick.pages[place] = last if chance.random() < share else chance.randint(0, last)
        for node in self.grown:
            last = len(self.files[node].sizes) - 1
            pick.sizes[node] = last if chance.random() < 0.7 else chance.randint(0, last)
        return pick

    def _count(self, place: tuple[Node, int]) -> int:
        return len(self.files[place[0]].pages[place[1]])

    # -- from a pick to a state --------------------------------------------------------------------------------------

    def digest(self, pick: Pick) -> tuple[bytes, Layout]:
        """The digest of the state that a pick leads to, and where its files are, without building it."""
        layout = _layout(self.disk, pick.names, self.ignored)
        digest = hashlib.blake2b(digest_size=16)
        for directory in layout.directories:
            digest.update(directory.encode() + b"\0d")
        for path, node in layout.files:
            file = self.disk.files[node]
            pages, size = self._chosen(node, file, pick)
            content = file.digest
            for number, version in pages.items():
                content ^= file.pages[number][0].digest ^ version.digest
            digest.update(b"%s\0%d\0%d\0" % (path.encode(), size.bytes, content))
        return digest.digest(), layout

    def state(self, pick: Pick, digest: bytes, layout: Layout) -> State:
        files: dict[str, Content] = {}
        for path, node in layout.files:
            file = self.disk.files[node]
            chosen, size = self._chosen(node, file, pick)
            pages = {number: versions[0].data for number, versions in file.pages.items()}
            pages.update((number, version.data) for number, version in chosen.items())
            kept = {number: data for number, data in pages.items() if number * PAGE < size.bytes and data != ZEROS}
            files[path] = Content(size.bytes, kept)
        return State(pick.label, digest, layout.directories, files)

    def _chosen(self, node: Node, file: File, pick: Pick) -> tuple[dict[int, Version], Size]:
        """The versions of a file's pending pages, and the size, that a pick means."""
        if file.is_settled:
            return {}, file.sizes[0]
        size = file.sizes[pick.sizes.get(node, len(file.sizes) - 1 if pick.is_new else 0)]
        chosen: dict[int, Version] = {}
        for number in file.pending:
            allowed = file.allowed(number, size)
            place = (node, number)
            if place in pick.torn:
                old, new, mask = pick.torn[place]
                chosen[number] = _tear(number, _at(allowed, old), _at(allowed, new), mask)
            else:
                chosen[number] = _at(allowed, pick.pages.get(place, len(allowed) if pick.is_new else 0))
        return chosen, size


def _at(versions: list[Version], place: int) -> Version:
    return versions[min(place, len(versions) - 1)]


def _tear(number: int, old: Version, new: Version, mask: int) -> Version:
    """A page of which some sectors are new: bit 0 is the first one."""
    chosen = [new.data if mask >> place & 1 else old.data for place in range(SECTORS)]
    data = b"".join(page[place * SECTOR : (place + 1) * SECTOR] for place, page in enumerate(chosen))
    if data == old.data:
        return old
    return new if data == new.data else Version(number, data, new.time)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the directories and files are."""

    directories: tuple[str, ...]
    files: tuple[tuple[str, Node], ...]


def _layout(disk: Disk, names: set[int], ignored: str) -> Layout:
    tree = disk.names.after(names)
    directories: list[str] = []
    files: list[tuple[str, Node]] = []

    def walk(node: Node, path: str) -> None:
        for name, child in sorted(tree[node].items()):
            if child in disk.files:
                if not name.endswith(ignored):
                    files.append((path + name, child))
            else:
                directories.append(path + name)
                walk(child, path + name + "/")

    walk(Disk.ROOT, "")
    return Layout(tuple(directories), tuple(files))


def enumerate_states(disk: Disk, chance: random.Random, limit: int) -> Iterator[State]:
    """At most `limit` different states that a power cut at this moment may leave."""
    snapshot = Snapshot(disk)
    seen: set[bytes] = set()

    def every_pick() -> Iterator[Pick]:
        yield from snapshot.picks(chance)
        if snapshot.pages or snapshot.grown or len(snapshot.names) > 1:
            for number in range(limit * RANDOM_TRIES):
                yield snapshot.random_pick(chance, number)

    for pick in every_pick():
        if len(seen) >= limit:
            return
        digest, layout = snapshot.digest(pick)
        if digest not in seen:
            seen.add(digest)
            yield snapshot.state(pick, digest, layout)
