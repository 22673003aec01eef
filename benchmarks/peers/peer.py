"""
What a peer is to the benchmark: something that takes 100 bytes, hands them out and forgets them.

An adapter adds nothing to the peer's own call: no retries, no conversion that the peer's users would not do
themselves. Where a peer keeps finished work in its tables, `tidy` removes it outside the timed part, to the peer's
advantage: some scan what is finished at each get.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class Peer(Protocol):
    """An open queue of a peer, empty at first."""

    def put(self, data: bytes) -> None: ...

    def get(self) -> Any:
        """Take the next one; the answer is what `ack` wants."""

    def ack(self, token: Any) -> None: ...

    def tidy(self) -> None:
        """Upkeep that is not timed."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Setting:
    """
    A peer with one choice of settings.

    `durability` says when it syncs; `is_durable` is true only when a call that returned is on disk, which was checked
    with strace (see README.md in benchmarks/).
    """

    name: str
    durability: str
    is_durable: bool
    open: Callable[[Path], Peer]
    missing: Callable[[], str | None]
    """Why it cannot run here, or None."""
    has_ack: bool = True
    """False when taking is also forgetting: a worker that dies loses what it took."""
