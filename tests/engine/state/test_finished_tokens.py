"""Tokens of finished leases, as they are kept."""

from __future__ import annotations

import pytest

import journal
from journal.engine.state.finished_tokens import Finished
from journal.errors import StoreDamaged


@pytest.mark.parametrize("bit", range(16))
def test_a_chunk_whose_name_is_damaged_is_not_passed_over(
    pages: journal.Journal, store: journal.Store, bit: int
) -> None:
    """Its tokens would be unknown, and a repeated `done` refused."""
    pages.put("a")
    lease = pages.claim(consumer="one")
    assert lease is not None
    lease.done()
    store.checkpoint()
    active = getattr(
        pages._backend.p.state.active, "base", pages._backend.p.state.active
    )  # merged journals share theirs
    with pages._backend.p.lock:
        found = Finished()
        found.load(active)
        assert lease.token in found.tokens
        ((name, value),) = list(active.all(active.meta, b"f\0"))
        damaged = bytearray(name)
        damaged[bit // 8] ^= 1 << bit % 8
        active.delete(name, db=active.meta)
        active.put(bytes(damaged), value, db=active.meta)
        try:
            with pytest.raises(StoreDamaged, match=r"rows\.mdb"):
                Finished().load(active)
        finally:
            active.delete(bytes(damaged), db=active.meta)
            active.put(name, value, db=active.meta)
