"""Coming back: when to try to connect again, and when to give up. No clock and no socket; for both kinds of clients."""

from __future__ import annotations

from journal.errors import AccessDenied, Busy, FrameError, JournalError, VersionUnsupported
from journal.net.client.connection.address import DaemonAddress
from journal.net.client.connection.options import ConnectOptions

_FATAL = AccessDenied, VersionUnsupported, FrameError
"""Before the welcome: trying again would come to the same."""


class Comeback:
    """The attempts of one client. `options.wait_ms` is its patience until the first welcome, then that of the backoff."""

    def __init__(self, address: DaemonAddress, options: ConnectOptions) -> None:
        self.at = 0
        """When the next attempt is due."""
        self.reason = ""
        """Why it was given up."""
        self.address = address
        self._backoff = options.backoff
        self._patience_ms = options.wait_ms
        self._attempts = 0
        self._lost_at: int | None = None

    def begin(self, now: int) -> None:
        """A caller needs a connection, and there is none."""
        if self._lost_at is None:
            self._lost_at = now

    def welcome(self) -> None:
        """A connection was accepted: reset the attempts."""
        self._patience_ms = self._backoff.total_ms
        self.forget()

    def missed(self, error: BaseException | None, now: int, chance: float) -> bool:
        """An attempt failed; whether there is another one, at `at`. `chance` is a random number from 0 to 1."""
        self.begin(now)
        assert self._lost_at is not None
        wait = self._backoff.wait_ms(self._attempts, chance)
        self._attempts += 1
        self.at = now + wait
        if self.at - self._lost_at <= self._patience_ms:
            return True
        tried = f"({_text(error)}; {self._attempts} attempts in {now - self._lost_at} ms)"
        if isinstance(error, Busy):
            self.reason = (
                f"the daemon at {self.address} takes no further connection {tried}: close some, have it take more "
                "(--connections-max), or give connect() a longer wait= or backoff="
            )
        else:
            self.reason = (
                f"there is no daemon at {self.address} {tried}: start it (journal serve), give connect() another address, or a "
                "longer wait= or backoff="
            )
        self.forget()
        return False

    def forget(self) -> None:
        """Reset the attempts: the next caller that needs a connection begins anew."""
        self._attempts = self.at = 0
        self._lost_at = None


def is_fatal(error: JournalError | None) -> bool:
    """Whether a connection that ended so before its welcome will not be better the next time."""
    return isinstance(error, _FATAL)


def _text(error: BaseException | None) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return "it closed the connection" if error is None else str(error)
