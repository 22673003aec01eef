"""The parts of a load as they are sent: a block as a part of its own, a file as it is; the daemon tells what is wrong with it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from journal.api.backend import Part
from journal.core.loads.session import LoadPart
from journal.errors import Invalid, NotFound, StorageError


def send_part(part: Part, number: str, to: LoadPart) -> None:
    """Send one part."""
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
            while piece := file.read(1 << 18):
                yield piece
    except FileNotFoundError as e:
        raise NotFound(f"there is no part file {os.fspath(path)}: nothing was changed") from e
    except OSError as e:
        raise StorageError(f"cannot read the part file {os.fspath(path)}: {e.strerror}. Nothing was changed") from e
