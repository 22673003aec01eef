"""The token file on disk: whose it must be, how it is changed, what is never shown."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

import journal
from journal.core.requests.request import Role
from journal.errors import Invalid, KeyExists, NotFound, StorageError
from journal.net.server.runtime import token_file
from journal.net.server.runtime.token_file import add_token, list_tokens, read_tokens, remove_token, token_path

SECRET = "9f86d081884c7d659a2feaa0c55ad015"
LINES = f"""\
# who works for us
backend  {SECRET}  produce,consume  pages,mail-*  backend-*

watch    60303ae22b998861bce3b28f33eec1be  consume  *  -   
"""  # noqa: W291 - a person wrote it


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A token file of two."""
    path = tmp_path / "tokens"
    path.write_text(LINES)
    path.chmod(0o600)
    return path


def test_a_file_that_is_ours_alone_is_read(file: Path) -> None:
    """Also one that even we may not write to."""
    assert list(read_tokens(file)) == ["backend", "watch"]
    file.chmod(0o400)
    assert read_tokens(file)["backend"].secret == bytes.fromhex(SECRET)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610, 0o602, 0o777])
def test_a_file_that_others_have_a_right_to_is_refused(file: Path, mode: int) -> None:
    """With its rights and the command that mends it, and without a word of what is in it."""
    file.chmod(mode)
    with pytest.raises(Invalid, match=f"{mode:04o}.*chmod 0600 {file}") as refused:
        read_tokens(file)
    assert SECRET not in str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(file: Path) -> None:
    """Whoever has it could let himself in."""
    os.chown(file, 12345, -1)
    with pytest.raises(Invalid, match="belongs to user 12345, not to 0"):
        read_tokens(file)


@pytest.mark.parametrize("kind", ["missing", "directory", "link", "fifo"])
def test_what_is_no_file_is_refused(file: Path, tmp_path: Path, kind: str) -> None:
    """Nothing is waited for."""
    path = tmp_path / "other"
    if kind == "directory":
        path.mkdir(mode=0o700)
    elif kind == "link":
        path.symlink_to(file)
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    with pytest.raises(Invalid, match={"missing": "No such file", "link": "symbolic link"}.get(kind, "regular file")):
        read_tokens(path)


def test_a_file_that_is_too_large_is_refused(file: Path) -> None:
    """Before it is read."""
    os.truncate(file, (1 << 20) + 1)
    with pytest.raises(Invalid, match=r"1048577 bytes, and 1048576 are allowed"):
        read_tokens(file)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"backend\n", "line 1"), (LINES.encode() + b"\xff\n", "no text"), (LINES.encode() * 2, "comes twice")],
    ids=["fields", "bytes", "twice"],
)
def test_a_file_with_one_wrong_line_is_no_file(file: Path, content: bytes, reason: str) -> None:
    """The error has the path and the place, and no secret."""
    file.write_bytes(content)
    with pytest.raises(Invalid, match=reason) as refused:
        read_tokens(file)
    assert str(file) in str(refused.value) and SECRET not in str(refused.value)


def test_a_token_is_added(file: Path) -> None:
    """What was there stays as a person wrote it; the secret is new."""
    token = add_token(file, "front", ["produce"], ["pages"], ["front-*", "web"])
    assert file.read_text() == LINES + f"front {token.secret.hex()} produce pages front-*,web\n"
    assert read_tokens(file)["front"] == token
    assert token.grant.roles == {Role.PRODUCE} and len(token.secret) == 32
    assert add_token(file, "again", ["admin"], ["*"], []).secret != token.secret
    assert [path.name for path in file.parent.iterdir()] == ["tokens"]


def test_a_file_is_made(tmp_path: Path) -> None:
    """0600 whatever the umask."""
    old = os.umask(0)
    try:
        add_token(tmp_path / "new", "front", ["produce"], ["*"], [])
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    assert list(read_tokens(tmp_path / "new")) == ["front"]
    assert (tmp_path / "new").read_text().startswith("# identity")


def test_a_token_is_removed(file: Path) -> None:
    """Its line goes, all others stay as they were."""
    remove_token(file, "backend")
    assert file.read_text() == "".join(line for line in LINES.splitlines(keepends=True) if "backend" not in line)
    remove_token(file, "watch")
    assert read_tokens(file) == {}
    with pytest.raises(NotFound, match="has no identity 'watch': it has none"):
        remove_token(file, "watch")


