"""
A cursor: a place in a journal's log, `(order, offset)`.

order is the generation (from 1), offset the change within its log (from 0; -1 is before the first). The text is
`001-%04x-%018d`, with `-1` for before-first; cursors sort as their pairs do.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from journal.errors import Invalid

_TEXT = re.compile(r"001-([0-9a-fA-F]{4,8})-(-1|[0-9]{18})")
_OLD = re.compile(r"[0-9]{1,18}")


class Cursor(NamedTuple):
    """A place in the log; comparable, printable, parseable."""

    order: int
    offset: int

    def __str__(self) -> str:
        return f"001-{self.order:04x}-" + ("-1" if self.offset < 0 else f"{self.offset:018d}")

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The cursor of a text; the old forms (a bare number, BEGIN) mean the first generation."""
        if type(text) is not str:
            raise Invalid(f"a cursor is parsed from a text, not from {text!r}")
        if text == "BEGIN":
            return cls(1, -1)
        if _OLD.fullmatch(text):
            return cls(1, int(text))
        match = _TEXT.fullmatch(text)
        if match is None:
            raise Invalid(
                f"{text!r} is not a cursor: expected 001-<order, 4 hex digits>-<offset, 18 digits or -1>, "
                "a bare number, or BEGIN"
            )
        order = int(match[1], 16)
        if order == 0:
            raise Invalid(f"{text!r} is not a cursor: generations are numbered from 1")
        return cls(order, int(match[2]))
