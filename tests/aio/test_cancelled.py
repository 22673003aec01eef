"""A call that is cancelled leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import journal
import journal.aio
from journal.aio import runner
from journal.aio.runner import _Call
from tests.aio.test_aio import Body, happens
from tests.aio.test_aio import run as run


@pytest.mark.parametrize("is_far", [False, True], ids=["store", "connection"])
def test_a_claim_that_is_cancelled_between_its_answer_and_its_turn_goes_back(
    is_far: bool, run: Callable[[Body], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The future has the lease already, the coroutine has not woken yet: it is released (Z3)."""
    real = _Call._set
    claims: list[asyncio.Task[object]] = []
    undone = threading.Event()

    def set_and_cancel(call: _Call) -> None:
        real(call)
        if claims:
            assert call.future.done() and not claims[0].done()
            claims.pop().cancel()

    def released(lease: Any) -> None:
        lease.release()
        undone.set()

    async def cancel_a_claim(pages: journal.aio.AsyncJournal) -> None:
        await pages.put("a")
        for claiming in (pages.claim(), pages.claim_many(5), pages.claim_key("a")):
            undone.clear()
            claim: asyncio.Task[object] = asyncio.create_task(claiming)
            claims.append(claim)
            with pytest.raises(asyncio.CancelledError):
                await claim
            await happens(undone)
            assert await pages.leases() == []
            assert await pages.count(status="W") == 1

    async def body(store: journal.aio.AsyncStore, pages: journal.aio.AsyncJournal) -> None:
        monkeypatch.setattr(_Call, "_set", set_and_cancel)
        monkeypatch.setattr(runner, "_release_quietly", released)
        if not is_far:
            await cancel_a_claim(pages)
            return
        with await store.serve():
            async with await journal.aio.connect(store._wrapped.path) as far:
                await cancel_a_claim(await far.journal("pages"))

    run(body)