@pytest.mark.parametrize(
    ("identity", "roles", "journals", "reason"),
    [
        ("backend", ["produce"], ["*"], "already"),
        ("a b", ["produce"], ["*"], "no identity"),
        ("", ["produce"], ["*"], "no identity"),
        ("#x", ["produce"], ["*"], "no identity"),
        ("x" * 65, ["produce"], ["*"], "no identity"),
        ("front", ["root"], ["*"], "no role"),
        ("front", ["produce"], ["a b"], "no pattern"),
        ("front", ["produce"], [""], "no pattern"),
        ("front", ["produce"], ["a\nb"], "no pattern"),
        ("front", ["produce"], ["ü"], "no pattern"),
    ],
)
def test_what_cannot_be_added(file: Path, identity: str, roles: list[str], journals: list[str], reason: str) -> None:
    """Nothing is written."""
    with pytest.raises((Invalid, KeyExists), match=reason):
        add_token(file, identity, roles, journals, [])
    assert file.read_text() == LINES
    assert [path.name for path in file.parent.iterdir()] == ["tokens"]


def test_a_broken_file_is_not_changed(file: Path) -> None:
    """A person looks at it first."""
    file.write_text(LINES + "half a li")
    for change in (lambda: add_token(file, "front", ["admin"], ["*"], []), lambda: remove_token(file, "watch")):
        with pytest.raises(Invalid, match="line 5"):
            change()
    assert file.read_text() == LINES + "half a li"


def test_a_disk_that_is_full(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old lines stay, and nothing is left lying about."""

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(token_file, "write_all", full)
    with pytest.raises(StorageError, match="No space left"):
        add_token(file, "front", ["admin"], ["*"], [])
    assert file.read_text() == LINES
    assert [path.name for path in file.parent.iterdir()] == ["tokens"]


def test_what_a_crash_left_is_replaced(file: Path) -> None:
    """A new file that was never finished, whatever it is."""
    (file.parent / ".tokens.new").write_text("half")
    add_token(file, "front", ["admin"], ["*"], [])
    assert list(read_tokens(file)) == ["backend", "watch", "front"]
    assert [path.name for path in file.parent.iterdir()] == ["tokens"]


def test_many_who_add_at_once(file: Path) -> None:
    """Nobody's line is lost."""
    threads = [threading.Thread(target=add_token, args=(file, f"b{n}", ["produce"], ["*"], [])) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(read_tokens(file)) == {"backend", "watch", *(f"b{n}" for n in range(8))}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes the files of others")
def test_a_file_keeps_its_owner(file: Path, tmp_path: Path) -> None:
    """Root adds a token for a daemon of another user; a new file belongs to who has the directory."""
    os.chown(file, 12345, 12346)
    add_token(file, "front", ["admin"], ["*"], [])
    found = file.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 12346, 0o600)
    assert list(list_tokens(file)) == ["backend", "watch", "front"]
    place = tmp_path / "theirs"
    place.mkdir()
    os.chown(place, 12345, 12346)
    add_token(place / "tokens", "front", ["admin"], ["*"], [])
    assert ((place / "tokens").stat().st_uid, (place / "tokens").stat().st_gid) == (12345, 12346)


def test_a_list_has_no_secrets(file: Path) -> None:
    """What each may do."""
    listed = list_tokens(file)
    assert {identity: sorted(grant.roles) for identity, grant in listed.items()} == {
        "backend": ["consume", "produce"],
        "watch": ["consume"],
    }
    assert SECRET not in repr(listed)
    with pytest.raises((Invalid, NotFound), match="No such file"):
        list_tokens(file.with_name("missing"))


def test_a_stores_own_file(tmp_path: Path) -> None:
    """It lies in the store, which opens with it; a directory that is no store has none."""
    with pytest.raises(NotFound, match="not a store"):
        token_path(tmp_path)
    with journal.open(tmp_path / "s") as store:
        store.journal("pages")
        path = token_path(tmp_path / "s")
        add_token(path, "front", ["admin"], ["*"], [])
    assert path == tmp_path / "s" / "_tokens"
    with journal.open(tmp_path / "s") as store:
        assert store.journals() == ["pages"] and store.check() == []
    assert token_path(tmp_path / "elsewhere") == tmp_path / "elsewhere"
