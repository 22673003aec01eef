"""The daemon as a process: signals, what a service manager hears, and how it ends. Around a server that does as it is told."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from journal.errors import StorageError
from journal.net.server.runtime import process as processes
from journal.net.server.runtime.process import DESCRIPTORS_OWN, PidFile, make_room

CHILD = """
import os, socket, sys, threading
from journal.net.server.runtime.log_format import logged
from journal.net.server.runtime.systemd import Notify
from journal.net.server.runtime import process as processes
from journal.net.server.runtime.process import Process, signals_held
from journal.errors import Invalid

mode, address = sys.argv[1:]
if mode in ("never ends", "close hangs"):
    processes.PATIENCE_S = 0

class Server:
    addresses = [address]
    is_stopping = False
    over = threading.Event()

    def stop(self, timeout_s):
        print("stop", timeout_s, flush=True)
        self.is_stopping = True
        if mode != "never ends":
            self.over.set()

    def join(self):
        self.over.wait()

server = Server()

def answer(listening):
    while True:
        peer = listening.accept()[0]
        with peer:
            print("asked", peer.recv(100).decode().strip(), flush=True)
            peer.sendall(b"ABSOLUTELY")

def reload():
    print("reload", flush=True)
    if mode == "wrong files":
        raise Invalid("line 3 is wrong")
    return "5 identities"

def close():
    print("close", flush=True)
    if mode == "close hangs":
        threading.Event().wait()
    if mode == "close takes time":
        threading.Event().wait(0.2)  # long enough for the second signal, not for a person
    if mode == "close fails":
        raise Invalid("it cannot be closed")

with logged("text", "info", sys.stdout), signals_held():
    if mode in ("answers", "silent"):
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(address.removeprefix("unix:"))
        listening.listen()
        if mode == "answers":
            threading.Thread(target=answer, args=(listening,), daemon=True).start()
    if mode == "is told to stop":
        server.stop(0)
    if mode == "falls over":
        server.over.set()
    Process(server, notify=Notify(os.environ), reload=reload, close=close, stop_s=7.5, status="serves").run()
print("end", flush=True)
"""


class Child:
    """The process, and the manager that hears of it."""

    def __init__(self, mode: str, place: Path, watchdog_usec: int | None) -> None:
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(str(place / "notify"))
        self.manager.settimeout(30)
        environment = {**os.environ, "NOTIFY_SOCKET": str(place / "notify")}
        if watchdog_usec is not None:
            environment["WATCHDOG_USEC"] = str(watchdog_usec)
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, mode, f"unix:{place / 'SOCKET'}"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        )  # fmt: skip

    def heard(self) -> str:
        """The next thing that the manager hears."""
        return self.manager.recv(4096).decode().split("\n")[0]

    def line(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> tuple[int, list[str]]:
        """How it ended, and what it printed meanwhile."""
        out, _ = self.process.communicate(timeout=100)
        return self.process.returncode, out.splitlines()


Start = Callable[..., Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts one."""
    started: list[Child] = []

    def starter(mode: str = "plain", watchdog_usec: int | None = None) -> Child:
        child = Child(mode, tmp_path, watchdog_usec)
        started.append(child)
        return child

    yield starter
    for child in started:
        child.manager.close()
        if child.process.poll() is None:
            child.process.kill()
            child.process.communicate()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_ends_in_good_order(start: Start, signum: signal.Signals) -> None:
    """The server is asked, with its time; then the store is closed."""
    child = start()
    assert child.heard() == "READY=1"
    child.process.send_signal(signum)
    assert child.heard() == "STOPPING=1"
    code, lines = child.end()
    assert code == 0
    assert f"stop_signal signal={signum.name} within_s=7.5" in lines[0]
    assert lines[1:] == ["stop 7.5", "close", "end"]


@pytest.mark.parametrize("mode", ["never ends", "close hangs"])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_at_once(start: Start, mode: str, signum: signal.Signals) -> None:
    """Whatever is being waited for: the server, or the disk."""
    child = start(mode)
    assert child.heard() == "READY=1"
    child.process.send_signal(signal.SIGTERM)
    while child.line() != ("stop 7.5" if mode == "never ends" else "close"):
        pass
    child.process.send_signal(signum)
    code, lines = child.end()
    assert code == 128 + signum
    assert "ended_at_once" in lines[-1] and "end" not in lines


def test_a_signal_that_comes_twice_is_one(start: Start) -> None:
    """To the process and to its group, within a moment: it still ends in good order."""
    child = start("close takes time")
    assert child.heard() == "READY=1"
    child.process.send_signal(signal.SIGTERM)
    assert child.heard() == "STOPPING=1"
    child.process.send_signal(signal.SIGTERM)
    child.process.send_signal(signal.SIGHUP)
    code, lines = child.end()
    assert code == 0 and lines[1:] == ["stop 7.5", "close", "end"]


