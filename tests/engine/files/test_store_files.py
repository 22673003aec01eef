"""The store's directory: rights, owners, strangers, one process at a time, leftovers."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import journal
from tests.top import top


def modes(path: Path) -> dict[str, int]:
    found = {p.relative_to(path).as_posix(): stat.S_IMODE(p.lstat().st_mode) for p in path.rglob("*")}
    return {".": stat.S_IMODE(path.stat().st_mode), **found}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one entry, closed."""
    with journal.open(tmp_path / "s") as opened:
        opened.journal("pages").put("a")
    return tmp_path / "s"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_directories_are_0700_and_files_0600(tmp_path: Path, umask: int) -> None:
    """Whatever the umask."""
    old = os.umask(umask)
    try:
        with journal.open(tmp_path / "s") as opened:
            opened.journal("pages").put("a")
            opened.checkpoint()
    finally:
        os.umask(old)
    for name, mode in modes(tmp_path / "s").items():
        assert mode == (0o700 if (tmp_path / "s" / name).is_dir() else 0o600), name


def test_a_path_may_be_text_and_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the store stays where it was opened when the process goes elsewhere."""
    monkeypatch.chdir(tmp_path)
    opened = journal.open("s")
    opened.journal("pages").put("a")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    opened.journal("more").put("b")
    opened.checkpoint()
    assert opened.check() == []
    opened.close()
    assert list(elsewhere.iterdir()) == []
    with journal.open(tmp_path / "s") as again:
        assert again.journals() == ["more", "pages"]


def test_a_directory_that_is_no_store_is_refused(tmp_path: Path) -> None:
    """Somebody's files stay as they are; an empty directory becomes a store."""
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "letter.txt").write_text("dear")
    with pytest.raises(journal.JournalError):
        journal.open(taken)
    assert [p.name for p in taken.iterdir()] == ["letter.txt"]
    (tmp_path / "empty").mkdir()
    journal.open(tmp_path / "empty").close()


def test_a_file_is_no_store(tmp_path: Path) -> None:
    """Neither is a path whose parent is missing."""
    (tmp_path / "file").write_text("text")
    for wrong in (tmp_path / "file", tmp_path / "missing" / "s"):
        with pytest.raises(journal.JournalError):
            journal.open(wrong)
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.parametrize("name", ["notes.txt", ".hidden", "core", "pages.bak"])
def test_foreign_files_in_the_store_are_refused(path: Path, name: str) -> None:
    """A file that is not ours: the open is refused by name, the file stays."""
    (path / name).write_text("mine")
    with pytest.raises(journal.JournalError, match=name):
        journal.open(path)
    assert (path / name).read_text() == "mine"
    (path / name).unlink()
    journal.open(path).close()


LINKED = [
    "LOCK",
    "catalog",
    "catalog/catalog.mdb",
    "{top}",
    "{top}/000001",
    "{top}/000001/rows.mdb",
    "{top}/000001/log",
]


@pytest.mark.parametrize("name", LINKED)
def test_symbolic_links_are_refused(path: Path, tmp_path: Path, name: str) -> None:
    """Wherever in the store; what the link leads to stays as it is."""
    name = name.format(top=top())
    elsewhere = tmp_path / "elsewhere"
    (path / name).rename(elsewhere)
    before = {p: p.read_bytes() for p in [elsewhere, *elsewhere.rglob("*")] if p.is_file()}
    (path / name).symlink_to(elsewhere)
    with pytest.raises(journal.StorageError), journal.open(path) as opened:
        opened.journal("pages").put("b")
    assert {p: p.read_bytes() for p in before} == before


def test_a_linked_segment_is_refused(path: Path, tmp_path: Path) -> None:
    """Also the files of the log."""
    segment = next((path / top() / "000001" / "log").iterdir())
    segment.rename(tmp_path / "elsewhere")
    segment.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(journal.StorageError), journal.open(path) as opened:
        opened.journal("pages").put("b")


def test_a_link_to_the_store_is_refused(path: Path, tmp_path: Path) -> None:
    """The store itself is a directory, not a link to one."""
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(journal.StorageError):
        journal.open(tmp_path / "link")


def test_a_file_with_two_names_is_refused(path: Path, tmp_path: Path) -> None:
    """Somebody else could write through the other one."""
    os.link(path / top() / "000001" / "rows.mdb", tmp_path / "other")
    with pytest.raises(journal.StorageError), journal.open(path) as opened:
        opened.journal("pages")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", LINKED)
def test_files_of_another_user_are_refused(path: Path, name: str) -> None:
    """Wherever in the store."""
    name = name.format(top=top())
    os.chown(path / name, 12345, -1)
    with pytest.raises(journal.StorageError), journal.open(path) as opened:
        opened.journal("pages")


OPEN = """
import sys, journal
try:
    journal.open(sys.argv[1])
except journal.StoreLocked as e:
    print(e)
    sys.exit(7)
"""


def test_one_process_owns_a_store(tmp_path: Path) -> None:
    """A second one gets StoreLocked with the owner's pid and what to do; when the owner is done it may open."""
    with journal.open(tmp_path / "s") as opened:
        opened.journal("pages").put("a")
        other = subprocess.run(
            [sys.executable, "-c", OPEN, tmp_path / "s"], capture_output=True, text=True, check=False
        )
        assert other.returncode == 7, other.stderr
        assert str(os.getpid()) in other.stdout
        assert "readonly" in other.stdout
        assert opened.journal("pages").put("b").outcome == "inserted"
    other = subprocess.run([sys.executable, "-c", OPEN, tmp_path / "s"], capture_output=True, text=True, check=False)
    assert other.returncode == 0, other.stderr


def test_a_store_is_opened_once_in_a_process(tmp_path: Path) -> None:
    """The second open is refused and the first goes on."""
    with journal.open(tmp_path / "s") as opened:
        pages = opened.journal("pages")
        with pytest.raises(journal.StoreLocked, match=str(os.getpid())):
            journal.open(tmp_path / "s")
        assert pages.put("a").outcome == "inserted"
        assert opened.check() == []


def test_what_is_left_of_an_unfinished_journal_is_removed(path: Path) -> None:
    """A directory that the catalog does not name: no journal, and replaced when that name is declared."""
    orphan = path / "later" / "000001" / "log"
    orphan.mkdir(parents=True, mode=0o700)
    for part in (path / "later", path / "later" / "000001"):
        part.chmod(0o700)
    (orphan / "00000000000000000000.log").write_bytes(b"half")
    with journal.open(path) as opened:
        assert opened.journals() == ["pages"]
        assert opened.check() == []
        later = opened.journal("later")
        assert later.count() == 0
        later.put("x")
        assert opened.journal("pages").count() == 1
    with journal.open(path) as opened:
        assert opened.journal("later").count() == 1
        assert opened.check() == []


@pytest.mark.alone(reason="merged journals lose their files together")
def test_a_journal_whose_files_are_gone_is_an_error(path: Path) -> None:
    """The catalog names it: it is not silently made anew; the others open."""
    (path / top()).rename(path.parent / "away")
    with journal.open(path) as opened:
        with pytest.raises(journal.StorageError, match=top()):
            opened.journal("pages")
        assert opened.journal("other").put("a").outcome == "inserted"
    (path.parent / "away").rename(path / top())
    with journal.open(path) as opened:
        assert opened.journal("pages").count() == 1
