"""
The copies that a Spark session has made of journals, so that a journal which has not changed is not copied again.

They lie where Spark keeps its own files, and go with the session. Beside them `journal-copies.json` names the last ones of each journal.

Y1  What is named there is used only for the commit that it is a copy of (journal.engine.snapshots.take H5). So nothing breaks when the file
    is lost, or two write it at the same time: then a copy is made once more.
Y2  It is read only in a directory that no other user can write to.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Sequence
from typing import Any

from journal.engine.snapshots.reader import Copied
from spark_export.options.common import JournalPlace

NAME = "journal-copies.json"


def known(directory: str, place: JournalPlace) -> list[Copied]:
    """The last copies of a journal in this directory."""
    return _read(directory).get(_name(place), [])


def remember(directory: str, place: JournalPlace, copies: Sequence[Copied]) -> None:
    """These are the last ones now."""
    if not _is_ours(directory):
        return
    kept = {**_read(directory), _name(place): copies}
    with contextlib.suppress(OSError):
        fd, path = tempfile.mkstemp(prefix=NAME, dir=directory)  # 0600
        with open(fd, "w") as file:
            json.dump(kept, file)
        os.replace(path, os.path.join(directory, NAME))


def _name(place: JournalPlace) -> str:
    return json.dumps([os.path.realpath(place.path), place.journal])


def _read(directory: str) -> dict[str, list[Copied]]:
    if not _is_ours(directory):
        return {}
    try:
        with open(os.path.join(directory, NAME)) as file:
            return {name: [_copied(each) for each in copies] for name, copies in json.load(file).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # Y1


def _copied(fields: Sequence[Any]) -> Copied:
    path, digest, size, state, source = fields
    return Copied(path, digest, size, tuple(state), tuple(source))


def _is_ours(directory: str) -> bool:
    """Whether no other user can write there (Y2)."""
    try:
        found = os.lstat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o022
