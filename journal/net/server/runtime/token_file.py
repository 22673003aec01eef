"""
The token file on disk (its lines: journal.net.wire.tokens): read by a daemon, written by `journal tokens`.

K1  A daemon takes a file that it owns and that no other user may read, whole or not at all.
K2  A change is one rename of a file that was synced: a reader sees the old lines or the new ones. Concurrent changes take turns.
K3  All other lines, comments too, stay as they were. The file keeps its owner when root changes it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from journal.core.quoting import shown
from journal.core.requests.request import Role
from journal.engine.files.posix import TOKENS, TOKENS_NEW, storage_error, sync_directory, write_all
from journal.errors import Invalid, KeyExists, NotFound
from journal.net.private_files import read_private
from journal.net.wire.auth import Grant
from journal.net.wire.line import PLACE, checked
from journal.net.wire.tokens import BYTES_MAX, Token, format_tokens, parse_tokens

SECRET_BYTES = 32
_WHAT = "the token file"


def token_path(word: str | os.PathLike[str]) -> Path:
    """The token file that is meant: a store's own, or the file itself."""
    path = Path(word)
    if not path.is_dir():
        return path
    if not (path / "catalog").is_dir():
        raise NotFound(f"{path} is a directory and not a store: give a store, or a file")
    return path / TOKENS


def read_tokens(path: Path) -> dict[str, Token]:
    """The identities of a daemon's token file (K1)."""
    return _parse(path, read_private(path, _WHAT, bytes_max=BYTES_MAX))


def _parse(path: Path, content: bytes) -> dict[str, Token]:
    try:
        return parse_tokens(content.decode())
    except (Invalid, UnicodeDecodeError) as e:
        reason = e if isinstance(e, Invalid) else f"byte {e.start} is no text (UTF-8)"
        raise Invalid(f"{path}: {reason}") from e


def list_tokens(path: Path) -> dict[str, Grant]:
    """What each identity may do, for people: without the secrets."""
    return {identity: token.grant for identity, token in _parse(path, _content(path)).items()}


def add_token(path: Path, identity: str, roles: Iterable[str], journals: Iterable[str], names: Iterable[str]) -> Token:
    """A new identity, with a fresh random secret."""
    token = Token(secrets.token_bytes(SECRET_BYTES), _grant(identity, [*roles], [*journals], [*names]))
    head, line = _lines(identity, token)

    def added(text: str) -> str:
        if identity in parse_tokens(text):
            raise KeyExists(f"{path} has the identity {shown(identity)} already: remove it first")
        lines = text or head
        return lines + ("" if lines.endswith("\n") else "\n") + line + "\n"

    _change(path, added)
    return token


def _grant(identity: str, roles: list[str], journals: list[str], names: list[str]) -> Grant:
    checked(identity, PLACE, "identity", "letters, digits, _ . and -")
    for role in roles:
        if role not in set(Role):
            raise Invalid(f"{shown(role)} is no role: they are {', '.join(Role)}")
    for pattern in (*journals, *names):
        if pattern.split() != [pattern]:
            raise Invalid(f"{shown(pattern)} is no pattern: it has spaces, or nothing in it")
    return Grant(identity, frozenset(map(Role, roles)), tuple(journals), tuple(names))


def _lines(identity: str, token: Token) -> tuple[str, str]:
    """The heading of a file, and a token's line."""
    try:
        head, line = format_tokens({identity: token}).splitlines()
    except Invalid as e:
        raise Invalid(str(e).removeprefix("the token file, line 2: ")) from e
    return head, line


def remove_token(path: Path, identity: str) -> None:
    """An identity goes."""

    def removed(text: str) -> str:
        known = parse_tokens(text)
        if identity not in known:
            raise NotFound(f"{path} has no identity {shown(identity)}: it has {', '.join(known) or 'none'}")
        return "\n".join(line for line in text.split("\n") if line.split()[:1] != [identity])

    _change(path, removed)


def _content(path: Path) -> bytes:
    """The content of the file, for its owner or root."""
    try:
        owner = os.lstat(path).st_uid
    except OSError as e:
        raise NotFound(f"{_WHAT} {path} cannot be read: {e.strerror or e}") from e
    return read_private(path, _WHAT, bytes_max=BYTES_MAX, owners=(owner,) if os.geteuid() == 0 else None)


def _change(path: Path, edit: Callable[[str], str]) -> None:
    """Put other lines in the place of those that are there (K2, K3)."""
    try:
        with _turn(path.parent):
            is_new = not os.path.lexists(path)
            before = b"" if is_new else _content(path)
            _parse(path, before)
            text = edit(before.decode())
            _parse(path, text.encode())
            _write(path, text.encode(), os.stat(path.parent if is_new else path))
    except OSError as e:
        raise storage_error(e, f"cannot write {path}") from e


@contextmanager
def _turn(directory: Path) -> Iterator[None]:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _write(path: Path, content: bytes, owner: os.stat_result) -> None:
    new = path.with_name(TOKENS_NEW if path.name == TOKENS else f".{path.name}.new")
    new.unlink(missing_ok=True)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(fd, 0o600)
        if os.geteuid() == 0:
            os.fchown(fd, owner.st_uid, owner.st_gid)
        write_all(fd, content, 0)
        os.fsync(fd)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
    os.rename(new, path)
    sync_directory(path.parent)
