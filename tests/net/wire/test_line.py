"""The text line."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from journal.errors import Invalid, LineError
from journal.net.wire.line import LineAddress, Message, format_line, parse_line

NAMES = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,20}\Z")
PLACES = st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}\Z")
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.text(';"\\\n\r =nr', max_size=10)
MESSAGES = st.builds(
    Message,
    st.from_regex(r"\A[A-Z_][A-Z0-9_]{0,20}\Z"),
    st.dictionaries(NAMES, VALUES, max_size=8),
    st.just(LineAddress()) | st.builds(LineAddress, st.just("") | PLACES, PLACES),
    st.none() | st.builds(LineAddress, PLACES, PLACES),
)
LINES = st.text('<:/ ABCab12_.-=;"\\nr\n\ré', max_size=60).map(str.encode) | st.binary(max_size=60)


@given(MESSAGES)
def test_a_message_comes_back(message: Message) -> None:
    """What is written is read again, with and without a line end, and written the same."""
    line = format_line(message)
    assert b"\n" not in line and b"\r" not in line
    for end in (b"", b"\n", b"\r\n"):
        assert parse_line(line + end) == message
    assert format_line(parse_line(line)) == line


@given(LINES)
@example(b"")
@example(b"<a:b A x=\\")
@example(b'A x="\\')
@example(b"A x=\xff")
def test_any_bytes_give_a_message_or_a_line_error(raw: bytes) -> None:
    """Nothing that is sent makes anything else happen; a message that was understood can be written."""
    found: list[LineError] = []
    try:
        message = parse_line(raw)
        assert parse_line(format_line(message)) == message
    except LineError as e:
        found.append(e)
    for e in found:
        assert 0 <= e.position <= len(raw)
        assert e.reason and e.reason in str(e)
        assert str(e).isprintable()


@given(MESSAGES, st.data())
def test_damaged_lines(message: Message, data: st.DataObject) -> None:
    """A line that was cut or flipped is a message or a LineError."""
    line = bytearray(format_line(message))
    at = data.draw(st.integers(0, len(line) - 1))
    line[at] ^= data.draw(st.integers(1, 255))
    for raw in (bytes(line), bytes(line[:at])):
        try:
            parse_line(raw)
        except LineError:
            pass


def test_the_whole_form() -> None:
    """Sender, target, command and parameters, quoted and not."""
    line = b'<host-1:backend_1 work:pages/LISTEN port=4041;note="a;b\\"c";path=C:\\\\x\\ny;empty=;'
    assert parse_line(line) == Message(
        "LISTEN",
        {"port": "4041", "note": 'a;b"c', "path": "C:\\x\ny", "empty": ""},
        LineAddress("work", "pages"),
        LineAddress("host-1", "backend_1"),
    )
    assert parse_line(b"PING\r\n") == Message("PING")
    assert parse_line(b"pages/STATUS  a=/;b=x y") == Message("STATUS", {"a": "/", "b": "x y"}, LineAddress("", "pages"))


@pytest.mark.parametrize(
    ("raw", "position", "reason"),
    [
        (b"", 0, "empty"),
        (b"put", 0, "command"),
        (b'{"command": "PUT"}', 0, "JSON"),
        (b"<host PING", 5, "service"),
        (b"<host: PING", 6, "service"),
        (b"a:/PING", 2, "a service"),
        (b"PING\tx=1", 4, "space"),
        (b"PING x", 6, "'='"),
        (b"PING 1=2", 5, "name"),
        (b"PING a=1;a=2", 9, "twice"),
        (b"PING a=1;;", 9, "name"),
        (b'PING a="1', 7, "not closed"),
        (b'PING a="1"x', 10, "';'"),
        (b"PING a=\\t", 7, "backslash"),
        ("PING a=é\\t".encode(), 9, "backslash"),
        (b"PING a=\xc3", 7, "UTF-8"),
        (b"PING\nPING", 4, "line end"),
        (b"P" * 65, 0, "at most 64"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_what_is_wrong_and_where(raw: bytes, position: int, reason: str) -> None:
    """A person with netcat is told what to mend."""
    with pytest.raises(LineError, match=reason) as caught:
        parse_line(raw)
    assert caught.value.position == position


def test_limits_come_first() -> None:
    """A long line is not looked at, and no parameter beyond the limit is read."""
    with pytest.raises(LineError, match="101 bytes, and 100"):
        parse_line(b"\xff" * 101, bytes_max=100)
    assert len(parse_line(b"A a=;b=", parameters_max=2).parameters) == 2
    with pytest.raises(LineError, match="more than 2") as caught:
        parse_line(b"A a=;b=;\\", parameters_max=2)
    assert caught.value.position == 8


def test_what_cannot_be_written() -> None:
    """A message that does not fit into a line is refused before anything is sent."""
    with pytest.raises(Invalid, match="surrogates"):
        format_line(Message("A", {"a": "\ud800"}))
    with pytest.raises(Invalid, match="text or an int"):
        format_line(Message("A", {"a": b"x"}))
    with pytest.raises(Invalid, match="bytes, and 10 are allowed"):
        format_line(Message("A", {"a": "x" * 10}), bytes_max=10)
    assert format_line(Message("A", {"b": 7, "a": " x"})) == b'A a=" x";b=7'
