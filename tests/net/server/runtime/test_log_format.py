"""The daemon's log: events with fields, one a line, whatever is in them."""

from __future__ import annotations

import io
import json
import logging
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.net.server.runtime.log_format import JsonFormat, TextFormat, fields_of, logged

ROOT = Path(__file__).resolve().parents[4]


def record(msg: Any, *args: Any, level: int = logging.INFO, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("journal.daemon", level, "", 0, msg, args, info)
    made.created = 1_700_000_000.25
    return made


def test_a_line_has_an_event_and_fields() -> None:
    """With time, level and logger in front."""
    line = TextFormat().format(record("peer_ended peer=%s number=%d error=%s", "uid-1000", 5, "it is late"))
    assert line == ('2023-11-14T22:13:20.250Z INFO journal.daemon peer_ended peer=uid-1000 number=5 error="it is late"')
    assert TextFormat().format(record("stopped")) == "2023-11-14T22:13:20.250Z INFO journal.daemon stopped"


def test_an_object_has_the_same_with_types() -> None:
    """Numbers stay numbers."""
    line = JsonFormat().format(record("peer_ended number=%d late=%.1f who=%s none=%s key=%r", 5, 0.25, "a", None, "k"))
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z", "level": "INFO", "logger": "journal.daemon", "event": "peer_ended",
        "number": 5, "late": 0.25, "who": "a", "none": None, "key": "'k'",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("msg", "args", "expected"),
    [
        ("Something went wrong", (), "Something went wrong"),
        ("got %s of %s", (1, 2), "got 1 of 2"),
        ("event a=%s b", (1,), "event a=1 b"),
        ("Event a=%s", (1,), "Event a=1"),
        (ValueError("x"), (), "x"),
        ("100%", (), "100%"),
        ("%(a)s", ({"a": 5},), "5"),
    ],
)
def test_what_is_a_sentence_is_a_message(msg: Any, args: tuple[Any, ...], expected: str) -> None:
    """Nothing is lost, nothing guessed."""
    assert fields_of(record(msg, *args)) == ("message", {"message": expected})


def test_an_error_has_its_traceback_in_the_line() -> None:
    """As one field."""
    failed = record("failed a=%d", 1, error=ValueError("two\nlines"))
    line = TextFormat().format(failed)
    assert json.loads(JsonFormat().format(failed))["traceback"].endswith("two\nlines")
    assert "\n" not in line and "failed a=1 traceback=" in line and "ValueError" in line


@given(st.text(), st.text())
def test_nobody_forges_a_line(one: str, two: str) -> None:
    """One line of printable ASCII, from which the values can be read again."""
    written = record("event one=%s two=%s", one, two)
    line = TextFormat().format(written)
    assert line.isascii() and line.isprintable()
    words = re.fullmatch(r'\S+ INFO journal\.daemon event one=(\S+|".*?") two=(\S+|".*")', line)
    assert words is not None
    assert line.endswith((f" two={two}", f" two={json.dumps(two)}"))
    found = json.loads(JsonFormat().format(written))
    assert (found["one"], found["two"]) == (one, two)
    assert JsonFormat().format(written).isprintable()


def test_fields_do_not_take_the_place_of_others() -> None:
    """A field that is called as one of ours keeps a name of its own."""
    found = json.loads(JsonFormat().format(record("peer time=%s level=%s event=%s", "never", "none", "other")))
    assert (found["event"], found["level"], found["event_"], found["time_"]) == ("peer", "INFO", "other", "never")


def test_the_systems_journal_gets_priorities(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And no time, which it has itself; only when the stream really leads there."""
    with open(tmp_path / "out", "w") as stream:
        found = os.fstat(stream.fileno())
        for journal, expected in (
            (f"{found.st_dev}:{found.st_ino}", "<4>test late by_ms=5\n"),
            ("1:1", re.compile(r"\d{4}-.*Z WARNING test late by_ms=5\n")),
        ):
            monkeypatch.setenv("JOURNAL_STREAM", journal)
            with logged("text", "info", stream):
                logging.getLogger("test").warning("late by_ms=%d", 5)
            line = (tmp_path / "out").read_text()
            assert line == expected if isinstance(expected, str) else expected.fullmatch(line)
            stream.truncate(0)
            stream.seek(0)


def test_levels() -> None:
    """What is below is not written; after the end nothing is."""
    stream, before = io.StringIO(), logging.getLogger().level
    with logged("json", "warning", stream):
        logging.getLogger("journal.test").info("little")
        logging.getLogger("journal.test").error("much")
    logging.getLogger("journal.test").error("more")
    assert logging.getLogger().level == before
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["much"]


def test_all_that_the_package_logs_are_events() -> None:
    """A call that is a sentence would be one field, `message`, that no program can read."""
    call = re.compile(r"\blog\.(?:debug|info|warning|error|exception)\(\s*(f?)\"([^\"]*)\"", re.DOTALL)
    wrong = []
    for path in sorted((ROOT / "journal").rglob("*.py")):
        for is_f, msg in call.findall(path.read_text()):
            count = msg.count("%")
            event, _ = fields_of(record(msg, *[0] * count))
            if is_f or event == "message":
                wrong.append(f"{path.relative_to(ROOT)}: {msg}")
    assert wrong == []
