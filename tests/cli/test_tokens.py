"""`journal tokens`: identities of a daemon, added, listed and removed."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from journal.net.server.runtime.token_file import read_tokens
from tests.cli.conftest import Run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A token file that is not there yet."""
    return tmp_path / "tokens"


def test_a_token_is_printed_once(run: Run, file: Path) -> None:
    """As a client takes it; nothing else ever shows the secret."""
    added = run("tokens", "add", file, "backend", "--roles", "produce,consume", "--journals", "pages,mail-*")
    assert added.code == 0
    identity, secret = added.out.strip().split(":")
    assert identity == "backend" and read_tokens(file)["backend"].secret == bytes.fromhex(secret)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for words in (("list", file), ("list", file, "--json"), ("remove", file, "backend")):
        ran = run("tokens", *words)
        assert ran.code == 0 and secret not in ran.out + ran.err
    assert run("tokens", "list", file) == (0, "", "")


def test_a_token_as_json(run: Run, file: Path) -> None:
    """With what it may do."""
    (made,) = run("tokens", "add", file, "watch", "--roles", "consume", "--names", "w-*, x", "--json").json
    assert made.pop("token") == f"watch:{made.pop('secret')}"
    assert made == {"identity": "watch", "roles": ["consume"], "journals": ["*"], "names": ["w-*", "x"]}
    assert run("tokens", "list", file, "--json").json == [made]


def test_a_list_for_people(run: Run, file: Path) -> None:
    """One line each."""
    run("tokens", "add", file, "watch", "--roles", "consume")
    run("tokens", "add", file, "front", "--roles", "admin, produce", "--journals", "pages", "--names", "f-*")
    assert run("tokens", "list", file).out.splitlines() == [
        "watch  roles consume  journals *  names -",
        "front  roles admin,produce  journals pages  names f-*",
    ]


def test_a_stores_tokens(run: Run, path: Path) -> None:
    """They lie in the store, which goes on to work."""
    assert run("tokens", "add", path, "backend", "--roles", "admin").code == 0
    assert list(read_tokens(path / "_tokens")) == ["backend"]
    assert run("check", path).code == 0
    assert run("ls", path).out == "pages\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("add", "{file}", "backend", "--roles", "produce"), 1, "already"),
        (("add", "{file}", "front", "--roles", "king"), 2, "no role: they are produce, consume, admin"),
        (("add", "{file}", "a b", "--roles", "produce"), 2, "no identity"),
        (("add", "{file}", "front"), 2, "--roles"),
        (("add", "{file}", "front", "--roles", "produce", "--journals", "ä"), 2, "no pattern"),
        (("add", "{file}/x", "front", "--roles", "produce"), 1, "Not a directory"),
        (("remove", "{file}", "nobody"), 1, "it has backend"),
        (("list", "{file}.missing"), 1, "No such file"),
        (("list", "{place}"), 1, "not a store"),
    ],
)
def test_what_is_refused(run: Run, file: Path, words: tuple[str, ...], code: int, said: str) -> None:
    """With the reason; the file stays as it was."""
    run("tokens", "add", file, "backend", "--roles", "produce")
    before = file.read_bytes()
    ran = run("tokens", *(word.format(file=file, place=file.parent) for word in words))
    assert (ran.code, ran.out) == (code, "") and said in ran.err
    assert file.read_bytes() == before


def test_a_refusal_as_json(run: Run, file: Path) -> None:
    """As of every command."""
    ran = run("tokens", "list", file, "--json")
    assert (ran.code, ran.out) == (1, "") and json.loads(ran.err)["error"] == "NotFound"
