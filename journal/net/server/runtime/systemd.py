"""
What a service manager is told (sd_notify): that the daemon is ready, reloads, stops, is alive.

Q1  A manager that does not listen changes nothing: telling never fails and never waits.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from time import monotonic_ns

log = logging.getLogger("journal.daemon")


class Notify:
    """Tells the manager that the environment names, if it names one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self.watchdog_s = _watchdog(environment)
        """The manager wants a sign of life this often; None: it does not."""

    def ready(self, status: str) -> None:
        """It serves, or serves with what it has read anew."""
        self._tell("READY=1", _status(status))

    def reloading(self) -> None:
        """It reads its files again; `ready` says when that is over."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={monotonic_ns() // 1000}")

    def stopping(self, status: str) -> None:
        """It ends."""
        self._tell("STOPPING=1", _status(status))

    def alive(self) -> None:
        """It is well."""
        self._tell("WATCHDOG=1")

    def _tell(self, *lines: str) -> None:
        if self._address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.sendto("\n".join(lines).encode(), self._address)
        except OSError as e:
            log.warning("notify_failed message=%s error=%s", lines[0], e)  # Q1


def _address(word: str) -> str | None:
    if word.startswith("@"):
        return "\0" + word[1:]  # an abstract name
    if word and not word.startswith("/"):
        log.warning("notify_address_unknown address=%s", word)
        return None
    return word or None


def _status(text: str) -> str:
    return "STATUS=" + text.replace("\n", " ")


def _watchdog(environment: Mapping[str, str]) -> float | None:
    """How often a sign of life is due: twice in the time that the manager allows."""
    written, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", str(os.getpid()))
    if not written.isdecimal() or int(written) == 0 or pid != str(os.getpid()):
        return None
    return int(written) / 2_000_000
