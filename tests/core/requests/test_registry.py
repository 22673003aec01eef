"""The table of commands."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import journal
from journal.core.requests.control import ANSWERED_HERE
from journal.core.requests.registry import COMMANDS, CONTROL, GROUPS, NOT_COMMANDS, STORE_NOT_COMMANDS, command_named
from journal.core.requests.request import RetryRule, Scope
from journal.core.requests.types import FieldType
from journal.errors import Invalid, UnknownCommand
from journal.net.wire.document import PARTS, filled
from tests.net.wire.test_frames import PLAIN

ROWS = tuple(row for group in GROUPS.values() for row in group)
ROOT = Path(__file__).resolve().parents[3]
ELSEWHERE = {
    "durable_cursor": "DURABLE_CURSOR",
    "feed": "FEED_OPEN",
    "snapshot": "SNAPSHOT_OPEN",
    "remove_feed": "FEED_REMOVE",
    "mark_feed": "FEED_MARK",
    "skip_feed": "FEED_SKIP",
}
OF_THE_STORE = {
    "journal": "DECLARE",
    "journals": "JOURNALS",
    "merged": "MERGED",
    "drop": "DROP",
    "flags": "FLAGS",
    "lower": "LOWER",
    "statistics": "STORE_STATISTICS",
    "checkpoint": "CHECKPOINT",
    "check": "CHECK",
    "backup": "BACKUP",
}


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}


def test_every_verb_of_the_library_is_a_command() -> None:
    """A program that talks to a daemon can do all that an embedded one can."""
    for verb in public(journal.Journal) - set(NOT_COMMANDS):
        assert ELSEWHERE.get(verb, verb.upper()) in COMMANDS, verb
    for verb in public(journal.Store) - set(STORE_NOT_COMMANDS):
        assert OF_THE_STORE[verb] in COMMANDS, verb


def test_what_is_no_command_says_why() -> None:
    """Each has a reason, and is no command all the same."""
    for left_out, elsewhere in ((NOT_COMMANDS, ELSEWHERE), (STORE_NOT_COMMANDS, OF_THE_STORE)):
        assert all(left_out.values()) and not set(left_out) & set(elsewhere)
        assert not {name.upper() for name in left_out} & set(COMMANDS)


@pytest.mark.parametrize(
    "name",
    [
        *("put", "put_many", "create", "create_many", "move", "move_many", "delete", "delete_many"),
        *("claim", "claim_many", "claim_key", "done", "release", "bury", "extend", "lease"),
        *("get", "get_many", "select", "count", "entries_of", "count_of", "forecast", "raise_flag"),
        "load_commit",
    ],
)
def test_parameters_are_those_of_the_verb(name: str) -> None:
    """The same names, so that a call can be passed on as it is."""
    verb = set(inspect.signature(getattr(journal.Journal, name)).parameters) - {"self"}
    assert set(COMMANDS[name.upper()].parameters) == verb


def test_the_table_is_whole() -> None:
    """Each row has what the others have; those that change something say how they can be repeated."""
    assert len(COMMANDS) == len(CONTROL) + len(ROWS), "a name comes twice"
    assert {row.name for group in GROUPS.values() for row in group} == {row.name for row in ROWS}
    for name, row in COMMANDS.items():
        assert row.name == name and row.summary.endswith((".", "?")) and row.reply
        assert all(parameter.name == key for key, parameter in row.parameters.items())
        assert bool(row.answers) == (row.name not in {r.name for r in ROWS})
    assert {row.name for row in COMMANDS.values() if row.retry is RetryRule.KEY} == {"PUT", "PUT_MANY"}
    assert {row.name for row in COMMANDS.values() if row.retry is RetryRule.TOKEN} == {"DONE", "DONE_MANY", "EXTEND"}
    assert set(COMMANDS) > ANSWERED_HERE


def test_the_document_lists_what_the_table_has() -> None:
    """docs/PROTOCOL.md is true."""
    text = (ROOT / "docs" / "PROTOCOL.md").read_text(encoding="utf-8")
    assert all(f"<!-- made: {part} -->" in text for part in PARTS)
    assert filled(text) == text, "write filled(text) to docs/PROTOCOL.md"


GOOD: list[tuple[str, str, dict[str, Any]]] = [
    ("PUT", "pages", {"key": "a", "data": b"\xc0", "priority": 0, "delay": 5, "owner": None}),
    ("PUT", "pages", {"data": b"\xc0", "durability": "none"}),
    ("PUT_MANY", "pages", {"puts": [{"key": b"a", "data": b"\xc0"}, {"data": b"\x01"}]}),
    ("CLAIM_MANY", "pages", {"n": 100, "lease": 30_000, "consumer": "backend-1"}),
    ("CREATE_MANY", "pages", {"puts": [{"data": b"\xc0"}], "is_repeatable": True}),
    ("MOVE_MANY", "pages", {"moves": [{"key": "a", "delay": 5}, {"key": "b", "priority": 1, "version": 3}]}),
    ("DELETE_MANY", "pages", {"deletes": [{"key": "a"}, {"key": b"b", "owner": "shop"}]}),
    ("CLAIM", "pages", {"buckets": "0-3"}),
    ("SUBSCRIBE", "pages", {"buckets": "65535", "credit": 1}),
    ("SELECT", "pages", {"buckets": "5", "status": "available", "limit": 10, "after": b"x"}),
    ("RELEASE", "pages", {"token": 1, "failed": True}),
    ("RAISE_FLAG", "pages", {"name": "mail", "message": ""}),
    ("DONE_MANY", "pages", {"tokens": [0, (1 << 64) - 1]}),
    ("SHIFT", "pages", {"cursor": [1, -1], "n": -5}),
    ("FEED_OPEN", "pages", {"start": [1, 7], "live": True}),
    ("FEED_OPEN", "pages", {"start": "END"}),
    ("DECLARE", "pages", {"settings": {"rotate": "1d", "schema": {"fields": []}}}),
    ("PING", "", {"sent": 1, "offset": -3.5, "delay": 2}),
    ("LOAD_PART", "pages", {"load": "0" * 32, "part": "part-0_a=1", "at": 0, "piece": b""}),
    (
        "LOAD_COMMIT",
        "pages",
        {"load": "0" * 32, "parts": ["a"], "once": ["n", 7], "on_conflict": "skip", "on_reject": "list"},
    ),
]
BAD: list[tuple[str, str, dict[str, Any], str]] = [
    ("PUT", "", {"data": b"\xc0"}, "is for a journal"),
    ("PING", "pages", {}, "is for the daemon"),
    ("PUT", "pages", {"key": "a"}, "needs the parameter data"),
    ("PUT", "pages", {"data": None}, "data is None"),
    ("PUT", "pages", {"data": "x"}, "data is 'x': it must be bytes"),
    ("PUT", "pages", {"data": b"\xc0", "kye": 1}, "no parameter 'kye'"),
    ("PUT", "pages", {"data": b"\xc0", "key": ""}, "1 to 1024 bytes"),
    ("PUT", "pages", {"data": b"\xc0", "key": "é" * 513}, "1 to 1024 bytes"),
    ("PUT", "pages", {"data": b"\xc0", "key": 7}, "1 to 1024 bytes"),
    ("PUT", "pages", {"data": b"\xc0", "priority": True}, "priority is True"),
    ("PUT", "pages", {"data": b"\xc0", "priority": 256}, "from 0 to 255"),
    ("PUT", "pages", {"data": b"\xc0", "process_date": 1.5}, "process_date is 1.5"),
    ("PUT", "pages", {"data": b"\xc0", "durability": "maybe"}, '"full" or'),
    ("PUT_MANY", "pages", {"puts": [{"data": b"\xc0"}, 7]}, "a list of maps"),
    ("PUT_MANY", "pages", {"puts": [{"data": b"\xc0", "durability": "full"}]}, "no parameter 'durability'"),
    ("MOVE_MANY", "pages", {"moves": [7]}, "maps with the parameters of MOVE"),
    ("MOVE_MANY", "pages", {"moves": [{"delay": 5}]}, "needs the parameter key"),
    ("DELETE_MANY", "pages", {"deletes": ["a"]}, "maps with the parameters of DELETE"),
    ("CLAIM", "pages", {"lease": 0}, "from 1 to"),
    ("CLAIM", "pages", {"buckets": "3-0"}, "the first and the last bucket"),
    ("CLAIM", "pages", {"buckets": "65536"}, "below 65536"),
    ("CLAIM", "pages", {"buckets": [0, 4]}, "the first and the last bucket"),
    ("RAISE_FLAG", "pages", {"name": "", "message": "x"}, "1 to 255 bytes"),
    ("SHIFT", "pages", {"cursor": [1], "n": 1}, "a cursor"),
    ("SHIFT", "pages", {"cursor": [1, -2], "n": 1}, "a cursor"),
    ("FEED_OPEN", "pages", {"start": "MIDDLE"}, '"BEGIN", "END"'),
    ("FEED_OPEN", "pages", {"start": {}}, "a cursor"),
    ("DECLARE", "pages", {"settings": {"a b": 1}}, "a map with names"),
    ("LISTEN", "", {"port": 0, "journals": ["*"]}, "from 1 to 65535"),
    ("LISTEN", "", {"port": 1, "journals": ["a/b"]}, "name of a journal"),
    ("REGISTER", "", {"service": "a b"}, "1 to 64 letters"),
    ("PING", "", {"offset": float("nan")}, "an int or a float"),
    ("LOAD_PART", "pages", {"load": "../x", "part": "a", "at": 0, "piece": b""}, "32 hexadecimal digits"),
    ("LOAD_PART", "pages", {"load": "0" * 32, "part": "../a", "at": 0, "piece": b""}, "1 to 200 letters"),
    ("LOAD_PART", "pages", {"load": "0" * 32, "part": "a", "at": -1, "piece": b""}, "from 0 to"),
    ("LOAD_PART", "pages", {"load": "0" * 32, "part": "a", "at": 0, "piece": "x"}, "bytes of a part file"),
    ("LOAD_COMMIT", "pages", {"load": "0" * 32, "parts": "a"}, "a list of"),
    ("LOAD_COMMIT", "pages", {"load": "0" * 32, "parts": [], "once": ["n"]}, "a name of 1 to 255 bytes and a number"),
    ("LOAD_COMMIT", "pages", {"load": "0" * 32, "parts": [], "once": ["", 1]}, "1 to 255 bytes"),
    ("LOAD_COMMIT", "pages", {"load": "0" * 32, "parts": [], "once": ["n", -1]}, "from 0 to"),
    ("LOAD_COMMIT", "pages", {"load": "0" * 32, "parts": [], "on_conflict": "x"}, '"merge" or'),
]


@pytest.mark.parametrize(("name", "where", "parameters"), GOOD, ids=lambda value: str(value)[:20])
def test_good_arguments(name: str, where: str, parameters: dict[str, Any]) -> None:
    """What is well-formed passes unchanged."""
    before = repr(parameters)
    COMMANDS[name].check(where, parameters)
    assert repr(parameters) == before


@pytest.mark.parametrize(("name", "where", "parameters", "reason"), BAD, ids=lambda value: str(value)[:20])
def test_bad_arguments(name: str, where: str, parameters: dict[str, Any], reason: str) -> None:
    """What is not says what is allowed."""
    with pytest.raises(Invalid, match=reason):
        COMMANDS[name].check(where, parameters)


@given(st.sampled_from(sorted(COMMANDS)), st.data())
def test_a_check_is_total(name: str, data: st.DataObject) -> None:
    """Any plain values are accepted or Invalid, and nothing else."""
    row = COMMANDS[name]
    keys = st.sampled_from([*row.parameters, "other"])
    given_parameters = data.draw(st.dictionaries(keys, PLAIN, max_size=4))
    try:
        row.check("pages" if row.scope is Scope.JOURNAL else "", given_parameters)
    except Invalid as e:
        text = str(e)
        if not text.isprintable():
            raise AssertionError(text) from e


def test_lines_are_read_by_the_same_table() -> None:
    """Numbers, lists and words in a line; what only frames can hold is refused."""
    assert COMMANDS["LISTEN"].read("", {"port": "4041", "journals": "pages,*"}) == {
        "port": 4041,
        "journals": ["pages", "*"],
    }
    for written in (
        {"port": "4_1", "journals": "a"},
        {"port": "9" * 30, "journals": "a"},
        {"journals": "a"},
        {"x": "1"},
    ):
        with pytest.raises(Invalid):
            COMMANDS["LISTEN"].read("", written)
    with pytest.raises(Invalid, match="use frames"):
        COMMANDS["PUT"].read("pages", {})
    assert COMMANDS["PING"].read("", {"offset": "-1.5", "delay": "12"}) == {"offset": -1.5, "delay": 12}
    for wrong in ("nan", "inf", "1e3", "1_0", "0x1", "", "-", "1.", ".5", "9" * 41, "9" * 30, "\u0665", " 1"):
        with pytest.raises(Invalid, match="an int or a float"):
            COMMANDS["PING"].read("", {"offset": wrong})
    with pytest.raises(UnknownCommand, match=r"'PUT\\n'"):
        command_named("PUT\n")


def test_kinds_are_told_apart_by_name() -> None:
    """One name in the document is one type."""
    from journal.core.requests import types

    kinds = [kind for kind in vars(types).values() if isinstance(kind, FieldType)]
    assert len({kind.name for kind in kinds}) == len({(kind.name, kind.meaning) for kind in kinds})
