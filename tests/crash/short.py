"""Short writes: the kernel may take only a part of what a pwrite was given. strace cannot do that, so `os.pwrite` is wrapped."""

from __future__ import annotations

import os
from pathlib import Path


def install(count: int, witness: Path) -> None:
    """The count-th pwrite of this process writes half of its bytes; a file tells that it came to that."""
    real = os.pwrite
    left = count

    def pwrite(descriptor: int, data: bytes | memoryview, offset: int) -> int:
        nonlocal left
        left -= 1
        if left == 0 and len(data) > 1:
            witness.touch()
            return real(descriptor, memoryview(data)[: len(data) // 2], offset)
        return real(descriptor, data, offset)

    os.pwrite = pwrite  # type: ignore[assignment]
