"""docs/DAEMON.md says what the program does: its options, limits, events and errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from journal.cli import parser

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "DAEMON.md").read_text()
CODE = "\n".join(path.read_text() for path in sorted((ROOT / "journal").rglob("*.py")))


def rows(section: str) -> list[list[str]]:
    """The rows of the tables of a section, as cells."""
    body = re.split(r"^##+ ", TEXT.split(f"# {section}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in body.splitlines() if line.startswith("| ") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_limits_have_these_defaults() -> None:
    """The table is that of `journal serve`."""
    args = parser().parse_args(["serve", "s"])
    listed = {cells[0].strip("`"): cells[1] for cells in rows("Limits")[1:]}
    found = {}
    for option in listed:
        name = option[2:].replace("-", "_").replace("_timeout", "_ms")
        found[option] = str(getattr(args, name))
    assert found == listed
    options = parser().format_help() + parser()._subparsers._group_actions[0].choices["serve"].format_help()  # type: ignore[union-attr, index]
    assert all(option in options for option in listed)


def test_every_option_exists() -> None:
    """Whatever the document names can be given."""
    known = parser()._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    serve = known["serve"].format_help()  # type: ignore[index]
    tokens = known["tokens"]._subparsers._group_actions[0].choices["add"].format_help()  # type: ignore[index]
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"```sh.*?```", "", TEXT, flags=re.DOTALL)))
    elsewhere = {"--system", "--home-dir", "--shell", "--now"}
    assert {option for option in named - elsewhere if option not in serve + tokens} == set()


def test_every_event_is_logged() -> None:
    """By that name."""
    named = [word for cells in rows("Logs")[1:] for word in re.findall(r"`(\w+)`", cells[0])]
    assert len(named) > 15
    assert [event for event in named if f'"{event}' not in CODE] == []


@pytest.mark.parametrize("row", rows("When something is wrong")[1:], ids=lambda row: row[0][:40])
def test_every_message_is_said(row: list[str]) -> None:
    """In these words, or at least with these."""
    said = row[0].replace("`", "")
    words = [part.strip() for part in re.split(r"…|\d+|: |unix:.*", said) if len(part.strip()) > 3]
    if said.startswith("it does not start"):
        return
    plain = re.sub(r'"\s*\n\s*f?"', "", CODE)
    assert [part for part in words if part not in plain] == []
