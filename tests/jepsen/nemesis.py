"""
What is disturbed, and when: the same for the same seed, but for what the machine makes of it.

    kill          kill -9 of the daemon, and another one after a moment
    stop          SIGTERM: it finishes what is in flight; and another one
    freeze        SIGSTOP for longer than any lease, and SIGCONT
    fill          the disk is full for a while
    fill_kill     the same, and it is killed meanwhile
    cut           connections are cut, again and again, with the daemon as it is
    late          a consumer is frozen for longer than its leases
    client_kill   kill -9 of a client; another one comes under its name

D1  Every disturbance ends: afterwards a daemon runs, with room on its disk.
D2  A note says when it began; of a death of the daemon also when nothing was left of it.
"""

from __future__ import annotations

import os
import random
import select
import signal
from collections.abc import Callable
from pathlib import Path
from time import monotonic, monotonic_ns

from tests.jepsen import clients
from tests.jepsen.clients import Place
from tests.jepsen.history import History
from tests.jepsen.serving import Failed, Serving

LONGEST_S = max(clients.LEASES_MS) / 1000
WEIGHTS = {"kill": 5, "stop": 2, "freeze": 2, "fill": 3, "fill_kill": 1, "cut": 5, "late": 1, "client_kill": 1}


class Member:
    """One client of the crew, over all its lives."""

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self.place = place
        self.number = 0
        self.pid = 0
        self.control = -1
        self.pidfd = -1


class Crew:
    """All clients of a round."""

    def __init__(self, members: list[Member], folder: Path, seed: str, rate_s: float) -> None:
        self.members = members
        self._folder = folder
        self._seed = seed
        self._rate_s = rate_s
        for member in members:
            self._start(member)

    def _start(self, member: Member) -> None:
        member.pid, member.control = clients.start(
            member.name, member.number, member.place, self._folder, self._seed, rate_s=self._rate_s
        )
        member.pidfd = os.pidfd_open(member.pid)

    def wait(self, seconds: float) -> None:
        """Let time pass; a client that ends meanwhile is a failure."""
        ended, _, _ = select.select([member.pidfd for member in self.members], [], [], max(0.0, seconds))
        for member in self.members:
            if member.pidfd in ended:
                raise Failed(f"the client {member.name} has ended: {self._crash(member)}")

    def _crash(self, member: Member) -> str:
        path = self._folder / f"{member.name}~{member.number}.crash"
        return path.read_text() if path.exists() else "it left no word"

    def replace(self, member: Member) -> None:
        """kill -9, and another one under the same name."""
        os.kill(member.pid, signal.SIGKILL)
        self._reap(member)
        member.number += 1
        self._start(member)

    def _reap(self, member: Member) -> int:
        _, status = os.waitpid(member.pid, 0)
        os.close(member.control)
        os.close(member.pidfd)
        member.pid = 0
        return os.waitstatus_to_exitcode(status)

    def end(self, kind: str, by: float) -> None:
        """Have the clients of one kind end, in good order."""
        some = [member for member in self.members if member.name.startswith(kind)]
        for member in some:
            os.write(member.control, b".")
        for member in some:
            if not select.select([member.pidfd], [], [], max(0.0, by - monotonic()))[0]:
                raise Failed(f"the client {member.name} was to end, and hangs")
            code = self._reap(member)
            self.members.remove(member)
            if code != 0:
                raise Failed(f"the client {member.name} ended with {code}: {self._crash(member)}")

    def close(self) -> None:
        """Kill whoever is left."""
        for member in self.members:
            if member.pid:
                os.kill(member.pid, signal.SIGKILL)
                self._reap(member)
        self.members.clear()


class Nemesis:
    """Disturbs a daemon and its clients for a while."""

    def __init__(self, serving: Serving, crew: Crew, history: History, chance: random.Random) -> None:
        self._serving = serving
        self._crew = crew
        self._history = history
        self._chance = chance
        self.done: list[str] = []
        """What was disturbed."""

    def run(self, seconds: float, only: tuple[str, ...] = ()) -> None:
        """Disturb at random for about so long (D1)."""
        by = monotonic() + seconds
        weights = {name: weight for name, weight in WEIGHTS.items() if not only or name in only}
        kinds: dict[str, Callable[[], None]] = {
            "kill": self._kill, "stop": self._stop, "freeze": self._freeze, "fill": self._fill, "fill_kill": self._fill_kill,
            "cut": self._cut, "late": self._late, "client_kill": self._client_kill,
        }  # fmt: skip
        self._crew.wait(self._chance.uniform(0.1, 0.4))
        while monotonic() < by:
            name = self._chance.choices(list(weights), list(weights.values()))[0]
            self.done.append(name)
            kinds[name]()
            self._crew.wait(self._chance.uniform(0.1, 0.5))

    def _kill(self) -> None:
        at = monotonic_ns()
        self._serving.kill()
        self._history.note("kill", at=at)
        self._crew.wait(self._chance.choice((0.0, 0.0, 0.2)))
        self._serving.start()

    def _stop(self) -> None:
        at = monotonic_ns()
        self._serving.stop()
        self._history.note("stop", at=at)
        self._crew.wait(self._chance.choice((0.0, 0.1)))
        self._serving.start()

    def _freeze(self) -> None:
        self._history.note("freeze")
        self._serving.freeze()
        try:
            self._crew.wait(LONGEST_S + self._chance.uniform(0.1, 0.4))
        finally:
            self._serving.thaw()

    def _fill(self) -> None:
        self._history.note("fill")
        self._serving.fill(self._chance.choice((0, 0, 10_000)))
        self._crew.wait(self._chance.uniform(0.2, 0.7))
        self._serving.empty()

    def _fill_kill(self) -> None:
        self._history.note("fill")
        self._serving.fill()
        self._crew.wait(self._chance.uniform(0.1, 0.3))
        self._kill()

    def _cut(self) -> None:
        self._history.note("cut")
        for _ in range(self._chance.randint(5, 25)):
            os.kill(self._chance.choice(self._crew.members).pid, signal.SIGUSR1)
            self._crew.wait(self._chance.uniform(0.0, 0.04))

    def _late(self) -> None:
        member = self._some("consumer")
        self._history.note("late", client=member.name)
        os.kill(member.pid, signal.SIGSTOP)
        try:
            self._crew.wait(LONGEST_S)
        finally:
            os.kill(member.pid, signal.SIGCONT)

    def _client_kill(self) -> None:
        member = self._chance.choice(self._crew.members)
        self._history.note("client_kill", client=member.name)
        self._crew.replace(member)

    def _some(self, kind: str) -> Member:
        return self._chance.choice([member for member in self._crew.members if member.name.startswith(kind)])
