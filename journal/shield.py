"""
The shield: postpones what Python's signal handlers raise (Ctrl-C) until the current call has ended.

Python runs signal handlers on the main thread, between any two steps of it, and what they raise (KeyboardInterrupt, the SystemExit of a
SIGTERM handler, the TimeoutError of a SIGALRM one) goes up from there. A verb that is left between two steps may leave a lock held, a
row without its index or half a frame behind it. So the verbs of the library raise the shield first:

    with SHIELD:               handlers are swapped for one that notes signals; on leaving they are restored, and called for those
        ...
        with BREAKABLE:        a wait, or a place between two steps, where nothing is half done: what was noted is raised here,
            wait()             and what comes now is raised at once

W1  On the main thread only: no other thread gets signals. On other threads the shield costs one comparison.
W2  Nothing is installed for longer than a call: `signal.getsignal` tells a program what it has set. The program's own code, e.g. an
    iterable that it has passed, runs without the shield.
W3  Only handlers that are Python's are swapped. What the system does by itself (SIGKILL, an unhandled SIGTERM) is not affected.
W4  What runs under BREAKABLE must tolerate any exception there, with the locks of the library free: as if the wait had failed. The
    shield is up again while the exception propagates.
W5  Verbs may call verbs: the outermost shield counts. A signal that is noted several times is delivered once, as the kernel does it.
W6  What BREAKABLE waits on is a lock or a poll, nothing of `threading` that is written in Python: an Event that is left between two
    steps keeps its inner lock, and the thread that sets it hangs.
W7  A wait of the main thread ends at least each MISSED_S, and goes on. Python looks for signals, then lets other threads run, and does
    not look again before it blocks: a signal that comes in between ends no wait. Of 300 that were aimed there, 8 did not.
"""

from __future__ import annotations

import os
import threading
from _thread import LockType, allocate_lock, get_ident, interrupt_main
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from time import monotonic
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeVar, cast

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

_signal: Any = import_module("_signal")
"""Without the enums of `signal`, which take longer than all else."""
_interrupt: Callable[[int], None] = cast(Any, interrupt_main)
_INT, _TERM, _ALRM = int(_signal.SIGINT), int(_signal.SIGTERM), int(_signal.SIGALRM)
_REST = tuple(_signal.valid_signals() - {_INT, _TERM, _ALRM, _signal.SIGKILL, _signal.SIGSTOP})
LOOK_EACH = 64
"""Every so many calls the shield checks whether the program handles any of `_REST`: that check takes longer."""
LOOK_UP_S = 0.1
"""How often the main thread checks for noted signals while it waits for something that it cannot leave at any moment (W6)."""
MISSED_S = 1.0
"""The longest delay of a signal that Python has missed (W7)."""
_handler, _handle = _signal.getsignal, _signal.signal
_DEFAULT = _signal.SIG_DFL


_main: int | None = threading.main_thread().ident
_depth = 0
_is_open = False
"""Under BREAKABLE: what comes is raised at once."""
_noted: list[int] = []
"""What waits for the end of the call."""
_former: Any = None
"""What the program does at a SIGINT, while that is swapped alone."""
_formers: dict[int, Any] = {}
"""The same for each swapped signal, while other signals than SIGINT are swapped."""
_others: tuple[int, ...] = ()
"""Signals besides the usual ones that the program handles."""


def shield_up() -> bool:
    """
    Raise the shield; whether there is something to take down again: `shield_down`, in a `finally`.

    For the verbs that take some microseconds, of which a `with` would be one.
    """
    global _depth, _former
    if get_ident() != _main:
        return False
    if _depth:
        _depth += 1
        return True
    found = _handler(_INT)
    if (
        found.__class__ is int
        or found is None
        or found is _note
        or _others
        or _formers
        or _handler(_TERM) is not _DEFAULT
        or _handler(_ALRM) is not _DEFAULT
    ):
        return _swap_all()
    _former = found
    try:
        _depth = 1  # what comes after the swap is noted, and before it raised
        _handle(_INT, _note)
    except ValueError:
        return _leave_it()
    except BaseException:
        _depth = 0
        raise
    return True


def shield_down() -> None:
    """Take it down: restore the program's handlers, and call them for the signals that were noted."""
    global _depth, _former
    if _depth > 1:
        _depth -= 1
        return
    _depth = 0  # what comes before a handler is back is passed on
    try:
        if _former is not None:
            _handle(_INT, _former)
            _former = None
        if _formers:
            _restore()
    except BaseException:  # raised by one of them in this moment
        if _former is not None:
            _handle(_INT, _former)
            _former = None
        _restore()
        raise
    if _noted:
        _tell()


def _swap_all() -> bool:
    """The same for all signals that the program handles."""
    global _depth
    try:
        _depth = 1
        for number in (_INT, _TERM, _ALRM, *_others):
            found = _handler(number)
            if callable(found) and found is not _note:
                _formers[number] = found
                _handle(number, _note)
    except ValueError:
        return _leave_it()
    except BaseException:
        _depth = 0
        _restore()
        raise
    return True


def _leave_it() -> bool:
    """This is not the main interpreter, which alone has handlers."""
    global _main, _depth, _former
    _main, _depth, _former = None, 0, None
    _formers.clear()
    return False