def test_sighup_reads_files_again(start: Start) -> None:
    """The manager hears when it begins and when it is over."""
    child = start()
    assert child.heard() == "READY=1"
    for _ in range(2):
        child.process.send_signal(signal.SIGHUP)
        assert [child.heard(), child.heard()] == ["RELOADING=1", "READY=1"]
    child.process.send_signal(signal.SIGTERM)
    code, lines = child.end()
    assert code == 0
    assert lines[0] == "reload" and 'reloaded found="5 identities"' in lines[1]


def test_wrong_files_change_nothing(start: Start) -> None:
    """An error in the log, and it goes on."""
    child = start("wrong files")
    assert child.heard() == "READY=1"
    child.process.send_signal(signal.SIGHUP)
    assert [child.heard(), child.heard()] == ["RELOADING=1", "READY=1"]
    child.process.send_signal(signal.SIGTERM)
    code, lines = child.end()
    assert code == 0
    assert 'ERROR journal.daemon reload_failed error="line 3 is wrong"' in lines[1]


def test_a_client_may_stop_it(start: Start) -> None:
    """No signal is needed for a good end."""
    code, lines = start("is told to stop").end()
    assert code == 0 and lines[-2:] == ["close", "end"]


def test_a_server_that_falls_over_is_a_failure(start: Start) -> None:
    """Whoever watches over it starts it again."""
    code, lines = start("falls over").end()
    assert code == 1 and "without being asked to" in lines[-1]
    assert "close" in lines


def test_a_store_that_cannot_be_closed_is_a_failure(start: Start) -> None:
    """It is told, not swallowed."""
    child = start("close fails")
    assert child.heard() == "READY=1"
    child.process.send_signal(signal.SIGTERM)
    code, lines = child.end()
    assert code == 1 and "it cannot be closed" in lines[-1]


def test_the_watchdog_hears_of_a_server_that_answers(start: Start) -> None:
    """Each sign of life is an answer over its own socket."""
    child = start("answers", watchdog_usec=200_000)
    assert [child.heard() for _ in range(3)] == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]
    assert child.line() == "asked ALIVE serial=watchdog"
    child.process.send_signal(signal.SIGTERM)
    assert child.end()[0] == 0


def test_the_watchdog_hears_nothing_of_one_that_hangs(start: Start) -> None:
    """The system takes connections for it, and that is not enough. Signals are taken all the same."""
    child = start("silent", watchdog_usec=200_000)
    assert child.heard() == "READY=1"
    assert "watchdog_no_answer" in child.line()
    assert "watchdog_no_answer" in child.line()
    child.process.send_signal(signal.SIGTERM)
    assert child.heard() == "STOPPING=1"
    assert child.end()[0] == 0


def test_a_pid_file(tmp_path: Path) -> None:
    """Ours while it is there; that of a successor stays."""
    path = tmp_path / "pid"
    path.write_text("999999\n")
    ours = PidFile(path)
    assert path.read_text() == f"{os.getpid()}\n"
    ours.remove()
    assert list(tmp_path.iterdir()) == []
    ours.remove()
    later = PidFile(path)
    path.write_text("1\n")
    later.remove()
    assert path.read_text() == "1\n"
    with pytest.raises(StorageError, match="No such file"):
        PidFile(tmp_path / "missing" / "pid")


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (256, 100_000, 1000 + DESCRIPTORS_OWN),
        (256, resource.RLIM_INFINITY, 1000 + DESCRIPTORS_OWN),
        (50_000, 100_000, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None),
        (256, 512, 512),
    ],
)
def test_descriptors_for_all_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, soft: int, hard: int, expected: int | None
) -> None:
    """The system is asked for them, and a warning says when it does not give enough."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(processes.resource, "getrlimit", lambda which: (soft, hard))
    monkeypatch.setattr(processes.resource, "setrlimit", lambda which, limits: asked.append(limits))
    make_room(1000)
    assert asked == ([] if expected is None else [(expected, hard)])
    assert ("few_descriptors allowed=512" in caplog.text) == (expected == 512)


BLOCKS = """
import ctypes, sys
from journal.net.server.runtime.process import LARGE_BLOCK, map_large_blocks

class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", *"abcde")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info
if sys.argv[1] == "set":
    map_large_blocks()
block = bytes(2 * LARGE_BLOCK)
del block  # a mapped block that is freed raises glibc's own threshold
before = libc.mallinfo2().hblkhd
block = bytes(2 * LARGE_BLOCK)
print("mapped" if libc.mallinfo2().hblkhd > before else "of the heap")
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc 2.33")
@pytest.mark.parametrize(
    ("word", "environment", "found"),
    [
        ("set", {}, "mapped"),
        ("unset", {}, "of the heap"),
        ("set", {"MALLOC_MMAP_THRESHOLD_": "33554432"}, "of the heap"),
        ("set", {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=33554432"}, "of the heap"),
    ],
)
def test_large_blocks_are_mapped_again_and_again(word: str, environment: dict[str, str], found: str) -> None:
    """Without it they are not, which is why it is there; what the operator has set stays."""
    plain = {
        name: value for name, value in os.environ.items() if name not in ("MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
    }
    done = subprocess.run(
        [sys.executable, "-c", BLOCKS, word], env=plain | environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{found}\n"
