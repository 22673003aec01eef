"""
The request of an export: identifies it, so that the files of a different export are never taken for its own.

R1  Two requests are the same only if they would write the same rows, in the same shape, to the same format. The manifest has the digest
    of its request: options for a writer may be secrets, which have no place in a file that other users read.
R2  A store is the same one only as long as its directory is: one that was removed and made again at the same path is another.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from journal.core.log.cursor import Cursor
from spark_export.errors import OPTION_INVALID, invalid
from spark_export.options.common import JournalPlace, ReadOptions

FILTERS = ("status", "priority", "from", "to", "key_prefix")
SHAPES = ("columns", "decode")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportRequest:
    """One export, before it is made."""

    place: JournalPlace
    wanted: dict[str, str]
    """The options of the reader."""
    after: Cursor | None
    format: str
    by: tuple[str, ...]
    options: dict[str, str]
    """Those of the format's writer."""
    partitions: int | None

    @property
    def filters(self) -> dict[str, str]:
        """The options that leave rows out."""
        return {name: text for name, text in self.wanted.items() if name in FILTERS}

    @property
    def is_of_the_moment(self) -> bool:
        """Whether its rows change by time alone: entries fall due, and leases end."""
        return "status" in self.wanted

    def digest(self) -> str:
        """The same for the same request, and no other (R1)."""
        asked = [
            _identity(self.place), self.place.journal, sorted(self.wanted.items()), None if self.after is None else str(self.after),
            self.format.lower(), self.by, sorted(self.options.items()), self.partitions,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def wanted_of(place: JournalPlace, read: Mapping[str, Any], *, is_incremental: bool) -> dict[str, str]:
    """The options of the reader, checked before anything is opened."""
    given = {name: str(value) for name, value in read.items() if value is not None}
    ReadOptions.parse({"path": place.path, "journal": place.journal, **given})
    bare = {name.lower().replace("_", ""): name for name in (*FILTERS, *SHAPES)}
    found: dict[str, str] = {}
    for word, text in given.items():
        name = bare.get(word.lower().replace("_", ""))
        if name is None:
            raise invalid(
                OPTION_INVALID, f"{word!r} is set by the export itself: read takes {', '.join(bare.values())}"
            )
        found[name] = text
    if is_incremental and (odd := [name for name in found if name in FILTERS]):
        raise invalid(
            OPTION_INVALID,
            f"{', '.join(odd)} with since: a key that has changed and is left out by it would look deleted. Leave it out, and "
            "filter where you read",
        )
    return found


def _identity(place: JournalPlace) -> list[str | int]:
    """Which store it is (R2); an address is all that is known of a daemon's."""
    if place.is_address:
        return [place.path]
    try:
        found = os.stat(place.path)
    except OSError:
        return [os.path.realpath(place.path)]  # the call that opens it says what is wrong
    return [os.path.realpath(place.path), found.st_dev, found.st_ino]
