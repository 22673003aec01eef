"""Flags of a journal: raised for an operator, and lowered. A journal that is paused has one."""

from __future__ import annotations

from functools import partial

from journal.core.entry import effects as fx
from journal.core.requests.operate import PauseRequest, RaiseFlagRequest, ResumeRequest
from journal.core.values import PAUSED
from journal.engine.caller import Caller
from journal.engine.pipeline import Pipeline
from journal.engine.state.reader import StoredState
from journal.errors import Invalid, NotFound, Refused


def raise_flag(p: Pipeline, asked: RaiseFlagRequest, caller: Caller) -> None:
    """Raise a flag, or raise it once more."""
    if asked.name == PAUSED:
        raise Invalid(f"the flag {PAUSED!r} says that a journal is paused: use pause")
    raise_named(p, asked.name, asked.message, asked.durability)


def raise_named(p: Pipeline, name: str, message: str, durability: str | None = None) -> None:
    """The same, whatever its name."""
    level = p.level_of(durability, p.level)

    def make() -> tuple[None, int]:
        now = p.enter()
        effect = fx.Raise(name, message, now)
        return None, p.write(effect, 1, now, level, partial(p.state.apply, effect), is_essential=True)

    p.change(level, make)


def pause(p: Pipeline, asked: PauseRequest, caller: Caller) -> None:
    """Hand nothing out until `resume`."""
    raise_named(p, PAUSED, asked.reason, asked.durability)


def resume(p: Pipeline, asked: ResumeRequest, caller: Caller) -> bool:
    """Hand out again what is due, and wake sleeping workers; False when the journal was not paused."""
    level = p.level_of(asked.durability, p.level)

    def make() -> tuple[bool, int]:
        now = p.enter()
        if not p.state.is_paused:
            return False, -1
        effect = fx.Lower(PAUSED)
        at = p.write(effect, 1, now, level, partial(p.state.apply, effect), is_essential=True)
        p.due.notify_all()
        return True, at

    return p.change(level, make)


def lower(p: Pipeline, state: StoredState, name: str) -> None:
    """Take a flag down that is raised in this state of the journal."""

    def make() -> tuple[None, int]:
        now = p.enter()
        if not any(flag == name.encode() for flag, _ in state.rows(b"flags")):
            raise NotFound(f"there is no flag {name!r} on journal {p.name}")
        if name == PAUSED:
            raise Refused(f"the journal {p.name} is paused, and its flag says so: resume it, and the flag goes")
        effect = fx.Lower(name)
        return None, p.write(effect, 1, now, p.level, partial(p.state.apply, effect), is_essential=True)

    p.change(p.level, make)
