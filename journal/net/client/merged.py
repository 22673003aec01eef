"""All merged journals that a daemon keeps, together: the verbs of journal.MergedJournals."""

from __future__ import annotations

from typing import Any

from journal.core.settings import MERGED, Settings
from journal.errors import NotFound
from journal.net.client.calls import operations
from journal.net.client.connection.heartbeat import Heart
from journal.net.client.remote import RemoteLog


class RemoteMergedJournals(RemoteLog):
    """The generations, the log and the settings that merged journals share; its feed has the changes of all of them."""

    def __init__(self, heart: Heart, timeout_ms: int | None) -> None:
        super().__init__(heart, MERGED, timeout_ms)

    @property
    def settings(self) -> Settings:
        """How their files behave; only the settings that they have together count."""
        return self._ask(operations.merged({}))

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes of what is shared."""
        found = self._merged()
        del found["counts"]
        return found

    def counts(self) -> dict[str, int]:
        """How many entries each journal has; those that have none are left out."""
        found: dict[str, int] = self._merged()["counts"]
        return found

    def _merged(self) -> dict[str, Any]:
        found: dict[str, Any] | None = self._ask(operations.statistics()).get("merged")
        if found is None:
            raise NotFound("the daemon has no merged journals")
        return found

    def __repr__(self) -> str:
        return f"<RemoteMergedJournals at {self._link.address}>"
