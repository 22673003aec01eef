"""
The content of one file on a disk: its durable pages and size, and what is still on its way.

P1  A page (4096 bytes) on the disk is one of its versions: the durable one or any later one, whole or torn at sectors (512 bytes).
    Pages go to the disk in any order; the versions of one page do not mix otherwise, since the kernel writes back what the page holds.
P2  A sync makes durable what had been written before it began, and the size that goes with it.
P3  A size that grew is one more pending thing. A page beyond the size that made it to the disk does not exist; a size without its pages
    reads as zeros. A shrink that did not make it to the disk hides all that was written to the cut pages after it.
P4  A page that a failed sync lost is clean: the program sees what it wrote, the disk has what was there before, and no later sync writes
    it. Any later write to it, also of the same bytes, makes all of it pending again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

PAGE = 4096
SECTOR = 512
ZEROS = bytes(PAGE)


def page_digest(number: int, data: bytes) -> int:
    """What a page adds to its file's digest; zeros add nothing, whether written or never written."""
    if data == ZEROS:
        return 0
    return int.from_bytes(hashlib.blake2b(data, digest_size=16, salt=number.to_bytes(8, "big")).digest(), "big")


class Version:
    """What a page held at one time. `after_shrink` is the time of the last shrink that cut the page (P3)."""

    __slots__ = ("after_shrink", "data", "digest", "is_written", "time")

    def __init__(self, number: int, data: bytes, time: int, is_written: bool = True, after_shrink: int = 0) -> None:
        self.data = data
        self.digest = page_digest(number, data)
        self.time = time
        self.is_written = is_written
        self.after_shrink = after_shrink


@dataclass(slots=True, eq=False)
class Size:
    """A size that the file had from a time on."""

    bytes: int
    time: int
    is_written: bool = True


class File:
    """The content of one file: durable pages and size, and the versions after them."""

    def __init__(self) -> None:
        self.pages: dict[int, list[Version]] = {}  # the first is durable; a page never written is absent
        self.pending: set[int] = set()  # pages with more than one version
        self.sizes: list[Size] = [Size(0, 0)]  # the first one is durable
        self.digest = 0  # of the durable pages
        self.lost: dict[int, bytes] = {}  # what the program sees of pages that a failed sync lost (P4)

    @property
    def size(self) -> int:
        """The size that the program sees."""
        return self.sizes[-1].bytes

    @property
    def is_settled(self) -> bool:
        return not self.pending and len(self.sizes) == 1

    def load(self, data: bytes) -> None:
        """Begin with this durable content."""
        self.sizes = [Size(len(data), 0)]
        for begin in range(0, len(data), PAGE):
            page = data[begin : begin + PAGE].ljust(PAGE, b"\0")
            if page != ZEROS:
                self.pages[begin // PAGE] = [Version(begin // PAGE, page, 0)]
                self.digest ^= self.pages[begin // PAGE][0].digest

    def write(self, offset: int, data: bytes, time: int, is_written: bool) -> list[Version | Size]:
        """Make new versions of the pages that the data touches, and tell which."""
        made: list[Version | Size] = []
        end = offset + len(data)
        for number in range(offset // PAGE, (end + PAGE - 1) // PAGE):
            begin = number * PAGE
            low, high = max(offset, begin), min(end, begin + PAGE)
            old = self.seen(number)
            new = old[: low - begin] + data[low - offset : high - offset] + old[high - begin :]
            if new != old or number in self.lost:  # zeros over a new file's zeros make no new state
                made.append(self._add(number, new, time, is_written))
        if end > self.size:
            self.sizes.append(Size(end, time, is_written))
            made.append(self.sizes[-1])
        return made

    def seen(self, number: int) -> bytes:
        """What the program sees in a page."""
        if number in self.lost:
            return self.lost[number]
        versions = self.pages.get(number)
        return versions[-1].data if versions else ZEROS

    def differs(self, content: bytes) -> int | None:
        """From where on the program sees something else than this content; None: it sees this."""
        for begin in range(0, max(len(content), self.size), PAGE):
            if content[begin : begin + PAGE] != self.seen(begin // PAGE)[: max(0, self.size - begin)]:
                return begin
        return None

    def _add(self, number: int, data: bytes, time: int, is_written: bool, after_shrink: int = 0) -> Version:
        self.lost.pop(number, None)
        versions = self.pages.setdefault(number, [])
        if not versions:
            versions.append(Version(number, ZEROS, 0))
        version = Version(number, data, time, is_written, after_shrink or versions[-1].after_shrink)
        versions.append(version)
        self.pending.add(number)
        return version

    def resize(self, size: int, time: int) -> None:
        """ftruncate: what is cut off reads as zeros when the file grows again."""
        if size < self.size:
            for number in [number for number in self.pages if (number + 1) * PAGE > size]:
                kept = self.seen(number)[: max(0, size - number * PAGE)].ljust(PAGE, b"\0")
                self._add(number, kept, time, True, after_shrink=time)
        if size != self.size:
            self.sizes.append(Size(size, time))

    def zero(self, offset: int, length: int, time: int) -> None:
        """Punch a hole: zeros within the size that there is."""
        end = min(offset + length, self.size)
        if end > offset:
            self.write(offset, bytes(end - offset), time, True)

    def allowed(self, number: int, size: Size) -> list[Version]:
        """The versions of a page that go with a size, oldest first (P3)."""
        versions = self.pages[number]
        shrink = max(version.after_shrink for version in versions if version.after_shrink <= size.time)
        return [version for version in versions if version.after_shrink == shrink]

    def covered(self) -> tuple[dict[int, Version], Size]:
        """What a sync that begins now will make durable (P2)."""
        pages = {number: _last_written(self.pages[number]) for number in self.pending}
        return pages, _last_written(self.sizes)

    def lose(self, pages: dict[int, Version], is_lost: Callable[[], bool]) -> None:
        """A sync failed (P4): of what it covered some pages were written, and the others never will be."""
        lost = {number: version for number, version in pages.items() if is_lost()}
        self.settle({number: version for number, version in pages.items() if number not in lost}, self.sizes[0])
        for number, version in lost.items():
            versions = self.pages[number]
            if version not in versions[1:]:
                continue
            del versions[1 : versions.index(version) + 1]
            if len(versions) == 1:
                self.pending.discard(number)
                self.lost[number] = version.data

    def settle(self, pages: dict[int, Version], size: Size) -> None:
        """A sync ended: what it covered is durable, what came later is still pending."""
        for number, version in pages.items():
            versions = self.pages[number]
            if version not in versions[1:]:
                continue  # another sync was there first
            self.digest ^= versions[0].digest ^ version.digest
            del versions[: versions.index(version)]
            version.after_shrink = 0
            if len(versions) == 1:
                self.pending.discard(number)
                if version.data == ZEROS:
                    del self.pages[number]
        if size in self.sizes:
            del self.sizes[: self.sizes.index(size)]


_Dated = TypeVar("_Dated", Version, Size)


def _last_written(versions: list[_Dated]) -> _Dated:
    """The newest version whose write, and every write before it, has returned."""
    chosen = versions[0]
    for version in versions[1:]:
        if not version.is_written:
            break
        chosen = version
    return chosen
