"""The commands of loads: what an identity may not put it may not load, and a reply fits into a frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import journal
from journal.loads import PartWriter
from tests.engine.loads.blocks import block, many
from tests.net.server.asking import ask, grant

WRITER = grant("shop", "produce", names="shop-*")


def whole(tmp_path: Path, *blocks: bytes) -> bytes:
    """The bytes of a part."""
    with PartWriter(tmp_path / "part") as part:
        for each in blocks:
            part.write(each)
    found = (tmp_path / "part").read_bytes()
    (tmp_path / "part").unlink()
    return found


def loaded(store: journal.Store, part: bytes, by: Any = WRITER, **given: Any) -> list[Any]:
    """What a load of one part came to."""
    load = ask(store, "LOAD_BEGIN", by=by)["load"]
    assert ask(store, "LOAD_PART", load=load, part="x", at=0, piece=part, by=by) == len(part)
    result: list[Any] = ask(store, "LOAD_COMMIT", load=load, parts=["x"], by=by, **given)
    return result


def test_a_load(store: journal.Store, pages: journal.Journal, tmp_path: Path) -> None:
    """As the columns of the wire."""
    result = loaded(store, whole(tmp_path, many(5)), once=["n", 1], on_conflict="error", durability="full")
    assert result == [[1, 4], 5, 0, 0, 0, 0, 0, False, []]
    again = ask(store, "LOAD_COMMIT", load="0" * 32, parts=[], once=["n", 1])
    assert again == [[1, 4], 0, 0, 0, 0, 0, 0, True, []]
    assert ask(store, "LOAD_ABORT", load="0" * 32) is False
    load = ask(store, "LOAD_BEGIN")["load"]
    assert ask(store, "LOAD_PART", load=load, part="x", at=0, piece=b"") == 0
    assert ask(store, "LOAD_ABORT", load=load) is True


@pytest.mark.parametrize("command", ["LOAD_BEGIN", "LOAD_PART", "LOAD_COMMIT", "LOAD_ABORT"])
def test_loads_are_for_producers(store: journal.Store, pages: journal.Journal, command: str) -> None:
    """Who may not put may not load."""
    given: dict[str, dict[str, Any]] = {
        "LOAD_BEGIN": {},
        "LOAD_PART": {"load": "0" * 32, "part": "x", "at": 0, "piece": b""},
        "LOAD_COMMIT": {"load": "0" * 32, "parts": []},
        "LOAD_ABORT": {"load": "0" * 32},
    }
    for by in (grant("worker", "consume"), grant("other", "produce", journals="other")):
        with pytest.raises(journal.AccessDenied):
            ask(store, command, by=by, **given[command])


def test_rows_of_others_are_wrong_rows(store: journal.Store, pages: journal.Journal, tmp_path: Path) -> None:
    """An identity loads rows of producer groups that it may act under."""
    part = whole(tmp_path, block(("a", 1, 1, None, None, 0, "shop-1"), ("b", 1, 1, None, None, 0, "bank"), ("c", 1)))
    with pytest.raises(journal.Invalid, match=r"row 1 of part 0: .*'bank'"):
        loaded(store, part)
    assert pages.count() == 0
    result = loaded(store, part, on_reject="list")
    assert (result[1], [row[:2] for row in result[-1]]) == (2, [[0, 1]])
    assert loaded(store, part, by=grant("all", "produce", names="*"), on_conflict="skip")[1] == 1


def test_many_rejected_rows_fit_into_a_frame(store: journal.Store, pages: journal.Journal, tmp_path: Path) -> None:
    """Their reasons are cut; none of them is left out."""
    owner = "ä" * 100
    rows = [(f"k{i}", 1, 1, None, None, 0, owner) for i in range(4096)]
    part = whole(tmp_path, block(*rows))
    result = loaded(store, part, on_reject="list")
    assert [row[1] for row in result[-1]] == list(range(4096))
    load = ask(store, "LOAD_BEGIN")["load"]
    ask(store, "LOAD_PART", load=load, part="x", at=0, piece=part)
    with pytest.raises(journal.Invalid, match="more than 4096 rows are wrong"):
        loaded(store, whole(tmp_path, block(*rows, ("y", 1, 1, None, None, 0, owner))), on_reject="list")
    assert pages.count() == 0
