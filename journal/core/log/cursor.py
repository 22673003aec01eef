"""
A cursor: a place in a journal's log, `(order, offset)`.

order is the generation (from 1), offset the change within its log (from 0; -1 is before the first). The text is
`001-%04x-%018d`, with `-1` for before-first; cursors sort as their pairs do. A cursor at the end of a closed
generation is the same place as the beginning of the next one; `journal.core.log.cursor_math` handles that, not this module.

K1  `parse(str(cursor)) == cursor` for every cursor that a log can have, and one cursor has one text, up to the case of
    its hexadecimal digits. The old forms (a bare number of at most 18 digits, BEGIN) are read and never written.

Inside of the engine a place is one number, `at`: (order - 1) << 40 | offset. It grows over all generations.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from journal.errors import Invalid

# Four digits, as the format says, or as many more as the order needs: a fifth digit is never a leading zero (K1).
_ORDER = re.compile(r"[0-9a-fA-F]{4}|[1-9a-fA-F][0-9a-fA-F]{4,7}")
_OFFSET = re.compile(r"-1|[0-9]{18}")
_DIGITS = re.compile(r"[0-9]+")
_FORM = "001-<order, 4 hex digits>-<offset, 18 digits or -1>, a bare number, or BEGIN"
AT_BITS = 40
_OFFSET_MAX = (1 << AT_BITS) - 1
"""No change has this one: a generation's log is full before."""


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
        if _DIGITS.fullmatch(text) and len(text) <= 18:
            return cls(1, int(text))
        parts = text.split("-", 2)
        reason = _reason(text, parts)
        if reason is not None:
            raise Invalid(f"{_cut(text)} is not a cursor: {reason}. Expected {_FORM}")
        return cls(int(parts[1], 16), int(parts[2]))


def _reason(text: str, parts: list[str]) -> str | None:
    """What is wrong with a text, of which these are the parts; None when it is a cursor."""
    if not text:
        return "it is empty"
    if text != text.strip():
        return "there is white space around it"
    if text == "-1":
        return "an offset of -1 needs its generation: 001-0001--1, or BEGIN"
    if text == "END":
        return "where the log ends is not a fixed place: ask the journal for its newest cursor"
    if len(parts) == 1 and _DIGITS.fullmatch(text):
        return f"a bare number has at most 18 digits, this one has {len(text)}"
    if len(parts) != 3:
        return f"it has {len(parts)} of the three parts version, order and offset"
    version, order, offset = parts
    if version != "001":
        return f"its version is {_cut(version)}, and 001 is the only one that is known"
    if not _ORDER.fullmatch(order):
        return f"its order is {_cut(order)}, which is not 4 hexadecimal digits (5 to 8 from 10000 on)"
    if int(order, 16) == 0:
        return "its order is 0, and generations are numbered from 1"
    if not _OFFSET.fullmatch(offset):
        return f"its offset is {_cut(offset)}, which is neither 18 digits nor -1"
    return None


def _cut(text: str) -> str:
    """The text for a message: what was given may be megabytes."""
    return repr(text) if len(text) <= 60 else f"{text[:60]!r}… ({len(text)} characters)"


def base_of(order: int) -> int:
    """The place of a generation's first change."""
    return (order - 1) << AT_BITS


def place_of(cursor: Cursor) -> int:
    """The place of a cursor."""
    return base_of(cursor.order) + cursor.offset


def cursor_of(at: int) -> Cursor:
    """The cursor of a place; of the one in front of a generation, where nothing is, the cursor before its first change."""
    offset = at & _OFFSET_MAX
    return Cursor((at >> AT_BITS) + 1, offset) if offset != _OFFSET_MAX else Cursor((at >> AT_BITS) + 2, -1)
