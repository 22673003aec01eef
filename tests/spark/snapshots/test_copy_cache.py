"""The copies of a session: what is named beside them, and when it is not believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from journal.engine.snapshots.reader import Copied
from spark_export.options.common import place_of
from spark_export.snapshots.copy_cache import NAME, known, remember

PLACE = place_of({"path": "work.journal", "journal": "pages"})
OTHER = place_of({"path": "work.journal", "journal": "more"})
COPIES = [Copied("x/000001.mdb", 7, 9, (1, 2, 3, 4, 7), (1, 2, 3, 4, 5, 6, "")), Copied("x/000002.mdb", None, 1)]


@pytest.fixture
def top(tmp_path: Path) -> str:
    """A directory of ours."""
    path = tmp_path / "files"
    path.mkdir(mode=0o700)
    return str(path)


def test_the_last_copies_of_each_journal_are_known(top: str) -> None:
    """As they were named."""
    assert known(top, PLACE) == []
    remember(top, PLACE, COPIES[:1])
    remember(top, OTHER, COPIES[1:])
    remember(top, PLACE, COPIES)
    assert known(top, PLACE) == COPIES and known(top, OTHER) == COPIES[1:]
    assert os.listdir(top) == [NAME]


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": [[1]]}', '{"a": 5}', "\0"])
def test_what_is_no_list_of_copies_is_none(top: str, text: str) -> None:
    """Y1: then a copy is made."""
    (Path(top) / NAME).write_text(text)
    assert known(top, PLACE) == []
    remember(top, PLACE, COPIES)
    assert known(top, PLACE) == COPIES


def test_a_directory_of_others_is_not_believed(top: str) -> None:
    """Y2: no other user can have us read a file of theirs."""
    remember(top, PLACE, COPIES)
    os.chmod(top, 0o777)
    assert known(top, PLACE) == []
    remember(top, PLACE, [])
    os.chmod(top, 0o700)
    assert known(top, PLACE) == COPIES
    assert known(top + "-none", PLACE) == []
