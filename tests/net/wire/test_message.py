"""The one model of a message."""

from __future__ import annotations

from typing import Any

import pytest

from journal.errors import Invalid
from journal.net.wire.line import LineAddress, Message


@pytest.mark.parametrize(
    "wrong",
    [
        {"command": "put"},
        {"command": ""},
        {"command": "PUT\n"},
        {"command": "P" * 65},
        {"command": 7},
        {"parameters": {"a-b": "1"}},
        {"parameters": {"1a": "1"}},
        {"parameters": {"": "1"}},
        {"to": ("a", "b")},
        {"to": LineAddress("a", "")},
        {"to": LineAddress("a b", "c")},
        {"sent_from": LineAddress("", "b")},
        {"sent_from": LineAddress("a", "b:c")},
    ],
    ids=str,
)
def test_a_message_is_well_formed(wrong: dict[str, Any]) -> None:
    """There is no Message that could not be written."""
    with pytest.raises(Invalid):
        Message(**({"command": "PING"} | wrong))


def test_a_journal_is_a_service() -> None:
    """Every name that a journal can have is a place that a message can go to."""
    assert str(Message("PUT", to=LineAddress("work", "0a_b.c-d")).to) == "work:0a_b.c-d"
    assert str(LineAddress("", "pages")) == "pages"
