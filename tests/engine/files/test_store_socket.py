"""A daemon's socket and its tokens in the store's directory: parts of a store that nobody trips over."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from pathlib import Path

import pytest

import journal
from journal.cli import main
from journal.engine.files import layout


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one entry, closed."""
    with journal.open(tmp_path / "s") as opened:
        opened.journal("pages").put("a")
    return tmp_path / "s"


def leave_socket(path: Path) -> None:
    """A socket as a daemon that was killed leaves it."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path / "SOCKET"))


def works(path: Path) -> None:
    """The store opens, changes and is sound."""
    with journal.open(path, verify="full") as opened:
        pages = opened.journal("pages")
        assert pages.get("a") is not None
        pages.put("b")
        assert opened.check(deep=True) == []
    with journal.open(path, readonly=True) as look:
        assert look.journals() == ["pages"]


def test_a_socket_that_was_left_behind_is_no_trouble(path: Path) -> None:
    """Opening, looking and checking go on, and the socket stays for the next daemon to replace."""
    leave_socket(path)
    works(path)
    assert stat.S_ISSOCK((path / "SOCKET").lstat().st_mode)


def test_commands_are_not_troubled_by_the_socket(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """check, ls, log: it is no journal."""
    leave_socket(path)
    assert main(["check", str(path)]) == 0
    assert "clean" in capsys.readouterr().out
    assert main(["ls", str(path)]) == 0
    assert capsys.readouterr().out == "pages\n"
    assert main(["log", "newest", str(path), "pages"]) == 0


def test_a_copy_with_the_socket_opens(path: Path, tmp_path: Path) -> None:
    """Copies that keep special files (cp -a, rsync -a) and those that leave them out (tar)."""
    leave_socket(path)
    copy = tmp_path / "copy"
    shutil.copytree(path, copy, ignore=shutil.ignore_patterns("SOCKET"))
    works(copy)
    leave_socket(copy)
    works(copy)


def test_what_is_no_socket_is_refused(path: Path, tmp_path: Path) -> None:
    """A file, a directory or a link in its place: refused by name, and left as it is."""
    (path / "SOCKET").write_text("mine")
    with pytest.raises(journal.StoreDamaged, match="SOCKET is not a socket"):
        journal.open(path)
    assert (path / "SOCKET").read_text() == "mine"
    (path / "SOCKET").unlink()
    (path / "SOCKET").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(journal.StoreDamaged, match="SOCKET is not a socket"):
        journal.open(path)
    (path / "SOCKET").unlink()
    (path / "SOCKET").mkdir()
    with pytest.raises(journal.StoreDamaged, match="SOCKET is not a socket"):
        journal.open(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["SOCKET", "_tokens"])
def test_those_of_another_user_are_refused(path: Path, name: str) -> None:
    """Somebody else could answer in the daemon's place, or let himself in."""
    leave_socket(path) if name == "SOCKET" else (path / name).touch()
    os.chown(path / name, 12345, -1)
    with pytest.raises(journal.StoreDamaged, match=f"{name} belongs to user 12345"):
        journal.open(path)


@pytest.mark.parametrize("name", ["_tokens", "_tokens.new"])
def test_the_token_file_is_a_part_of_the_store(path: Path, name: str) -> None:
    """Also one that was cut short; and no journal can be called so."""
    (path / name).write_text("# nobody\n")
    works(path)
    assert (path / name).read_text() == "# nobody\n"
    with journal.open(path) as opened, pytest.raises(journal.Invalid):
        opened.journal(name)


@pytest.mark.parametrize("name", ["SOCKET", "socket"])
def test_no_journal_has_the_sockets_name(path: Path, name: str) -> None:
    """Its directory would stand where a daemon listens."""
    with journal.open(path) as opened:
        with pytest.raises(journal.Invalid, match="file of the store itself"):
            opened.journal(name)
        assert opened.journals() == ["pages"]


def test_a_socket_that_goes_while_the_store_is_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that ends takes its socket along: whoever opens at that moment does not stumble."""
    leave_socket(path)
    listed = os.listdir

    def ends(directory: Path) -> list[str]:
        names = listed(directory)
        (path / "SOCKET").unlink(missing_ok=True)
        return names

    monkeypatch.setattr(layout.os, "listdir", ends)
    works(path)
