"""journal peek."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run


def test_peek_shows_the_next_entry(run: Run, path: Path) -> None:
    """Without a key: the first in the order of work; it stays there."""
    for _ in range(2):
        ran = run("peek", path, "pages")
        assert ran.code == 0
        assert ran.out.startswith("'a' waiting, priority 10, due ")
        assert "/a" in ran.out


def test_peek_by_key(run: Run, path: Path) -> None:
    """Text or --hex; everything of it as JSON, bytes as hex."""
    (line,) = run("peek", path, "pages", "b", "--json").json
    assert (line["key"], line["owner"], line["status"], line["data"]) == ("b", "group", "W", None)
    (line,) = run("peek", path, "pages", "ff", "--hex", "--json").json
    assert (line["key"], line["data"]) == ({"hex": "ff"}, {"hex": "0001"})
    assert "owner group" in run("peek", path, "pages", "b").out


def test_peek_of_nothing(run: Run, path: Path, tmp_path: Path) -> None:
    """Exit code 1: no such entry, journal or store; and none is made."""
    assert run("peek", path, "pages", "nothing").code == 1
    assert run("peek", path, "pages", "nothing", "--json") == (1, "", "")
    missing = run("peek", path, "other")
    assert missing.code == 1
    assert "pages" in missing.err
    assert run("peek", tmp_path / "missing", "pages").code == 1
    assert not (tmp_path / "missing").exists()
    assert not (path / "other").exists()
