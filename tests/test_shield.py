"""The shield: what programs call is a whole call, and the shield itself leaves a program's handlers as they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from types import FunctionType

import pytest

import journal
from journal import shield
from journal.engine.backend import EngineJournal
from journal.engine.feed.feed import EngineFeed
from journal.engine.merged.backend import EngineMerged
from journal.engine.snapshots.snapshot import EngineSnapshot
from journal.engine.store import EngineStore
from journal.net.client.connection.link import Link
from journal.net.client.feed import RemoteFeed
from journal.net.client.subscription import RemoteSubscription

WHOLE = (
    EngineStore,
    EngineJournal,
    EngineMerged,
    EngineFeed,
    journal.Consumer,
    EngineSnapshot,
    Link,
    RemoteFeed,
    RemoteSubscription,
)
WITHOUT = {
    "Taking",  # what Consumer calls, which is shielded
    "Shared",  # what Link calls
}


@pytest.mark.parametrize("made", WHOLE, ids=lambda each: each.__name__)
def test_every_public_method_is_a_whole_call(made: type) -> None:
    """A method that is new says `@exposed` when it raises the shield itself; all others have it from their class."""
    bare = []
    for base in made.__mro__[:-1]:
        if base.__name__ in WITHOUT or not base.__module__.startswith("journal."):
            continue
        for name, value in vars(base).items():
            function = value.fget if isinstance(value, property) else value
            if name.startswith("_") or not isinstance(function, FunctionType):
                continue
            if not hasattr(function, "__wrapped__") and not hasattr(function, "_is_exposed"):
                bare.append(f"{base.__module__}.{base.__name__}.{name}")
    assert bare == [], "put @shielded on the class (journal.shield)"


def test_a_signal_is_told_once_and_late() -> None:
    """Noted signals come at the end of the outermost block, one of each kind."""
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    try:
        for _ in range(shield.LOOK_EACH + 1):  # until it is seen that the program handles it
            with shield.SHIELD:
                pass
        with shield.SHIELD:
            with shield.SHIELD:
                signal.raise_signal(signal.SIGUSR1)
                signal.raise_signal(signal.SIGUSR1)
            assert seen == []
        assert seen == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert shield.is_down()


def _raise_both() -> None:
    with shield.SHIELD:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)


def test_two_kinds_are_both_told() -> None:
    """A SIGTERM that was noted beside a SIGINT is not lost when that raises."""
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with pytest.raises(KeyboardInterrupt):
            _raise_both()
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
    assert shield.is_down()


def test_a_breakable_wait_ends_at_once() -> None:
    """Under BREAKABLE a signal raises there, and on its way up finds the shield raised."""
    noted: list[bool] = []

    def wait() -> None:
        with shield.SHIELD:
            try:
                with shield.BREAKABLE:
                    signal.raise_signal(signal.SIGINT)
                noted.append(False)
            finally:
                signal.raise_signal(signal.SIGINT)
                noted.append(shield.is_noted())

    with pytest.raises(KeyboardInterrupt):
        wait()
    assert noted == [True]
    assert shield.is_down()


def test_other_threads_are_left_alone() -> None:
    """The shield of a thread that gets no signals holds nothing back on the main one."""
    is_up, end = threading.Event(), threading.Event()

    def hold() -> None:
        with shield.SHIELD, shield.BREAKABLE:
            is_up.set()
            end.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_up.wait()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    end.set()
    thread.join()
    assert shield.is_down()


FORKED = """
import os, signal, sys, threading
from journal import shield

up, forked = threading.Event(), threading.Event()

def fork():
    up.wait()
    if os.fork() == 0:
        ok = signal.getsignal(signal.SIGINT) is signal.default_int_handler and shield.is_down()
        with shield.SHIELD:
            ok = ok and signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        os._exit(0 if ok else 9)
    forked.set()

thread = threading.Thread(target=fork)
thread.start()
with shield.SHIELD:
    up.set()
    forked.wait()
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_that_another_thread_forked_has_its_handlers() -> None:
    """The call of the main thread does not end there, so the handlers are put back at once."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, env={**os.environ}, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_signal_that_comes_before_the_wait_blocks_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python looks for signals and then lets others run: one that is sent by these is not seen before the thread blocks (W7)."""
    monkeypatch.setattr(shield, "MISSED_S", 0.05)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def send() -> None:
        while not shield._is_open:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    try:
        for _ in range(600):  # about 1 in 100 is missed
            latch = shield.Latch()
            sender = threading.Thread(target=send)
            with pytest.raises(KeyboardInterrupt), shield.SHIELD:  # noqa: PT012 - the thread starts while the shield is up
                sender.start()
                latch.wait()
            sender.join()
    finally:
        sys.setswitchinterval(interval)
    assert shield.is_down()
