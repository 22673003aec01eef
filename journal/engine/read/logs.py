"""The log of a journal, or of all merged ones, as a row of generations and of cursors over them."""

from __future__ import annotations

from time import sleep

from journal.core.log import cursor_math
from journal.core.log.cursor import Cursor, base_of
from journal.core.requests.operate import RotateRequest
from journal.core.requests.read import (
    DistanceRequest,
    DurableCursorRequest,
    GenerationsRequest,
    LagRequest,
    ShiftRequest,
    WaitDurableRequest,
)
from journal.core.values import Generation
from journal.engine.caller import Caller
from journal.engine.handlers import handles
from journal.engine.read.path import LogPath
from journal.errors import Invalid


@handles(GenerationsRequest)
def generations(p: LogPath, asked: GenerationsRequest, caller: Caller) -> list[Generation]:
    """The periods, oldest first, with what keeps each."""
    with p.lock:
        p.enter()
        return p.generations.list()


@handles(RotateRequest)
def rotate(p: LogPath, asked: RotateRequest, caller: Caller) -> Generation:
    """Begin a new generation now; the active one."""
    p.level_of(None, p.level)
    generations = p.generations
    while not p.keeper.call(generations.rotate_if_place):
        sleep(generations.pause_s())  # the keeper serves other callers in between
    with p.lock:
        p.enter()
        return generations.newest()


@handles(DistanceRequest)
def distance(p: LogPath, asked: DistanceRequest, caller: Caller) -> int:
    """How many changes come after `a`, up to `b`."""
    return cursor_math.distance(asked.a, asked.b, _spans(p))


@handles(ShiftRequest)
def shift(p: LogPath, asked: ShiftRequest, caller: Caller) -> Cursor:
    """The cursor `n` changes later, or earlier."""
    return cursor_math.shift(asked.cursor, asked.n, _spans(p))


@handles(LagRequest)
def lag(p: LogPath, asked: LagRequest, caller: Caller) -> int:
    """How many changes come after a cursor."""
    return cursor_math.lag(asked.cursor, _spans(p))


def _spans(p: LogPath) -> list[cursor_math.Span]:
    with p.lock:
        p.enter()
        return p.generations.spans()


@handles(DurableCursorRequest)
def durable_cursor(p: LogPath, asked: DurableCursorRequest, caller: Caller) -> Cursor:
    """The last change that is on disk."""
    with p.lock:  # a rotation moves the log
        return Cursor(p.order, p.log.synced - p.log.base)


@handles(WaitDurableRequest)
def wait_durable(p: LogPath, asked: WaitDurableRequest, caller: Caller) -> None:
    """Return when the change at this cursor, and all before it, are on disk."""
    cursor = asked.cursor
    with p.lock:
        p.enter()
        at = base_of(cursor.order) + cursor.offset
        if cursor.order < 1 or at >= p.next_offset:
            raise Invalid(f"{cursor} is not a change of journal {p.name}: the last is {p.last_cursor}")
    p.settle(at)
