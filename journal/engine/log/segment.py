"""A segment of the log that is written to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from journal.engine.files.posix import open_file
from journal.engine.log.reader import segment_path


class OpenedSegment(NamedTuple):
    """A segment of the log, opened to be written."""

    directory: Path
    fd: int
    sync_fd: int
    allocated: int

    @classmethod
    def open(cls, directory: Path, first: int = 0) -> OpenedSegment:
        """Open a segment, twice (writer W6)."""
        path = segment_path(directory, first)
        fd = open_file(path)
        return cls(directory, fd, open_file(path), os.fstat(fd).st_size)

    def close(self) -> None:
        """It is not used after all."""
        os.close(self.fd)
        os.close(self.sync_fd)
