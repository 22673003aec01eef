"""Options are parsed once; what is not understood is refused with a code, before anything is opened."""

from __future__ import annotations

import pytest

from journal import Invalid
from spark_export.options.common import ReadOptions, asks_for_changes

PLACE = {"path": "work.journal", "journal": "pages"}


def test_all_options_of_a_reader() -> None:
    """Each has its type; names count without case and underscores, as Spark passes them on."""
    options = ReadOptions.parse(
        {
            **PLACE,
            "STATUS": "Waiting",
            "priority": "0-2, 50",
            "from": "1700000000000",
            "to": "2030-01-01T00:00:00Z",
            "keyprefix": "/a",
            "columns": "key, data",
            "decode": "json",
            "partitions": "7",
        }
    )
    assert (options.place.path, options.place.journal, options.place.is_address) == ("work.journal", "pages", False)
    assert options.rows.status == "waiting" and options.rows.priorities == (0, 1, 2, 50)
    assert (options.rows.since, options.rows.until) == (1_700_000_000_000, 1_893_456_000_000)
    assert options.rows.key_prefix == "/a" and options.columns == ("key", "data")
    assert (options.decode, options.partitions, options.snapshot) == ("json", 7, None)


@pytest.mark.parametrize("path", ["tcp://127.0.0.1:1", "tls://host:1", "unix:/run/x"])
def test_an_address_is_no_path(path: str) -> None:
    """What begins with tcp://, tls:// or unix: is a daemon."""
    assert ReadOptions.parse({**PLACE, "path": path}).place.is_address


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "x"}, "[JOURNAL_OPTION_MISSING] the option 'journal' is missing"),
        ({"journal": "x"}, "[JOURNAL_OPTION_MISSING] the option 'path' is missing"),
        (
            {**PLACE, "stauts": "waiting"},
            "[JOURNAL_OPTION_UNKNOWN] unknown option 'stauts' for reading a journal: did you",
        ),
        (
            {**PLACE, "qqq": "1"},
            "[JOURNAL_OPTION_UNKNOWN] unknown option 'qqq' for reading a journal: the options are path",
        ),
        (
            {**PLACE, "status": "new"},
            "[JOURNAL_OPTION_INVALID] option 'status': it is 'new': it must be one of waiting",
        ),
        ({**PLACE, "priority": "256"}, "[JOURNAL_OPTION_INVALID] option 'priority': it is '256'"),
        ({**PLACE, "priority": "9-1"}, "[JOURNAL_OPTION_INVALID] option 'priority': it is '9-1'"),
        ({**PLACE, "priority": ""}, "[JOURNAL_OPTION_INVALID] option 'priority': it is ''"),
        ({**PLACE, "from": "today"}, "[JOURNAL_OPTION_INVALID] option 'from': it is 'today'"),
        (
            {**PLACE, "to": "2030-01-01"},
            "[JOURNAL_OPTION_INVALID] option 'to': it is '2030-01-01', which has no time zone",
        ),
        ({**PLACE, "from": "2", "to": "1"}, "[JOURNAL_OPTION_INVALID] from (2) is after to (1)"),
        ({**PLACE, "columns": "a,,b"}, "[JOURNAL_OPTION_INVALID] option 'columns': it is 'a,,b'"),
        ({**PLACE, "columns": "a,A"}, "[JOURNAL_OPTION_INVALID] option 'columns': it is 'a,A'"),
        ({**PLACE, "decode": "xml"}, "[JOURNAL_OPTION_INVALID] option 'decode': it is 'xml'"),
        ({**PLACE, "partitions": "0"}, "[JOURNAL_OPTION_INVALID] option 'partitions': it is '0'"),
        ({**PLACE, "partitions": "many"}, "[JOURNAL_OPTION_INVALID] option 'partitions': it is 'many'"),
        ({"path": "x", "journal": "a/b"}, "[JOURNAL_OPTION_INVALID] option 'journal': 'a/b' is not a journal name"),
    ],
)
def test_what_is_refused(given: dict[str, str], message: str) -> None:
    """O1: with a stable code, what was found, and what is allowed."""
    with pytest.raises(Invalid) as refused:
        ReadOptions.parse(given)
    assert str(refused.value).startswith(message)


def test_changes_are_asked_for() -> None:
    """D2 of the source: true or false, nothing else."""
    assert (
        asks_for_changes({"Changes": "TRUE"})
        and not asks_for_changes({})
        and not asks_for_changes({"changes": "false"})
    )
    with pytest.raises(Invalid, match=r"^\[JOURNAL_OPTION_INVALID\]"):
        asks_for_changes({"changes": "yes"})
