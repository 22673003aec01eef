"""Flags of a journal: raised for an operator, and lowered. A journal that is paused has one."""

from __future__ import annotations

from collections.abc import Callable

from journal.core.entry import effects as fx
from journal.core.requests.operate import PauseRequest, RaiseFlagRequest, ResumeRequest
from journal.core.values import PAUSED
from journal.engine.caller import Caller
from journal.engine.handlers import handles
from journal.engine.state.reader import StoredState
from journal.engine.work.path import WorkPath
from journal.errors import NotFound, Refused


@handles(RaiseFlagRequest)
def raise_flag(p: WorkPath, asked: RaiseFlagRequest, caller: Caller) -> None:
    """Raise a flag, or raise it once more."""
    raise_named(p, asked.name, asked.message, asked.durability)


def raise_named(p: WorkPath, name: str, message: str, durability: str | None = None) -> None:
    """The same, whatever its name."""
    _change(p, durability, lambda now: fx.Raise(name, message, now))


@handles(PauseRequest)
def pause(p: WorkPath, asked: PauseRequest, caller: Caller) -> None:
    """Hand nothing out until `resume`."""
    raise_named(p, PAUSED, asked.reason, asked.durability)


@handles(ResumeRequest)
def resume(p: WorkPath, asked: ResumeRequest, caller: Caller) -> bool:
    """Hand out again what is due, and wake sleeping workers; False when the journal was not paused."""

    def decide(now: int) -> fx.Effect | None:
        if not p.state.is_paused:
            return None
        p.wake_workers()  # they look around when the lock is free again
        return fx.Lower(PAUSED)

    return _change(p, asked.durability, decide)


def lower(p: WorkPath, state: StoredState, name: str) -> None:
    """Take a flag down that is raised in this state of the journal."""

    def decide(now: int) -> fx.Effect:
        if not any(flag == name.encode() for flag, _ in state.rows(b"flags")):
            raise NotFound(f"there is no flag {name!r} on journal {p.name}")
        if name == PAUSED:
            raise Refused(f"the journal {p.name} is paused, and its flag says so: resume it, and the flag goes")
        return fx.Lower(name)

    _change(p, None, decide)


def _change(p: WorkPath, durability: str | None, decide: Callable[[int], fx.Effect | None]) -> bool:
    """Make the change that is decided at this time; whether there is one."""
    level = p.level_of(durability, p.level)

    def make() -> tuple[bool, int]:
        now = p.enter()
        effect = decide(now)
        return effect is not None, -1 if effect is None else p.write(effect, 1, now, level, is_essential=True)

    return p.change(level, make)
