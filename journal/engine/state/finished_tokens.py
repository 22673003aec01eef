"""
The tokens of leases that were finished lately: a repeated `done` succeeds and changes nothing.

N1  At most FINISHED_MAX are remembered, the last ones. They are kept in "meta" of the active generation only, in chunks,
    one for each checkpoint that had any.
N2  A token never comes twice in a store, so journals that share their rows share this list.
N3  A chunk whose name is damaged is an error, not an unknown row: its tokens would be lost without an error.
"""

from __future__ import annotations

import struct

from journal.core.limits import FINISHED_MAX
from journal.engine.state.file import GenerationRows
from journal.errors import StoreDamaged

_U64 = struct.Struct(">Q")
_CHUNK = b"f"
_FIRST = b"f\0"
"""All chunks begin so, as their numbers are small, and the name of no journal does."""
_ZEROS = bytes(4)
"""In the name of each chunk, and of nothing else in "meta": the others are texts."""


class Finished:
    """Under the journal's lock."""

    def __init__(self) -> None:
        self.tokens: dict[int, None] = {}
        """Oldest first."""
        self._fresh: list[int] = []
        """Not kept yet."""
        self._chunks: list[tuple[int, int]] = []
        """The numbers of the chunks that are kept, and how many tokens each has."""

    def add(self, token: int) -> None:
        """A lease was finished (N1)."""
        tokens = self.tokens
        tokens[token] = None
        self._fresh.append(token)
        if len(tokens) > FINISHED_MAX:
            del tokens[next(iter(tokens))]

    def load(self, active: GenerationRows) -> None:
        """Remember what is kept, and nothing else."""
        self.tokens.clear()
        self._fresh.clear()
        self._chunks.clear()
        for name, value in active.all(active.meta):
            if not name.startswith(_FIRST):
                if _ZEROS in name:  # a chunk whose name has lost its beginning would be skipped without an error
                    raise StoreDamaged(
                        f"{active.file.path}: the row {name.hex()} of meta has a name that none can have"
                    )
                continue
            tokens = struct.unpack(f">{len(value) // 8}Q", value)
            self._chunks.append((_U64.unpack(name[1:])[0], len(tokens)))
            for token in tokens:
                self.tokens[token] = None
        while len(self.tokens) > FINISHED_MAX:
            del self.tokens[next(iter(self.tokens))]

    def keep(self, active: GenerationRows) -> None:
        """Write what is new; a checkpoint follows."""
        if not self._fresh:
            return
        self._write(active, self._chunks[-1][0] + 1 if self._chunks else 0, self._fresh)
        self._fresh.clear()
        total = sum(size for _, size in self._chunks)
        while total - self._chunks[0][1] >= FINISHED_MAX:
            number, size = self._chunks.pop(0)
            active.delete(_CHUNK + _U64.pack(number), db=active.meta)
            total -= size

    def move_to(self, active: GenerationRows) -> None:
        """Another generation is active from now on; nothing is fresh."""
        self._chunks.clear()
        if self.tokens:
            self._write(active, 0, list(self.tokens))

    def _write(self, active: GenerationRows, number: int, tokens: list[int]) -> None:
        active.put(_CHUNK + _U64.pack(number), struct.pack(f">{len(tokens)}Q", *tokens), db=active.meta)
        self._chunks.append((number, len(tokens)))
