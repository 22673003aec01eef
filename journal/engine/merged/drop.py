"""
Dropping a merged journal: its rows go in small steps, each one record, while the other journals work.

Followers see its entries go. What is left after a crash goes when the store is opened again (recovery O3).
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from journal.core.entry.effects import Clear, changes
from journal.engine.merged.sequence import Sequence

STEP = 256


def clear_step(p: Sequence, name: bytes) -> bool:
    """Remove some rows of a journal that is no longer in use; whether there were any. Without the lock."""
    with p.lock:
        now = p.enter()
        states = p.state
        state = states.state_of(name)
        entries: list[Any] = []
        for rows in state.generations:
            for primary, value in islice(rows.all(rows.entries), STEP - len(entries) // 2):
                entries += [primary, state.row(primary, value).key]
        buried = list(islice((key for key, _ in state.rows(b"buried")), STEP)) if not entries else []
        flags = [key.decode() for key, _ in state.rows(b"flags")] if not entries and not buried else []
        effect = Clear(entries, buried, flags)
        if changes(effect):
            p.write_for(name, effect, changes(effect), now)
        else:
            state.once.forget()  # written by `finish`
            states.touched[name] = state
        return changes(effect) > 0


def finish(p: Sequence) -> None:
    """Make it durable that nothing is left. On the keeper, without the lock."""

    def sync() -> None:
        for rows in p.rows_now():
            rows.file.sync()

    p.commit_then(sync)
