"""The verbs of loads, as calls. What they do says journal.Journal; see journal.net.client.calls.call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from journal.core.loads.session import LOAD_ID, LoadPart, load_id, part_name, part_names
from journal.core.quoting import shown
from journal.core.values import Loaded
from journal.errors import FrameError, Invalid, NotFound, StorageError
from journal.net.client.calls.call import Call, as_it_is, call
from journal.net.wire.values import loaded_from

Part = bytes | str | os.PathLike[str]
"""A load block, or the path of a part file."""


def begin(journal: str) -> Call[str]:
    """Begin a load; its id."""
    return call("LOAD_BEGIN", journal, _begun)


def _begun(value: Any) -> str:
    match value:
        case {"load": str(load)} if LOAD_ID.fullmatch(load):
            return load
    raise FrameError(f"{shown(value)} is no answer to LOAD_BEGIN: it has load")


def piece(journal: str, load: str, name: str, at: int, data: bytes) -> Call[int]:
    """Send a piece of a part; an empty one asks whether the load is there."""
    return call("LOAD_PART", journal, as_it_is, load=load_id(load), part=part_name(name), at=at, piece=data)


def load_commit(
    journal: str,
    load: str,
    parts: Iterable[str],
    *,
    on_conflict: str = "merge",
    once: tuple[str, int] | None = None,
    on_reject: str = "fail",
    durability: str | None = None,
) -> Call[Loaded]:
    """
    Load the parts of these names as one change, and forget the load; the rest as for `load`.

    What is wrong with it, or with its rows, ends it too; when the store is full it can be committed again. Committed twice
    it is loaded once: the result is that of the first time, for a while, and with `once` for as long as that is kept.
    """
    return call(
        "LOAD_COMMIT", journal, loaded_from, load=load_id(load), parts=part_names(parts), on_conflict=on_conflict,
        once=_once(once), on_reject=on_reject, durability=durability,
    )  # fmt: skip


def load_abort(journal: str, load: str) -> Call[bool]:
    """Give a load up: its parts go; False when there is none."""
    return call("LOAD_ABORT", journal, as_it_is, load=load_id(load))


def _once(once: Any) -> list[Any] | None:
    if once is None:
        return None
    if not isinstance(once, (tuple, list)) or len(once) != 2:
        raise Invalid(f'once is {once!r}: it must be a name and a number, e.g. ("nightly", 7)')
    return list(once)


def listed_parts(parts: Iterable[Part]) -> list[Part]:
    """What a caller gave as parts."""
    if isinstance(parts, (bytes, str, os.PathLike)):
        raise Invalid("parts is one part: give a list of load blocks or of paths")
    try:
        return list(parts)
    except TypeError as e:
        raise Invalid(f"parts is {parts!r:.60}: it must be a list of load blocks (bytes) or of paths") from e


def send(part: Part, number: int, to: LoadPart) -> None:
    """Send one part: a block as a part of its own, a file as it is; what is wrong with it says the daemon."""
    if isinstance(part, bytes):
        try:
            to.write(part)
        except Invalid as e:
            raise Invalid(f"part {number} is damaged: {e}. Nothing was changed") from e
        to.close()
    elif isinstance(part, (str, os.PathLike)):
        to.copy(_pieces(part))
    else:
        raise Invalid(f"part {number} is {part!r:.60}: it must be a load block (bytes) or the path of a part file")


def _pieces(path: str | os.PathLike[str]) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            while read := file.read(1 << 18):
                yield read
    except FileNotFoundError as e:
        raise NotFound(f"there is no part file {os.fspath(path)}: nothing was changed") from e
    except OSError as e:
        raise StorageError(f"cannot read the part file {os.fspath(path)}: {e.strerror}. Nothing was changed") from e
