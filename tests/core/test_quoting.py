"""What others sent, made fit for a log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal.core.quoting import REASON_MAX, TEXT_MAX, shown, told

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_one_short_printable_line(value: object) -> None:
    """Nothing that is sent can forge a line of a log, move a cursor or fill a disk."""
    text = shown(value)
    assert text.isprintable()
    assert len(text) <= 10 * TEXT_MAX + 40


def test_what_is_shown() -> None:
    """It stays readable."""
    assert shown("a\x1b[2J\nERROR é") == "'a\\x1b[2J\\nERROR é'"
    assert shown("x" * 100) == f"'{'x' * 60}'… (100 characters)"
    assert shown(bytearray(b"\xff" * 61)) == f"{(b'%c' % 255) * 60!r}… (61 bytes)"
    assert shown([1, 2]) == "<list of 2>"
    assert shown(object()) == "<object>"


def test_what_we_say_is_told_whole() -> None:
    """The remedy stands at the end of a reason; nobody forges a line with what is in it, nor fills a log."""
    reason = "a frame says that it has 4294967295 bytes, and 1048576 are allowed: " + "mend it " * 10
    assert told(ValueError(reason)) == reason
    assert told("a\x1b[2J\nERROR é\udcff") == "a\\x1b[2J\\nERROR é\\udcff"
    assert told("x" * 10_000) == "x" * REASON_MAX + "…"
