"""journal feed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import journal
from journal import Cursor
from tests.cli.conftest import Run

A, B, C = (str(Cursor(1, n)) for n in range(3))


@pytest.fixture
def followed(path: Path) -> Path:
    """A store whose three changes are not acknowledged: "audit" is new, "mirror" has not begun its copy."""
    with journal.open(path) as opened:
        pages = opened.journal("pages")
        pages.feed(consumer="audit").close()
        pages.feed(consumer="mirror", copy=True).close()
    return path


def position(run: Run, path: Path, name: str = "audit") -> tuple[str, int]:
    (line,) = run("feed", "show", path, "pages", name, "--json").json
    return line["position"], line["lag"]


def test_consumers_are_listed(run: Run, followed: Path) -> None:
    """For people and as JSON, by name."""
    lines = run("feed", "list", followed, "pages", "--json").json
    assert [(line["name"], line["mode"], line["lag"], line["is_open"]) for line in lines] == [
        ("audit", "sync", 3, False),
        ("mirror", "copy", 0, False),
    ]
    assert (lines[0]["position"], lines[1]["position"]) == ("001-0001--1", C)
    ran = run("feed", "list", followed, "pages")
    assert (ran.code, len(ran.out.splitlines())) == (0, 2)
    assert "audit  sync  001-0001--1  lag 3" in ran.out


def test_none_are_listed(run: Run, path: Path) -> None:
    """A journal without followers."""
    assert run("feed", "list", path, "pages") == (0, "", "")


def test_one_is_shown(run: Run, followed: Path) -> None:
    """Every field on a line of its own."""
    ran = run("feed", "show", followed, "pages", "audit")
    assert ran.code == 0
    lines = [line for line in ran.out.splitlines() if line.startswith(("name", "lag"))]
    assert lines == ["name:        audit", "lag:         3"]


def test_next_delivers_and_acknowledges_one(run: Run, followed: Path, check: Callable[[], None]) -> None:
    """Each change once, then exit code 3; what comes again after a skip is not the skipped one."""
    (line,) = run("feed", "next", followed, "pages", "audit", "--json").json
    assert (line["cursor"], line["op"], line["key"], line["data"]) == (A, "insert", "a", {"uri": "/a"})
    assert position(run, followed) == (A, 2)
    ran = run("feed", "next", followed, "pages", "audit")
    assert ran.code == 0
    assert ran.out.startswith(f"{B}  ")
    assert "insert put  'b'" in ran.out
    assert run("feed", "next", followed, "pages", "audit").code == 0
    assert run("feed", "next", followed, "pages", "audit") == (3, "", "")
    assert position(run, followed) == (C, 0)
    check()


def test_a_position_is_marked(run: Run, followed: Path, check: Callable[[], None]) -> None:
    """Forward, back, and to the beginning; also for one that has not completed its copy."""
    assert run("feed", "mark", followed, "pages", "audit", B) == (0, "", "")
    assert position(run, followed) == (B, 1)
    (line,) = run("feed", "mark", followed, "pages", "audit", "BEGIN", "--json").json
    assert line["lag"] == 3
    assert run("feed", "mark", followed, "pages", "mirror", "0").code == 0
    assert position(run, followed, "mirror") == (A, 2)
    check()


def test_one_change_is_skipped(run: Run, followed: Path) -> None:
    """It does not come; skipping it twice is exit code 3."""
    assert run("feed", "skip", followed, "pages", "audit", B).code == 0
    assert run("feed", "skip", followed, "pages", "audit", B).code == 3
    keys = [run("feed", "next", followed, "pages", "audit", "--json").json[0]["key"] for _ in range(2)]
    assert keys == ["a", {"hex": "ff"}]


def test_a_consumer_is_removed(run: Run, followed: Path, check: Callable[[], None]) -> None:
    """It is unknown then."""
    assert run("feed", "remove", followed, "pages", "audit") == (0, "", "")
    assert [line["name"] for line in run("feed", "list", followed, "pages", "--json").json] == ["mirror"]
    assert run("feed", "remove", followed, "pages", "mirror", "--json").json == [{"removed": "mirror"}]
    check()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("show", "pages", "other"), 1, "there is audit, mirror"),
        (("next", "pages", "other"), 1, "there is audit, mirror"),
        (("next", "pages", "mirror"), 1, "has not completed its copy"),
        (("skip", "pages", "mirror", A), 1, "has not completed its copy"),
        (("remove", "pages", "other"), 1, "there is audit, mirror"),
        (("list", "other"), 1, "no journal"),
        (("mark", "pages", "audit", "7"), 1, "oldest"),
        (("skip", "pages", "audit", "7"), 1, "oldest"),
        (("skip", "pages", "audit", "BEGIN"), 2, "before the first"),
        (("mark", "pages", "audit", "nowhere"), 2, "is not a cursor"),
        (("mark", "pages", "audit"), 2, "CURSOR"),
    ],
)
def test_what_cannot_be_done_is_said(run: Run, followed: Path, words: tuple[str, ...], code: int, text: str) -> None:
    """An exit code and a reason; nothing changes."""
    ran = run("feed", words[0], followed, *words[1:])
    assert (ran.code, ran.out) == (code, "")
    assert text in ran.err
    assert position(run, followed) == ("001-0001--1", 3)


def test_who_follows_all_merged_journals_is_looked_after(run: Run, tmp_path: Path) -> None:
    """Under the name that the log has; a consumer of one of them is another."""
    with journal.open(tmp_path / "m") as store:
        for name in ("one", "two"):
            store.journal(name, merged=True).put(f"k-{name}")
        store.merged().feed(consumer="all").close()
        store.journal("one").feed(consumer="own").close()
    assert [line["name"] for line in run("feed", "list", tmp_path / "m", "_merged", "--json").json] == ["all"]
    assert [line["name"] for line in run("feed", "list", tmp_path / "m", "one", "--json").json] == ["own"]
    found = [run("feed", "next", tmp_path / "m", "_merged", "all", "--json") for _ in range(3)]
    assert [ran.json[0]["key"] for ran in found[:2]] == ["k-one", "k-two"] and found[2].code == 3
    assert run("feed", "remove", tmp_path / "m", "_merged", "all").code == 0
    assert run("feed", "list", tmp_path / "m", "_merged") == (0, "", "")


def test_a_store_without_merged_journals_gets_none(run: Run, path: Path) -> None:
    """The name alone declares nothing."""
    for words in (("feed", "list"), ("generations",), ("rotate",), ("compact",)):
        ran = run(*words, path, "_merged")
        assert (ran.code, ran.out) == (1, "") and "it has pages" in ran.err
    assert not (path / "_merged").exists()


def test_each_verb_has_help(run: Run) -> None:
    """With --json."""
    for verb in ("list", "show", "next", "mark", "skip", "remove"):
        assert "--json" in run("feed", verb, "--help").out
