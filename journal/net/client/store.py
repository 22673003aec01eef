"""A store that a daemon keeps, as the backend of journal.Store over a connection (journal.api.backend)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from journal.core.clock_drift import Drifts
from journal.core.requests.operate import (
    BackupRequest,
    BackupStateRequest,
    DeclareRequest,
    DropRequest,
    MergedRequest,
)
from journal.core.requests.read import SettingsRequest
from journal.core.schema.schema import Schema
from journal.core.times import duration_ms
from journal.core.values import Backup
from journal.errors import Invalid, NotFound
from journal.net.client.backend import ClientJournal, ClientMerged
from journal.net.client.client import Client
from journal.net.client.connection.call import call_of

POLL_S = 0.1
"""How often a daemon is asked how far its backup is."""


class ClientStore(Client):
    """See the module. Made by `journal.connect`."""

    is_remote = True

    def __repr__(self) -> str:
        return str(self.link.address)

    def journal(self, name: str, settings: dict[str, Any]) -> ClientJournal:
        """Open a journal, or declare it."""
        if settings:
            self.ask(call_of(DeclareRequest(settings=_plain(settings)), name))
        else:
            try:
                self.ask(call_of(SettingsRequest(), name))
            except NotFound:
                self.ask(call_of(DeclareRequest(settings={}), name))
        return ClientJournal(self.ear, self.timeout_ms, name)

    def merged(self, settings: dict[str, Any]) -> ClientMerged:
        """What all merged journals have together."""
        self.call(MergedRequest(settings=_plain(settings) or None))
        return self.existing_merged()

    def existing_merged(self) -> ClientMerged:
        """The same without a question: the daemon says with the first one whether there are any."""
        return ClientMerged(self.ear, self.timeout_ms)

    def drop(self, name: str) -> None:
        """Delete a journal with all that is in it."""
        self.ask(call_of(DropRequest(), name))

    def backup(self, dest: str | os.PathLike[str], progress: Callable[[int, int], None] | None) -> Backup:
        """Have the daemon copy the store to a directory of its machine; it is asked how far it is."""
        path = os.fspath(dest)
        if not os.path.isabs(path):
            raise Invalid(
                f"{path!r} is not an absolute path: the daemon makes the backup in a directory of its own machine"
            )
        self.call(BackupRequest(path=path))
        pause = threading.Event()
        while True:
            done, total, made = self.call(BackupStateRequest())
            if progress is not None:
                progress(done, total)
            if made is not None:
                found: Backup = made
                return found
            pause.wait(POLL_S)

    @property
    def path(self) -> Path:
        """Refused: the files are the daemon's."""
        raise Invalid(f"the store at {self} has no path here: a daemon keeps its files")

    @property
    def drifts(self) -> Drifts:
        """Refused: the daemon measures."""
        raise Invalid("a daemon measures how far clocks are off: statistics() tells what it has found")

    def serve(self, options: dict[str, Any]) -> Any:
        """Refused: the daemon serves already."""
        raise Invalid(
            f"the store at {self} is served by its daemon: the process that has it open can serve it elsewhere too"
        )

    def close(self) -> None:
        """End the connection."""
        self.link.close()
        self.heart.close()
        self.ear.tell()


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as they can be sent."""
    return {name: _value(name, value) for name, value in settings.items()}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, Schema):
        return value.to_dict()
    return duration_ms(value, name) if isinstance(value, timedelta) else value
