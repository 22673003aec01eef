"""A store as programs use it: its journals, and what concerns all of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from journal.api.backend import StoreBackend
from journal.api.journal import Journal
from journal.api.log import MergedJournals
from journal.core.clock_drift import Drifts
from journal.core.requests.operate import (
    CheckpointRequest,
    CheckRequest,
    FlagsRequest,
    JournalsRequest,
    LowerRequest,
    StoreStatisticsRequest,
)
from journal.core.settings import check_name
from journal.core.times import DurationLike, duration_ms
from journal.core.values import Backup, Flag
from journal.errors import Invalid


class Store:
    """A store, open in this process (`journal.open`) or reached through a daemon (`journal.connect`); a context manager."""

    def __init__(self, backend: StoreBackend) -> None:
        self._backend = backend
        self._journals: dict[str, Journal] = {}

    @property
    def path(self) -> Path:
        """The directory of a store that is open in this process; Invalid of a daemon's."""
        return self._backend.path

    @property
    def location(self) -> str:
        """Where it is: the path of a store that is open in this process, or the address of its daemon."""
        return str(self._backend)

    @property
    def is_remote(self) -> bool:
        """Whether it is reached through a daemon."""
        return self._backend.is_remote

    def within(self, timeout: DurationLike | None) -> Self:
        """The same, with another time in which a daemon must answer a call; None: as long as it is there."""
        return type(self)(self._backend.within(None if timeout is None else duration_ms(timeout, "timeout")))

    def journal(self, name: str, **settings: Any) -> Journal:
        """Open a journal, or declare it. Settings are kept; those given here change what may be changed."""
        check_name(name)
        backend = self._backend.journal(name, settings)
        known = self._journals.get(name)
        if known is None or known._backend is not backend:
            known = self._journals[name] = Journal(backend)
        return known

    def journals(self) -> list[str]:
        """The names of all journals; of a daemon's, as far as this identity may see them."""
        return self._backend.call(JournalsRequest())

    def merged(self, **settings: Any) -> MergedJournals:
        """What all merged journals have together: settings of their files, generations, and a feed of all changes."""
        return MergedJournals(self._backend.merged(settings))

    def existing_merged(self) -> MergedJournals:
        """
        The same, of merged journals that are there: nothing is declared. NotFound when there are none; a daemon says so when it is asked
        for something of them.
        """
        return MergedJournals(self._backend.existing_merged())

    def drop(self, name: str) -> None:
        """
        Delete a journal with all that is in it, also what is under a lease. It cannot be brought back.

        Of a merged journal followers of all changes see its entries go; its own feed consumers are forgotten.
        """
        check_name(name)
        self._backend.drop(name)

    def flags(self) -> list[Flag]:
        """The raised flags: what the operator must look at."""
        return self._backend.call(FlagsRequest())

    def lower(self, flag: Flag) -> None:
        """Lower a flag that the operator has looked at."""
        if not isinstance(flag, Flag):
            raise Invalid(f"{flag!r} is no journal.Flag, as store.flags() returns them")
        self._backend.call(LowerRequest(journal=flag.journal, name=flag.name))

    def statistics(self) -> dict[str, Any]:
        """Counters and sizes of the store and of its journals."""
        return self._backend.call(StoreStatisticsRequest())

    def checkpoint(self) -> None:
        """Commit everything to LMDB now, so that readers outside of the process that has the store see it."""
        self._backend.call(CheckpointRequest())

    def check(self, *, deep: bool = False) -> list[str]:
        """Recompute every index, counter and invariant from the entries and the log; what differs, in words."""
        return self._backend.call(CheckRequest.of(deep=deep))

    def backup(self, dest: str | os.PathLike[str], *, progress: Callable[[int, int], None] | None = None) -> Backup:
        """
        Copy the store to a directory while callers go on working. Each journal is copied as of one change; the copy has all that was
        acknowledged before the call.

        A directory that has an older backup of this store gets the files that have changed; that one goes when the new one is whole and
        verified. `journal.restore` makes a store of it. A daemon makes it in a directory of its own machine, by an absolute path, for
        identities with the role admin that may see all journals.

        progress   called with the bytes done and the bytes in all
        """
        return self._backend.backup(dest, progress)

    @property
    def drifts(self) -> Drifts:
        """How far the clocks of producers and consumers are off, as they were measured (`Journal.measure_drift`)."""
        return self._backend.drifts

    def serve(self, **options: Any) -> Any:
        """
        Serve this store to other processes, on a thread of its own, while this one goes on using it; it ends with the store.

        The options are those of `journal.net.server.server.Server`: unix, tcp, tokens, trust_loopback, tls, name, limits,
        connections_max. On TCP without tokens every user of this machine may do everything: say `trust_loopback=True`.
        """
        return self._backend.serve(options)

    def close(self) -> None:
        """Finish what is under way and give the store, or the connection, up. Closing twice is fine."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self._backend}>"
