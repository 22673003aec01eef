"""
How much of a generation is its own: what moved to it from older ones is no reason to begin the next.

    meta    "growth" -> msgpack [own bytes, used bytes, is moving, carries]: as of the commit before, and whether the
            pages that this commit adds are survivors'

Were survivors to count, a rotation would fill the active generation by the moves that make place for it, and so make the
next one due; an idle journal would rewrite its entries for ever.

W1  Own bytes are the pages that checkpoints have added to the file. What one adds while survivors move counts as
    theirs, whole: a page has rows of both. So do the rows that a generation begins with.
W2  Carries are the changes of this generation's log that moved survivors; all other changes count as its own.
W3  Both are kept in the commit that they are about, so that a reopen or a replay counts nothing twice.
"""

from __future__ import annotations

import msgpack

NAME = b"growth"


class Growth:
    """What came to one generation while it was active. Under the journal's lock."""

    __slots__ = ("carries", "is_moving", "own_bytes", "used_bytes")

    def __init__(self) -> None:
        self.own_bytes = 0
        self.carries = 0
        self.used_bytes = 0
        """The whole file, as of the last commit."""
        self.is_moving = False
        """Whether rows have moved here since the last commit."""

    def carried(self) -> None:
        """A record moved survivors here (W2)."""
        self.carries += 1
        self.is_moving = True

    def committed(self, used_bytes: int) -> None:
        """A commit has made the file so large (W1)."""
        if not self.is_moving:
            self.own_bytes += max(0, used_bytes - self.used_bytes)
        self.used_bytes = used_bytes
        self.is_moving = False

    def kept(self) -> bytes:
        """What to write in the next commit (W3)."""
        packed: bytes = msgpack.packb((self.own_bytes, self.used_bytes, self.is_moving, self.carries))
        return packed

    def load(self, kept: bytes | None, used_bytes: int) -> None:
        """Go on with what the last commit wrote; a file without it has only its own. ValueError or TypeError: damage."""
        fields = (0, 0, False, 0) if kept is None else msgpack.unpackb(kept)
        self.own_bytes, self.used_bytes, self.is_moving, self.carries = fields
        self.committed(used_bytes)
