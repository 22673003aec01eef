"""Sources by type: built in, by entry point, with errors that list what there is."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from journal.errors import Invalid
from spark_export.pipelines import registry as generic
from spark_export.sources.registry import BUILT_IN, GROUP, source_class, source_of
from spark_export.sources.sqlite import SqliteSource


class ThirdPartySource:
    """Takes whatever it is given."""

    def __init__(self, **options: Any) -> None:
        self.options = options


@pytest.fixture
def third_party(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entry points of another package: a good one, one that takes a built-in name, one that is broken."""
    here = f"{__name__}:ThirdPartySource"
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    points = [EntryPoint("mine", here, GROUP), EntryPoint("sqlite", here, GROUP), EntryPoint("bad", "no_such:X", GROUP)]
    monkeypatch.setattr(generic, "entry_points", lambda group: [each for each in points if each.group == group])


def test_built_in_types(tmp_path: Path) -> None:
    """By their names, with the keywords of the declaration."""
    assert source_class("sqlite") is SqliteSource
    assert isinstance(source_of("sqlite", {"path": tmp_path / "a.db"}), SqliteSource)


def test_entry_points_add_types(third_party: None) -> None:
    """And replace none that is built in (R2)."""
    assert source_of("mine", {"a": 1}).options == {"a": 1}  # type: ignore[attr-defined]
    assert source_class("sqlite") is SqliteSource
    with pytest.raises(Invalid, match=r"'bad' is no_such:X, which cannot be imported"):
        source_class("bad")


def test_an_unknown_type_lists_what_there_is(third_party: None) -> None:
    """With the nearest one, and the way to add one."""
    with pytest.raises(
        Invalid, match=r"unknown type 'sqlight': did you mean 'sqlite'\?.*mine.*spark.*journal\.sources"
    ):
        source_class("sqlight")


def test_keywords_are_checked(tmp_path: Path) -> None:
    """Unknown and missing ones, with what the source takes (R3)."""
    with pytest.raises(Invalid, match=r"'sqlite' does not take tabels, x: it takes path, tables, types, timeline"):
        source_of("sqlite", {"path": tmp_path, "tabels": [], "x": 1})
    with pytest.raises(Invalid, match=r"'sqlite' needs path, which is missing"):
        source_of("sqlite", {})


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """R1: it is needed only by the source that is asked for."""
    monkeypatch.setitem(BUILT_IN, "other", "a_package_that_is_not_there:X")
    with pytest.raises(Invalid, match=r"'other' needs the package 'a_package_that_is_not_there'.*pip install"):
        source_class("other")