def _restore() -> None:
    for number, former in list(_formers.items()):
        _handle(number, former)
        del _formers[number]


def _tell() -> None:
    """Have the program's handlers run, the first of them here."""
    first, *others = dict.fromkeys(_noted)
    _noted.clear()
    try:
        _pass_on(first, None)
    finally:
        for number in others:
            _interrupt(number)


def _note(number: int, frame: FrameType | None) -> None:
    global _is_open
    if _depth and not _is_open:
        _noted.append(number)
        return
    was_open, _is_open = _is_open, False  # what it raises finds the shield raised, on its way (W4)
    _pass_on(number, frame)
    _is_open = was_open


def _pass_on(number: int, frame: FrameType | None) -> None:
    former = _formers.get(number) or (_former if number == _INT and _former is not None else _handler(number))
    if callable(former) and former is not _note:
        former(number, frame)


def is_noted() -> bool:
    """Whether something waits for the end of the call of the main thread."""
    return bool(_noted)


def is_up() -> bool:
    """Whether this is the main thread, in a call."""
    return _depth > 0 and get_ident() == _main


def is_down() -> bool:
    """Whether no call is under way on the main thread, and nothing is left of the last one."""
    return not (_depth or _is_open or _noted or _formers or _former)


def give_way() -> None:
    """A place between two steps of a long call: raise what was noted (W4)."""
    if _noted and get_ident() == _main and _depth:
        _tell()


def look_up_s(seconds: float | None = None) -> float | None:
    """How long to wait for a Condition before a look at what was noted (`give_way`); elsewhere as long as is wanted (W6)."""
    if get_ident() != _main:
        return seconds
    return LOOK_UP_S if seconds is None else min(seconds, LOOK_UP_S)


def _abandon_after_fork() -> None:
    """In a forked child: the thread that forked is the main one, and the call of another thread does not end here."""
    global _main, _depth, _is_open, _former
    if get_ident() != _main:
        _main, _depth, _is_open = get_ident(), 0, False
        _noted.clear()
        if _former is not None:
            _formers[_INT], _former = _former, None
        _restore()


os.register_at_fork(after_in_child=_abandon_after_fork)


class _Shield:
    """A call that is whole when it ends."""

    def __init__(self) -> None:
        self._looks = 0

    def __enter__(self) -> None:
        global _others
        if get_ident() == _main and not _depth:
            self._looks -= 1
            if self._looks < 0:
                self._looks = LOOK_EACH
                _others = tuple(number for number in _REST if callable(_handler(number)))
        shield_up()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if get_ident() == _main:
            shield_down()


class _Breakable:
    """A wait that may be left."""

    def __enter__(self) -> None:
        global _is_open
        if get_ident() == _main and _depth:
            _is_open = True
            if _noted:
                _is_open = False
                _tell()
                _is_open = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _is_open
        if get_ident() == _main:
            _is_open = False


SHIELD = _Shield()
BREAKABLE = _Breakable()


def take(lock: LockType, seconds: float | None = None) -> bool:
    """Acquire a lock, where nothing is half done (W4): signals are raised here. False when it was not free so long."""
    if get_ident() != _main:
        return lock.acquire(timeout=-1 if seconds is None else max(0.0, seconds))
    end = None if seconds is None else monotonic() + seconds
    while True:
        rest = MISSED_S if end is None else min(MISSED_S, max(0.0, end - monotonic()))
        with BREAKABLE:
            if lock.acquire(timeout=rest):
                return True
        if end is not None and monotonic() >= end:
            return False


class Latch:
    """An event whose waits can be interrupted (W6)."""

    def __init__(self) -> None:
        self._gate = allocate_lock()
        self._gate.acquire()

    def is_set(self) -> bool:
        """Whether it was set since the last `clear`."""
        return not self._gate.locked()

    def set(self) -> None:
        """Wake the threads that wait."""
        try:
            self._gate.release()
        except RuntimeError:
            return  # it is set

    def clear(self) -> None:
        """Have the next `wait` wait."""
        self._gate.acquire(blocking=False)

    def wait(self, seconds: float | None = None) -> bool:
        """Until it is set, or so long at most; whether it is."""
        try:
            is_set = take(self._gate, seconds)
        except BaseException:
            self.set()  # it may have been
            raise
        if is_set:
            self.set()
        return is_set


_EXPOSED = "_is_exposed"


def exposed(method: F) -> F:
    """A method of a shielded class that raises the shield itself, or needs none."""
    setattr(method, _EXPOSED, True)
    return method


def whole(function: F) -> F:
    """A function that is whole when it ends: the shield is up while it runs."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        with SHIELD:
            return function(*args, **options)

    return cast(F, call)


def shielded(made: C) -> C:
    """A class whose public methods and properties are whole calls."""
    for name, value in list(vars(made).items()):
        if name.startswith("_") and name != "__exit__":
            continue
        if isinstance(value, FunctionType) and not hasattr(value, _EXPOSED):
            setattr(made, name, whole(value))
        elif isinstance(value, property):
            assert value.fget is not None
            setattr(made, name, property(whole(value.fget), value.fset, doc=value.__doc__))
    return made
