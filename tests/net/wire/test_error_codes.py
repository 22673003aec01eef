"""Error codes."""

from __future__ import annotations

import inspect

import pytest

from journal import errors
from journal.errors import JournalError, LineError, RemoteError
from journal.net.wire.error_codes import CODES, INTERNAL, code_of, from_wire, to_wire

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, JournalError)]


def test_one_code_for_each_error() -> None:
    """Every error that the library raises has exactly one code."""
    assert sorted(CODES.values(), key=lambda kind: kind.__name__) == sorted(ALL, key=lambda kind: kind.__name__)
    assert INTERNAL not in CODES


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_an_error_comes_back(kind: type[JournalError]) -> None:
    """A client raises what the engine raised."""
    error = from_wire(*to_wire(kind("the lease 7 is over")))
    assert type(error) is kind
    assert str(error) == "the lease 7 is over"


def test_what_an_error_keeps_comes_back() -> None:
    """Its fields, where they are of the right type."""
    line = from_wire(*to_wire(LineError("no", position=7, reason="why")))
    assert isinstance(line, LineError) and (line.position, line.reason) == (7, "why")
    assert from_wire("line", "no", {"position": "7", "other": 1}).position == 0  # type: ignore[attr-defined]


def test_a_code_that_is_not_known() -> None:
    """A newer daemon may have more errors than this client."""
    error = from_wire("quota", "too many mails", {"who": 1})
    assert type(error) is RemoteError and error.code == "quota" and str(error) == "too many mails"
    assert from_wire(*to_wire(error)).code == "quota"  # type: ignore[attr-defined]


def test_strange_errors() -> None:
    """A subclass is sent as what it is one of; a foreign error keeps its text for itself; a long text is cut."""

    class Special(errors.LeaseLost): ...

    assert code_of(Special) == "lease_lost"
    code, text, _ = to_wire(OSError("/secret/path"))
    assert code == INTERNAL and "/secret" not in text
    assert type(from_wire(code, text, {})) is RemoteError
    assert len(to_wire(JournalError("é\ud800" * 9000))[1].encode()) <= 2048
