"""
Loads for asyncio: what `AsyncJournal.load_begin` and `load_part` give.

A commit takes long, so it runs on a thread of its own; the other verbs of the store go on meanwhile, as far as the journal lets
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from journal.aio.runner import Entered, verb
from journal.core.loads.session import LoadPart, LoadSession
from journal.core.values import Loaded


class AsyncLoadPart(Entered):
    """Writes one part of a load; `async with` closes it."""

    _wrapped: LoadPart

    write = verb(LoadPart.write)
    close = verb(LoadPart.close)

    @property
    def name(self) -> str:
        """Its name."""
        return self._wrapped.name


class AsyncLoadSession(Entered):
    """A load that was begun; `async with` gives it up if it was not committed."""

    _wrapped: LoadSession

    abort = verb(LoadSession.abort)

    @property
    def id(self) -> str:
        """All that another process needs to add parts."""
        return self._wrapped.id

    async def part(self, name: str) -> AsyncLoadPart:
        """Begin a part; give each attempt to write it a name of its own."""
        return AsyncLoadPart(await self._runner.run(lambda: self._wrapped.part(name)), self._runner)

    async def commit(self, parts: Iterable[str], **options: Any) -> Loaded:
        """Load these parts as one change: see Journal.load."""
        return await asyncio.to_thread(self._wrapped.commit, parts, **options)
