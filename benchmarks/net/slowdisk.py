"""
A disk whose syncs take longer, for any process: strace holds the process up after each of them, and nothing else of it.

What many clients gain from sharing a sync depends on what a sync costs. So a disk is also measured that is slower than the one at hand.
"""

from __future__ import annotations

import shutil

DELAY_US = 400
"""Beyond what a sync takes here: about what one takes on a usual SSD, when it must reach the medium."""


def held_up(delay_us: int) -> list[str]:
    """What to put in front of a command, so that its syncs take that much longer; nothing for no delay."""
    if not delay_us:
        return []
    syncs = "fdatasync,fsync"
    # -D: the process is our own child, and the tracer not between; seccomp: it stops at syncs only.
    return [
        "strace", "-D", "-f", "--seccomp-bpf", "-qqq", "-o", "/dev/null", "-e", f"trace={syncs}",
        "-e", f"inject={syncs}:delay_exit={delay_us}", "--",
    ]  # fmt: skip


def missing() -> str | None:
    """Why it cannot be made here."""
    return None if shutil.which("strace") else "strace is not installed"
