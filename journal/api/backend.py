"""
The protocol that a role needs of its journal: in this process (journal.engine.backend), or of a daemon (journal.net.client.backend).
The verbs of both are the same; the protocol here has what else a role reads and waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from journal.core.buckets import Range
from journal.core.clock_drift import Time
from journal.core.schema.schema import Schema
from journal.core.settings import Settings
from journal.errors import Invalid, JournalError


class Clock(Protocol):
    """Engine time."""

    is_far: bool
    """Whether a call to the engine may wait for a network."""

    def now(self) -> int:
        """In ms since the epoch."""

    def running(self) -> int:
        """The steady clock in ms: for durations."""

    def running_at(self, date: int) -> int:
        """What `running` shows when a date comes."""

    def until_running(self, ms: int) -> float | None:
        """Seconds of real waiting until `running` shows that; None when only the clock's owner moves it."""

    def on_advance(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when a manual clock moves; returns a function that ends it."""


class Ground(Protocol):
    """See the module. One for each role."""

    @property
    def time(self) -> Clock:
        """By which entries fall due and leases end."""

    @property
    def key(self) -> Any:
        """The same for all roles of one journal; can be referenced weakly."""

    @property
    def settings(self) -> Settings:
        """How the journal behaves; as it was when the role began, at least."""

    @property
    def schema(self) -> Schema | None:
        """That of what is published."""

    @property
    def is_gone(self) -> bool:
        """Whether the store, or the connection, is closed."""

    def sleep(self, buckets: Range | None, is_awake: Callable[[], bool]) -> None:
        """Wait until something may be due there, or there is a reason to look around; it may return without one."""

    def rouse(self, note: Callable[[], None]) -> None:
        """Call `note`, whose effect `is_awake` sees, and wake the threads in `sleep`."""

    def deadline_of(self, token: int) -> int | None:
        """Until when a lease is active; None when it is over."""

    def is_finished(self, token: int) -> bool:
        """Whether a lease that is over was ended by `done`."""

    def recover(self, error: JournalError) -> None:
        """A claim failed: return when it can be made again, or raise."""

    def measure_drift(self, peer: str, t0: Time, t1: Time, t2: Time, t3: Time) -> bool:
        """Compare clocks; whether that of the peer is off."""

    def clock_of(self, peer: str) -> dict[str, Any] | None:
        """What is known of a peer's clock."""

    def close(self, peer: str) -> None:
        """The role is over."""


@runtime_checkable
class Grounded(Protocol):
    """A journal, in this process or of a daemon."""

    name: str

    def _ground(self) -> Ground:
        """What a role stands on."""


def ground_of(journal: Grounded, what: str) -> Ground:
    """The ground of a new role."""
    if not isinstance(journal, Grounded):
        raise Invalid(f"{what} a journal, as Store.journal returns it, not {journal!r}")
    return journal._ground()
